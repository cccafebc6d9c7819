"""Relation messages of pgoutput: a table's columns, types and replica identity, and how they differ from a layout.

PostgreSQL manual, "Logical Replication Message Formats".

Not here: rows (`pgoutput`).
"""

from dataclasses import dataclass
from struct import Struct

from cdc.change import FORMER_COLUMN, TableLayout
from cdc.postgres.names import qualified_name

_U32 = Struct("!I").unpack_from
_U16 = Struct("!H").unpack_from
_COLUMN_TYPE = Struct("!Ii").unpack_from
_FULL, _PART_OF_KEY = ord("f"), 1
#: OIDs of text and varchar, whose values print and compare alike.
_STRINGS = frozenset((25, 1043))


@dataclass(frozen=True, slots=True)
class Relation:
    """Content of a Relation message."""

    oid: int
    name: str
    #: Columns of the replica identity; None if old rows are sent whole.
    identity: tuple[int, ...] | None
    columns: tuple[str, ...]
    types: tuple[tuple[int, int], ...]


def read_relation(data: bytes, at: int) -> Relation:
    oid = _U32(data, at)[0]
    schema, at = read_text(data, at + 4)
    table, at = read_text(data, at)
    full = data[at] == _FULL
    count = _U16(data, at + 1)[0]
    at += 3
    columns: list[str] = []
    types: list[tuple[int, int]] = []
    identity: list[int] = []
    for i in range(count):
        if data[at] & _PART_OF_KEY:
            identity.append(i)
        column, at = read_text(data, at + 1)
        columns.append(column)
        types.append(_COLUMN_TYPE(data, at))
        at += 8
    name = qualified_name(schema or "pg_catalog", table)
    return Relation(oid, name, None if full else tuple(identity), tuple(columns), tuple(types))


def read_text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def misfit(relation: Relation, name: str, layout: TableLayout) -> str | None:
    """Return the reason why the relation is not the layout's table; None if it is."""
    if layout.table_id and relation.oid != layout.table_id:
        return f"{name} was dropped and created again."
    if relation.name != name:
        return f"{name} was renamed to {relation.name}."
    if relation.identity == ():
        return identity_reason(name)
    return None


def changed_columns(relation: Relation, layout: TableLayout) -> tuple[str, ...]:
    """Return columns of the layout that were dropped, have another type, or another order (they swapped names)."""
    at = {column: i for i, column in enumerate(relation.columns)}
    columns = layout.columns
    if layout.former is not None:
        columns = tuple(column for _, column in sorted(zip(layout.column_ids, columns, strict=True)))
    there = [at[column] for column in columns if column in at]
    if there != sorted(there):
        return layout.columns
    types = layout.type_ids
    return tuple(
        column
        for i, column in enumerate(layout.columns)
        if not column.startswith(FORMER_COLUMN)
        and (column not in at or (types and not same_type(types[i], relation.types[at[column]])))
    )


def same_type(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether values of two types (OID and modifier) are the same texts: equal types, or text and varchar."""
    return one == other or (one[0] in _STRINGS and other[0] in _STRINGS)


def identity_reason(table: str) -> str:
    """Return the sentence, with the remedy, for a table without a replica identity."""
    return (
        f"{table} has no primary key and no other replica identity, so a publication would make its updates and "
        f"deletes fail. Run: ALTER TABLE {table} REPLICA IDENTITY FULL;"
    )
