"""Text of MySQL's binary JSON, as the server prints it. Pure.

MySQL source documentation, "JSON binary format" (``json_binary.h``). MariaDB's JSON is text. Doubles are printed by
Python, which may use an exponent where the server does not; their texts are not compared.

*Invariant*: keys are in the document's order; a truncated document raises IndexError or struct.error.

Not here: partial updates of documents (`assembler` handles them as incomplete rows).
"""

from base64 import b64encode
from struct import Struct

from cdc.mysql import table_map as wire
from cdc.mysql.decimals import decimal_reader

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = 5, 6, 7, 8, 9, 10, 11, 12, 15
_NUMBERS = {
    _INT16: Struct("<h"),
    _UINT16: Struct("<H"),
    _INT32: Struct("<i"),
    _UINT32: Struct("<I"),
    _INT64: Struct("<q"),
    _UINT64: Struct("<Q"),
}
_LITERALS = ("null", "true", "false")
#: Types that are stored in the entry itself; in large documents also 32-bit numbers.
_INLINE = frozenset({_LITERAL, _INT16, _UINT16})
_INLINE_LARGE = _INLINE | {_INT32, _UINT32}

_ESCAPES = str.maketrans(
    {
        **{chr(i): f"\\u{i:04x}" for i in range(0x20)},
        '"': '\\"',
        "\\": "\\\\",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
    }
)


def json_text(data: bytes) -> str:
    """Return a document's text. (An empty document, as stored by older servers, is null.)"""
    return _value(data[0], data, 1) if data else "null"


def _value(kind: int, data: bytes, at: int) -> str:
    if kind <= _LARGE_ARRAY:
        return _container(kind, data, at)
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if kind in _NUMBERS:
        return str(_NUMBERS[kind].unpack_from(data, at)[0])
    if kind == _DOUBLE:
        return repr(Struct("<d").unpack_from(data, at)[0]).replace("e+", "e")
    if kind == _STRING:
        size, at = _size(data, at)
        return _quoted(data[at : at + size].decode("utf-8", "replace"))
    if kind == _OPAQUE:
        size, start = _size(data, at + 1)
        return _opaque(data[at], data[start : start + size])
    raise IndexError(f"a JSON document has a value of the unknown type {kind}")


def _container(kind: int, data: bytes, start: int) -> str:
    """Read the number of elements, size, keys (offset, length), values (type and offset, or the value itself)."""
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    width = 4 if large else 2
    count = int.from_bytes(data[start : start + width], "little")
    at = start + 2 * width
    keys = []
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        for _ in range(count):
            key = start + int.from_bytes(data[at : at + width], "little")
            size = int.from_bytes(data[at + width : at + width + 2], "little")
            keys.append(_quoted(data[key : key + size].decode("utf-8", "replace")))
            at += width + 2
    texts = []
    inline = _INLINE_LARGE if large else _INLINE
    for _ in range(count):
        element = data[at]
        place = at + 1 if element in inline else start + int.from_bytes(data[at + 1 : at + 1 + width], "little")
        texts.append(_value(element, data, place))
        at += 1 + width
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        return "{" + ", ".join(f"{key}: {text}" for key, text in zip(keys, texts, strict=True)) + "}"
    return f"[{', '.join(texts)}]"


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Read a size of seven bits in each byte, the lowest first; the eighth bit marks a continuation."""
    size = shift = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return size, at


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _opaque(kind: int, data: bytes) -> str:
    if kind == wire.NEWDECIMAL:
        return decimal_reader(data[0], data[1])(data, 2)[0]
    if kind in (wire.TIME, wire.TIME2):
        value = int.from_bytes(data, "little", signed=True)
        minus, value = "-" if value < 0 else "", abs(value)
        return f'"{minus}{value >> 36 & 0x3FF:02}:{value >> 30 & 63:02}:{value >> 24 & 63:02}.{value & 0xFFFFFF:06}"'
    if kind in (wire.DATE, wire.DATETIME, wire.DATETIME2, wire.TIMESTAMP, wire.TIMESTAMP2):
        return f'"{_datetime(int.from_bytes(data, "little"), kind == wire.DATE)}"'
    return f'"base64:type{kind}:{b64encode(data).decode()}"'


def _datetime(value: int, only_date: bool) -> str:
    clock = value >> 24
    year, month = divmod(clock >> 22, 13)
    day = f"{year:04}-{month:02}-{clock >> 17 & 31:02}"
    if only_date:
        return day
    return f"{day} {clock >> 12 & 31:02}:{clock >> 6 & 63:02}:{clock & 63:02}.{value & 0xFFFFFF:06}"
