"""Converters of PostgreSQL's values in Debezium's events to the texts that it prints (with `cdc.postgres.session`).

Debezium documentation, connector for PostgreSQL, "Data type mappings"; PostgreSQL manual, "Data Types".

*Invariant*: the text equals that of lookups and the direct stream. Types whose events lose information (a time's zone,
the months of a numeric interval, the length of a varbit) raise InexactValue, with the setting that keeps it if there is
one.

Not here: forms shared with MySQL (`forms`), the meaning of texts (`dataflow.types`).
"""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from cdc.column_type import ColumnType
from cdc.debezium import forms
from cdc.debezium.forms import Converter, FieldSchema
from cdc.debezium.modes import InexactValue, Modes
from cdc.mysql.values import float4_text

_INTEGERS = frozenset({"int2", "int4", "int8", "oid", "xid", "cid"})
#: Types whose text in events is PostgreSQL's.
_TEXTS = frozenset(
    {
        "text",
        "varchar",
        "char",
        "citext",
        "json",
        "jsonb",
        "xml",
        "uuid",
        "inet",
        "cidr",
        "macaddr",
        "macaddr8",
        "int4range",
        "int8range",
        "numrange",
        "daterange",
        "tsrange",
        "int4multirange",
        "int8multirange",
        "nummultirange",
        "datemultirange",
        "tsmultirange",
        "ltree",
        "tsvector",
        "isbn",
        "pg_lsn",
    }
)
_INFINITY_US = {9223372036825200000: "infinity", -9223372036832400000: "-infinity"}
_INFINITY_MS = {us // 1000 * 1000: text for us, text in _INFINITY_US.items()}
#: The connector's days for infinite dates.
_INFINITE_DAYS = {-2147472692: "infinity", -2147472691: "-infinity"}
#: 4714-11-24 BC, PostgreSQL's first day.
_FIRST_DAY = -2440588
_ISO = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)(?:T(\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?))?(?:Z|\+00:00)?")
_DURATION = re.compile(r"P(-?\d+)Y(-?\d+)M(-?\d+)DT(-?\d+)H(-?\d+)M(-?\d+(?:\.\d+)?)S")
_OFFSETS = re.compile(r"\d{2}:\d{2}:\d{2}(?:\.\d+)?(?: BC)?([+-]\d\d[0-9:]*)")
_ELEMENT_QUOTED = re.compile(r'[{}",\\\s]')
_NUMBERS = {"NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity"}


