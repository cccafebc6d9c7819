"""``interval``: compared by its length in microseconds, with months of 30 days and days of 24 hours."""

import re
from fractions import Fraction
from json.encoder import encode_basestring

from dataflow.calendar import clock_microseconds, interval_parts, interval_text
from dataflow.memo import remembered
from dataflow.types.rules import WIDE_INFINITIES, Rules, TypeRules, ValueKind, order_wide, wide_text

_MONTH_DAYS = 30
_DAY_US = 86_400_000_000
_MONTH_US = _MONTH_DAYS * _DAY_US
_INT4_MAX = 2**31 - 1
#: Characters of any interval that the upstream prints; parameters may be longer.
_PRINTED_CHARACTERS = 100
_ISO = re.compile(
    r"P(?:(-?[0-9]+)Y)?(?:(-?[0-9]+)M)?(?:(-?[0-9]+)W)?(?:(-?[0-9]+)D)?(?:T(?:(-?[0-9]+)H)?(?:(-?[0-9]+)M)?(?:(-?)([0-9]+)(?:\.([0-9]{1,6}))?S)?)?"
)
#: Units: months, days or microseconds, and how many.
_UNITS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(("year", "years", "yr", "yrs", "y"), (0, 12)),
    **dict.fromkeys(("month", "months", "mon", "mons"), (0, 1)),
    **dict.fromkeys(("week", "weeks", "w"), (1, 7)),
    **dict.fromkeys(("day", "days", "d"), (1, 1)),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), (2, 3_600_000_000)),
    **dict.fromkeys(("minute", "minutes", "min", "mins", "m"), (2, 60_000_000)),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), (2, 1_000_000)),
}
_WORD = re.compile(rf"([+-]?[0-9]+(?:\.[0-9]+)?) ?({'|'.join(_UNITS)})\b", re.IGNORECASE)
_WORDS = re.compile(rf" *(?:{_WORD.pattern} *)+", re.IGNORECASE)
_PRINTED = re.compile(
    r"(?:(-?\+?\d+) years? ?)?(?:([+-]?\d+) mons? ?)?(?:([+-]?\d+) days? ?)?"
    r"(?:([+-]?)(\d+):(\d\d):(\d\d)(\.\d+)?)?"
)


def _total(text: str) -> int | str:
    """Microseconds; infinities as text."""
    parts = interval_parts(text)
    if isinstance(parts, str):
        return parts
    months, days, microseconds = parts
    return (months * _MONTH_DAYS + days) * _DAY_US + microseconds


@remembered(10_000, _PRINTED_CHARACTERS)
def _normal(text: str) -> str:
    total = _total(text)
    if isinstance(total, str):
        return total
    sign = "-" if total < 0 else ""
    days, time = divmod(abs(total), _DAY_US)
    months, days = divmod(days, _MONTH_DAYS)
    seconds, fraction = divmod(time, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return f"{sign}{months} mons {sign}{days} days {sign}{clock}"


def _order(text: str) -> bytes:
    total = _total(text)
    return WIDE_INFINITIES[total] if isinstance(total, str) else order_wide(total)


def _text_of_total(total: int) -> str:
    sign = -1 if total < 0 else 1
    months, rest = divmod(abs(total), _MONTH_US)
    days, clock = divmod(rest, _DAY_US)
    return interval_text(sign * months, sign * days, sign * clock)


def _parse(text: str) -> str:
    iso = _ISO.fullmatch(text)
    if iso and len(text) > 2 and not text.endswith("T"):
        years, months, weeks, days, hours, minutes = (int(iso[i] or 0) for i in range(1, 7))
        clock = clock_microseconds(f"0:0:{iso[8] or 0}.{iso[9] or ''}")
        parts = (
            years * 12 + months,
            weeks * 7 + days,
            (hours * 3600 + minutes * 60) * 1_000_000 + (-clock if iso[7] else clock),
        )
    elif (words := _parts_of_words(text)) is not None:
        parts = words
    else:
        try:
            found = interval_parts(text)
        except ValueError:
            found = (0, 0, 2**63)
        if isinstance(found, str):
            return found
        parts = found
    if not text or abs(parts[0]) > _INT4_MAX or abs(parts[1]) > _INT4_MAX or abs(parts[2]) >= 2**63:
        raise ValueError("an interval like '1 day 02:30:00' or P1DT2H30M is expected")
    return interval_text(*parts)


def _parts_of_words(text: str) -> tuple[int, int, int] | None:
    """``2 hours 30 minutes``: whole numbers with units, fractions of units of time only."""
    if not _WORDS.fullmatch(text):
        return None
    totals = [0, 0, 0]
    for number, unit in _WORD.findall(text):
        place, factor = _UNITS[unit.lower()]
        amount = Fraction(number) * factor
        if amount.denominator != 1 or (place < 2 and "." in number):
            return None
        totals[place] += int(amount)
    return totals[0], totals[1], totals[2]


def _json(text: str) -> str:
    match = _PRINTED.fullmatch(text)
    if match is None or not text:
        return encode_basestring(text)
    years, months, days, sign, hours, minutes, seconds, fraction = match.groups()
    date = "".join(f"{int(n)}{unit}" for n, unit in ((years, "Y"), (months, "M"), (days, "D")) if n and int(n))
    time = ""
    if hours is not None:
        minus = "-" if sign == "-" else ""
        fraction = (fraction or "").rstrip("0").rstrip(".")
        parts = ((int(hours), "", "H"), (int(minutes), "", "M"), (int(seconds), fraction, "S"))
        time = "".join(f"{minus}{n}{rest}{unit}" for n, rest, unit in parts if n or rest)
    if time:
        return f'"P{date}T{time}"'
    return f'"P{date}"' if date else '"PT0S"'


TYPES: dict[str, Rules] = {
    "interval": TypeRules(
        kind=ValueKind.INTERVAL,
        comparable=True,
        normal_form=_normal,
        one_text=False,
        order_form=_order,
        order_text=wide_text(_text_of_total),
        parse=_parse,
        json_form=_json,
        width_bytes=12,
        sum="interval",
        average="interval",
        summed_by_value=True,
        prints_itself=True,
        category="T",
        preferred=True,
        of_postgres=True,
    )
}
