"""Constraints that plans assume beside a table's column names: types, NOT NULL and keys.

Not here: the layout of rows that the stream decodes (checked by each database).
"""

from collections.abc import Iterator
from dataclasses import replace

from cdc.change import SchemaNotice
from dataflow.schema import SqlType, Table

#: Types of PostgreSQL that differ in nothing but their names.
_STRINGS = frozenset(("text", "varchar"))


def broken(taken: Table, found: Table) -> Iterator[SchemaNotice]:
    """Yields the constraints of `taken` that `found` violates, for columns of the same name."""
    now = {column.name: column for column in found.columns}
    changed = tuple(
        column.name
        for column in taken.columns
        if column.name in now
        and (not _same(column.type, now[column.name].type) or (column.not_null and not now[column.name].not_null))
    )
    if changed:
        reason = (
            f"Columns of {taken.name} have changed their type, labels or NOT NULL constraint: {', '.join(changed)}."
        )
        yield SchemaNotice(taken.name, reason, changed)
    if _identity(taken) != _identity(found):
        yield SchemaNotice(taken.name, f"Table {taken.name} has another replica identity.")
    if not _keys(taken) <= _keys(found):
        yield SchemaNotice(taken.name, f"Table {taken.name} lost a unique key.")


def _identity(table: Table) -> set[str] | None:
    """Columns of the replica identity by name; None if old rows are whole."""
    return None if table.identity is None else {table.columns[i].name for i in table.identity}


def is_looser(taken: Table, found: Table) -> bool:
    """True if `found` differs from `taken` in nothing but NOT NULL, which columns have lost."""
    return (
        [(column.name, column.type) for column in taken.columns]
        == [(column.name, column.type) for column in found.columns]
        and taken.columns != found.columns
        and _identity(taken) == _identity(found)
        and _keys(taken) <= _keys(found)
    )


def _same(one: SqlType, other: SqlType) -> bool:
    """True if values of both types are the same texts, and compare alike."""
    if {one.name, other.name} <= _STRINGS:
        return replace(one, name=other.name, sql=other.sql) == other
    return one == other


def _keys(table: Table) -> set[tuple[str, ...]]:
    """Keys by the names of their columns."""
    return {tuple(table.columns[i].name for i in key) for key in table.keys}
