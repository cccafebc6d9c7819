"""What plans rely on of a table beside its columns' names: types, NOT NULL and keys.

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
    if not _keys(taken) <= _keys(found):
        yield SchemaNotice(taken.name, f"{taken.name} lost a unique key.")


def _keys(table: Table) -> set[tuple[str, ...]]:
    """Keys, by the names of their columns."""
    return {tuple(table.columns[i].name for i in key) for key in table.keys}
