"""Answers of MariaDB and MySQL as the rows of the engine: each value as the stream has it (`cdc.mysql.values`).

*Invariant*: a column's text is the stream's, whether the type is known from a plan (`lookup_rows`) or only from what
the server says of the answer (`answer_rows`): then single-precision numbers have the six digits that the server shows.

Not here: packets (`packets`), the columns' SQL types (`describe`).
"""

from collections.abc import Callable, Sequence

from cdc.column_type import ColumnType
from cdc.mysql.values import hex_text, lookup_reader
from dataflow.schema import SqlType
from dataflow.types import Row
from service.engine.databases.mysql.packets import Cell, ColumnInfo, ServerReply
from service.engine.upstream.results import AnswerColumn

_Reader = Callable[[bytes | str], str]

#: What the protocol calls types.
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
#: Kinds of answers, as far as what shows them can tell them apart; text and bytes are the others.
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
    """The rows of a lookup, whose columns have these types; without any, the server has one column all the same."""
    if not types:
        return [()] * len(reply.rows)
    readers = [_lookup_reader(info, found) for info, found in zip(reply.columns, types, strict=True)]
    return _read(reply.rows, readers)


def answer_rows(reply: ServerReply) -> list[Row]:
    """The rows of any query."""
    return _read(reply.rows, [_answer_reader(info) for info in reply.columns])


def answer_columns(columns: Sequence[ColumnInfo]) -> tuple[AnswerColumn, ...]:
    """Names of an answer's columns, and numbers of what they are, which may not change while a view is kept."""
    return tuple((column.name, _class(column)) for column in columns)


def _class(column: ColumnInfo) -> int:
    return _CLASSES.get(column.kind) or (_BYTES_CLASS if column.is_bytes else _TEXT_CLASS)


def _read(rows: list[tuple[Cell, ...]], readers: Sequence[_Reader | None]) -> list[Row]:
    """None is for columns whose text needs no reading."""
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
        # A column's are bytes, an expression's digits.
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
