"""Dates, times and intervals: operators, fields, truncation. TimeZone is UTC, so zoned and plain timestamps differ in
their text only.

The rules are those of the upstream's `timestamp.c` and `date.c`; infinite intervals are those of PostgreSQL 17.
"""

from collections.abc import Callable
from math import isinf, isnan

from dataflow.calendar import civil_days, days_in_month
from dataflow.errors import EvaluationError
from dataflow.functions import date_fields, moments
from dataflow.functions.moments import DAY_US, INFINITIES, Interval
from dataflow.functions.signature import Signature, Table, refused, signature

_TIMESTAMPS = ("timestamp", "timestamptz")
_SECONDS_PER_DAY = 86_400
#: The upstream counts from 2000 on, and rounds so.
_YEAR_2000 = civil_days(2000, 1, 1)
_SECONDS_TO_2000 = 946_684_800


# --- dates and days -------------------------------------------------------------------------------------------------


def _plus_days(date: str, days: str) -> str:
    return date if date in INFINITIES else moments.date(moments.days(date) + int(days))


def _minus_days(date: str, days: str) -> str:
    return _plus_days(date, str(-int(days)))


def _days_between(a: str, b: str) -> str:
    if a in INFINITIES or b in INFINITIES:
        raise EvaluationError("cannot subtract infinite dates")
    return str(moments.days(a) - moments.days(b))


def _make_date(year: str, month: str, day: str) -> str:
    y, m, d = int(year), int(month), int(day)
    if y < 0:
        y += 1
    elif not y:
        raise EvaluationError("date field value out of range")
    if not 1 <= m <= 12 or not 1 <= d <= days_in_month(y, m):
        raise EvaluationError("date field value out of range")
    return moments.date(civil_days(y, m, d))


# --- timestamps and intervals ---------------------------------------------------------------------------------------


def _plus_interval(kind: str) -> Callable[[str, str], str]:
    return lambda a, b: moved(a, moments.interval(b), kind)


def _minus_interval(kind: str) -> Callable[[str, str], str]:
    return lambda a, b: moved(a, _opposite_interval(b), kind)


def _opposite_interval(text: str) -> Interval | str:
    found = _negated(moments.interval(text))
    if not isinstance(found, str) and not moments.is_interval(*found):
        raise EvaluationError("not computed: older servers do not notice that the interval's opposite is out of range")
    return found


def _date_plus(a: str, b: str) -> str:
    return moved(moments.date_to_timestamp(a), moments.interval(b), "timestamp")


def _date_minus(a: str, b: str) -> str:
    return moved(moments.date_to_timestamp(a), _opposite_interval(b), "timestamp")


def moved(text: str, interval: Interval | str, kind: str) -> str:
    """A timestamp an interval later: `kind` is its type, an infinite interval its text."""
    if isinstance(interval, str):
        if text in INFINITIES and text != interval:
            raise EvaluationError("timestamp out of range")
        return interval
    if text in INFINITIES:
        return text
    months, days, microseconds = interval
    moment = moments.microseconds(text)
    if months:
        day, clock = divmod(moment, DAY_US)
        moment = _plus_months(day, months) * DAY_US + clock
        moments.check_timestamp(moment)
    if days:
        moment += days * DAY_US
        moments.check_timestamp(moment)
    return moments.timestamp(moment + microseconds, kind)


def _plus_months(days: int, months: int) -> int:
    year, month, day = moments.civil(days)
    years, month = divmod(month - 1 + months, 12)
    year, month = year + years, month + 1
    return civil_days(year, month, min(day, days_in_month(year, month)))


def _between(a: str, b: str) -> str:
    if a in INFINITIES or b in INFINITIES:
        if a == b:
            raise EvaluationError("interval out of range")
        return a if a in INFINITIES else _opposite(b)
    total = moments.microseconds(a) - moments.microseconds(b)
    if abs(total) >= 2**63:
        raise EvaluationError("interval out of range")
    days = abs(total) // DAY_US
    return moments.interval_of(0, -days if total < 0 else days, total + (days if total < 0 else -days) * DAY_US)


def _opposite(infinity: str) -> str:
    return "infinity" if infinity[0] == "-" else "-infinity"


