"""Decoding of the binary log's values into canonical texts (`values`). Pure.

MySQL source documentation, "Rows_event"; the formats are those of the storage engines' interface. The library's
decoder is not used: it loses zero dates, labels of unknown sets, fractions of negative times and bytes of some
character sets, and takes three times as long.

*Invariant*: a `Column` consumes exactly the bytes of one value.

Not here: NULLs and rows (`rows`), values of lookups (`values`).
"""

from collections.abc import Callable
from datetime import date, timedelta
from functools import lru_cache
from struct import Struct
from zlib import decompress

from cdc.column_type import ColumnType
from cdc.mysql import table_map as wire
from cdc.mysql.addresses import inet4_text, inet6_text, uuid_text
from cdc.mysql.charsets import decoder
from cdc.mysql.decimals import Column, decimal_reader
from cdc.mysql.json_binary import json_text
from cdc.mysql.table_map import Field
from cdc.mysql.values import BYTES, float4_text, float8_text

_INTEGERS = {wire.TINY: 1, wire.SHORT: 2, wire.INT24: 3, wire.LONG: 4, wire.LONGLONG: 8}
#: Formats by width, signed and unsigned; three bytes have none.
_FORMATS = {1: "<bB", 2: "<hH", 4: "<iI", 8: "<qQ"}
_FLOAT4 = Struct("<f").unpack_from
_FLOAT8 = Struct("<d").unpack_from
_U32_BIG = Struct(">I").unpack_from

_EPOCH = date(1970, 1, 1)
_ZERO_TIMESTAMP = "0000-00-00 00:00:00"


def column_reader(field: Field, kind: ColumnType) -> Column | None:
    """Return the reader of values of type `kind` that are stored as `field`; None if unsupported."""
    code = field.type
    if code in _INTEGERS:
        return _integer(_INTEGERS[code], kind.unsigned)
    if code in _PLAIN:
        return _PLAIN[code]
    if code in _TIMES:
        return _TIMES[code](field.size)
    if code in _OLD_TIMES:
        return None if kind.precision else _OLD_TIMES[code]
    if code == wire.NEWDECIMAL:
        return decimal_reader(field.precision, field.scale)
    if code == wire.BIT:
        return _big_integer((field.size + 7) // 8)
    if code == wire.ENUM:
        return _enum(field.size, kind.labels)
    if code == wire.SET:
        return _set(field.size, kind.labels)
    if code == wire.JSON:
        return _converted(field.size, json_text)
    return _bytes(field, kind)


def column_skipper(field: Field) -> Column | None:
    """Return a reader that skips values."""
    return column_reader(field, ColumnType("varbinary"))


# ── Numbers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _integer(width: int, unsigned: bool) -> Column:
    if width not in _FORMATS:
        return lambda data, at: (str(int.from_bytes(data[at : at + 3], "little", signed=not unsigned)), at + 3)
    unpack = Struct("<" + _FORMATS[width][1 + unsigned]).unpack_from
    return lambda data, at: (str(unpack(data, at)[0]), at + width)


def _big_integer(width: int) -> Column:
    return lambda data, at: (str(int.from_bytes(data[at : at + width], "big")), at + width)


def _float4(data: bytes, at: int) -> tuple[str, int]:
    return float4_text(_FLOAT4(data, at)[0]), at + 4


def _float8(data: bytes, at: int) -> tuple[str, int]:
    return float8_text(_FLOAT8(data, at)[0]), at + 8


def _year(data: bytes, at: int) -> tuple[str, int]:
    return str(data[at] + 1900) if data[at] else "0", at + 1


# ── Dates and times ──────────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=100_000)
def _day(days: int) -> str:
    return (_EPOCH + timedelta(days)).isoformat()


def _timestamp(digits: int) -> Column:
    width = 4 + (digits + 1) // 2
    fraction = _fraction(digits)

    def read(data: bytes, at: int) -> tuple[str, int]:
        value = _U32_BIG(data, at)[0]
        end = at + width
        text = _seconds_text(value) + fraction(int.from_bytes(data[at + 4 : end], "big"))
        return text, end

    return read


def _seconds_text(value: int) -> str:
    if not value:
        return _ZERO_TIMESTAMP
    days, seconds = divmod(value, 86_400)
    minutes, seconds = divmod(seconds, 60)
    return f"{_day(days)} {minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def _fraction(digits: int) -> Callable[[int], str]:
    """Return the text of a fraction: one byte has hundredths, two have ten-thousandths, three millionths."""
    if not digits:
        return lambda _: ""
    if digits % 2:
        return lambda value: f".{value // 10:0{digits}d}"
    return lambda value: f".{value:0{digits}d}"


def _datetime(digits: int) -> Column:
    """Read a sign, 17 bits of months (13 a year), 5 of days, 5, 6 and 6 of the time, and the fraction; big endian."""
    width = 5 + (digits + 1) // 2
    fraction = _fraction(digits)

    def read(data: bytes, at: int) -> tuple[str, int]:
        value = int.from_bytes(data[at : at + 5], "big")
        end = at + width
        year, month = divmod((value >> 22) & 0x1FFFF, 13)
        text = f"{year:04}-{month:02}-{value >> 17 & 31:02} {value >> 12 & 31:02}:{value >> 6 & 63:02}:{value & 63:02}"
        return (text + fraction(int.from_bytes(data[at + 5 : end], "big")) if digits else text), end

    return read


def _time(digits: int) -> Column:
    """Read 10 bits of hours, 6 of minutes, 6 of seconds, and the fraction: one number with an offset as its zero."""
    width = 3 + (digits + 1) // 2
    bits = 8 * (width - 3)
    zero, mask = 0x800000 << bits, (1 << bits) - 1
    fraction = _fraction(digits)

    def read(data: bytes, at: int) -> tuple[str, int]:
        end = at + width
        value = int.from_bytes(data[at:end], "big") - zero
        minus = "-" if value < 0 else ""
        value = abs(value)
        clock = value >> bits
        text = f"{minus}{clock >> 12 & 0x3FF:02}:{clock >> 6 & 63:02}:{clock & 63:02}"
        return text + fraction(value & mask), end

    return read


def _date(data: bytes, at: int) -> tuple[str, int]:
    value = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    return f"{value >> 9:04}-{value >> 5 & 15:02}-{value & 31:02}", at + 3


def _old_time(data: bytes, at: int) -> tuple[str, int]:
    value = int.from_bytes(data[at : at + 3], "little", signed=True)
    minus = "-" if value < 0 else ""
    value = abs(value)
    return f"{minus}{value // 10_000:02}:{value // 100 % 100:02}:{value % 100:02}", at + 3


def _old_datetime(data: bytes, at: int) -> tuple[str, int]:
    digits = f"{int.from_bytes(data[at : at + 8], 'little'):014}"
    day, clock = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}", f"{digits[8:10]}:{digits[10:12]}:{digits[12:]}"
    return f"{day} {clock}", at + 8


