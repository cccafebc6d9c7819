"""Canonical texts of MariaDB's and MySQL's values, the same for lookups and the binary log.

Each column type has a reader of the text protocol of lookups (`lookup_reader`) and one of the binary log
(`column_values.column_reader`); for one stored value both give the same text:

- integers, year, bit: digits without leading zeros (ZEROFILL pads the text of lookups, not the stored value);
- decimals: as many digits behind the point as the type has;
- float and double: the shortest text that reads back as the same number of that width;
- bytes: ``\\x`` and hexadecimal digits; binary(n) has all its n bytes;
- enum: the label, "" for the value of a failed conversion; set: labels in the order of the definition;
- dates and times: as the server prints them, with as many digits of the fraction as the type has, timestamps in UTC.

*Invariant*: sessions of lookups have UTF-8 (``SET NAMES utf8mb4``) and UTC, and read a float column as
``CAST(… AS DOUBLE)`` (the server shows six digits of it, which do not read back) and a bit column as ``… + 0``.

Not here: equality and order of texts (`dataflow.types`), Debezium's formats (`cdc.debezium`).
"""

import struct
from collections.abc import Callable

from cdc.column_type import ColumnType
from cdc.mysql.charsets import decoder

INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"})
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
TIMES = frozenset({"date", "datetime", "timestamp", "time"})
#: Types whose text by the server is canonical.
_PLAIN = TEXTS | TIMES | {"enum", "set", "json", "uuid", "inet4", "inet6"}
#: The smallest normal single-precision number; below it numbers have fewer digits.
_NORMAL_FLOAT4 = 2.0**-126
_FLOAT4 = struct.Struct("<f")

Reader = Callable[[bytes | str], str]


def lookup_reader(kind: ColumnType) -> Reader:
    """Return the conversion of the text protocol's value (bytes, or decoded UTF-8; not NULL) to the canonical text."""
    if kind.name in INTEGERS:
        return _integer
    if kind.name == "decimal":
        return _decimal
    if kind.name == "float":
        return lambda value: float4_text(float(value))
    if kind.name == "double":
        return lambda value: float8_text(float(value))
    return _text if kind.name in _PLAIN else hex_text


def undecodable(kind: ColumnType) -> str | None:
    """Return the reason why the stream's text of a column could differ from a lookup's; None if it cannot."""
    if kind.name in TEXTS | {"enum", "set"} and kind.charset and decoder(kind.charset) is None:
        return f"its character set {kind.charset} is not supported; convert the column to utf8mb4"
    return None


def float8_text(value: float) -> str:
    """Return the shortest text that reads back as this double-precision number."""
    return repr(value).removesuffix(".0")


def float4_text(value: float) -> str:
    """Return the shortest text that reads back as the single-precision number nearest to `value`."""
    single: float = _FLOAT4.unpack(_FLOAT4.pack(value))[0]
    for digits in range(6 if abs(single) >= _NORMAL_FLOAT4 else 1, 9):
        short = float(f"{single:.{digits}g}")
        if _same_float4(short, single):
            return float8_text(short)
    return float8_text(float(f"{single:.9g}"))


def _same_float4(value: float, single: float) -> bool:
    try:
        return bool(_FLOAT4.unpack(_FLOAT4.pack(value))[0] == single)
    except OverflowError:  # Rounded up beyond the largest number.
        return False


def hex_text(value: bytes | str) -> str:
    """Return the canonical text of bytes."""
    return f"\\x{(value.encode() if isinstance(value, str) else value).hex()}"


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else str(value, "utf-8", "replace")


def _integer(value: bytes | str) -> str:
    text = _text(value)
    return text if text[0] != "0" else text.lstrip("0") or "0"


def _decimal(value: bytes | str) -> str:
    text = _text(value)
    if text[0] != "0":
        return text
    digits = text.lstrip("0")
    return digits if digits and digits[0] != "." else f"0{digits}"