def _age(a: str, b: str) -> str:
    """Years, months and days as the calendar counts them (timestamp_age)."""
    if a in INFINITIES or b in INFINITIES:
        return _between(a, b)
    first, second = moments.microseconds(a), moments.microseconds(b)
    backwards = first < second
    earlier = min(first, second)
    (days1, clock1), (days2, clock2) = divmod(first, DAY_US), divmod(second, DAY_US)
    fields1, fields2 = moments.civil(days1), moments.civil(days2)
    sign = -1 if backwards else 1
    years, months, days = (sign * (x - y) for x, y in zip(fields1, fields2, strict=True))
    clock = sign * (clock1 - clock2)
    if clock < 0:
        clock += DAY_US
        days -= 1
    year, month, _ = moments.civil(earlier // DAY_US)
    while days < 0:
        days += days_in_month(year, month)
        months -= 1
    while months < 0:
        months += 12
        years -= 1
    return moments.interval_of(sign * (years * 12 + months), sign * days, sign * clock)


# --- intervals ------------------------------------------------------------------------------------------------------


def _negated(interval: Interval | str) -> Interval | str:
    if isinstance(interval, str):
        return _opposite(interval)
    months, days, microseconds = interval
    return -months, -days, -microseconds


def _negate(a: str) -> str:
    found = _negated(moments.interval(a))
    return found if isinstance(found, str) else moments.interval_of(*found)


def _plus(a: str, b: str) -> str:
    x, y = moments.interval(a), moments.interval(b)
    if isinstance(x, str) or isinstance(y, str):
        if isinstance(x, str) and isinstance(y, str) and x != y:
            raise EvaluationError("interval out of range")
        return x if isinstance(x, str) else str(y)
    return moments.interval_of(x[0] + y[0], x[1] + y[1], x[2] + y[2])


def _minus(a: str, b: str) -> str:
    x, y = moments.interval(a), moments.interval(b)
    if isinstance(x, str) or isinstance(y, str):
        if x == y:
            raise EvaluationError("interval out of range")
        return x if isinstance(x, str) else _opposite(str(y))
    return moments.interval_of(x[0] - y[0], x[1] - y[1], x[2] - y[2])


def _times(a: str, b: str) -> str:
    factor = float(b)
    return _scaled(a, factor, lambda x: x * factor)


def _times_reversed(a: str, b: str) -> str:
    return _times(b, a)


def over(a: str, b: str) -> str:
    """``interval / number``; AVG of intervals is their sum over their number."""
    divisor = float(b)
    if not divisor:
        raise EvaluationError("division by zero")
    if isinf(divisor) and isinstance(moments.interval(a), str):
        raise EvaluationError("interval out of range")
    return _scaled(a, divisor, lambda x: x / divisor)


def _scaled(a: str, factor: float, scale: Callable[[float], float]) -> str:
    """An interval times a number: fractions of months become days of 30, those of days become time (interval_mul)."""
    interval = moments.interval(a)
    if isnan(factor):
        raise EvaluationError("interval out of range")
    if isinstance(interval, str) or (isinf(factor) and isinf(scale(1.0))):
        return _scaled_infinity(interval, factor)
    months, days, microseconds = interval
    whole_months, whole_days = _truncated(scale(months)), _truncated(scale(days))
    day_part = _rounded_microseconds((scale(months) - whole_months) * 30)
    seconds = _rounded_microseconds((scale(days) - whole_days + day_part - int(day_part)) * _SECONDS_PER_DAY)
    if abs(seconds) >= _SECONDS_PER_DAY:
        more = int(seconds / _SECONDS_PER_DAY)
        whole_days += more
        seconds -= more * _SECONDS_PER_DAY
    return moments.interval_of(whole_months, whole_days + int(day_part), round(scale(microseconds) + seconds * 1e6))


def _scaled_infinity(interval: Interval | str, factor: float) -> str:
    if isinstance(interval, str):
        sign = -1 if interval[0] == "-" else 1
    else:
        total = (interval[0] * 30 + interval[1]) * DAY_US + interval[2]
        sign = (total > 0) - (total < 0)
    sign *= (factor > 0) - (factor < 0)
    if not sign:
        raise EvaluationError("interval out of range")
    return "infinity" if sign > 0 else "-infinity"


def _truncated(value: float) -> int:
    if isinf(value) or isnan(value):
        raise EvaluationError("interval out of range")
    return int(value)


def _rounded_microseconds(value: float) -> float:
    return round(value * 1e6) / 1e6


def _justified(months: bool, hours: bool) -> Callable[[str], str]:
    def function(a: str) -> str:
        found = moments.interval(a)
        if isinstance(found, str):
            return found
        return moments.interval_of(*_justify(found, months, hours))

    return function


def _justify(interval: Interval, in_months: bool, in_hours: bool) -> Interval:
    """JUSTIFY_DAYS, JUSTIFY_HOURS or, with both, JUSTIFY_INTERVAL: also the signs are made one."""
    months, days, time = interval
    if in_months and in_hours and ((days > 0 and time > 0) or (days < 0 and time < 0)):
        months, days = _carried(months, days, 30)
    if in_hours:
        days, time = _carried(days, time, DAY_US)
    if in_months:
        months, days = _carried(months, days, 30)
    if in_months:
        if months > 0 and (days < 0 or (in_hours and days == 0 and time < 0)):
            months, days = months - 1, days + 30
        elif months < 0 and (days > 0 or (in_hours and days == 0 and time > 0)):
            months, days = months + 1, days - 30
    if in_hours:
        if days > 0 and time < 0:
            days, time = days - 1, time + DAY_US
        elif days < 0 and time > 0:
            days, time = days + 1, time - DAY_US
    return months, days, time


def _carried(larger: int, smaller: int, unit: int) -> tuple[int, int]:
    """Whole units of the smaller field moved to the larger one, truncating."""
    whole = abs(smaller) // unit * (1 if smaller >= 0 else -1)
    return larger + whole, smaller - whole * unit


# --- the table ------------------------------------------------------------------------------------------------------


def _wrapped(microseconds: int) -> int:
    """A time of day; the upstream computes it in 64 bits, and looks for no overflow."""
    return ((microseconds + 2**63) % 2**64 - 2**63) % DAY_US


def _time_plus(a: str, b: str) -> str:
    interval = moments.interval(b)
    if isinstance(interval, str):
        raise EvaluationError("cannot add infinite interval to time")
    return moments.time(_wrapped(moments.clock(a) + interval[2]))


def _time_minus(a: str, b: str) -> str:
    interval = moments.interval(b)
    if isinstance(interval, str):
        raise EvaluationError("cannot subtract infinite interval from time")
    return moments.time(_wrapped(moments.clock(a) - interval[2]))


def _date_time(a: str, b: str) -> str:
    if a in INFINITIES:
        return a
    return moments.timestamp(moments.days(a) * DAY_US + moments.clock(b), "timestamp")


def _at_utc(kind: str) -> Callable[[str, str], str]:
    def function(zone: str, text: str) -> str:
        if zone.upper() != "UTC":
            raise EvaluationError(f"time zone {zone!r} is not computed here")
        return moments.retyped(text, kind)

    return function


def _from_epoch(a: str) -> str:
    """TO_TIMESTAMP of seconds since 1970."""
    seconds = float(a)
    if isinf(seconds):
        return "infinity" if seconds > 0 else "-infinity"
    if isnan(seconds):
        raise EvaluationError("timestamp cannot be NaN")
    return moments.timestamp(_YEAR_2000 * DAY_US + round((seconds - _SECONDS_TO_2000) * 1e6), "timestamptz")


_truncated_zoned = date_fields.truncation("timestamptz")


def _truncated_in_zone(unit: str, text: str, zone: str) -> str:
    if zone.upper() != "UTC":
        raise EvaluationError(f"time zone {zone!r} is not computed here")
    return _truncated_zoned(unit, text)


def _binned(kind: str) -> Callable[[str, str, str], str]:
    """DATE_BIN: the beginning of the stride that a timestamp is in, counted from an origin."""

    def function(stride: str, text: str, origin: str) -> str:
        if text in INFINITIES:
            return text
        interval = moments.interval(stride)
        if isinstance(interval, str) or origin in INFINITIES:
            raise EvaluationError("origin out of range")
        months, days, time = interval
        step = days * DAY_US + time
        if months or step <= 0:
            raise EvaluationError("stride must be greater than zero")
        if step >= 2**63:
            raise EvaluationError("not computed: older servers do not notice that the stride is out of range")
        start = moments.microseconds(origin)
        distance = moments.microseconds(text) - start
        if abs(distance) >= 2**63:
            raise EvaluationError("interval out of range")
        return moments.timestamp(start + distance // step * step, kind)

    return function


def _make_interval(years: str, months: str, weeks: str, days: str, hours: str, minutes: str, seconds: str) -> str:
    second = float(seconds)
    if isinf(second) or isnan(second):
        raise EvaluationError("interval out of range")
    time = (int(hours) * 3600 + int(minutes) * 60) * 1_000_000 + round(second * 1e6)
    return moments.interval_of(int(years) * 12 + int(months), int(weeks) * 7 + int(days), time)


def _is_finite(a: str) -> str:
    return "f" if a in INFINITIES else "t"


def _swapped(function: Callable[[str, str], str]) -> Callable[[str, str], str]:
    return lambda a, b: function(b, a)


_PLUS = tuple(Signature((k, "interval"), k, _plus_interval(k)) for k in _TIMESTAMPS)
_MINUS = tuple(Signature((k, "interval"), k, _minus_interval(k)) for k in _TIMESTAMPS)
_TRUNC = tuple(Signature(("text", k), k, date_fields.truncation(k)) for k in _TIMESTAMPS)

DATES: Table = {
    "+": (
        signature("date int4", "date", _plus_days),
        signature("int4 date", "date", _swapped(_plus_days)),
        signature("date interval", "timestamp", _date_plus),
        signature("interval date", "timestamp", _swapped(_date_plus)),
        signature("date time", "timestamp", _date_time),
        signature("time date", "timestamp", _swapped(_date_time)),
        *_PLUS,
        *(Signature(("interval", k), k, _swapped(_plus_interval(k))) for k in _TIMESTAMPS),
        signature("interval interval", "interval", _plus),
        signature("time interval", "time", _time_plus),
        signature("interval time", "time", _swapped(_time_plus)),
        *refused(
            "date timetz -> timestamptz",
            "timetz date -> timestamptz",
            "timetz interval -> timetz",
            "interval timetz -> timetz",
        ),
    ),
    "-": (
        signature("date int4", "date", _minus_days),
        signature("date date", "int4", _days_between),
        signature("date interval", "timestamp", _date_minus),
        *_MINUS,
        *(Signature((k, k), "interval", _between) for k in _TIMESTAMPS),
        signature("interval interval", "interval", _minus),
        signature("time interval", "time", _time_minus),
        signature("time time", "interval", lambda a, b: moments.interval_of(0, 0, moments.clock(a) - moments.clock(b))),
        *refused("timetz interval -> timetz"),
    ),
    "neg": (signature("interval", "interval", _negate),),
    "*": (
        signature("interval float8", "interval", _times),
        signature("float8 interval", "interval", _times_reversed),
    ),
    "/": (signature("interval float8", "interval", over),),
    "age": (
        *(Signature((k, k), "interval", _age) for k in _TIMESTAMPS),
        *refused("timestamp -> interval", "timestamptz -> interval"),
    ),
    "make_date": (signature("int4 int4 int4", "date", _make_date),),
    "date_trunc": (
        *_TRUNC,
        signature("text interval", "interval", date_fields.truncate_interval),
        signature("text timestamptz text", "timestamptz", _truncated_in_zone),
    ),
    "date_bin": tuple(Signature(("interval", k, k), k, _binned(k)) for k in _TIMESTAMPS),
    "make_interval": (signature("int4 int4 int4 int4 int4 int4 float8", "interval", _make_interval),),
    "extract": date_fields.EXTRACT,
    "date_part": date_fields.DATE_PART,
    "justify_days": (signature("interval", "interval", _justified(months=True, hours=False)),),
    "justify_hours": (signature("interval", "interval", _justified(months=False, hours=True)),),
    "justify_interval": (signature("interval", "interval", _justified(months=True, hours=True)),),
    "isfinite": tuple(Signature((k,), "bool", _is_finite) for k in ("date", "interval", *_TIMESTAMPS)),
    "timezone": (
        signature("text timestamptz", "timestamp", _at_utc("timestamp")),
        signature("text timestamp", "timestamptz", _at_utc("timestamptz")),
        *refused(
            "text timetz -> timetz",
            "interval timetz -> timetz",
            "interval timestamptz -> timestamp",
            "interval timestamp -> timestamptz",
        ),
    ),
    "to_timestamp": (signature("float8", "timestamptz", _from_epoch), *refused("text text -> timestamptz")),
    "to_char": (
        *(Signature((k, "text"), "text", date_fields.to_char) for k in _TIMESTAMPS),
        *refused(
            "int4 text -> text",
            "int8 text -> text",
            "numeric text -> text",
            "float4 text -> text",
            "float8 text -> text",
            "interval text -> text",
        ),
    ),
}
