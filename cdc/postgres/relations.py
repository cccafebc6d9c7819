"""Relation messages of pgoutput: a table's columns, types and replica identity, and how they differ from a layout.

PostgreSQL manual, "Logical Replication Message Formats".

Not here: rows (`pgoutput`).
"""

from dataclasses import dataclass
from struct import Struct

from cdc.change import FORMER_COLUMN, Partition, TableLayout
from cdc.postgres.names import qualified_name

_U32 = Struct("!I").unpack_from
_U16 = Struct("!H").unpack_from
_COLUMN_TYPE = Struct("!Ii").unpack_from
_PART_OF_KEY = 1
#: Values of ``pg_class.relreplident`` (PostgreSQL manual, 53.11); the remaining one is DEFAULT.
_FULL, _NOTHING, _INDEX = "fni"
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
    #: ``pg_class.relreplident``.
    identity_kind: str


def read_relation(data: bytes, at: int) -> Relation:
    oid = _U32(data, at)[0]
    schema, at = read_text(data, at + 4)
    table, at = read_text(data, at)
    kind = chr(data[at])
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
    return Relation(oid, name, None if kind == _FULL else tuple(identity), tuple(columns), tuple(types), kind)


def read_text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def misfit(relation: Relation, name: str, layout: TableLayout, partition: Partition | None = None) -> str | None:
    """Return the reason why the relation is not the layout's table, or its partition; None if it is."""
    if partition is None:
        if layout.table_id and relation.oid != layout.table_id:
            return f"{name} was dropped and created again."
        if relation.name != name:
            return f"{name} was renamed to {relation.name}."
    if relation.identity == ():
        found = relation.name
        return f"{identity_reason(found, relation.identity_kind)} Run: ALTER TABLE {found} REPLICA IDENTITY FULL;"
    return None


def changed_columns(relation: Relation, layout: TableLayout, partition: Partition | None = None) -> tuple[str, ...]:
    """Return columns of the layout that were dropped, have another type, or another order (they swapped names)."""
    at = {column: i for i, column in enumerate(relation.columns)}
    columns = layout.columns
    if partition is not None:
        known = set(columns)
        columns = tuple(column for column in partition.columns if column in known)
    elif layout.former is not None:
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


def identity_reason(table: str, kind: str, *, deferrable: bool | None = None) -> str:
    """Return the sentence for a table without a replica identity; `kind` is its ``pg_class.relreplident``.

    `deferrable`: whether it has a primary key, which is deferrable then; None if unknown.
    """
    if kind == _NOTHING:
        reason = f"The replica identity of {table} is NOTHING"
    elif kind == _INDEX:
        reason = f"The index of the replica identity of {table} was dropped or is not valid"
    elif deferrable:
        reason = f"The primary key of {table} is DEFERRABLE, which excludes it from being the replica identity"
    elif deferrable is None:
        reason = f"{table} has no primary key, or one that is DEFERRABLE, and no other replica identity"
    else:
        reason = f"{table} has no primary key and no other replica identity"
    return f"{reason}, so a publication would make its updates and deletes fail."
