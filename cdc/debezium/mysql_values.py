"""Converters of MariaDB's and MySQL's values in Debezium's events to the texts of `cdc.mysql.values`.

Debezium documentation, connectors for MySQL and MariaDB, "Data type mappings".

*Invariant*: the text equals that of lookups and the binary log. Values that the connector replaces undetectably must be
ruled out by the user (docs/kafka.md): zero dates, which become NULL or 1970-01-01, and years below 100
(``enable.time.adjuster=false``).

Not here: forms shared with PostgreSQL (`forms`).
"""

import re
from collections.abc import Callable
from typing import Any

from cdc.column_type import ColumnType
from cdc.debezium import forms
from cdc.debezium.forms import Converter, FieldSchema
from cdc.debezium.modes import InexactValue, Modes
from cdc.mysql.values import BYTES, TEXTS, float4_text, float8_text

_INTEGERS = frozenset({"smallint", "mediumint", "int"})
_PLAIN = TEXTS | {"inet4", "inet6"}
_GEOMETRIES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    }
)
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?))?(?:Z|\+00:00)?")
_UNSIGNED = 1 << 64
#: The connector's form of a zero TIMESTAMP in a NOT NULL column; valid ones are later.
_EPOCH = "1970-01-01 00:00:00"


def converter(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    """Return the conversion of a JSON value (not null) to its text. Raises InexactValue, as does the conversion."""
    name = kind.name
    if name in _PLAIN:
        return str.__str__
    if name in _INTEGERS:
        return int.__repr__
    if name in BYTES:
        return _bytes(kind, field, modes)
    if name in _GEOMETRIES:
        return _geometry(kind, field, modes)
    made = _MADE.get(name)
    if made is None:
        raise InexactValue(f"is of type {name}, which events do not carry as the server prints it")
    return made(kind, field, modes)


def _tinyint(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    def text(value: Any) -> str:
        if value is True:
            raise InexactValue(
                "is true or false in the events, not a number; remove TinyIntOneToBooleanConverter from the connector"
            )
        return int.__repr__(value)

    return text


def _year(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    # Years begin at 1901; the connector's form of the year 0 is 1900.
    return lambda value: "0" if value == 1900 else int.__repr__(value)


def _labelled(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    """Return the converter of labels, in which the connector escapes commas by backslashes."""
    if not any("," in label for label in kind.labels):
        return str.__str__
    return lambda value: value.replace("\\,", ",")


def _uuid(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    def text(value: str) -> str:
        if value.startswith("00"):
            raise InexactValue(
                f"has the value {value}, whose bytes the connector may have shifted; no setting changes that: "
                "store such values as char(36) or binary(16)"
            )
        return value

    return text


def _bigint(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    if not kind.unsigned:
        return int.__repr__

    def text(value: Any) -> str:
        if type(value) is str:  # bigint.unsigned.handling.mode=precise
            return forms.decimal_form(0, field, Modes(decimal="precise"))(value)
        return str(value if value >= 0 else value + _UNSIGNED)

    return text


def _decimal(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    read = forms.decimal_form(kind.scale, field, modes)

    def text(value: Any) -> str:
        digits = read(value)
        if len(digits.partition(".")[2]) != kind.scale:
            raise ValueError(digits)
        return digits

    return text


def _float(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    return lambda value: float4_text(float(value))


def _double(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    return lambda value: float8_text(float(value))


def _bit(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    if kind.length <= 1:
        return lambda value: int.__repr__(value)
    read = forms.bytes_form(None, Modes(binary="base64"))
    return lambda value: str(int.from_bytes(read(value), "little"))


def _bytes(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    read = forms.bytes_form(field, modes)
    padded = kind.length if kind.name == "binary" else 0

    def text(value: Any) -> str:
        data = read(value)
        if len(data) > kind.length > 0:
            raise InexactValue(
                f"has a value of {len(data)} bytes, more than {kind.length}: "
                "cdc.kafka.binary_handling_mode is not the connector's binary.handling.mode"
            )
        return f"\\x{data.ljust(padded, bytes(1)).hex()}"

    return text


def _geometry(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    read = forms.bytes_form(None, Modes(binary="base64"))

    def text(value: Any) -> str:
        return f"\\x{(value.get('srid') or 0).to_bytes(4, 'little').hex()}{read(value['wkb']).hex()}"

    return text


def _json(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    """Return the converter of JSON, which is text in MariaDB; the connector reformats MySQL's."""
    if kind.charset:
        return str.__str__
    raise InexactValue(
        "is of type json, which the connector does not print as the server does; no setting changes that"
    )


# ── Times ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _fraction(microseconds: int, digits: int) -> str:
    return f".{microseconds % 1_000_000:06}"[: digits + 1] if digits else ""


def _dated(days: int) -> str:
    year, month, day = forms.civil(days)
    return f"{year:04}-{month:02}-{day:02}"


def _iso_us(text: str) -> int:
    found = _ISO.fullmatch(text)
    if found is None:
        raise ValueError(text)
    days = forms.days_of(int(found[1]), int(found[2]), int(found[3]))
    return days * forms.DAY_US + (forms.clock_us(found[4]) if found[4] else 0)


def _date(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    return lambda value: _dated(value if type(value) is int else _iso_us(value) // forms.DAY_US)


def _datetime(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    digits = kind.precision
    unit = forms.unit_ns("timestamp", digits, field, modes)

    def text(value: Any) -> str:
        days, of_day = forms.split_us(_iso_us(value) if type(value) is str else forms.count_us(value, unit))
        return f"{_dated(days)} {forms.clock_text(of_day)}{_fraction(of_day, digits)}"

    return text


def _timestamp(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    digits = kind.precision

    def text(value: str) -> str:
        if value[19:20] not in (".", "Z") or value[-1] != "Z":
            raise ValueError(value)
        stamp = f"{value[:10]} {value[11:19]}"
        if stamp == _EPOCH:
            stamp = "0000-00-00 00:00:00"
        return f"{stamp}.{value[20:-1].ljust(digits, '0')[:digits]}" if digits else stamp

    return text


def _time(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    digits = kind.precision
    lossy = field.get("type") == "string" or forms.name_of(field).startswith(forms.CONNECT) if field else None
    if lossy or (lossy is None and modes.time_precision in ("isostring", "connect")):
        raise InexactValue(
            "is NULL in the events where it is negative or longer than a day; "
            "set time.precision.mode=adaptive_time_microseconds in the connector"
        )
    if lossy is None and not modes.time_precision:
        # Even NULL says nothing then.
        raise InexactValue(forms.UNKNOWN_UNIT)
    unit = forms.unit_ns("time", digits, field, modes)

    def text(value: Any) -> str:
        microseconds = forms.count_us(value, unit)
        sign, microseconds = ("-", -microseconds) if microseconds < 0 else ("", microseconds)
        return f"{sign}{forms.clock_text(microseconds)}{_fraction(microseconds, digits)}"

    return text


_MADE: dict[str, Callable[[ColumnType, FieldSchema | None, Modes], Converter]] = {
    "tinyint": _tinyint,
    "bigint": _bigint,
    "decimal": _decimal,
    "float": _float,
    "double": _double,
    "bit": _bit,
    "json": _json,
    "enum": _labelled,
    "set": _labelled,
    "uuid": _uuid,
    "year": _year,
    "date": _date,
    "time": _time,
    "datetime": _datetime,
    "timestamp": _timestamp,
}
