"""IEEE numbers as PostgreSQL computes and prints them (extra_float_digits = 1: the shortest text that reads back).

Single precision is computed in double precision and rounded, which is exact for + - * / and square roots.
"""

import struct
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_05UP, Context
from fractions import Fraction
from math import ceil, copysign, floor, inf, isinf, isnan, nextafter, sqrt, trunc

from dataflow import arithmetic
from dataflow.errors import EvaluationError
from dataflow.types.floats import float4

#: Significant digits that always survive (DBL_DIG, FLT_DIG): from so many on, integers get an exponent.
_DIGITS = {"float8": 15, "float4": 6}
#: Below this, what is between two doubles has more digits than either.
_EXACT = 2.0**53
#: Beyond the range of single precision.
_EXACT_LIMIT = 1e40
#: Digits enough to tell any number between two of single precision from these; the last one says that more follow.
_STICKY = Context(prec=200, rounding=ROUND_05UP, Emax=MAX_EMAX, Emin=MIN_EMIN)
#: An error of PostgreSQL's; to MariaDB and MySQL the result is 0.
_UNDERFLOW = "not computed: value out of range: underflow"
_INTEGER_LIMITS = {"int2": 2.0**15, "int4": 2.0**31, "int8": 2.0**63}
_INTEGER_NAMES = {"int2": "smallint", "int4": "integer", "int8": "bigint"}


def read(text: str, type_name: str) -> float:
    """The number that the upstream's text of a float stands for."""
    return float4(text) if type_name == "float4" else float(text)


def printed(value: float, type_name: str) -> str:
    """A float as the upstream prints it."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not value:
        return "-0" if copysign(1.0, value) < 0 else "0"
    sign, digits, exponent = _shortest(value, type_name)
    if not -4 <= exponent < _DIGITS[type_name]:
        mantissa = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
        return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    rest = digits[exponent + 1 :]
    return f"{sign}{whole}.{rest}" if rest else sign + whole


def _shortest(value: float, type_name: str) -> tuple[str, str, int]:
    """Sign, digits without trailing zeros, and the first one's power of ten."""
    text = _shortest_double(value) if type_name == "float8" else _shortest_single(value)
    mantissa, _, power = text.lower().lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole.lstrip("0")) - 1 if whole.strip("0") else len(digits) - len(fraction) - 1
    return "-" if value < 0 else "", digits.rstrip("0"), leading + int(power or 0)


def _shortest_double(value: float) -> str:
    text = repr(value)
    if abs(value) < _EXACT or not _is_between(Fraction(text), Fraction(value), _double_neighbours(value)):
        return text
    # Python takes a text just between two doubles that is read as the even one; the upstream does not.
    return next(t for p in range(18) if float(t := f"{value:.{p}e}") == value and Fraction(t) != Fraction(text))


def _double_neighbours(value: float) -> list[Fraction]:
    neighbours = (nextafter(value, inf), nextafter(value, -inf))
    return [Fraction(n) for n in neighbours if not isinf(n)]


def _single_neighbours(value: float) -> list[Fraction]:
    (bits,) = struct.unpack(">i", struct.pack(">f", abs(value)))
    neighbours = [struct.unpack(">f", struct.pack(">i", b))[0] for b in (bits - 1, bits + 1)]
    return [Fraction(copysign(n, value)) for n in neighbours if not isinf(n)]


def _is_between(number: Fraction, value: Fraction, neighbours: list[Fraction]) -> bool:
    return any(2 * number == value + n for n in neighbours)


def _reads_back(text: str, value: float) -> bool:
    number = Fraction(text)
    return single(number) == value and not _is_between(number, Fraction(value), _single_neighbours(value))


def _shortest_single(value: float) -> str:
    for precision in range(8):
        text = f"{value:.{precision}e}"
        if _reads_back(text, value):
            return text
        # At a power of two the next number below is nearer: the shortest text may lie on the other side.
        above = _next_decimal(value, precision)
        if _reads_back(above, value):
            return above
    return f"{value:.8e}"


def _next_decimal(value: float, precision: int) -> str:
    """The decimal of that precision next to the value's own, away from zero."""
    mantissa, _, power = f"{value:.{precision}e}".partition("e")
    step = Fraction(10) ** (int(power) - precision)
    exact = Fraction(mantissa) * Fraction(10) ** int(power) + (step if value > 0 else -step)
    scaled = exact / step
    return f"{scaled.numerator}e{int(power) - precision}"


def single(value: Fraction) -> float:
    """The nearest single-precision number to an exact one, ties to even; infinite beyond the range."""
    if not value:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = float(round(magnitude / unit) * unit) if exponent < 200 else inf
    if rounded > 3.4028234663852886e38:
        rounded = inf
    return -rounded if value < 0 else rounded


def _rounded(value: float, type_name: str) -> float:
    """A double as a float of that type."""
    if type_name == "float8" or isnan(value) or isinf(value):
        return value
    try:
        result: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return copysign(inf, value)
    return result