def _old_timestamp(data: bytes, at: int) -> tuple[str, int]:
    return _seconds_text(int.from_bytes(data[at : at + 4], "little")), at + 4


_PLAIN: dict[int, Column] = {
    wire.FLOAT: _float4,
    wire.DOUBLE: _float8,
    wire.YEAR: _year,
    wire.DATE: _date,
    wire.NEWDATE: _date,
}
_TIMES = {wire.TIMESTAMP2: _timestamp, wire.DATETIME2: _datetime, wire.TIME2: _time}
#: Formats before MySQL 5.6, and with ``mysql56_temporal_format = OFF``. With a fraction their length is unknown.
_OLD_TIMES: dict[int, Column] = {
    wire.TIMESTAMP: _old_timestamp,
    wire.DATETIME: _old_datetime,
    wire.TIME: _old_time,
}

# ── Labels ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _enum(width: int, labels: tuple[str, ...]) -> Column:
    texts = ("", *labels)
    return lambda data, at: (_label(texts, int.from_bytes(data[at : at + width], "little")), at + width)


def _label(texts: tuple[str, ...], number: int) -> str:
    return texts[number] if number < len(texts) else ""


def _set(width: int, labels: tuple[str, ...]) -> Column:
    # The cache holds about 64 kB for each column: fewer texts if labels are long.
    @lru_cache(maxsize=max(1 << 16, sum(map(len, labels))) // max(1, sum(map(len, labels))))
    def text(bits: int) -> str:
        return ",".join(label for i, label in enumerate(labels) if bits >> i & 1)

    return lambda data, at: (text(int.from_bytes(data[at : at + width], "little")), at + width)


# ── Bytes and texts ──────────────────────────────────────────────────────────────────────────────────────────────────


def _bytes(field: Field, kind: ColumnType) -> Column | None:
    code = field.type
    if code in (wire.STRING, wire.VAR_STRING, wire.VARCHAR):
        width = 1 if field.size < 256 else 2
    elif code in (wire.BLOB, wire.GEOMETRY, wire.VECTOR):
        width = field.size
    elif code in (wire.BLOB_COMPRESSED, wire.VARCHAR_COMPRESSED):
        width = field.size if code == wire.BLOB_COMPRESSED else 1 if field.size < 256 else 2
        plain = _converter(kind)
        return None if plain is None else _converted(width, lambda data: plain(_uncompressed(data)))
    else:
        return None
    if kind.charset in ("utf8mb4", "utf8mb3", "utf8", "ascii") and kind.name not in BYTES:
        return _utf8(width)
    convert = _converter(kind)
    return None if convert is None else _converted(width, convert)


def _utf8(width: int) -> Column:
    if width == 1:

        def read_short(data: bytes, at: int) -> tuple[str, int]:
            at += 1
            end = at + data[at - 1]
            return str(data[at:end], "utf-8", "replace"), end

        return read_short

    def read(data: bytes, at: int) -> tuple[str, int]:
        start = at + width
        end = start + int.from_bytes(data[at:start], "little")
        return str(data[start:end], "utf-8", "replace"), end

    return read


def _converted(width: int, convert: Callable[[bytes], str]) -> Column:
    def read(data: bytes, at: int) -> tuple[str, int]:
        start = at + width
        end = start + int.from_bytes(data[at:start], "little")
        return convert(data[start:end]), end

    return read


def _converter(kind: ColumnType) -> Callable[[bytes], str] | None:
    """Return the conversion of bytes to text. Values of fixed length are stored without trailing zero bytes."""
    if kind.name == "binary":
        size = kind.length
        return lambda data: f"\\x{data.ljust(size, bytes(1)).hex()}"
    if kind.name == "uuid":
        return lambda data: uuid_text(data.ljust(16, bytes(1)))
    if kind.name == "inet6":
        return lambda data: inet6_text(data.ljust(16, bytes(1)))
    if kind.name == "inet4":
        return lambda data: inet4_text(data.ljust(4, bytes(1)))
    if kind.charset:
        return decoder(kind.charset)
    return lambda data: f"\\x{data.hex()}"


def _uncompressed(data: bytes) -> bytes:
    """Decompress a COMPRESSED column of MariaDB: a byte (method, width of the size), the size, zlib's bytes."""
    if not data or not data[0]:
        return data[1:]
    return decompress(data[1 + (data[0] & 7) :], wbits=-15 if data[0] & 8 else 15)
