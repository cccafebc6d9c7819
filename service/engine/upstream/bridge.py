"""Conversion of the change stream's types to the engine's; the only module that imports both `cdc` and `dataflow`.

Not here: reading the stream (`service.engine.session.stream`), rows (the same tuples on both sides, so nothing is done
per row).
"""

from typing import cast

from cdc.change import CommittedTransaction, TableChange
from cdc.stream import UpstreamSnapshot
from dataflow.engine.events import TableDelta, Transaction
from dataflow.types import Snapshot, TransactionId


def transactions(changes: list[CommittedTransaction]) -> list[Transaction]:
    """Returns the engine's form of a batch of committed transactions."""
    return [
        Transaction(TransactionId(change.id), change.end, {table: _delta(tc) for table, tc in change.tables.items()})
        for change in changes
    ]


def _delta(change: TableChange) -> TableDelta:
    return TableDelta(change.removed, change.added, change.truncated, change.overflow, change.partial, change.implied)


def snapshot(taken: UpstreamSnapshot) -> Snapshot:
    """Returns the engine's view of a snapshot.

    `cdc` and `dataflow` each declare the protocol, since neither may import the other. The cast is needed because the
    engine compares snapshots of one upstream only, which its protocol cannot express.
    """
    return cast(Snapshot, taken)


def rows_in(changes: list[CommittedTransaction]) -> int:
    """Returns the number of rows in a batch of transactions."""
    return sum(
        len(tc.removed) + len(tc.added) + len(tc.partial) + len(tc.implied)
        for change in changes
        for tc in change.tables.values()
    )
