"""Dates, times and timestamps of PostgreSQL.

A value without a JSON form of its own (infinities, BC, years beyond 9999) is a string with its text.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from json.encoder import encode_basestring

from dataflow.calendar import (
    civil_days,
    clock_microseconds,
    clock_text,
    date_text,
    time_zone_parts,
    timestamp_text,
    to_days,
    to_microseconds,
    zone_seconds,
)
from dataflow.types.rules import (
    WIDE_INFINITIES,
    Parse,
    Rules,
    TextForm,
    TypeRules,
    ValueKind,
    order_wide,
    quoted,
    wide_number,
    wide_text,
)

_DATE = re.compile(r"([0-9]{4,7})-([0-9]{2})-([0-9]{2})( BC)?")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?")
_ZONE = re.compile(r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)")
_TIMESTAMP = re.compile(rf"([0-9]{{4,7}}-[0-9]{{2}}-[0-9]{{2}})[ T]({_TIME.pattern}) ?({_ZONE.pattern})?( BC)?")
_ZONED_TIME = re.compile(rf"({_TIME.pattern})({_ZONE.pattern})")
_PRINTED_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(?:([+-]\d\d)(?::?(\d\d))?)?")
_PRINTED_ZONED_TIME = re.compile(r"((?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d+)?)([+-]\d\d)(?::?(\d\d))?")
DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_WIDE = 16
_DAY_US = 86_400_000_000
_MAX_ZONE_S = 16 * 3600
_FIRST_DAY = civil_days(-4713, 11, 24)
_DATE_END = civil_days(5_874_898, 1, 1)
_TIMESTAMP_END = civil_days(294_277, 1, 1)
_INFINITE = ("infinity", "-infinity")


# --- order ----------------------------------------------------------------------------------------------------------


def _order_date(text: str) -> bytes:
    return WIDE_INFINITIES.get(text) or order_wide(to_days(text))


def _order_timestamp(text: str) -> bytes:
    return WIDE_INFINITIES.get(text) or order_wide(to_microseconds(text))


def _order_time(text: str) -> bytes:
    return order_wide(time_zone_parts(text)[0])


def _order_zoned_time(text: str) -> bytes:
    """By the moment; of one moment, the zone further east first (zones count seconds *west* of Greenwich)."""
    time, zone = time_zone_parts(text)
    east = zone_seconds(zone)
    return order_wide(time - east * 1_000_000) + order_wide(-east)


def _time_of_order(data: bytes) -> tuple[str, int]:
    return clock_text(wide_number(data)), _WIDE


def _zoned_time_of_order(data: bytes) -> tuple[str, int]:
    east = -wide_number(data[_WIDE:])
    hours, rest = divmod(abs(east), 3600)
    zone = f"{'-' if east < 0 else '+'}{hours:02}:{rest // 60:02}:{rest % 60:02}"
    return clock_text(wide_number(data) + east * 1_000_000) + zone, 2 * _WIDE


# --- input ----------------------------------------------------------------------------------------------------------


def _parse_date(text: str) -> str:
    if text in _INFINITE:
        return text
    days = _days(text)
    if days is None or not _FIRST_DAY <= days < _DATE_END:
        raise ValueError("a date like 2024-02-29 is expected")
    return date_text(days)


def _days(text: str) -> int | None:
    found = _DATE.fullmatch(text)
    if not found:
        return None
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    if found[4]:
        year = 1 - year
    if not year and not found[4]:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= month <= 12 or not 1 <= day <= DAYS_OF_MONTH[month - 1] or (month == 2 and day == 29 and not leap):
        return None
    return civil_days(year, month, day)


def _microseconds(text: str) -> int | None:
    found = _TIME.fullmatch(text)
    if not found:
        return None
    hours, minutes, seconds, fraction = int(found[1]), int(found[2]), int(found[3] or 0), found[4] or ""
    total = clock_microseconds(f"{hours}:{minutes}:{seconds}.{fraction}")
    return total if minutes < 60 and seconds < 60 and total <= _DAY_US else None


def _parse_time(text: str) -> str:
    microseconds = _microseconds(text)
    if microseconds is None:
        raise ValueError("a time like 17:05:00 is expected")
    return clock_text(microseconds)


def _parse_zoned_time(text: str) -> str:
    found = _ZONED_TIME.fullmatch(text)
    microseconds = _microseconds(found[1]) if found else None
    if found is None or microseconds is None:
        raise ValueError("a time with its zone like 17:05:00+02 is expected")
    zone = _zone_text(found[6])
    if abs(zone_seconds(zone)) >= _MAX_ZONE_S:
        raise ValueError("a zone within 16 hours of Greenwich is expected")
    return clock_text(microseconds) + zone


def _zone_text(zone: str) -> str:
    """A zone as PostgreSQL prints it."""
    if zone == "Z":
        return "+00"
    digits = zone[1:].replace(":", "").ljust(4, "0")
    sign = "+" if digits == "0000" else zone[0]
    return f"{sign}{digits[:2]}" + (f":{digits[2:]}" if digits[2:] != "00" else "")


def _timestamp_parser(zone: str) -> Parse:
    def parse(text: str) -> str:
        if text in _INFINITE:
            return text
        microseconds = _timestamp(text, bool(zone))
        if microseconds is None:
            raise ValueError(f"a timestamp like 2024-02-29 17:05:00{zone} is expected")
        return timestamp_text(microseconds, zone)

    return parse


def _timestamp(text: str, zoned: bool) -> int | None:
    days = _days(text)
    if days is not None:
        microseconds = days * _DAY_US
    else:
        found = _TIMESTAMP.fullmatch(text)
        if not found or (found[7] and not zoned):
            return None
        days, clock = _days(found[1] + (found[8] or "")), _microseconds(found[2])
        if days is None or clock is None:
            return None
        zone = _zone_text(found[7]) if found[7] else "+00"
        if abs(zone_seconds(zone)) >= _MAX_ZONE_S or int(zone[4:6] or 0) >= 60:
            return None
        microseconds = days * _DAY_US + clock - zone_seconds(zone) * 1_000_000
    return microseconds if _FIRST_DAY <= microseconds // _DAY_US < _TIMESTAMP_END else None


# --- JSON -----------------------------------------------------------------------------------------------------------


def _json_zone(hours: str, minutes: str | None) -> str:
    minutes = minutes or "00"
    return "Z" if hours in ("+00", "-00") and minutes == "00" else f"{hours}:{minutes}"


def _timestamp_json(text: str) -> str:
    match = _PRINTED_TIMESTAMP.fullmatch(text)
    if match is None:
        return encode_basestring(text)
    date, time, hours, minutes = match.groups()
    return f'"{date}T{time}{_json_zone(hours, minutes) if hours else ""}"'


def _zoned_time_json(text: str) -> str:
    match = _PRINTED_ZONED_TIME.fullmatch(text)
    if match is None:
        return encode_basestring(text)
    time, hours, minutes = match.groups()
    return f'"{time}{_json_zone(hours, minutes)}"'


def _moment(
    order: Callable[[str], bytes], text_of: Callable[[int], str], parse: Parse, json_form: TextForm, width_bytes: int
) -> TypeRules:
    return TypeRules(
        kind=ValueKind.MOMENT,
        comparable=True,
        order_form=order,
        order_text=wide_text(text_of),
        parse=parse,
        json_form=json_form,
        width_bytes=width_bytes,
        prints_itself=True,
        category="D",
        of_postgres=True,
    )


_TIMESTAMP_RULES = _moment(_order_timestamp, timestamp_text, _timestamp_parser(""), _timestamp_json, 26)
_TIME_RULES = TypeRules(
    kind=ValueKind.TIME,
    comparable=True,
    order_form=_order_time,
    order_text=_time_of_order,
    parse=_parse_time,
    width_bytes=12,
    prints_itself=True,
    implicit=frozenset({"timetz", "interval"}),
    category="D",
    of_postgres=True,
)

TYPES: dict[str, Rules] = {
    "date": replace(
        _moment(_order_date, date_text, _parse_date, quoted, 10), implicit=frozenset({"timestamp", "timestamptz"})
    ),
    "time": _TIME_RULES,
    "timetz": replace(
        _TIME_RULES,
        order_form=_order_zoned_time,
        order_text=_zoned_time_of_order,
        parse=_parse_zoned_time,
        json_form=_zoned_time_json,
        width_bytes=32,
        implicit=frozenset(),
        of_postgres=False,
    ),
    "timestamp": replace(_TIMESTAMP_RULES, implicit=frozenset({"timestamptz"})),
    "timestamptz": replace(
        _TIMESTAMP_RULES,
        order_text=wide_text(lambda total: timestamp_text(total, "+00")),
        parse=_timestamp_parser("+00"),
        width_bytes=29,
        preferred=True,
    ),
}
