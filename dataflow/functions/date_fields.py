"""Fields of dates, times and intervals: EXTRACT and DATE_PART, DATE_TRUNC, TO_CHAR with the patterns that are exact."""

import re
from collections.abc import Callable
from itertools import pairwise

from dataflow import numeric
from dataflow.calendar import civil_days
from dataflow.errors import EvaluationError
from dataflow.functions import floats, moments
from dataflow.functions.moments import DAY_US, INFINITIES, Interval
from dataflow.functions.signature import refused, signature
from dataflow.memo import remembered

_EPOCH = civil_days(1970, 1, 1)
#: Day 0 of the Julian count, in ours.
_JULIAN = civil_days(-4713, 11, 24)
_MONDAY = civil_days(2024, 1, 1)
_ALIASES = {
    "c": "century",
    "cent": "century",
    "centuries": "century",
    "d": "day",
    "days": "day",
    "decades": "decade",
    "decs": "decade",
    "dec": "decade",
    "h": "hour",
    "hours": "hour",
    "hr": "hour",
    "hrs": "hour",
    "m": "minute",
    "min": "minute",
    "mins": "minute",
    "minutes": "minute",
    "mon": "month",
    "mons": "month",
    "months": "month",
    "ms": "milliseconds",
    "msec": "milliseconds",
    "msecs": "milliseconds",
    "millisecond": "milliseconds",
    "qtr": "quarter",
    "s": "second",
    "sec": "second",
    "seconds": "second",
    "secs": "second",
    "us": "microseconds",
    "usec": "microseconds",
    "usecs": "microseconds",
    "microsecond": "microseconds",
    "w": "week",
    "weeks": "week",
    "y": "year",
    "years": "year",
    "yr": "year",
    "yrs": "year",
    "mil": "millennium",
    "mils": "millennium",
    "millennia": "millennium",
}
_CLOCK = frozenset({"microseconds", "milliseconds", "second", "minute", "hour"})
_ZONE = frozenset({"timezone", "timezone_hour", "timezone_minute"})
#: Fields of an infinite timestamp that are infinite; the others are NULL.
_UNBOUNDED = frozenset({"year", "decade", "century", "millennium", "julian", "isoyear", "epoch"})
_CYCLIC = frozenset({"day", "month", "quarter", "week", "dow", "isodow", "doy"}) | _CLOCK
#: What is cut off below a unit, from the smallest on.
_INTERVAL_UNITS = {"year": 12, "decade": 120, "century": 1200, "millennium": 12_000, "quarter": 3, "month": 1}
_CLOCK_UNITS = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "milliseconds": 1000,
    "microseconds": 1,
}


def _field(text: str) -> str:
    name = text.lower()
    return _ALIASES.get(name, name)


def _unknown(field: str) -> EvaluationError:
    return EvaluationError(f'unit "{field}" not recognized')


#: Microseconds since 1970 that are no int8 any more.
_FEWER_DIGITS = 2**63 - 1
#: Of ten, as doubles.
_POWERS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)


# --- fields ---------------------------------------------------------------------------------------------------------

#: A field's value as an unscaled integer and its decimals.
Scaled = tuple[int, int]


def _date_field(field: str, days: int) -> int:
    """A field that depends on the day only."""
    year, month, day = moments.civil(days)
    match field:
        case "week" | "isoyear":
            iso_year, week = _iso_week(days)
            return week if field == "week" else iso_year if iso_year > 0 else iso_year - 1
        case "dow":
            return (days - _MONDAY + 1) % 7
        case "isodow":
            return (days - _MONDAY) % 7 + 1
        case "julian":
            return days - _JULIAN
        case "day":
            return day
        case "month":
            return month
        case "quarter":
            return (month - 1) // 3 + 1
        case "doy":
            return days - civil_days(year, 1, 1) + 1
        case _:
            return _year_field(field, year)


def _year_field(field: str, year: int) -> int:
    """A field that depends on the year only; year 0 is 1 BC."""
    match field:
        case "year":
            return year if year > 0 else year - 1
        case "decade":
            return year // 10 if year >= 0 else -((8 - (year - 1)) // 10)
        case "century":
            return (year + 99) // 100 if year > 0 else -((99 - (year - 1)) // 100)
        case "millennium":
            return (year + 999) // 1000 if year > 0 else -((999 - (year - 1)) // 1000)
        case _:
            raise _unknown(field)


def _iso_week(days: int) -> tuple[int, int]:
    """The ISO year and week: those of the week's Thursday."""
    thursday = days - (days - _MONDAY) % 7 + 3
    year = moments.civil(thursday)[0]
    return year, (thursday - civil_days(year, 1, 1)) // 7 + 1


def _clock_field(field: str, clock: int) -> Scaled:
    within_minute = clock % 60_000_000
    match field:
        case "microseconds":
            return within_minute, 0
        case "milliseconds":
            return within_minute, 3
        case "second":
            return within_minute, 6
        case "minute":
            return clock // 60_000_000 % 60, 0
        case _:
            return clock // 3_600_000_000, 0


