"""The only module that knows both `cdc` and `dataflow`: the stream's words become the engine's.

Not here: reading the stream (`service.engine.session.stream`), rows themselves (they are the same tuples on both sides,
and nothing is done per row).
"""

from typing import cast

from cdc.change import CommittedTransaction, TableChange
from cdc.stream import UpstreamSnapshot
from dataflow.engine.events import TableDelta, Transaction
from dataflow.types import Snapshot, TransactionId


def transactions(changes: list[CommittedTransaction]) -> list[Transaction]:
    """The engine's form of a batch of the stream's transactions."""
    return [
        Transaction(TransactionId(change.id), change.end, {table: _delta(tc) for table, tc in change.tables.items()})
        for change in changes
    ]


def _delta(change: TableChange) -> TableDelta:
    return TableDelta(change.removed, change.added, change.truncated, change.overflow)


def snapshot(taken: UpstreamSnapshot) -> Snapshot:
    """The engine's view of a snapshot: it compares snapshots of one upstream only, which the protocol cannot say."""
    return cast(Snapshot, taken)


def rows_in(changes: list[CommittedTransaction]) -> int:
    """How many rows a batch of transactions carries."""
    return sum(len(tc.removed) + len(tc.added) for change in changes for tc in change.tables.values())
