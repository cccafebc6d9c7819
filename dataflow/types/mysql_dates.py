"""Dates, times and timestamps of MariaDB and MySQL.

=====================  ==============================================================================================
type                   text
=====================  ==============================================================================================
`DATE`                 ``2024-02-29``; zero dates (``0000-00-00``, ``2024-00-00``) as they are
`DATETIME`             ``2024-02-29 12:00:00.500``, always with the column's digits of a second
`TIMESTAMP`            the same, in UTC
`TIME`                 ``-12:00:00.5``, at least two digits of hours, up to 838
=====================  ==============================================================================================

The declaration has the digits of a second: ``datetime(3)``. Input may have more: then it equals none of the column's
values. Input has no offset from UTC: MySQL 8.0.19 and newer convert such a text, MariaDB and older ones overlook the
offset. Zero dates are JSON strings with their text.
"""

import re

from dataflow.types.dates import DAYS_OF_MONTH
from dataflow.types.rules import (
    Declaration,
    OrderForm,
    OrderText,
    Parse,
    Rules,
    TextForm,
    TypeRules,
    ascii_text,
    quoted,
)

DATE = "mysql_date"
DATETIME = "mysql_datetime"
TIMESTAMP = "mysql_timestamp"
TIME = "mysql_time"

_SECOND_US = 1_000_000
#: More than any `TIME`.
_TIME_BIAS = 1 << 62
_CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,6}))?)?"
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MOMENT = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?:[ T]{_CLOCK} ?(Z)?)?")
_TIME = re.compile(r"-?[0-9]{1,3}:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?")
_MAX_TIME_US = (839 * 3600) * _SECOND_US
_DIGITS = re.compile(r"\(([0-9])\)")
#: Without a year, month or day.
_ZERO_DATE = re.compile(r"0000|\d{4}-00|\d{4}-\d\d-00")


def without_zeros(text: str) -> str:
    """A moment or time without the last zeros of its fraction."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def time_microseconds(text: str) -> int:
    """A time as microseconds."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    total = (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * _SECOND_US + int(fraction.ljust(6, "0"))
    return -total if text[0] == "-" else total


def time_text(microseconds: int, digits: int = 0) -> str:
    """The inverse of `time_microseconds`, with at least so many digits of a second."""
    seconds, fraction = divmod(abs(microseconds), _SECOND_US)
    text = f"{'-' if microseconds < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + _fraction_text(f"{fraction:06}", digits)


def _fraction_text(fraction: str, digits: int) -> str:
    """A fraction of a second as printed: `digits` digits, and more if they are not zero."""
    shown = fraction.rstrip("0").ljust(digits, "0")
    return f".{shown}" if shown else ""


# --- order ----------------------------------------------------------------------------------------------------------


def _order_moment(text: str) -> bytes:
    """Years have four digits, so the text sorts as the moment does."""
    return without_zeros(text).encode() + b"\0"


def _order_time(text: str) -> bytes:
    return (_TIME_BIAS + time_microseconds(text)).to_bytes(8, "big")


def _time_of_order(data: bytes) -> tuple[str, int]:
    return time_text(int.from_bytes(data[:8], "big") - _TIME_BIAS), 8


# --- input ----------------------------------------------------------------------------------------------------------


def _parse_date(text: str) -> str:
    if not _is_date(text):
        raise ValueError("a date like 2024-02-29 is expected")
    return text


def _is_date(text: str) -> bool:
    """Checks a date of the servers, whose month and day may be zero."""
    found = _DATE.fullmatch(text)
    if not found:
        return False
    year, month, day = map(int, found.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return month <= 12 and day <= DAYS_OF_MONTH[month - 1] and not (month == 2 and day == 29 and not leap)


def _moment_parser(zoned: bool, digits: int) -> Parse:
    expected = f"a moment like 2024-02-29 17:05:00{' or 2024-02-29T17:05:00Z' if zoned else ''} is expected"

    def parse(text: str) -> str:
        found = _MOMENT.fullmatch(text)
        printed = _moment(found, digits) if found and (zoned or not found[6]) else None
        if printed is None:
            raise ValueError(expected)
        return printed

    return parse


def _moment(found: re.Match[str], digits: int) -> str | None:
    date, hours, minutes, seconds, fraction, _ = found.groups()
    if not _is_date(date) or int(hours or 0) > 23 or int(minutes or 0) > 59 or int(seconds or 0) > 59:
        return None
    clock = f"{hours or '00'}:{minutes or '00'}:{seconds or '00'}"
    return f"{date} {clock}{_fraction_text(fraction or '', digits)}"


def _time_parser(digits: int) -> Parse:
    def parse(text: str) -> str:
        found = _TIME.fullmatch(text)
        microseconds = time_microseconds(text if text.count(":") == 2 else f"{text}:00") if found else _MAX_TIME_US
        if abs(microseconds) >= _MAX_TIME_US:
            raise ValueError("a time like 17:05:00, up to 838:59:59, is expected")
        return time_text(microseconds, digits)

    return parse


def _digits(declaration: Declaration) -> int:
    found = _DIGITS.search(declaration.sql)
    return int(found[1]) if found else 0


# --- JSON -----------------------------------------------------------------------------------------------------------


def _datetime_json(text: str) -> str:
    return f'"{text}"' if _ZERO_DATE.match(text) else f'"{text[:10]}T{text[11:]}"'


def _timestamp_json(text: str) -> str:
    return f'"{text}"' if _ZERO_DATE.match(text) else f'"{text[:10]}T{text[11:]}Z"'


def _fractional(
    declaration: Declaration, name: str, order: tuple[OrderForm, OrderText], parse: Parse, json_form: TextForm
) -> TypeRules:
    """A type whose values always print the declared digits of a second."""
    order_form, order_text = order
    return TypeRules(
        comparable=True,
        normal_form=without_zeros if declaration.sql.endswith(")") else None,
        order_form=order_form,
        order_text=order_text,
        parse=parse,
        json_form=json_form,
        of_mysql=name,
    )


def _datetime(declaration: Declaration) -> TypeRules:
    parse = _moment_parser(False, _digits(declaration))
    return _fractional(declaration, "datetime", (_order_moment, ascii_text), parse, _datetime_json)


def _timestamp(declaration: Declaration) -> TypeRules:
    parse = _moment_parser(True, _digits(declaration))
    return _fractional(declaration, "timestamp", (_order_moment, ascii_text), parse, _timestamp_json)


def _time(declaration: Declaration) -> TypeRules:
    parse = _time_parser(_digits(declaration))
    return _fractional(declaration, "time", (_order_time, _time_of_order), parse, quoted)


TYPES: dict[str, Rules] = {
    DATE: TypeRules(
        comparable=True,
        order_form=_order_moment,
        order_text=ascii_text,
        parse=_parse_date,
        json_form=quoted,
        of_mysql="date",
    ),
    DATETIME: _datetime,
    TIMESTAMP: _timestamp,
    TIME: _time,
}