def _timestamp_field(field: str, moment: int) -> Scaled:
    days, clock = divmod(moment, DAY_US)
    if field in _CLOCK:
        return _clock_field(field, clock)
    if field == "epoch":
        seconds = moment - _EPOCH * DAY_US
        if seconds >= _FEWER_DIGITS:
            raise EvaluationError("not computed: the upstream divides moments that late with fewer digits")
        return seconds, 6
    return _date_field(field, days), 0


def _interval_field(field: str, interval: Interval) -> Scaled:
    months, days, time = interval
    sign = -1 if time < 0 else 1
    if field in _CLOCK:
        value, scale = _clock_field(field, abs(time))
        return sign * value, scale
    match field:
        case "epoch":
            quarter_days = 1461 * _truncated(months, 12) + 120 * _remainder(months, 12) + 4 * days
            return quarter_days * (DAY_US // 4) + time, 6
        case "day":
            return days, 0
        case "month":
            return _remainder(months, 12), 0
        case "year" | "decade" | "century" | "millennium":
            return _truncated(months, _INTERVAL_UNITS[field]), 0
        case _:
            raise _unknown(field)


def _truncated(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def _remainder(a: int, b: int) -> int:
    return a - b * _truncated(a, b)


# --- EXTRACT and DATE_PART ------------------------------------------------------------------------------------------

Reader = Callable[[str, str], Scaled | str | None]


def _of_timestamp(field: str, text: str) -> Scaled | str | None:
    if text in INFINITIES:
        return _of_infinity(field, text)
    return _timestamp_field(field, moments.microseconds(text))


def _of_zoned(field: str, text: str) -> Scaled | str | None:
    if field in _ZONE:
        return None if text in INFINITIES else (0, 0)
    return _of_timestamp(field, text)


def _of_date(field: str, text: str) -> Scaled | str | None:
    if field in _CLOCK:
        raise EvaluationError(f'unit "{field}" not supported for type date')
    if text in INFINITIES:
        return _of_infinity(field, text)
    days = moments.days(text)
    return ((days - _EPOCH) * 86_400, 0) if field == "epoch" else (_date_field(field, days), 0)


def _of_midnight(field: str, text: str) -> Scaled | str | None:
    return _of_timestamp(field, moments.date_to_timestamp(text))


def _of_time(field: str, text: str) -> Scaled | str | None:
    if field == "epoch":
        return moments.clock(text), 6
    if field not in _CLOCK:
        raise _unknown(field)
    return _clock_field(field, moments.clock(text))


def _of_interval(field: str, text: str) -> Scaled | str | None:
    interval = moments.interval(text)
    if not isinstance(interval, str):
        return _interval_field(field, interval)
    if field in ("epoch", "hour", "day", "year", "decade", "century", "millennium"):
        return "-Infinity" if interval[0] == "-" else "Infinity"
    if field in _CYCLIC:
        return None
    raise _unknown(field)


def _of_infinity(field: str, text: str) -> str | None:
    if field in _UNBOUNDED:
        return "-Infinity" if text[0] == "-" else "Infinity"
    if field in _CYCLIC or field in _ZONE:
        return None
    raise _unknown(field)


def _extract(read: Reader) -> Callable[[str, str], str | None]:
    """EXTRACT gives a numeric."""

    def function(field: str, text: str) -> str | None:
        found = read(_field(field), text)
        return numeric.render(numeric.scaled(*found)) if isinstance(found, tuple) else found

    return function


def _part(read: Reader) -> Callable[[str, str], str | None]:
    """DATE_PART gives a double."""

    def function(field: str, text: str) -> str | None:
        name = _field(field)
        found = read(name, text)
        return floats.printed(_double(name, *found), "float8") if isinstance(found, tuple) else found

    return function


def _double(field: str, value: int, scale: int) -> float:
    """A field as the upstream computes it in doubles, which round at each step."""
    if field in ("second", "milliseconds"):
        seconds, fraction = divmod(value, 1_000_000)
        return seconds * _POWERS[6 - scale] + fraction / _POWERS[scale]
    return float(value) / _POWERS[scale]


def _without_julian(read: Reader) -> Reader:
    def reader(field: str, text: str) -> Scaled | str | None:
        if field == "julian":
            raise EvaluationError("the Julian day of a timestamp is not computed here")
        return read(field, text)

    return reader


EXTRACT = (
    signature("text timestamp", "numeric", _extract(_without_julian(_of_timestamp))),
    signature("text timestamptz", "numeric", _extract(_without_julian(_of_zoned))),
    signature("text date", "numeric", _extract(_of_date)),
    signature("text time", "numeric", _extract(_of_time)),
    signature("text interval", "numeric", _extract(_of_interval)),
    *refused("text timetz -> numeric"),
)
DATE_PART = (
    signature("text timestamp", "float8", _part(_without_julian(_of_timestamp))),
    signature("text timestamptz", "float8", _part(_without_julian(_of_zoned))),
    # The upstream's own DATE_PART of a date is that of its midnight.
    signature("text date", "float8", _part(_without_julian(_of_midnight))),
    signature("text time", "float8", _part(_of_time)),
    *refused("text interval -> float8", "text timetz -> float8"),
)


# --- DATE_TRUNC -----------------------------------------------------------------------------------------------------


def truncation(kind: str) -> Callable[[str, str], str]:
    """DATE_TRUNC of a timestamp of that type."""

    def function(unit: str, text: str) -> str:
        field = _field(unit)
        if field not in _CLOCK_UNITS and field not in _INTERVAL_UNITS and field not in ("day", "week"):
            raise _unknown(unit)
        if text in INFINITIES:
            return text
        moment = moments.microseconds(text)
        if field in _CLOCK_UNITS:
            days, clock = divmod(moment, DAY_US)
            return moments.timestamp(days * DAY_US + clock - clock % _CLOCK_UNITS[field], kind)
        return moments.timestamp(_first_day(field, moment // DAY_US) * DAY_US, kind)

    return function


def _first_day(field: str, days: int) -> int:
    if field == "day":
        return days
    if field == "week":
        return days - (days - _MONDAY) % 7
    year, month, _ = moments.civil(days)
    match field:
        case "month":
            return civil_days(year, month, 1)
        case "quarter":
            return civil_days(year, (month - 1) // 3 * 3 + 1, 1)
        case "decade":
            year = year // 10 * 10 if year > 0 else -((8 - (year - 1)) // 10) * 10
        case "century":
            year = (year + 99) // 100 * 100 - 99 if year > 0 else -((99 - (year - 1)) // 100) * 100 + 1
        case "millennium":
            year = (year + 999) // 1000 * 1000 - 999 if year > 0 else -((999 - (year - 1)) // 1000) * 1000 + 1
        case _:
            pass
    return civil_days(year, 1, 1)


def truncate_interval(unit: str, text: str) -> str:
    """DATE_TRUNC of an interval."""
    field = _field(unit)
    interval = moments.interval(text)
    if field not in _CLOCK_UNITS and field not in _INTERVAL_UNITS and field != "day":
        raise _unknown(unit)
    if isinstance(interval, str):
        return interval
    months, days, time = interval
    if field in _INTERVAL_UNITS:
        step = _INTERVAL_UNITS[field]
        return moments.interval_of(_truncated(months, step) * step, 0, 0)
    if field == "day":
        return moments.interval_of(months, days, 0)
    step = _CLOCK_UNITS[field]
    return moments.interval_of(months, days, _truncated(time, step) * step)


# --- TO_CHAR --------------------------------------------------------------------------------------------------------

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_TOKEN = re.compile(
    r'YYYY|MM|DD|HH24|MI|SS|MS|US|Month|MONTH|month|Mon|MON|mon|Day|DAY|day|Dy|DY|dy|Q|"[^"\\]*"|[-/:., _]'
)
_CASES: dict[bool, Callable[[str], str]] = {True: str.upper, False: str.lower}


@remembered(entries=200)
def to_char_tokens(pattern: str) -> tuple[str, ...]:
    """The pieces of a pattern. ValueError if it has others than those that are exact."""
    tokens = tuple(_TOKEN.findall(pattern))
    # Where a token ends as the next one begins, there may be a longer one: DDD, SSSS.
    joined = any(a[-1].lower() == b[0].lower() and a[-1].isalpha() for a, b in pairwise(tokens))
    if joined or "".join(tokens) != pattern:
        raise ValueError(f"the pattern {pattern!r} is not among those that are exact")
    return tokens


def to_char(text: str, pattern: str) -> str | None:
    """TO_CHAR of a timestamp."""
    if text in INFINITIES:
        return None
    days, clock = divmod(moments.microseconds(text), DAY_US)
    return "".join(_shown(token, days, clock) for token in to_char_tokens(pattern))


def _shown(token: str, days: int, clock: int) -> str:
    year, month, day = moments.civil(days)
    match token:
        case "YYYY":
            return f"{year if year > 0 else 1 - year:04}"
        case "MM":
            return f"{month:02}"
        case "DD":
            return f"{day:02}"
        case "HH24":
            return f"{clock // 3_600_000_000:02}"
        case "MI":
            return f"{clock // 60_000_000 % 60:02}"
        case "SS":
            return f"{clock // 1_000_000 % 60:02}"
        case "MS":
            return f"{clock % 1_000_000 // 1000:03}"
        case "US":
            return f"{clock % 1_000_000:06}"
        case "Q":
            return str((month - 1) // 3 + 1)
        case _:
            return _word(token, month, (days - _MONDAY + 1) % 7)


def _word(token: str, month: int, weekday: int) -> str:
    if token[0] == '"':
        return token[1:-1]
    names = {
        "month": _MONTHS[month - 1].ljust(9),
        "mon": _MONTHS[month - 1][:3],
        "day": _DAYS[weekday].ljust(9),
        "dy": _DAYS[weekday][:3],
    }
    name = names.get(token.lower(), token)
    return name if token[1:2].islower() and token[0].isupper() else _CASES[token[0].isupper()](name)


__all__ = ["DATE_PART", "EXTRACT", "to_char", "to_char_tokens", "truncate_interval", "truncation"]
