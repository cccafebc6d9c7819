"""Debezium's forms of numbers, bytes and times, shared by both databases.

A form is determined by the column's schema, the connector's stated mode, or the value itself if it is unambiguous.
Otherwise InexactValue names the setting that determines it.

Not here: the databases' texts (`postgres_values`, `mysql_values`).
"""

import re
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from cdc.debezium.modes import WITH_SCHEMAS, InexactValue, Modes

FieldSchema = dict[str, Any]
#: Converts a JSON value other than null to the value's text.
Converter = Callable[[Any], str]

CONNECT = "org.apache.kafka.connect.data."
TIME = "io.debezium.time."
DAY_US = 86_400_000_000
_DECIMAL = re.compile(r"-?\d+(?:\.\d+)?")
_SCIENTIFIC = re.compile(r"-?\d+(?:\.\d+)?[eE][+-]?\d+")
#: Special decimals in Debezium's spelling and in PostgreSQL's.
_NO_NUMBERS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}
_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?")

#: Unit of a time or timestamp in nanoseconds, by the name of its schema.
_UNITS = {
    f"{TIME}Timestamp": 1_000_000,
    f"{TIME}MicroTimestamp": 1000,
    f"{TIME}NanoTimestamp": 1,
    f"{TIME}Time": 1_000_000,
    f"{TIME}MicroTime": 1000,
    f"{TIME}NanoTime": 1,
    f"{CONNECT}Timestamp": 1_000_000,
    f"{CONNECT}Time": 1_000_000,
}
UNKNOWN_UNIT = (
    "has an unknown unit in the events; state cdc.kafka.time_precision_mode "
    f"(the connector's time.precision.mode), {WITH_SCHEMAS}"
)
_MODE_UNITS = {"connect": 1_000_000, "microseconds": 1000, "nanoseconds": 1}


def name_of(field: FieldSchema | None) -> str:
    """Return the name of a column's schema; "" without one."""
    return (field or {}).get("name") or ""


# ── Decimals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def decimal_form(scale: int | None, field: FieldSchema | None, modes: Modes) -> Callable[[Any], str]:
    """Return the reader of decimals with `scale` digits behind the point; None: each value has its own scale."""
    name = name_of(field)
    if field is not None:
        if field.get("type") == "double":
            return _refuse_double
        if name == f"{CONNECT}Decimal":
            scale = int(field["parameters"]["scale"])
            return lambda value: scaled_text(_number(value), scale)
        if field.get("type") == "string":
            return _decimal_text
    if modes.decimal == "string":
        return _decimal_text
    if modes.decimal == "double":
        return _refuse_double
    if scale is None:
        return _own_scale
    if modes.decimal == "precise":
        return lambda value: scaled_text(_number(value), scale)
    return _guarded_decimal(scale)


def _guarded_decimal(scale: int) -> Callable[[Any], str]:
    """Return a reader of base64 or digits; a point, a sign, or a length that is no multiple of four implies digits."""

    def read(value: Any) -> str:
        if type(value) is not str:
            return _refuse_double(value)
        if "." in value or value[:1] == "-" or value in _NO_NUMBERS or "E-" in value:
            return _decimal_text(value)
        if scale or not value.isdecimal():
            return scaled_text(_number(value), scale)
        if len(value) % 4:
            return value
        raise InexactValue(
            f"has the value {value!r}, which may be a number or its bytes; state cdc.kafka.decimal_handling_mode "
            f"(the connector's decimal.handling.mode), {WITH_SCHEMAS}"
        )

    return read


def _own_scale(value: Any) -> str:
    if type(value) is dict:
        return scaled_text(_number(value["value"]), int(value["scale"]))
    return _decimal_text(value)


def _decimal_text(value: Any) -> str:
    if type(value) is not str:
        return _own_scale(value) if type(value) is dict else _refuse_double(value)
    if _SCIENTIFIC.fullmatch(value):
        return format(Decimal(value), "f")
    return value if _DECIMAL.fullmatch(value) else _NO_NUMBERS[value]


def _refuse_double(value: Any) -> str:
    raise InexactValue(
        f"has the value {value!r}, a decimal as a floating-point number; "
        "set decimal.handling.mode=string in the connector"
    )