# --- arithmetic -----------------------------------------------------------------------------------------------------


def operation(operator: str, left: str, right: str) -> Callable[[str, str], str]:
    """An operator of floats of these types."""
    result = "float4" if left == right == "float4" else "float8"
    compute = _OPERATIONS[operator]

    def function(a: str, b: str) -> str:
        return printed(compute(read(a, left), read(b, right), result), result)

    return function


def _add(a: float, b: float, result: str) -> float:
    return _checked(_rounded(a + b, result), may_overflow=isinf(a) or isinf(b))


def _subtract(a: float, b: float, result: str) -> float:
    return _checked(_rounded(a - b, result), may_overflow=isinf(a) or isinf(b))


def _multiply(a: float, b: float, result: str) -> float:
    product = _checked(_rounded(a * b, result), may_overflow=isinf(a) or isinf(b))
    if not product and a and b:
        raise EvaluationError(_UNDERFLOW)
    return product


def _divide(a: float, b: float, result: str) -> float:
    if not b:
        if isnan(a):
            return a
        raise EvaluationError("division by zero")
    quotient = _checked(_rounded(a / b, result), may_overflow=isinf(a))
    if not quotient and a and not isinf(b):
        raise EvaluationError(_UNDERFLOW)
    return quotient


def _checked(value: float, *, may_overflow: bool) -> float:
    if isinf(value) and not may_overflow:
        raise EvaluationError("value out of range: overflow")
    return value


_OPERATIONS: dict[str, Callable[[float, float, str], float]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
}


def negate(a: str) -> str:
    """Minus a float: only the sign of its text."""
    if a == "NaN":
        return a
    return a[1:] if a[0] == "-" else "-" + a


def absolute(a: str) -> str:
    """A float without its sign."""
    return a.removeprefix("-")


def _double(function: Callable[[float], float]) -> Callable[[str], str]:
    return lambda a: printed(function(float(a)), "float8")


def _whole(function: Callable[[float], int]) -> Callable[[str], str]:
    """A rounding of doubles; the sign of a zero is the argument's."""

    def rounded(value: float) -> float:
        if isnan(value) or isinf(value):
            return value
        return copysign(float(function(value)), value)

    return _double(rounded)


def _sign(value: float) -> float:
    return 0.0 if not value else value if isnan(value) else copysign(1.0, value)


def _square_root(value: float) -> float:
    if value < 0:
        raise EvaluationError("cannot take square root of a negative number")
    return sqrt(value)


round_half_even = _whole(round)
ceiling = _whole(ceil)
floored = _whole(floor)
truncated = _whole(trunc)
sign = _double(lambda value: 0.0 if isnan(value) else _sign(value))
square_root = _double(_square_root)


# --- casts ----------------------------------------------------------------------------------------------------------


def from_integer(a: str, target: str) -> str:
    """An integer as a float."""
    return printed(single(Fraction(int(a))) if target == "float4" else float(int(a)), target)


def to_integer(a: str, source: str, target: str) -> str:
    """A float as an integer: rounded half to even."""
    value = read(a, source)
    if not isnan(value) and not isinf(value):
        value = float(round(value))
        limit = _INTEGER_LIMITS[target]
        if -limit <= value < limit:
            return str(int(value))
    raise EvaluationError(f"{_INTEGER_NAMES[target]} out of range")


def to_numeric(a: str, source: str) -> str:
    """A float as a numeric: rounded to the digits that surely survive, as the upstream does."""
    value = read(a, source)
    if isnan(value) or isinf(value):
        return a
    return arithmetic.plain_decimal(f"{value:.{_DIGITS[source]}g}")


def from_numeric(a: str, target: str) -> str:
    """A numeric as the nearest float."""
    if a in ("NaN", "Infinity", "-Infinity"):
        return a
    value = double(a)
    if target == "float4" and value:
        value = single(Fraction(_STICKY.create_decimal(a))) if abs(value) < _EXACT_LIMIT else inf
        if isinf(value) or not value:
            raise _out_of_range(a)
    return printed(value, target)


def double(numeric: str) -> float:
    """A numeric as the nearest double; an error if it is too far from zero, or too near to it."""
    value = float(numeric)
    if (isinf(value) and numeric[-1:] != "y") or (not value and numeric.strip("-0.")):
        raise _out_of_range(numeric)
    return value


def _out_of_range(numeric: str) -> EvaluationError:
    return EvaluationError(f"{numeric[:100]} is out of range")


def widened(a: str) -> str:
    """A float4 as a float8: the same number, of more digits."""
    return printed(float4(a), "float8")


def narrowed(a: str) -> str:
    """A float8 as a float4."""
    value = float(a)
    result = _rounded(value, "float4")
    if isinf(result) and not isinf(value):
        raise EvaluationError("value out of range: overflow")
    if value and not result:
        raise EvaluationError(_UNDERFLOW)
    return printed(result, "float4")
