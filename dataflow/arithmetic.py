"""Exact arithmetic on the texts of integers and ``numeric``, as PostgreSQL computes and prints it.

The scales are `numeric.c`'s: the larger one for + and -, the sum for *, `select_div_scale` for /. NaN and the
infinities follow its tables.
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from dataflow import numeric
from dataflow.errors import EvaluationError
from dataflow.numeric import EXACT, parse, render, scale_of

_RANGES = {"int2": (2**15, "smallint"), "int4": (2**31, "integer"), "int8": (2**63, "bigint")}
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_MAX_SCALE = 16_383
_MAX_WHOLE_DIGITS = 131_072
_INT8_DIGITS = 19
_MAX_ROUNDED_SCALE = 2000
#: Decimals take more time for a root than the upstream does.
_MAX_ROOT_DIGITS = 10_000
#: `NUMERIC_MAX_DISPLAY_SCALE`.
_MAX_DISPLAY_SCALE = 1000


def check_range(value: int, type_name: str) -> int:
    """`value` if the integer type holds it, else the upstream's error."""
    limit, name = _RANGES[type_name]
    if not -limit <= value < limit:
        raise EvaluationError(f"{name} out of range")
    return value


def integer_operation(operator: str, type_name: str) -> Callable[[str, str], str]:
    """An operator of integers whose result is of type `type_name`."""
    match operator:
        case "+":
            return lambda a, b: str(check_range(int(a) + int(b), type_name))
        case "-":
            return lambda a, b: str(_difference(int(a), int(b), type_name))
        case "*":
            return lambda a, b: str(check_range(int(a) * int(b), type_name))
        case "/":
            return lambda a, b: str(check_range(_truncated_quotient(int(a), int(b)), type_name))
        case _:
            return lambda a, b: str(_remainder(int(a), int(b)))


def _difference(a: int, b: int, type_name: str) -> int:
    difference = a - b
    if difference == _RANGES["int8"][0] and not a and type_name == "int8":
        raise EvaluationError("not computed: MariaDB does not notice that 0 - -9223372036854775808 is out of range")
    return check_range(difference, type_name)


def _truncated_quotient(a: int, b: int) -> int:
    if not b:
        raise EvaluationError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    """With the sign of `a`."""
    return a - b * _truncated_quotient(a, b)


def add(a: str, b: str) -> str:
    """Sum of two numerics."""
    if a in _SPECIAL or b in _SPECIAL:
        specials = {x for x in (a, b) if x in _SPECIAL}
        return specials.pop() if len(specials) == 1 else "NaN"
    return printed(EXACT.add(parse(a), parse(b)))


def negate(a: str) -> str:
    """Minus a numeric."""
    if not _sign(a) or a == "NaN":
        return a
    return a[1:] if a[0] == "-" else "-" + a


def subtract(a: str, b: str) -> str:
    """Difference of two numerics."""
    return add(a, negate(b))


def multiply(a: str, b: str) -> str:
    """Product of two numerics."""
    if a in _SPECIAL or b in _SPECIAL:
        return _special_product(a, b)
    if scale_of(a) + scale_of(b) > _MAX_SCALE:
        raise EvaluationError("not computed: a product of more decimals than numeric holds, which newer servers round")
    return printed(EXACT.multiply(parse(a), parse(b)))


def divide(a: str, b: str) -> str:
    """Quotient of two numerics, with the decimals of `select_div_scale`."""
    if a in _SPECIAL or b in _SPECIAL:
        return _special_quotient(a, b, "0")
    x, y = parse(a), parse(b)
    if not y:
        raise EvaluationError("division by zero")
    return printed(numeric.quotient(x, y, numeric.quotient_scale(x, scale_of(a), y, scale_of(b))))


def whole_quotient(a: str, b: str) -> str:
    """DIV: the quotient of two numerics, truncated."""
    if a in _SPECIAL or b in _SPECIAL:
        return _special_quotient(a, b, "0")
    if not _sign(b):
        raise EvaluationError("division by zero")
    return printed(EXACT.divide_int(parse(a), parse(b)))


def modulo(a: str, b: str) -> str:
    """Remainder of two numerics, with the sign of `a`."""
    if "NaN" in (a, b):
        return "NaN"
    if not _sign(b):
        raise EvaluationError("division by zero")
    if a in _SPECIAL:
        return "NaN"
    if b in _SPECIAL:
        return a
    return printed(EXACT.remainder(parse(a), parse(b)))


def _special_quotient(a: str, b: str, of_infinity: str) -> str:
    if "NaN" in (a, b) or (a in _SPECIAL and b in _SPECIAL):
        return "NaN"
    if b in _SPECIAL:
        return of_infinity
    if not _sign(b):
        raise EvaluationError("division by zero")
    return "Infinity" if _sign(a) == _sign(b) else "-Infinity"


