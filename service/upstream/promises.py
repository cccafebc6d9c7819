"""What plans rely on of a table beside its columns' names: types, NOT NULL, keys and foreign keys.

Not here: whether its rows are still laid out as the stream decodes them (each database's own check).
"""

from collections.abc import Iterator

from cdc.change import SchemaNotice
from dataflow.schema import Table


def broken(taken: Table, found: Table) -> Iterator[SchemaNotice]:
    """What `taken` promises and `found` does not, as far as columns of the same name are concerned."""
    now = {column.name: column for column in found.columns}
    changed = tuple(
        column.name
        for column in taken.columns
        if column.name in now
        and (column.type != now[column.name].type or (column.not_null and not now[column.name].not_null))
    )
    if changed:
        reason = f"Columns of {taken.name} have another type, other labels or may be NULL now: {', '.join(changed)}."
        yield SchemaNotice(taken.name, reason, changed)
    if not _promises(taken) <= _promises(found):
        yield SchemaNotice(taken.name, f"{taken.name} lost a unique key or a foreign key.")


def _promises(table: Table) -> set[tuple[object, ...]]:
    """Keys and foreign keys, by the names of their columns. (The parent's are ordinals, of whatever it is like.)"""

    def names(ordinals: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(table.columns[i].name for i in ordinals)

    keys = {("key", *names(key)) for key in table.keys}
    return keys | {("foreign key", names(f.columns), f.parent, len(f.parent_columns)) for f in table.foreign_keys}
