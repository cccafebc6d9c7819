"""Foreign keys that act on changes of the rows they reference, which the stream does not carry (InnoDB's).

The stream says which rows may have changed, as far as that follows from the change that it carries: the referenced
values are known of a row that a statement changed; of one that a key changed, that key's columns.
"""

from typing import TYPE_CHECKING

from dataflow.engine.events import TableDelta
from dataflow.schema import Table
from dataflow.types import UNKNOWN, Columns, Row, Value
from tests.simulation.schema import ForeignKey

if TYPE_CHECKING:
    from tests.simulation.world import OpenTransaction, World


def sets_null(child: Table, key: ForeignKey) -> bool:
    """Return whether the key's columns become NULL when the referenced row goes; else their row goes, too."""
    return all(column % 2 and not child.columns[column].not_null for column in key.columns)


def act(
    world: "World",
    transaction: "OpenTransaction",
    parent: Table,
    row: Row,
    new: Row | None,
    known: Columns | None = None,
) -> None:
    """Change the rows that reference a row which was updated, or deleted. `known`: its known columns; None: all."""
    while children := world.children(parent, row):
        child, version, key = children[0]
        world.require_own(transaction, version)
        pairs = list(zip(key.columns, key.parent_columns, strict=True))
        told = [(column, source) for column, source in pairs if known is None or source in known]
        imply(world, transaction, child, {column: row[source] for column, source in told})
        if new is None and not sets_null(child, key):
            world.remove(transaction, child, version)
            act(world, transaction, child, version.row, None, tuple(column for column, _ in told))
            continue
        values = {column: None if new is None else new[source] for column, source in pairs}
        imply(world, transaction, child, values)
        world.replace(transaction, child, version, tuple([values.get(i, v) for i, v in enumerate(version.row)]))


def imply(world: "World", transaction: "OpenTransaction", table: Table, values: dict[int, Value]) -> None:
    """Note rows that the stream does not carry and that have these values."""
    if not world.streams(table.name):
        transaction.missed = True
        return
    delta = transaction.stream.setdefault(table.name, TableDelta())
    delta.implied.append(tuple([values.get(i, UNKNOWN) for i in range(len(table.columns))]))


def carried(delta: TableDelta) -> TableDelta:
    """A transaction's change as the stream carries it: rows that may have changed have no place beside a TRUNCATE."""
    return TableDelta(overflow=True) if delta.truncated and delta.implied else delta
