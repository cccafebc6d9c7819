"""Engines whose operators compute another change of their rows; see `table`."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from dataflow.engine import leaf, upquery
from dataflow.engine.events import TableDelta, Transaction
from dataflow.engine.nodes import BlockNode, UnionNode
from dataflow.engine.propagation import Propagation
from dataflow.ops.block import BlockJoin
from dataflow.ops.groups import LargeGroup
from dataflow.ops.partitions import Partitioned


def new_state_on_all_sides() -> AbstractContextManager[Any]:
    """A block joins a change with the new state of every other input."""
    return patch.object(BlockJoin, "_old_state", lambda *_: None)


def rows_by_their_driver_alone() -> AbstractContextManager[Any]:
    """A block joins only the rows that belong to a covered key, also those of an input that does not say so."""

    def mutant(self: BlockNode, input_: int) -> Any:
        uses = [use for use in self.uses if use.route.driver == input_]
        return lambda combination: any(use.drives(combination) for use in uses)

    return patch.object(BlockNode, "_matters", mutant)


def truncate_ignored() -> AbstractContextManager[Any]:
    """TRUNCATE leaves the known rows."""
    apply = Propagation.apply_transactions

    def without(transaction: Transaction) -> Transaction:
        tables = {table: replace_truncated(delta) for table, delta in transaction.tables.items()}
        return Transaction(transaction.id, transaction.end, tables)

    def mutant(self: Any, transactions: list[Transaction], *joining: Any) -> None:
        apply(self, [without(t) for t in transactions], *joining)

    return patch.object(Propagation, "apply_transactions", mutant)


def replace_truncated(delta: TableDelta) -> TableDelta:
    """The delta without its TRUNCATE."""
    return TableDelta(delta.removed, delta.added, False, delta.overflow)


def overflow_ignored() -> AbstractContextManager[Any]:
    """A transaction that is too large to be carried leaves what it touched."""
    return patch.object(Propagation, "_forget_table", lambda *_: None)


def a_group_keeps_its_first_text() -> AbstractContextManager[Any]:
    """A group of 1.0 and 1.00 goes on as 1.0 when that row is gone."""
    return patch.object(LargeGroup, "count_text", lambda *_: None)


def rows_behind_an_interval_kept() -> AbstractContextManager[Any]:
    """A change goes to the leaf although it lies outside the intervals that are covered."""
    return patch.object(leaf, "_held", lambda _coverage, _key, change: change)


def padding_by_key() -> AbstractContextManager[Any]:
    """A left input is padded where nothing has the key, whatever the rest of its ON says."""

    def matching(self: Any, keeps: Any, rows: Any, now: Any) -> Any:
        gone, come = ([row for row in side if keeps(row)] for side in rows)
        return self._with_padding((gone, come), now) if gone or come else (gone, come)

    return patch.object(BlockJoin, "_matching", matching)


def equal_branches_count_once() -> AbstractContextManager[Any]:
    """A union's input that is there twice changes the union once."""
    original = UnionNode.delta

    def delta(self: Any, deltas: Any) -> Any:
        once = UnionNode(self.id, self.relation, list(dict.fromkeys(self.inputs)))
        return original(once, deltas)

    return patch.object(UnionNode, "delta", delta)


def rows_of_other_keys() -> AbstractContextManager[Any]:
    """Rows of a part of a key are taken for those of the whole key."""
    return patch.object(upquery, "_filtered", lambda _use, _key, rows: rows)


def partition_of_what_is_known() -> AbstractContextManager[Any]:
    """A row of a partition that nobody covers makes one of the rows that come by."""
    known = Partitioned._known_partition

    def mutant(self: Any, key: Any, row: Any) -> Any:
        return known(self, key, row) or self.partitions.setdefault(key, self._new())

    return patch.object(Partitioned, "_known_partition", mutant)