def converter(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    """Return the conversion of a JSON value (not null) to its text. Raises InexactValue, as does the conversion."""
    if kind.element is not None:
        return _array(kind.element, field, modes)
    name = kind.name
    if name in _TEXTS or kind.labels:
        return str.__str__
    if name in _INTEGERS:
        return int.__repr__
    made = _MADE.get(name)
    if made is None:
        raise InexactValue(f"is of type {name}, which events do not carry as PostgreSQL prints it")
    return made(kind, field, modes)


# ── Numbers, bytes, bits ─────────────────────────────────────────────────────────────────────────────────────────────


def null_ambiguity(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> str | None:
    """Return the reason why NULL in an event may be another value; None if it may not."""
    if kind.name != "numeric" or (field.get("type") == "string" if field else modes.decimal == "string"):
        return None
    return "is NULL in the events where it is NaN, too; set decimal.handling.mode=string in the connector" + (
        "" if field or modes.decimal else " and state it in cdc.kafka.decimal_handling_mode"
    )


def _numeric(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    if kind.scale < 0:
        raise InexactValue("is a numeric of negative scale, which Debezium does not support")
    if kind.precision:
        return forms.decimal_form(kind.scale, field, modes)
    read = forms.decimal_form(None, field, modes)

    def text(value: Any) -> str:
        if type(value) is dict:
            raise InexactValue(
                "loses trailing zeros in the events, since it has no scale of its own; "
                "set decimal.handling.mode=string in the connector"
            )
        return read(value)

    return text


def _bpchar(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    return lambda value: str.ljust(value, kind.length)


def _name(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    raise InexactValue("is of type name, which is NULL in all events; no setting changes that")


def _money(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    read = forms.decimal_form(2, field, modes)

    def text(value: Any) -> str:
        digits = read(value)
        sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
        whole, _, cents = digits.partition(".")
        if len(cents) != 2:
            raise InexactValue("is money with other than two digits of cents; set money.fraction.digits=2")
        return f"{sign}${int(whole):,}.{cents}"

    return text


def _float4(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    return lambda value: _NUMBERS[value] if type(value) is str else _printed(float4_text(value), 6)


def _float8(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    return lambda value: _NUMBERS[value] if type(value) is str else _printed(repr(float(value)), 15)


def _printed(shortest: str, digits: int) -> str:
    """Format the shortest digits like ``float8out``: with an exponent below -4 and from `digits` on."""
    sign = ""
    if shortest[0] == "-":
        sign, shortest = "-", shortest[1:]
    mantissa, _, power = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    significant = (whole + fraction).lstrip("0")
    if not significant:
        return sign + "0"
    exponent = int(power or 0)
    exponent += len(whole) - 1 if whole != "0" else -1 - (len(fraction) - len(fraction.lstrip("0")))
    significant = significant.rstrip("0")
    if -4 <= exponent < digits:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{significant}"
        before = significant[: exponent + 1].ljust(exponent + 1, "0")
        behind = significant[exponent + 1 :]
        return f"{sign}{before}.{behind}" if behind else sign + before
    point = f".{significant[1:]}" if len(significant) > 1 else ""
    return f"{sign}{significant[0]}{point}e{'-' if exponent < 0 else '+'}{abs(exponent):02}"


def _bool(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    return {True: "t", False: "f"}.__getitem__


def _bytea(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    read = forms.bytes_form(field, modes)
    return lambda value: f"\\x{read(value).hex()}"


def _bit(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    length = kind.length or 1
    if length == 1:
        return {True: "1", False: "0"}.__getitem__
    read = forms.bytes_form(None, Modes(binary="base64"))
    return lambda value: format(int.from_bytes(read(value), "little"), "b").rjust(length, "0")


# ── Times ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _dated(days: int) -> tuple[str, str]:
    """Return a date, and the suffix after the time of day."""
    year, month, day = forms.civil(days)
    if year <= 0:
        return f"{1 - year:04}-{month:02}-{day:02}", " BC"
    return f"{year:04}-{month:02}-{day:02}", ""


def _fraction(microseconds: int) -> str:
    rest = microseconds % 1_000_000
    return f".{rest:06}".rstrip("0") if rest else ""


def _stamp(microseconds: int, zone: str = "") -> str:
    if microseconds in _INFINITY_US:
        return _INFINITY_US[microseconds]
    days, of_day = forms.split_us(microseconds)
    text, era = _dated(days)
    return f"{text} {forms.clock_text(of_day)}{_fraction(of_day)}{zone}{era}"


def _iso_us(text: str) -> int:
    """Return microseconds since 1970 of an ISO date, or date and time, in UTC."""
    found = _ISO.fullmatch(text)
    if found is None:
        raise ValueError(text)
    days = forms.days_of(int(found[1]), int(found[2]), int(found[3]))
    return days * forms.DAY_US + (forms.clock_us(found[4]) if found[4] else 0)


def _timestamp(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    unit = forms.unit_ns("timestamp", kind.precision, field, modes)

    def text(value: Any) -> str:
        if type(value) is str:
            return value if value in ("infinity", "-infinity") else _stamp(_iso_us(value))
        microseconds = forms.count_us(value, unit)
        return _INFINITY_MS.get(microseconds) or _stamp(microseconds)

    return text


def _timestamptz(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    def text(value: str) -> str:
        if len(value) > 19 and value[4] == "-" and value[19] in ".Z" and value[-1] == "Z" and value[:4] != "0000":
            clock = value[11:-1]
            return f"{value[:10]} {clock.rstrip('0').rstrip('.') if len(clock) > 8 else clock}+00"
        return value if value in ("infinity", "-infinity") else _stamp(_iso_us(value), "+00")

    return text


def _date(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    def text(value: Any) -> str:
        days = value if type(value) is int else _iso_us(value) // forms.DAY_US
        if days < _FIRST_DAY:
            return _INFINITE_DAYS[days]
        return "".join(_dated(days))

    return text


def _time(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    unit = forms.unit_ns("time", kind.precision, field, modes)

    def text(value: Any) -> str:
        microseconds = forms.clock_us(value) if type(value) is str else forms.count_us(value, unit)
        if type(value) is str and microseconds == 0:
            raise InexactValue(
                "has the value 00:00, which may be 24:00; set time.precision.mode=microseconds in the connector"
            )
        return f"{forms.clock_text(microseconds)}{_fraction(microseconds)}"

    return text


def _interval(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    def text(value: Any) -> str:
        if type(value) is not str:
            raise InexactValue("has months and days as a number of microseconds; set interval.handling.mode=string")
        found = _DURATION.fullmatch(value)
        if found is None:
            raise ValueError(value)
        months = int(found[1]) * 12 + int(found[2])
        seconds = Decimal(found[6]) * 1_000_000
        microseconds = (int(found[4]) * 60 + int(found[5])) * 60_000_000 + int(seconds)
        return _interval_text(months, int(found[3]), microseconds)

    return text


def _interval_text(months: int, days: int, microseconds: int) -> str:
    """Format like ``interval_out`` in the style ``postgres``: with a plus sign after a negative part."""
    years = abs(months) // 12 * (-1 if months < 0 else 1)
    parts: list[str] = []
    negative = False
    for number, unit in ((years, "year"), (months - years * 12, "mon"), (days, "day")):
        if number:
            plus = "+" if negative and number > 0 else ""
            parts.append(f"{plus}{number} {unit}{'' if number == 1 else 's'}")
            negative = number < 0
    if microseconds or not parts:
        sign = "-" if microseconds < 0 else "+" if negative else ""
        clock = abs(microseconds)
        parts.append(f"{sign}{forms.clock_text(clock)}{_fraction(clock)}")
    return " ".join(parts)


def _timetz(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    raise InexactValue("is a time with time zone, whose zone Debezium replaces by UTC; no setting keeps it")


def _zoned_range(kind: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:  # noqa: ARG001
    def text(value: str) -> str:
        if any(offset != "+00" for offset in _OFFSETS.findall(value)):
            raise InexactValue("has times in the connector's own time zone; run its JVM with -Duser.timezone=UTC")
        return value

    return text


# ── Arrays ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _array(element: ColumnType, field: FieldSchema | None, modes: Modes) -> Converter:
    items = (field or {}).get("items")
    convert = converter(element, items, modes)
    ambiguity = null_ambiguity(element, items, modes)

    def literal(values: Any) -> str:
        if type(values) is not list:
            raise ValueError(values)
        if values and all(v is None for v in values):
            raise InexactValue("has an array of NULLs only, as arrays of several dimensions look in the events")
        return "{" + ",".join([one(v) for v in values]) + "}"

    def one(value: Any) -> str:
        if value is None:
            if ambiguity is not None:
                raise InexactValue(ambiguity)
            return "NULL"
        text = convert(value)
        if not text or text.upper() == "NULL" or _ELEMENT_QUOTED.search(text):
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return text

    return literal


_MADE: dict[str, Callable[[ColumnType, FieldSchema | None, Modes], Converter]] = {
    "bool": _bool,
    "bpchar": _bpchar,
    "name": _name,
    "numeric": _numeric,
    "money": _money,
    "float4": _float4,
    "float8": _float8,
    "bytea": _bytea,
    "bit": _bit,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "date": _date,
    "time": _time,
    "timetz": _timetz,
    "interval": _interval,
    "tstzrange": _zoned_range,
    "tstzmultirange": _zoned_range,
}
