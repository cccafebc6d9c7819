"""Exact arithmetic on the texts of integers and ``numeric``, as PostgreSQL computes and prints it.

The scales are `numeric.c`'s: the larger one for + and -, the sum for *. NaN and the infinities follow its tables.
"""

from collections.abc import Callable

from dataflow.errors import EvaluationError
from dataflow.ops import numeric

_RANGES = {"int2": (2**15, "smallint"), "int4": (2**31, "integer"), "int8": (2**63, "bigint")}
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_MAX_SCALE = 16_383
_MAX_WHOLE_DIGITS = 131_072


def check_range(value: int, type_name: str) -> int:
    """`value` if the integer type holds it, else the upstream's error."""
    limit, name = _RANGES[type_name]
    if not -limit <= value < limit:
        raise EvaluationError(f"{name} out of range")
    return value


def integer_operation(operator: str, type_name: str) -> Callable[[str, str], str]:
    """+, - or * of integers whose result is of type `type_name`."""
    if operator == "+":
        return lambda a, b: str(check_range(int(a) + int(b), type_name))
    if operator == "-":
        return lambda a, b: str(check_range(int(a) - int(b), type_name))
    return lambda a, b: str(check_range(int(a) * int(b), type_name))


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
