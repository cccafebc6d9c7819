"""Compatibility of table maps with layouts. Pure.

*Invariant*: values of a compatible column have the same text as in lookups. Properties that the log lacks (names,
signs, character sets and labels without full metadata) are assumed to be those of the layout.

Not here: effects of statements on tables (`statements`).
"""

from collections.abc import Mapping

from cdc.change import TableLayout
from cdc.column_type import ColumnType
from cdc.mysql import table_map as wire
from cdc.mysql.charsets import decoder
from cdc.mysql.table_map import Field, TableMap

#: Types of fields that store a column's type.
_STORED_AS: dict[str, frozenset[int]] = {
    "tinyint": frozenset({wire.TINY}),
    "smallint": frozenset({wire.SHORT}),
    "mediumint": frozenset({wire.INT24}),
    "int": frozenset({wire.LONG}),
    "bigint": frozenset({wire.LONGLONG}),
    "year": frozenset({wire.YEAR}),
    "float": frozenset({wire.FLOAT}),
    "double": frozenset({wire.DOUBLE}),
    "decimal": frozenset({wire.NEWDECIMAL}),
    "bit": frozenset({wire.BIT}),
    "char": frozenset({wire.STRING}),
    "binary": frozenset({wire.STRING}),
    "varchar": frozenset({wire.VARCHAR, wire.VAR_STRING, wire.VARCHAR_COMPRESSED}),
    "varbinary": frozenset({wire.VARCHAR, wire.VAR_STRING, wire.VARCHAR_COMPRESSED}),
    "enum": frozenset({wire.ENUM}),
    "set": frozenset({wire.SET}),
    "date": frozenset({wire.DATE, wire.NEWDATE}),
    "time": frozenset({wire.TIME, wire.TIME2}),
    "datetime": frozenset({wire.DATETIME, wire.DATETIME2}),
    "timestamp": frozenset({wire.TIMESTAMP, wire.TIMESTAMP2}),
    "json": frozenset({wire.JSON, wire.BLOB, wire.BLOB_COMPRESSED}),
    "uuid": frozenset({wire.STRING}),
    "inet4": frozenset({wire.STRING}),
    "inet6": frozenset({wire.STRING}),
}
_BLOBS = frozenset({wire.BLOB, wire.BLOB_COMPRESSED})
_LENGTH_BYTES = {"tiny": 1, "": 2, "medium": 3, "long": 4}
_STORED_SIZE = {"uuid": 16, "inet6": 16, "inet4": 4}
_NEW_TIMES = frozenset({wire.TIME2, wire.DATETIME2, wire.TIMESTAMP2})


def order_of(layout: TableLayout, table: TableMap) -> list[int | None]:
    """Return, for each column of the layout, its index in rows; None if it was dropped.

    Without names the number of columns decides: new columns can only be at the end, since statements that move columns
    are handled separately (`statements`).
    """
    if table.names:
        at = {name.lower(): i for i, name in enumerate(table.names)}
        return [at.get(column.lower()) for column in layout.columns]
    return [i if i < len(table.columns) else None for i in range(len(layout.columns))]


def changed_columns(
    layout: TableLayout, table: TableMap, order: list[int | None], charsets: Mapping[int, str]
) -> tuple[str, ...]:
    """Return columns that were dropped, have another type, or another order (they may have swapped names)."""
    there = [i for i in order if i is not None]
    if there != sorted(there):
        return layout.columns
    return tuple(
        column
        for column, kind, i in zip(layout.columns, layout.column_types, order, strict=True)
        if i is None or not _fits(kind, table, i, charsets)
    )


def _fits(kind: ColumnType, table: TableMap, i: int, charsets: Mapping[int, str]) -> bool:
    return (
        _is_stored_as(kind, table.columns[i])
        and (not table.unsigned or kind.name in ("bit", "year") or table.unsigned[i] == kind.unsigned)
        and (not table.collations or _is_in(kind, charsets.get(table.collations[i], "")))
        and (not table.labels or _has_labels(kind, table.labels[i]))
    )


def _is_stored_as(kind: ColumnType, field: Field) -> bool:
    name = kind.name
    if name.endswith(("blob", "text")):
        return field.type in _BLOBS and field.size == _LENGTH_BYTES.get(name[:-4], 0)
    if name not in _STORED_AS:
        return True
    if field.type not in _STORED_AS[name]:
        return False
    if name == "decimal":
        return (field.precision, field.scale) == (kind.precision, kind.scale)
    if name in ("bit", "binary"):
        return field.size == kind.length
    if name in _STORED_SIZE:
        return field.size == _STORED_SIZE[name]
    return field.type not in _NEW_TIMES or field.size == kind.precision


def _is_in(kind: ColumnType, charset: str) -> bool:
    """Return whether the log's character set is the column's; unknown ones pass. (Bytes have `binary`.)"""
    if not charset or not kind.charset or kind.name == "json":
        return True
    return charset == kind.charset or {charset, kind.charset} <= {"utf8", "utf8mb3"}


def _has_labels(kind: ColumnType, labels: tuple[bytes, ...]) -> bool:
    decode = decoder(kind.charset or "utf8mb4")
    return not labels or decode is None or kind.labels == tuple(map(decode, labels))
