"""PostgreSQL's ``numeric`` where an aggregate has to print it: sums at a scale, and the division of AVG.

Follows the server's documented behaviour and its `numeric.c` (`select_div_scale`): a quotient has at least 16
significant digits, at least the scale of either operand, and is rounded half away from zero.
"""

_MIN_SIGNIFICANT_DIGITS = 16
_DIGITS_PER_GROUP = 4
_GROUP = 10**_DIGITS_PER_GROUP
_MAX_SCALE = 1000


def parse(text: str) -> tuple[int, int]:
    """A finite numeric as (unscaled, scale): ``-1.50`` is (-150, 2)."""
    whole, _, fraction = text.partition(".")
    return int(whole + fraction), len(fraction)


def render(unscaled: int, scale: int) -> str:
    """The text of unscaled / 10**scale, with exactly `scale` digits behind the point."""
    if not scale:
        return str(unscaled)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def divide(unscaled: int, scale: int, divisor: int) -> str:
    """What PostgreSQL prints for a numeric of that scale divided by a positive integer."""
    result_scale = quotient_scale(abs(unscaled), scale, divisor, 0)
    numerator = abs(unscaled) * 10**result_scale
    denominator = divisor * 10**scale
    quotient = (2 * numerator + denominator) // (2 * denominator)
    return render(-quotient if unscaled < 0 else quotient, result_scale)


def quotient_scale(unscaled: int, scale: int, divisor: int, divisor_scale: int) -> int:
    """The decimals of a quotient of non-negative numbers, but for the divisor's own scale (`select_div_scale`)."""
    weight, first = _leading_group(unscaled, scale)
    divisor_weight, divisor_first = _leading_group(divisor, divisor_scale)
    quotient_weight = weight - divisor_weight
    if first <= divisor_first:
        quotient_weight -= 1
    wanted = _MIN_SIGNIFICANT_DIGITS - quotient_weight * _DIGITS_PER_GROUP
    return min(max(wanted, scale, divisor_scale, 0), _MAX_SCALE)


def root_scale(unscaled: int, scale: int) -> int:
    """The decimals that give a square root 16 significant digits (`numeric_sqrt`)."""
    weight, _ = _leading_group(unscaled, scale)
    # Digits before the point of the root: half of those of the number, which has `weight + 1` groups of four.
    digits = weight * _DIGITS_PER_GROUP // 2 + 1 if weight >= 0 else -((-weight * _DIGITS_PER_GROUP) // 2) + 1
    return _MIN_SIGNIFICANT_DIGITS - digits


def _leading_group(unscaled: int, scale: int) -> tuple[int, int]:
    """Weight and value of the first non-zero group of four decimal digits, counted from the point; (0, 0) for zero."""
    if not unscaled:
        return 0, 0
    padding = -scale % _DIGITS_PER_GROUP
    groups = unscaled * 10**padding
    weight = -((scale + padding) // _DIGITS_PER_GROUP)
    while groups >= _GROUP:
        groups //= _GROUP
        weight += 1
    return weight, groups
