"""Texts of dates, times and intervals as numbers and back, with the upstream's ranges: what `dates` computes with.

A day counts from 0000-03-01, a timestamp in microseconds from there (`dataflow.calendar`).
"""

from dataflow.calendar import (
    civil_date,
    civil_days,
    clock_microseconds,
    clock_text,
    date_text,
    interval_parts,
    interval_text,
    timestamp_text,
    to_days,
    to_microseconds,
)
from dataflow.errors import EvaluationError

DAY_US = 86_400_000_000
INFINITIES = ("infinity", "-infinity")
FIRST_DAY = civil_days(-4713, 11, 24)
_DATE_END = civil_days(5_874_898, 1, 1)
_TIMESTAMP_START = FIRST_DAY * DAY_US
_TIMESTAMP_END = civil_days(294_277, 1, 1) * DAY_US
_YEAR_2000 = civil_days(2000, 1, 1)
_INT4 = 2**31
_INT8 = 2**63
_SUFFIXES = {"timestamp": "", "timestamptz": "+00"}

#: Months, days, microseconds.
Interval = tuple[int, int, int]

days = to_days
microseconds = to_microseconds
civil = civil_date
clock = clock_microseconds
time = clock_text
interval = interval_parts


def date(day: int) -> str:
    """The date of that number, if there is one."""
    if not FIRST_DAY <= day < _DATE_END:
        raise EvaluationError("date out of range")
    return date_text(day)


def check_timestamp(moment: int) -> None:
    """The upstream's error for a moment that it cannot hold."""
    if not _TIMESTAMP_START <= moment < _TIMESTAMP_END:
        raise EvaluationError("timestamp out of range")


def timestamp(moment: int, kind: str) -> str:
    """The timestamp (``timestamp`` or ``timestamptz``) of that number, if there is one."""
    check_timestamp(moment)
    return timestamp_text(moment, _SUFFIXES[kind])


def interval_of(months: int, day_count: int, time_us: int) -> str:
    """The interval of these fields, if they fit."""
    if not is_interval(months, day_count, time_us):
        raise EvaluationError("interval out of range")
    return interval_text(months, day_count, time_us)


def is_interval(months: int, day_count: int, time_us: int) -> bool:
    """Return whether the fields fit. The largest ones stand for the infinities."""
    if not (-_INT4 <= months < _INT4 and -_INT4 <= day_count < _INT4 and -_INT8 <= time_us < _INT8):
        return False
    return (months, day_count, time_us) not in ((_INT4 - 1, _INT4 - 1, _INT8 - 1), (-_INT4, -_INT4, -_INT8))


def date_to_timestamp(text: str, kind: str = "timestamp") -> str:
    """Midnight of a date."""
    return text if text in INFINITIES else timestamp(to_days(text) * DAY_US, kind)


def retyped(text: str, kind: str) -> str:
    """A timestamp as one with, or without, a time zone."""
    if text in INFINITIES:
        return text
    body, era, _ = text.partition(" BC")
    return body.removesuffix("+00") + _SUFFIXES[kind] + era


def rounded_timestamp(text: str, digits: int, kind: str) -> str:
    """A timestamp with so many decimals of its seconds: rounded away from the year 2000 where it is between two."""
    if text in INFINITIES:
        return text
    unit = 10 ** (6 - digits)
    since = to_microseconds(text) - _YEAR_2000 * DAY_US
    whole = (abs(since) + unit // 2) // unit * unit
    # The upstream does not look whether that is still a timestamp.
    return timestamp_text(_YEAR_2000 * DAY_US + (whole if since >= 0 else -whole), _SUFFIXES[kind])


def timestamp_date(text: str) -> str:
    """The day of a timestamp."""
    return text if text in INFINITIES else date_text(to_microseconds(text) // DAY_US)


def timestamp_time(text: str) -> str | None:
    """The time of day of a timestamp; NULL of an infinite one."""
    return None if text in INFINITIES else clock_text(to_microseconds(text) % DAY_US)
