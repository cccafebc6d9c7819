"""User input to the text form of the types that only MariaDB and MySQL have (`mysql_types`).

Accepts the plain spellings of what these servers accept. Everything else is a `ValueError` whose text says what is
expected. A fraction of a second may have more digits than the column: then it equals none of its values. A moment has
no offset from UTC: MySQL 8.0.19 and newer convert such a text, MariaDB and older ones overlook the offset.

Not here: the types that they share with PostgreSQL (`literals`).
"""

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from dataflow.mysql_types import DATE, DATETIME, INET4, INET6, SET, TIME, TIMESTAMP, UINT8
from dataflow.mysql_values import fraction_text, time_microseconds, time_text
from dataflow.schema import SqlType

_UINT8_MAX = 2**64 - 1
_INTEGER = re.compile(r"\+?[0-9]{1,30}")
_CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?"
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MOMENT = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?:[ T]{_CLOCK} ?(Z)?)?")
_TIME = re.compile(r"-?[0-9]{1,3}:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?")
_MAX_TIME_US = (839 * 3600) * 1_000_000
_DAYS_OF_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_DIGITS = re.compile(r"\(([0-9])\)")


def label_of(sql_type: SqlType, text: str) -> str | None:
    """The label of an enum or set that equals a text in its collation."""
    if text in sql_type.labels or sql_type.weights is None:
        return text if text in sql_type.labels else None
    normal = sql_type.weights.normal
    wanted = normal(text)
    return next((label for label in sql_type.labels if normal(label) == wanted), None)


def parse_label(sql_type: SqlType, text: str) -> str:
    """A label of an enum, or an empty text: what a value outside of the enum was stored as."""
    label = label_of(sql_type, text) if text else ""
    if label is None:
        raise ValueError(f"one of {', '.join(sql_type.labels)} is expected")
    return label


def _parse_set(sql_type: SqlType, text: str) -> str:
    labels = [label_of(sql_type, part) for part in text.split(",")] if text else []
    places = [sql_type.labels.index(label) for label in labels if label is not None]
    if len(places) < len(labels) or sorted(set(places)) != places:
        raise ValueError(f"labels in this order, with commas between, are expected: {', '.join(sql_type.labels)}")
    return ",".join(sql_type.labels[place] for place in places)


def _parse_unsigned(_: SqlType, text: str) -> str:
    text = text.strip(" \t\n")
    if not _INTEGER.fullmatch(text) or int(text) > _UINT8_MAX:
        raise ValueError(f"an integer from 0 to {_UINT8_MAX} is expected")
    return str(int(text))


# --- dates and times ------------------------------------------------------------------------------------------------


def _parse_date(_: SqlType, text: str) -> str:
    if not _is_date(text):
        raise ValueError("a date like 2024-02-29 is expected")
    return text


def _is_date(text: str) -> bool:
    """Of the servers' dates: month and day may be zero."""
    found = _DATE.fullmatch(text)
    if not found:
        return False
    year, month, day = map(int, found.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return month <= 12 and day <= _DAYS_OF_MONTH[month - 1] and not (month == 2 and day == 29 and not leap)


def _parse_moment(sql_type: SqlType, text: str) -> str:
    zoned = sql_type.name == TIMESTAMP
    found = _MOMENT.fullmatch(text)
    printed = _moment(found, _digits(sql_type)) if found and (zoned or not found[6]) else None
    if printed is None:
        raise ValueError(f"a moment like 2024-02-29 17:05:00{' or 2024-02-29T17:05:00Z' if zoned else ''} is expected")
    return printed


def _moment(found: re.Match[str], digits: int) -> str | None:
    date, hours, minutes, seconds, fraction, _ = found.groups()
    if not _is_date(date) or int(hours or 0) > 23 or int(minutes or 0) > 59 or int(seconds or 0) > 59:
        return None
    clock = f"{hours or '00'}:{minutes or '00'}:{seconds or '00'}"
    return f"{date} {clock}{fraction_text(fraction or '', digits)}"


def _parse_time(sql_type: SqlType, text: str) -> str:
    found = _TIME.fullmatch(text)
    microseconds = time_microseconds(text if text.count(":") == 2 else f"{text}:00") if found else _MAX_TIME_US
    if abs(microseconds) >= _MAX_TIME_US:
        raise ValueError("a time like 17:05:00, up to 838:59:59, is expected")
    return time_text(microseconds, _digits(sql_type))


def _digits(sql_type: SqlType) -> int:
    """Digits of a second that a type has."""
    found = _DIGITS.search(sql_type.sql)
    return int(found[1]) if found else 0


# --- addresses ------------------------------------------------------------------------------------------------------


def _parse_inet4(_: SqlType, text: str) -> str:
    try:
        return str(IPv4Address(text))
    except AddressValueError as error:
        raise ValueError("an IPv4 address like 192.0.2.1 is expected") from error


def _parse_inet6(_: SqlType, text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise ValueError("an IPv6 address like 2001:db8::1 is expected") from error
    if address.scope_id is not None:
        raise ValueError("an IPv6 address like 2001:db8::1, without a zone, is expected")
    return str(address)


PARSERS: dict[str, Callable[[SqlType, str], str]] = {
    UINT8: _parse_unsigned,
    DATE: _parse_date,
    **dict.fromkeys((DATETIME, TIMESTAMP), _parse_moment),
    TIME: _parse_time,
    SET: _parse_set,
    INET4: _parse_inet4,
    INET6: _parse_inet6,
}
