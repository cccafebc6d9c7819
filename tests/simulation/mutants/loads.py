"""Engines that lose a change while they load or derive; see `table`."""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from cdc.mysql.position import BinlogSnapshot
from dataflow.engine.derivations import BlockSupply, Derivations, UnionSupply
from dataflow.engine.events import TableDelta
from dataflow.engine.flights import Flights
from dataflow.engine.loads import Load, Loads
from dataflow.engine.redo_log import MemoryLog
from dataflow.engine.staging import StagedLeaf
from tests.simulation.visibility import SimulatedSnapshot


def no_redo_for_loads() -> AbstractContextManager[Any]:
    """A load's rows are installed as its snapshot saw them."""
    return patch.object(MemoryLog, "append", lambda *_: None)


def load_without_the_rings_part() -> AbstractContextManager[Any]:
    """A load's log begins with what is applied after the load began."""
    begin = Loads.begin_load

    def mutant(self: Any, sent: Any, event: Any, unseen: list[TableDelta]) -> bool:
        return begin(self, sent, event, [delta for delta in unseen if delta.truncated or delta.overflow])

    return patch.object(Loads, "begin_load", mutant)


def seen_logged_too() -> AbstractContextManager[Any]:
    """A load's log has what is applied after it began although its snapshot saw it."""
    applied = Loads.log_transactions

    def mutant(self: Any, transactions: Any) -> Any:
        sees = patch.object(SimulatedSnapshot, "sees", lambda *_: False)
        with sees, patch.object(BinlogSnapshot, "sees", lambda *_: False):
            return applied(self, transactions)

    return patch.object(Loads, "log_transactions", mutant)


def truncate_ignored_while_loading() -> AbstractContextManager[Any]:
    """A load goes on although its table was emptied, or changed in ways that the stream does not carry."""
    note = Load.note

    def mutant(self: Load, deltas: Any) -> bool:
        return note(self, [replace(delta, truncated=False, overflow=False) for delta in deltas])

    return patch.object(Load, "note", mutant)


def load_before_the_bound() -> AbstractContextManager[Any]:
    """A load's rows are installed although the stream has not brought all that they have."""
    return patch.object(Load, "is_ready", lambda self, _: self.complete)


def load_that_goes_on_with_a_new_stream() -> AbstractContextManager[Any]:
    """Slices from before continuity was lost are installed after it."""
    every = Flights.every
    return patch.object(Flights, "every", lambda self: [s for s in every(self) if s.id not in self.loading])


def half_a_view_is_left() -> AbstractContextManager[Any]:
    """Rows of a view stay in the leaf store after its load failed."""
    return patch.object(StagedLeaf, "abandon", lambda _: None)


def pending_rows_count() -> AbstractContextManager[Any]:
    """A change counts for what is being derived, whether or not its driving row was derived yet."""
    return patch.object(BlockSupply, "counts", lambda *_: True)


def pending_rows_of_a_union_count() -> AbstractContextManager[Any]:
    """Pending rows of a union count."""
    return patch.object(UnionSupply, "changed", lambda _self, rows, _pending: list(rows))


def gone_but_pending() -> AbstractContextManager[Any]:
    """A driving row that goes stays pending."""
    return patch.object(BlockSupply, "forget", lambda *_: None)


def derived_from_what_was_lost() -> AbstractContextManager[Any]:
    """A derivation continues although an input was evicted."""
    return patch.object(Derivations, "lost", lambda *_: None)
