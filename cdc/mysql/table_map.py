"""TABLE_MAP events: the table and the columns of the rows that follow. Pure.

MySQL source documentation, "Table_map_event". Names, signs, labels and character sets are present only with
``binlog_row_metadata`` FULL (MySQL's MINIMAL has signs and character sets, MariaDB's NO_LOG none of them).

*Invariant*: `columns` has each column of the rows, in their order; the other tuples have the same length or are empty.

Not here: comparison with a layout (`compatibility`), decoding (`rows`).
"""

from dataclasses import dataclass

from cdc.mysql.events import packed_number

# Types of fields.
TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
)
NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 14, 15, 16, 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR, JSON, NEWDECIMAL, ENUM, SET = 140, 141, 242, 245, 246, 247, 248
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = 249, 250, 251, 252, 253, 254, 255

_META_BYTES = {
    FLOAT: 1,
    DOUBLE: 1,
    TIMESTAMP2: 1,
    DATETIME2: 1,
    TIME2: 1,
    BLOB: 1,
    BLOB_COMPRESSED: 1,
    GEOMETRY: 1,
    JSON: 1,
    VECTOR: 1,
    TINY_BLOB: 1,
    MEDIUM_BLOB: 1,
    LONG_BLOB: 1,
    VARCHAR: 2,
    VARCHAR_COMPRESSED: 2,
    BIT: 2,
    NEWDECIMAL: 2,
    STRING: 2,
    VAR_STRING: 2,
    ENUM: 2,
    SET: 2,
}
_NUMERIC = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL, YEAR})
_TEXTS = frozenset({VARCHAR, STRING, VAR_STRING, BLOB, BLOB_COMPRESSED, VARCHAR_COMPRESSED})

_SIGNS, _DEFAULT_CHARSET, _CHARSETS, _NAMES = 1, 2, 3, 4
_LABELS = {5: SET, 6: ENUM}


@dataclass(frozen=True, slots=True)
class Field:
    """Storage format of one column's values."""

    #: The type; the actual one of enums and sets, which are stored as strings.
    type: int
    #: Maximum bytes (string, varchar, enum, set), bytes of the length (blob, json, geometry), bits, or digits (times).
    size: int = 0
    #: Digits of a decimal, and digits behind its point.
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class TableMap:
    """Content of one TABLE_MAP event."""

    database: str
    table: str
    columns: tuple[Field, ...]
    names: tuple[str, ...] = ()
    unsigned: tuple[bool, ...] = ()
    #: Ids of collations, 0 for columns without one.
    collations: tuple[int, ...] = ()
    #: Labels of enums and sets, in the column's character set.
    labels: tuple[tuple[bytes, ...], ...] = ()


def read_table_name(data: bytes, at: int) -> tuple[str, str, int]:
    """Read database and table of a TABLE_MAP event; return them and the offset of its columns."""
    at += 8
    end = at + 1 + data[at]
    database = data[at + 1 : end].decode()
    at = end + 1
    end = at + 1 + data[at]
    return database, data[at + 1 : end].decode(), end + 1


def read_table_map(data: bytes, at: int, end: int) -> TableMap:
    """Read a TABLE_MAP event."""
    database, table, at = read_table_name(data, at)
    count, at = packed_number(data, at)
    types = data[at : at + count]
    meta_bytes, at = packed_number(data, at + count)
    fields: list[Field] = []
    meta_at = at
    for kind in types:
        size = _META_BYTES.get(kind, 0)
        fields.append(_field(kind, data[meta_at : meta_at + size]))
        meta_at += size
    at += meta_bytes + (count + 7) // 8
    return _with_metadata(TableMap(database, table, tuple(fields)), data, at, end)


def _field(kind: int, meta: bytes) -> Field:
    if kind == STRING:
        return _string_field(meta)
    if kind == NEWDECIMAL:
        return Field(kind, precision=meta[0], scale=meta[1])
    if kind == BIT:
        return Field(kind, 8 * meta[1] + meta[0])
    return Field(kind, int.from_bytes(meta, "little"))


def _string_field(meta: bytes) -> Field:
    """Read a string's metadata: the first byte has the actual type, and two inverted bits of a long length."""
    if meta[0] & 0x30 == 0x30:
        return Field(meta[0], meta[1])
    return Field(meta[0] | 0x30, meta[1] | (((meta[0] & 0x30) ^ 0x30) << 4))


def _with_metadata(plain: TableMap, data: bytes, at: int, end: int) -> TableMap:
    names: tuple[str, ...] = ()
    unsigned: tuple[bool, ...] = ()
    labels: dict[int, list[tuple[bytes, ...]]] = {}
    collations: tuple[int, ...] = ()
    while at < end:
        kind = data[at]
        size, at = packed_number(data, at + 1)
        if kind == _SIGNS:
            unsigned = _signs(plain.columns, data[at : at + size])
        elif kind == _NAMES:
            names = tuple(name.decode() for name in _strings(data, at, at + size))
        elif kind in (_DEFAULT_CHARSET, _CHARSETS):
            collations = _collations(plain.columns, kind, _numbers(data, at, at + size))
        elif kind in _LABELS:
            labels[_LABELS[kind]] = _label_lists(data, at, at + size)
        at += size
    listed = {kind: iter(lists) for kind, lists in labels.items()}
    by_column = tuple(next(listed[f.type], ()) if f.type in listed else () for f in plain.columns) if labels else ()
    return TableMap(plain.database, plain.table, plain.columns, names, unsigned, collations, by_column)


def _signs(fields: tuple[Field, ...], bits: bytes) -> tuple[bool, ...]:
    """Read one bit for each numeric column, the highest first."""
    unsigned = []
    i = 0
    for field in fields:
        numeric = field.type in _NUMERIC
        unsigned.append(numeric and bool(bits[i // 8] & (0x80 >> i % 8)))
        i += numeric
    return tuple(unsigned)


def _collations(fields: tuple[Field, ...], kind: int, numbers: list[int]) -> tuple[int, ...]:
    """Read collations: one for each text column, or a default and exceptions. MariaDB counts geometries as texts."""
    texts = [i for i, field in enumerate(fields) if field.type in _TEXTS]
    found = [0] * len(fields)
    if kind == _CHARSETS:
        if len(numbers) != len(texts):
            texts = [i for i, field in enumerate(fields) if field.type in _TEXTS or field.type == GEOMETRY]
        for i, number in zip(texts, numbers, strict=False):
            found[i] = number
        return tuple(found)
    if any(field.type == GEOMETRY for field in fields):
        return ()  # The numbering depends on the server.
    exceptions = dict(zip(numbers[1::2], numbers[2::2], strict=True))
    for ordinal, i in enumerate(texts):
        found[i] = exceptions.get(ordinal, numbers[0])
    return tuple(found)


def _numbers(data: bytes, at: int, end: int) -> list[int]:
    numbers = []
    while at < end:
        number, at = packed_number(data, at)
        numbers.append(number)
    return numbers


def _strings(data: bytes, at: int, end: int) -> list[bytes]:
    strings = []
    while at < end:
        size, at = packed_number(data, at)
        strings.append(data[at : at + size])
        at += size
    return strings


def _label_lists(data: bytes, at: int, end: int) -> list[tuple[bytes, ...]]:
    lists = []
    while at < end:
        count, at = packed_number(data, at)
        labels = []
        for _ in range(count):
            size, at = packed_number(data, at)
            labels.append(data[at : at + size])
            at += size
        lists.append(tuple(labels))
    return lists
