"""Dates and times as MariaDB and MySQL compute with them: fields, intervals, differences, DATE_FORMAT.

A date may lack its year, month or day (``2024-00-00``): it has fields and can be printed, all else of it is NULL.

Not here: their texts as values (`dataflow.types.mysql_dates`).
"""

import re
from collections.abc import Callable

from dataflow.calendar import civil_date, civil_days
from dataflow.errors import EvaluationError
from dataflow.functions.signature import Signature, Table
from dataflow.memo import remembered
from dataflow.types import Value
from dataflow.types.dates import DAYS_OF_MONTH
from dataflow.types.mysql_dates import DATE, DATETIME, TIMESTAMP

_DAY_US = 86_400_000_000
_FIRST_DAY, _END = civil_days(1, 1, 1), civil_days(10_000, 1, 1)
_MONDAY = civil_days(2024, 1, 1)
#: What `TO_DAYS` of our day 0 is.
_TO_DAYS = 60
_MIDNIGHT = "00:00:00"
_MONTHS_UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_DAYS_UNITS = {"DAY": 1, "WEEK": 7}
_CLOCK_UNITS = {"SECOND": 1_000_000, "MINUTE": 60_000_000, "HOUR": 3_600_000_000}
#: Units of an interval; whether a date remains one.
UNITS = {**dict.fromkeys((*_MONTHS_UNITS, *_DAYS_UNITS), True), **dict.fromkeys(_CLOCK_UNITS, False)}
_TOKEN = re.compile(r"%[YymcdeHkhIliSspTr%]|[^%]+")


def _days(text: str) -> int | None:
    """The day's number; None of a date that lacks something."""
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    if not month or not day:
        return None
    if not year:
        raise EvaluationError("not computed: a date of the year 0")
    return civil_days(year, month, day)


def _date(days: int) -> str | None:
    if not _FIRST_DAY <= days < _END:
        return None
    year, month, day = civil_date(days)
    return f"{year:04}-{month:02}-{day:02}"


def _clock(text: str) -> tuple[int, str]:
    """Time of day in microseconds, and the digits behind the point as they are printed."""
    time, _, fraction = (text[11:] or _MIDNIGHT).partition(".")
    hours, minutes, seconds = time.split(":")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int(
        fraction.ljust(6, "0") or "0"
    ), fraction


# --- fields ---------------------------------------------------------------------------------------------------------


def _field(start: int, end: int) -> Callable[[str], str]:
    return lambda text: str(int(text[start:end] or "0"))


def _of_day(compute: Callable[[int], int]) -> Callable[[str], Value]:
    def function(text: str) -> Value:
        days = _days(text)
        return None if days is None else str(compute(days))

    return function


def _day_of_year(days: int) -> int:
    return days - civil_days(civil_date(days)[0], 1, 1) + 1


def _last_day(text: str) -> Value:
    year, month = int(text[:4]), int(text[5:7])
    return f"{text[:8]}{_length(year, month):02}" if month else None


