"""Floating-point numbers as PostgreSQL prints them (extra_float_digits 1): the shortest digits that are nearest to the
number alone, in fixed notation below 10**15 (``real``: 10**6).

Not here: what is equal and what sorts first (`values`).
"""

import struct
from decimal import Decimal
from fractions import Fraction

_FIXED_FROM = -4
_FIXED8, _FIXED4 = 15, 6
_DIGITS8, _DIGITS4 = 17, 9
#: From here on a number's neighbours are so far away that a short decimal can lie exactly between two.
_SPARSE8 = 2.0**53


def float8_text(value: float) -> str:
    """A ``double precision``."""
    special = _special(value)
    if special is not None:
        return special
    digits = repr(value)
    if abs(value) >= _SPARSE8 and _between(value, digits):
        # Python takes a decimal halfway between two numbers for the even one; PostgreSQL does not print such.
        digits = next(d for p in range(1, _DIGITS8 + 1) if _is(d := f"{value:.{p - 1}e}", value))
    return _printed(Decimal(digits), _FIXED8)


def float4_text(value: float) -> str:
    """A ``real``, given as the number that it is."""
    special = _special(value)
    if special is not None:
        return special
    digits = next(d for p in range(1, _DIGITS4 + 1) if _single(float(d := f"{value:.{p - 1}e}")) == value)
    return _printed(Decimal(digits), _FIXED4)


def _special(value: float) -> str | None:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return None


def _between(value: float, digits: str) -> bool:
    """Whether a decimal that is read as `value` is as near to a neighbour of it."""
    exact = Fraction(digits)
    return exact != Fraction(value) and not _strictly_nearest(exact, value)


def _is(digits: str, value: float) -> bool:
    return float(digits) == value and _strictly_nearest(Fraction(digits), value)


def _strictly_nearest(exact: Fraction, value: float) -> bool:
    bits: int = struct.unpack(">q", struct.pack(">d", abs(value)))[0]
    above, below = (Fraction(struct.unpack(">d", struct.pack(">q", bits + d))[0]) for d in (1, -1))
    return (below + abs(Fraction(value))) / 2 < abs(exact) < (above + abs(Fraction(value))) / 2


def _single(value: float) -> float:
    try:
        single: float = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        return float("inf")
    return single


def _printed(number: Decimal, fixed: int) -> str:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    place = len(digits) + exponent - 1 if any(digits) else 0
    minus = "-" if sign else ""
    if not _FIXED_FROM <= place < fixed:
        mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
        return f"{minus}{mantissa}e{'-' if place < 0 else '+'}{abs(place):02}"
    if place < 0:
        return f"{minus}0.{'0' * (-place - 1)}{text}"
    whole, fraction = text[: place + 1].ljust(place + 1, "0"), text[place + 1 :]
    return f"{minus}{whole}" + (f".{fraction}" if fraction else "")