def round_to(a: str, digits: int) -> str:
    """A numeric rounded half away from zero to `digits` decimals (negative ones: to tens, hundreds …)."""
    return _cut(a, digits, numeric.round_to)


def truncate_to(a: str, digits: int) -> str:
    """A numeric without what is behind `digits` decimals."""
    return _cut(a, digits, numeric.truncate_to)


def _cut(a: str, digits: int, cut: Callable[[Decimal, int], Decimal]) -> str:
    if a in _SPECIAL:
        return a
    if digits > _MAX_ROUNDED_SCALE:
        raise EvaluationError("not computed: how many decimals there are at most depends on the server's version")
    return printed(cut(parse(a), max(digits, -_MAX_WHOLE_DIGITS)))


def ceiling(a: str) -> str:
    """The smallest integer not below a numeric."""
    return a if a in _SPECIAL else printed(parse(a).to_integral_value(ROUND_CEILING, EXACT))


def floor(a: str) -> str:
    """The largest integer not above a numeric."""
    return a if a in _SPECIAL else printed(parse(a).to_integral_value(ROUND_FLOOR, EXACT))


def absolute(a: str) -> str:
    """A numeric without its sign."""
    return a.removeprefix("-")


def sign(a: str) -> str:
    """-1, 0 or 1; NaN of NaN."""
    return a if a == "NaN" else str(_sign(a))


def square_root(a: str) -> str:
    """The square root of a numeric, with the decimals of `numeric_sqrt`."""
    if a in _SPECIAL:
        if a == "-Infinity":
            raise EvaluationError("cannot take square root of a negative number")
        return a
    value = parse(a)
    if value < 0:
        raise EvaluationError("cannot take square root of a negative number")
    if len(a) > _MAX_ROOT_DIGITS:
        raise EvaluationError(f"not computed: the square root of more than {_MAX_ROOT_DIGITS} digits")
    scale = min(max(numeric.root_scale(value), scale_of(a), 0), _MAX_DISPLAY_SCALE)
    return render(root(value, scale))


def root(value: Decimal, scale: int) -> Decimal:
    """The square root, rounded half away from zero to `scale` decimals."""
    context = Context(prec=max(value.adjusted() // 2, 0) + scale + 5, Emax=EXACT.Emax, Emin=EXACT.Emin)
    found = numeric.truncate_to(value.sqrt(context), scale)
    unit = EXACT.scaleb(Decimal(1), -scale)
    if EXACT.multiply(found, found) > value:  # It was rounded up to a number of so many decimals.
        found = EXACT.subtract(found, unit)
    tie = EXACT.add(found, EXACT.multiply(unit, Decimal("0.5")))
    return found if EXACT.multiply(tie, tie) > value else EXACT.add(found, unit)


def _special_product(a: str, b: str) -> str:
    signs = (_sign(a), _sign(b))
    if "NaN" in (a, b) or 0 in signs:
        return "NaN"
    return "Infinity" if signs[0] == signs[1] else "-Infinity"


def _sign(text: str) -> int:
    if text[0] == "-":
        return -1
    return 1 if text in _SPECIAL or text.strip("0.") else 0


def printed(value: Decimal) -> str:
    """The text of a numeric, if it has not too many digits."""
    return render(fitting(value))


def fitting(value: Decimal) -> Decimal:
    """`value`, if it has not too many digits before the point; else EvaluationError."""
    if value and value.adjusted() >= _MAX_WHOLE_DIGITS:
        raise EvaluationError("value overflows numeric format")
    return value


def plain_decimal(text: str) -> str:
    """A decimal number, perhaps with an exponent, without it: ``1.5e+3`` is 1500, ``1e-3`` is 0.001."""
    mantissa, _, power = text.partition("e")
    if scale_of(mantissa) - int(power or 0) > _MAX_SCALE:
        raise EvaluationError("value overflows numeric format")
    return printed(Decimal(text))


def to_integer(text: str, type_name: str) -> str:
    """A numeric as an integer: rounded half away from zero."""
    if text in _SPECIAL:
        raise EvaluationError(f"cannot convert {text} to {_RANGES[type_name][1]}")
    value = parse(text)
    if value and value.adjusted() > _INT8_DIGITS:
        raise EvaluationError(f"{_RANGES[type_name][1]} out of range")
    return str(check_range(int(numeric.round_to(value, 0)), type_name))


def average(total: str, count: int) -> str:
    """AVG as printed, of `count` values (at least one) whose SUM is `total`."""
    return total if total in _SPECIAL else numeric.divide(parse(total), scale_of(total), count)
