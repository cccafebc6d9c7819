"""Exact arithmetic on the texts of integers and ``numeric``, as PostgreSQL computes and prints it.

The scales are `numeric.c`'s: the larger one for + and -, the sum for *, `select_div_scale` for /. NaN and the
infinities follow its tables.
"""

from collections.abc import Callable
from math import isqrt

from dataflow.errors import EvaluationError
from dataflow.ops import numeric

_RANGES = {"int2": (2**15, "smallint"), "int4": (2**31, "integer"), "int8": (2**63, "bigint")}
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_MAX_SCALE = 16_383
_MAX_WHOLE_DIGITS = 131_072
_MAX_ROUNDED_SCALE = 2000
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
            return lambda a, b: str(check_range(int(a) - int(b), type_name))
        case "*":
            return lambda a, b: str(check_range(int(a) * int(b), type_name))
        case "/":
            return lambda a, b: str(check_range(_truncated_quotient(int(a), int(b)), type_name))
    return lambda a, b: str(_remainder(int(a), int(b)))


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
    (x, s), (y, t) = numeric.parse(a), numeric.parse(b)
    scale = max(s, t)
    return _printed(x * 10 ** (scale - s) + y * 10 ** (scale - t), scale)


def negate(a: str) -> str:
    """Minus a numeric."""
    if a == "NaN":
        return a
    if a in _SPECIAL:
        return "Infinity" if a[0] == "-" else "-Infinity"
    value, scale = numeric.parse(a)
    return numeric.render(-value, scale)


def subtract(a: str, b: str) -> str:
    """Difference of two numerics."""
    return add(a, negate(b))


def multiply(a: str, b: str) -> str:
    """Product of two numerics."""
    if a in _SPECIAL or b in _SPECIAL:
        return _special_product(a, b)
    (x, s), (y, t) = numeric.parse(a), numeric.parse(b)
    if s + t > _MAX_SCALE:
        raise EvaluationError("a product of more decimals than numeric holds")
    return _printed(x * y, s + t)


def divide(a: str, b: str) -> str:
    """Quotient of two numerics, with the decimals of `select_div_scale`."""
    if a in _SPECIAL or b in _SPECIAL:
        return _special_quotient(a, b, "0")
    (x, s), (y, t) = numeric.parse(a), numeric.parse(b)
    if not y:
        raise EvaluationError("division by zero")
    scale = numeric.quotient_scale(abs(x), s, abs(y), t)
    return _printed(_rounded_quotient(x * 10 ** (scale + t), y * 10**s), scale)


def whole_quotient(a: str, b: str) -> str:
    """DIV: the quotient of two numerics, truncated."""
    if a in _SPECIAL or b in _SPECIAL:
        return _special_quotient(a, b, "0")
    (x, s), (y, t) = numeric.parse(a), numeric.parse(b)
    return str(_truncated_quotient(x * 10**t, y * 10**s))


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
    (x, s), (y, t) = numeric.parse(a), numeric.parse(b)
    scale = max(s, t)
    return _printed(_remainder(x * 10 ** (scale - s), y * 10 ** (scale - t)), scale)


def _special_quotient(a: str, b: str, of_infinity: str) -> str:
    if "NaN" in (a, b) or (a in _SPECIAL and b in _SPECIAL):
        return "NaN"
    if b in _SPECIAL:
        return of_infinity
    if not _sign(b):
        raise EvaluationError("division by zero")
    return "Infinity" if _sign(a) == _sign(b) else "-Infinity"


def _rounded_quotient(x: int, y: int) -> int:
    """Rounded half away from zero."""
    quotient = (2 * abs(x) + abs(y)) // (2 * abs(y))
    return quotient if (x < 0) == (y < 0) else -quotient


def round_to(a: str, digits: int) -> str:
    """A numeric rounded half away from zero to `digits` decimals (negative ones: to tens, hundreds …)."""
    return _cut(a, digits, _rounded_quotient)


def truncate_to(a: str, digits: int) -> str:
    """A numeric without what is behind `digits` decimals."""
    return _cut(a, digits, _truncated_quotient)


def _cut(a: str, digits: int, quotient: Callable[[int, int], int]) -> str:
    if a in _SPECIAL:
        return a
    value, scale = numeric.parse(a)
    if digits > _MAX_ROUNDED_SCALE:
        raise EvaluationError("not computed: how many decimals there are at most depends on the server's version")
    digits = max(digits, -_MAX_WHOLE_DIGITS)
    if digits >= scale:
        return numeric.render(value * 10 ** (digits - scale), digits)
    cut = quotient(value, 10 ** (scale - digits))
    return numeric.render(cut, digits) if digits >= 0 else _printed(cut * 10**-digits, 0)


def ceiling(a: str) -> str:
    """The smallest integer not below a numeric."""
    return negate(floor(negate(a)))


def floor(a: str) -> str:
    """The largest integer not above a numeric."""
    if a in _SPECIAL:
        return a
    value, scale = numeric.parse(a)
    return str(value // 10**scale)


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
    value, scale = numeric.parse(a)
    if value < 0:
        raise EvaluationError("cannot take square root of a negative number")
    result_scale = min(max(numeric.root_scale(value, scale), scale, 0), _MAX_DISPLAY_SCALE)
    # Two digits more than shown decide how to round: a root that is exactly between is impossible beyond them.
    shift = 2 * (result_scale + 1) - scale
    radicand = value * 10**shift if shift >= 0 else value // 10**-shift
    return numeric.render((isqrt(radicand) + 5) // 10, result_scale)


def _special_product(a: str, b: str) -> str:
    signs = (_sign(a), _sign(b))
    if "NaN" in (a, b) or 0 in signs:
        return "NaN"
    return "Infinity" if signs[0] == signs[1] else "-Infinity"


def _sign(text: str) -> int:
    if text[0] == "-":
        return -1
    return 1 if text in _SPECIAL or any(c in "123456789" for c in text) else 0


def _printed(unscaled: int, scale: int) -> str:
    text = numeric.render(unscaled, scale)
    if len(text) - scale > _MAX_WHOLE_DIGITS:
        raise EvaluationError("value overflows numeric format")
    return text


def plain_decimal(text: str) -> str:
    """A decimal number, perhaps with an exponent, without it: ``1.5e+3`` is 1500, ``1e-3`` is 0.001."""
    mantissa, _, power = text.partition("e")
    value, scale = numeric.parse(mantissa)
    scale -= int(power or 0)
    return numeric.render(value, scale) if scale > 0 else str(value * 10**-scale)


def to_integer(text: str, type_name: str) -> str:
    """A numeric as an integer: rounded half away from zero."""
    if text in _SPECIAL:
        raise EvaluationError(f"cannot convert {text} to {_RANGES[type_name][1]}")
    value, scale = numeric.parse(text)
    if scale:
        unit = 10**scale
        rounded = (2 * abs(value) + unit) // (2 * unit)
        value = -rounded if value < 0 else rounded
    return str(check_range(value, type_name))


def average(total: str, count: int) -> str:
    """What AVG prints for `count` values (at least one) whose SUM is `total`."""
    return total if total in _SPECIAL else numeric.divide(*numeric.parse(total), count)