def _length(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return DAYS_OF_MONTH[month - 1] - (month == 2 and not leap)


_FIELDS: dict[str, Callable[[str], Value]] = {
    "YEAR": _field(0, 4),
    "MONTH": _field(5, 7),
    "DAYOFMONTH": _field(8, 10),
    "HOUR": _field(11, 13),
    "MINUTE": _field(14, 16),
    "SECOND": _field(17, 19),
    "QUARTER": lambda text: str((int(text[5:7]) + 2) // 3),
    "DAYOFWEEK": _of_day(lambda days: (days - _MONDAY + 1) % 7 + 1),
    "WEEKDAY": _of_day(lambda days: (days - _MONDAY) % 7),
    "DAYOFYEAR": _of_day(_day_of_year),
    "TO_DAYS": _of_day(lambda days: days + _TO_DAYS),
}


# --- weeks ----------------------------------------------------------------------------------------------------------

_MONDAY_FIRST, _WEEK_OF_YEAR, _FULL_FIRST = 1, 2, 4


def _week(text: str, mode: str) -> Value:
    days = _days(text)
    return None if days is None else str(_year_and_week(days, _behaviour(mode))[1])


def _year_week(text: str, mode: str) -> Value:
    days = _days(text)
    if days is None:
        return None
    year, week = _year_and_week(days, _behaviour(mode) | _WEEK_OF_YEAR)
    return str(year * 100 + week)


def _behaviour(mode: str) -> int:
    """A mode by what its bits mean (MariaDB, ``item_timefunc.cc``: ``week_mode``)."""
    behaviour = int(mode) & 7
    return behaviour if behaviour & _MONDAY_FIRST else behaviour ^ _FULL_FIRST


def _year_and_week(days: int, behaviour: int) -> tuple[int, int]:
    """The year that a week is of, and its number: 0 for one of the year before, unless all weeks are of a year
    (MariaDB, ``sql_time.cc``: ``calc_week``)."""
    year = civil_date(days)[0]
    start = civil_days(year, 1, 1)
    weekday = _weekday(start, behaviour)
    of_year = bool(behaviour & _WEEK_OF_YEAR)
    if days - start < 7 - weekday:
        if not of_year and _is_partial(weekday, behaviour):
            return year, 0
        of_year = True
        year -= 1
        start -= _days_of_year(year)
        weekday = _weekday(start, behaviour)
    passed = days - start + weekday - (7 if _is_partial(weekday, behaviour) else 0)
    if of_year and passed >= 52 * 7 and not _is_partial(_weekday(start + _days_of_year(year), behaviour), behaviour):
        return year + 1, 1
    return year, passed // 7 + 1


def _weekday(days: int, behaviour: int) -> int:
    return (days - _MONDAY + (not behaviour & _MONDAY_FIRST)) % 7


def _is_partial(weekday: int, behaviour: int) -> bool:
    """Return whether the week in which a year begins on that day of it belongs to the year before."""
    return weekday != 0 if behaviour & _FULL_FIRST else weekday >= 4


def _days_of_year(year: int) -> int:
    return 337 + (_length(year, 2) if year else 28)


# --- intervals ------------------------------------------------------------------------------------------------------


def _sum(unit: str, sign: int) -> Callable[[str, str], Value]:
    """A moment and an interval; NULL if there is no such moment."""

    def function(text: str, amount: str) -> Value:
        count = sign * int(amount)
        days = _days(text)
        if days is None:
            return None
        if unit in _MONTHS_UNITS:
            return _months_later(text, count * _MONTHS_UNITS[unit])
        if unit in _DAYS_UNITS:
            date = _date(days + count * _DAYS_UNITS[unit])
            return None if date is None else date + text[10:]
        time, fraction = _clock(text)
        days, time = divmod(days * _DAY_US + time + count * _CLOCK_UNITS[unit], _DAY_US)
        date = _date(days)
        return None if date is None else f"{date} {_clock_text(time, len(fraction))}"

    return function


def _months_later(text: str, months: int) -> Value:
    year, month = divmod(int(text[:4]) * 12 + int(text[5:7]) - 1 + months, 12)
    if not 0 <= year < 10_000:
        return None
    day = min(int(text[8:10]), _length(year, month + 1))
    return f"{year:04}-{month + 1:02}-{day:02}{text[10:]}"


def _clock_text(time: int, digits: int) -> str:
    seconds, fraction = divmod(time, 1_000_000)
    shown = f".{fraction:06}"[: digits + 1] if digits else ""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{shown}"


def _date_difference(left: str, right: str) -> Value:
    a, b = _days(left), _days(right)
    return None if a is None or b is None else str(a - b)


def _difference(unit: int) -> Callable[[str, str], Value]:
    """TIMESTAMPDIFF: from the first to the second, in whole units."""

    def function(left: str, right: str) -> Value:
        a, b = _days(left), _days(right)
        if a is None or b is None:
            return None
        time = (b - a) * _DAY_US + _clock(right)[0] - _clock(left)[0]
        return str(time // unit if time >= 0 else -(-time // unit))

    return function


def _months_between(unit: int) -> Callable[[str, str], Value]:
    """TIMESTAMPDIFF in whole `unit` months: a month is over on its day, at its time."""

    def function(left: str, right: str) -> Value:
        if _days(left) is None or _days(right) is None:
            return None
        first, last = (_month_and_rest(text) for text in (left, right))
        sign = 1
        if last < first:
            first, last, sign = last, first, -1
        months = last[0] - first[0] - (last[1:] < first[1:])
        return str(sign * (months // unit))

    return function


def _month_and_rest(text: str) -> tuple[int, int, int]:
    """Months since the year 0, the day in it and the time of day."""
    return int(text[:4]) * 12 + int(text[5:7]), int(text[8:10]), _clock(text)[0]


# --- DATE_FORMAT ----------------------------------------------------------------------------------------------------


@remembered(entries=200)
def format_tokens(pattern: str) -> tuple[str, ...]:
    """The pieces of a format. ValueError if it has others than those that are exact: names depend on a setting."""
    tokens = tuple(_TOKEN.findall(pattern))
    if "".join(tokens) != pattern or not pattern:
        raise ValueError(f"the format {pattern!r} is not among those that are exact")
    return tokens


def _date_format(text: str, pattern: str) -> str:
    return "".join(_shown(token, text) for token in format_tokens(pattern))


def _shown(token: str, text: str) -> str:
    if token[0] != "%":
        return token
    time = text[11:19] or _MIDNIGHT
    hour = int(time[:2])
    twelve = (hour + 11) % 12 + 1
    half = "AM" if hour < 12 else "PM"
    pieces = {
        "Y": text[:4],
        "y": text[2:4],
        "m": text[5:7],
        "c": str(int(text[5:7])),
        "d": text[8:10],
        "e": str(int(text[8:10])),
        "H": time[:2],
        "k": str(hour),
        "h": f"{twelve:02}",
        "I": f"{twelve:02}",
        "l": str(twelve),
        "i": time[3:5],
        "S": time[6:8],
        "s": time[6:8],
        "p": half,
        "T": time,
        "r": f"{twelve:02}{time[2:]} {half}",
        "%": "%",
    }
    return pieces[token[1]]


# --- the list -------------------------------------------------------------------------------------------------------

_TYPES = (DATE, DATETIME, TIMESTAMP)


def _of_one(result: str, function: Callable[..., Value], *others: str) -> tuple[Signature, ...]:
    return tuple(Signature((name, *others), result, function) for name in _TYPES)


def _of_two(function: Callable[..., Value]) -> tuple[Signature, ...]:
    return tuple(Signature((a, b), "int8", function) for a in _TYPES for b in _TYPES)


MYSQL_MOMENTS: Table = {
    **{name: _of_one("int8", function) for name, function in _FIELDS.items()},
    "WEEK": _of_one("int8", _week, "int8"),
    "YEARWEEK": _of_one("int8", _year_week, "int8"),
    "DATE": _of_one(DATE, lambda text: text[:10]),
    "LAST_DAY": _of_one(DATE, _last_day),
    "DATEDIFF": _of_two(_date_difference),
    "DATE_FORMAT": _of_one("text", _date_format, "text"),
    **{
        f"{name} {unit}": _of_one(DATETIME, _sum(unit, sign), "int8")
        for unit in UNITS
        for name, sign in (("DATE_ADD", 1), ("DATE_SUB", -1))
    },
    **{
        f"TIMESTAMPDIFF {unit}": _of_two(_difference(size))
        for unit, size in {**_CLOCK_UNITS, **{u: n * _DAY_US for u, n in _DAYS_UNITS.items()}}.items()
    },
    **{f"TIMESTAMPDIFF {unit}": _of_two(_months_between(size)) for unit, size in _MONTHS_UNITS.items()},
}

__all__ = ["MYSQL_MOMENTS", "UNITS", "format_tokens"]
