"""PostgreSQL's ``numeric`` as decimals: exact, of any length that it has, and printed with the digits that it shows.

Decimals are read, added and printed in linear time; Python's integers take the square of their length to become text,
and refuse to beyond 4,300 digits.

Follows the server's documented behaviour and its `numeric.c` (`select_div_scale`): a quotient has at least 16
significant digits, at least the scale of either operand, and is rounded half away from zero.
"""

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

#: Nothing is rounded but by `quantize`. (Not for inexact quotients and roots, which would take all memory.)
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)

_MIN_SIGNIFICANT_DIGITS = 16
_DIGITS_PER_GROUP = 4
_MAX_SCALE = 1000

#: A finite numeric by its text. Its scale is the negated exponent, which + - * treat as the server does scales.
parse = Decimal


def scale_of(text: str) -> int:
    """The digits behind the point."""
    return len(text) - text.find(".") - 1 if "." in text else 0


def scaled(unscaled: int, scale: int) -> Decimal:
    """``unscaled / 10**scale``, with that scale."""
    return EXACT.scaleb(Decimal(unscaled), -scale)


def render(value: Decimal) -> str:
    """The text of a numeric, with all digits of its scale."""
    return f"{value if value else value.copy_abs():f}"


def divide(value: Decimal, scale: int, divisor: int) -> str:
    """Divides a numeric of that scale by a positive integer, as PostgreSQL prints it."""
    by = Decimal(divisor)
    return render(quotient(value, by, quotient_scale(value, scale, by, 0)))


def quotient(value: Decimal, divisor: Decimal, scale: int) -> Decimal:
    """A quotient rounded half away from zero to `scale` decimals."""
    # One digit more decides how to round.
    cut = EXACT.divide_int(EXACT.scaleb(value, scale + 1), divisor)
    return round_to(EXACT.scaleb(cut, -scale - 1), scale)


def round_to(value: Decimal, scale: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    """A numeric with exactly `scale` decimals; negative ones are tens, hundreds …"""
    return value.quantize(EXACT.scaleb(Decimal(1), -scale), rounding, EXACT)


def truncate_to(value: Decimal, scale: int) -> Decimal:
    """A numeric without what is behind `scale` decimals."""
    return round_to(value, scale, ROUND_DOWN)


def quotient_scale(value: Decimal, scale: int, divisor: Decimal, divisor_scale: int) -> int:
    """The decimals of a quotient (`select_div_scale`)."""
    weight, first = _leading_group(value)
    divisor_weight, divisor_first = _leading_group(divisor)
    quotient_weight = weight - divisor_weight
    if first <= divisor_first:
        quotient_weight -= 1
    wanted = _MIN_SIGNIFICANT_DIGITS - quotient_weight * _DIGITS_PER_GROUP
    return min(max(wanted, scale, divisor_scale, 0), _MAX_SCALE)


def root_scale(value: Decimal) -> int:
    """The decimals that give a square root 16 significant digits (`numeric_sqrt`)."""
    weight, _ = _leading_group(value)
    # Digits before the point of the root: half of those of the number, which has `weight + 1` groups of four.
    digits = weight * _DIGITS_PER_GROUP // 2 + 1 if weight >= 0 else -((-weight * _DIGITS_PER_GROUP) // 2) + 1
    return _MIN_SIGNIFICANT_DIGITS - digits


def _leading_group(value: Decimal) -> tuple[int, int]:
    """Weight and value of the first non-zero group of four decimal digits, counted from the point; (0, 0) for zero."""
    if not value:
        return 0, 0
    weight = value.adjusted() // _DIGITS_PER_GROUP
    return weight, int(EXACT.scaleb(value.copy_abs(), -weight * _DIGITS_PER_GROUP))
