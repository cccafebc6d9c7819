"""Conversion of MariaDB and MySQL results to the engine's rows, with values in the stream's form (`cdc.mysql.values`).

*Invariant*: a column has the stream's text whether its type is known from a plan (`lookup_rows`) or only from the
result's metadata (`answer_rows`), except that single-precision numbers then have the six digits that the server prints.

Not here: packets (`packets`), SQL types of columns (`describe`).
"""

from collections.abc import Callable, Sequence

from cdc.column_type import ColumnType
from cdc.mysql.values import hex_text, lookup_reader
from dataflow.schema import SqlType
from dataflow.types import Row
from service.engine.databases.mysql.packets import Cell, ColumnInfo, ServerReply
from service.engine.upstream.results import AnswerColumn

_Reader = Callable[[bytes | str], str]

#: Type codes of the protocol.
TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR, BIT, JSON, DECIMAL = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    16,
    245,
    246,
)
#: Kinds of result columns with a text form of their own; others are text and bytes.
_CLASSES = {
    **dict.fromkeys((TINY, SHORT, LONG, LONGLONG, INT24, YEAR), 1),
    BIT: 2,
    0: 3,
    DECIMAL: 3,
    FLOAT: 4,
    DOUBLE: 5,
    DATE: 6,
    14: 6,
    DATETIME: 7,
    TIMESTAMP: 7,
    TIME: 8,
    JSON: 9,
}
_TEXT_CLASS, _BYTES_CLASS = 10, 11
_ZEROFILL, _BINARY = 64, 128

_integer, _decimal, _float4, _float8 = (
    lookup_reader(ColumnType(name)) for name in ("int", "decimal", "float", "double")
)


def lookup_rows(reply: ServerReply, types: Sequence[SqlType]) -> list[Row]:
    """Converts the rows of a lookup, whose columns have these types. A lookup without columns still gets one from the
    server."""
    if not types:
        return [()] * len(reply.rows)
    readers = [_lookup_reader(info, found) for info, found in zip(reply.columns, types, strict=True)]
    return _read(reply.rows, readers)


def answer_rows(reply: ServerReply) -> list[Row]:
    """Converts the rows of any query."""
    return _read(reply.rows, [_answer_reader(info) for info in reply.columns])


def answer_columns(columns: Sequence[ColumnInfo]) -> tuple[AnswerColumn, ...]:
    """Returns the result's column names and type numbers, which must not change while a view is installed."""
    return tuple((column.name, _class(column)) for column in columns)


def _class(column: ColumnInfo) -> int:
    return _CLASSES.get(column.kind) or (_BYTES_CLASS if column.is_bytes else _TEXT_CLASS)


def _read(rows: list[tuple[Cell, ...]], readers: Sequence[_Reader | None]) -> list[Row]:
    """Applies the readers; None marks columns whose text needs no conversion."""
    wanted = [(i, reader) for i, reader in enumerate(readers) if reader is not None]
    if not wanted:
        return rows  # type: ignore[return-value]
    found: list[Row] = []
    for row in rows:
        values = list(row)
        for i, reader in wanted:
            value = values[i]
            if value is not None:
                values[i] = reader(value)
        found.append(tuple(values))  # type: ignore[arg-type]
    return found


def _lookup_reader(info: ColumnInfo, sql_type: SqlType) -> _Reader | None:
    if sql_type.name == "float4":
        return _float4
    if sql_type.is_boolean:
        return _truth
    return _answer_reader(info)


def _answer_reader(info: ColumnInfo) -> _Reader | None:
    if info.kind == DOUBLE:
        return _float8
    if info.kind == FLOAT:
        return _float4
    if info.kind == BIT:
        # Table columns return bytes, expressions return digits.
        return _digits if info.flags & _BINARY else _bits
    if info.kind == YEAR or info.flags & _ZEROFILL:
        return _decimal if info.kind in (0, DECIMAL) else _integer
    return hex_text if info.is_bytes else None


def _bits(value: bytes | str) -> str:
    return str(int.from_bytes(value if isinstance(value, bytes) else value.encode(), "big"))


def _digits(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode()


def _truth(value: bytes | str) -> str:
    return "f" if value in ("0", b"0") else "t"