def _number(value: Any) -> int:
    """Read an unscaled number in base64."""
    if type(value) is not str:
        raise InexactValue("is a decimal as a JSON number; set value.converter.decimal.format=BASE64")
    return int.from_bytes(b64decode(value, validate=True), "big", signed=True)


def scaled_text(number: int, scale: int) -> str:
    """Return ``12.50`` for 1250 and 2."""
    if scale <= 0:
        return str(number * 10**-scale)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


# ── Bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def bytes_form(field: FieldSchema | None, modes: Modes) -> Callable[[Any], bytes]:
    """Return the reader of bytes."""
    if modes.binary == "hex":
        return bytes.fromhex
    if modes.binary == "base64-url-safe":
        return urlsafe_b64decode
    if modes.binary or (field is not None and field.get("type") == "bytes"):
        return _base64
    return _some_bytes


def _base64(value: str) -> bytes:
    return b64decode(value, validate=True)


def _some_bytes(value: str) -> bytes:
    """Read hexadecimal digits or base64, if the value is unambiguous. Raises InexactValue."""
    hexadecimal = _HEX.fullmatch(value) is not None
    if not value or (hexadecimal and len(value) % 4):
        return bytes.fromhex(value)
    if not hexadecimal:
        return urlsafe_b64decode(value) if "-" in value or "_" in value else _base64(value)
    raise InexactValue(
        f"has the value {value[:40]!r}, which may be base64 or hexadecimal digits; "
        f"state cdc.kafka.binary_handling_mode (the connector's binary.handling.mode), {WITH_SCHEMAS}"
    )


# ── Times ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def unit_ns(kind: str, digits: int, field: FieldSchema | None, modes: Modes) -> int | None:
    """Return the unit of a ``time`` or ``timestamp`` (`kind`) with `digits` of the fraction; 0: unknown, None: text.

    Raises InexactValue if the unit is milliseconds and the type is finer.
    """
    unit: int | None
    if field is not None:
        if field.get("type") == "string":
            return None
        unit = _UNITS.get(name_of(field))
    elif modes.time_precision == "isostring":
        return None
    elif modes.time_precision.startswith("adaptive"):
        micro = digits > 3 or (kind == "time" and modes.time_precision != "adaptive")
        unit = 1000 if micro else 1_000_000
    else:
        unit = _MODE_UNITS.get(modes.time_precision)
    if unit == 1_000_000 and digits > 3:
        raise InexactValue(
            "has only milliseconds in the events; "
            "set time.precision.mode=isostring, microseconds or adaptive in the connector"
        )
    return unit or 0


def count_us(value: Any, unit: int | None) -> int:
    """Convert an integer in units of `unit` nanoseconds to microseconds. Raises InexactValue: the unit is unknown."""
    if type(value) is not int:
        raise ValueError(value)
    if not unit:
        raise InexactValue(UNKNOWN_UNIT)
    return value * (unit // 1000) if unit >= 1000 else value // 1000


def clock_us(text: str) -> int:
    """Return microseconds since midnight of ``03:04:05.678Z``. Raises ValueError for a zone other than UTC."""
    found = _CLOCK.fullmatch(text)
    if found is None or found[5] not in (None, "Z", "+00:00"):
        raise ValueError(text)
    seconds = int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3] or 0)
    return seconds * 1_000_000 + int((found[4] or "").ljust(6, "0")[:6])


def split_us(microseconds: int) -> tuple[int, int]:
    """Split into days since 1970 and microseconds of the day."""
    return divmod(microseconds, DAY_US)


@lru_cache(maxsize=4096)
def civil(days: int) -> tuple[int, int, int]:
    """Return year (0 is 1 BC), month and day of a day since 1970, in the proleptic Gregorian calendar.

    Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
    """
    shifted = days + 719_468
    era, of_era = divmod(shifted, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day


def days_of(year: int, month: int, day: int) -> int:
    """Return the day since 1970 of a date, the inverse of `civil`."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def clock_text(microseconds: int) -> str:
    """Return ``03:04:05`` for microseconds since midnight, without the fraction."""
    minutes, seconds = divmod(microseconds // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}"
