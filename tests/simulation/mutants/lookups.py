"""Engines that use rows of a lookup, or of a forwarded read, too early or as they came; see `table`."""

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from dataflow.engine import demands, ring
from dataflow.engine.events import LookupDone
from dataflow.engine.flights import LookupQuery
from dataflow.engine.installation import Installation
from dataflow.engine.lookup_results import LookupResults
from dataflow.engine.nodes import InnerNode
from dataflow.engine.outstanding import Outstanding
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.upquery import Demand, Upqueries
from dataflow.engine.walks import Walk
from dataflow.state.intervals import Cover
from dataflow.types import Columns, Delta, Key, Row
from tests.simulation.mutants.propagation import replace_truncated
from tests.simulation.ordered import RowOrder


def no_redo() -> AbstractContextManager[Any]:
    """A lookup's rows are installed as its snapshot saw them."""
    original = Installation.install
    return patch.object(Installation, "install", lambda self, sent, result, _: original(self, sent, result, []))


def install_before_the_bound() -> AbstractContextManager[Any]:
    """A result is installed although the stream has not brought all that it sees."""
    return patch.object(LookupQuery, "is_due", lambda query, _: query.answer is not None)


def one_snapshot_for_a_round() -> AbstractContextManager[Any]:
    """Results that come together are taken for rows of the first one's snapshot."""
    original = LookupResults.lookups_done

    def mutant(self: LookupResults, results: Sequence[LookupDone]) -> None:
        first = results[0]
        original(self, [replace(result, snapshot=first.snapshot, bound=first.bound) for result in results])

    return patch.object(LookupResults, "lookups_done", mutant)


def more_keys_than_a_semijoin_found() -> AbstractContextManager[Any]:
    """Keys that a semijoin did not find are taken for keys without rows."""
    original = Upqueries.missing

    def mutant(self: Upqueries, node: InnerNode, columns: Columns, keys: Sequence[Key]) -> list[Key]:
        more = [(value,) for value in "123"] if len(columns) == 1 else []
        return original(self, node, columns, [*keys, *more])

    return patch.object(Upqueries, "missing", mutant)


def walks_go_on_after_changes() -> AbstractContextManager[Any]:
    """A route goes on from rows that were known before its inputs changed."""
    return patch.object(Walk, "is_current", True)


def walks_go_on_without_lost_keys() -> AbstractContextManager[Any]:
    """A route goes on though a key that it has read is a hole again."""

    def mutant(self: InnerNode, cover: Cover, key: Key) -> None:
        self._forget(cover, key)

    return patch.object(InnerNode, "forget", mutant)


def ring_trimmed_too_early() -> AbstractContextManager[Any]:
    """A snapshot trims the ring although a lookup in flight may be older."""
    return patch.object(ring, "may_trim_by", lambda *_: True)


def truncate_marker_ignored() -> AbstractContextManager[Any]:
    """A lookup that did not see a TRUNCATE is installed all the same."""
    unseen = Installation.unseen
    return patch.object(Installation, "unseen", lambda *arguments: [replace_truncated(d) for d in unseen(*arguments)])


def a_later_transaction_ignored_in_a_forwarded_read() -> AbstractContextManager[Any]:
    """A forwarded read is said to be exact where the engine is."""
    exact = ring.Ring.exact_position

    def mutant(self: Any, tables: Any, snapshot: Any, applied: int, *concerns: Any) -> Any:
        return exact(self, tables, snapshot, applied, *concerns) if concerns else applied

    return patch.object(ring.Ring, "exact_position", mutant)


def start_snapshot_ignored() -> AbstractContextManager[Any]:
    """A lookup is installed that misses a commit from before the stream."""
    return patch.object(PublicationBarrier, "covers_start", lambda *_: True)


def publication_barrier_ignored() -> AbstractContextManager[Any]:
    """A lookup of a table that has just joined the publication is installed at once."""
    admits = Outstanding.admits

    def mutant(self: Any, query: Any, snapshot: Any) -> bool:
        lookup = isinstance(query, LookupQuery)
        return self._barrier.covers_start(snapshot) if lookup else admits(self, query, snapshot)

    return patch.object(Outstanding, "admits", mutant)


def forwarded_while_a_table_joins() -> AbstractContextManager[Any]:
    """A forwarded read is answered although it misses what was open when a table joined; lookups wait."""
    admits = Outstanding.admits

    def mutant(self: Any, query: Any, snapshot: Any) -> bool:
        if isinstance(query, LookupQuery):
            return admits(self, query, snapshot)
        barrier: PublicationBarrier = self._barrier
        return barrier.sees_enough(snapshot, query.tables - barrier.joining.keys())

    return patch.object(Outstanding, "admits", mutant)


def refreshed_while_a_table_joins() -> AbstractContextManager[Any]:
    """Refreshed views read a table that is joining."""
    return forwarded_while_a_table_joins()


def nth_row_taken_after_redo() -> AbstractContextManager[Any]:
    """A part is covered as far as its rows go once they are current, not as far as the lookup saw."""
    original = Installation._install_part

    def mutant(self: Any, node: Any, sent: Any, part: Any, rows: list[Row], redo: list[Delta]) -> None:
        bag = Counter(rows)
        for removed, added in redo:
            bag.subtract(removed)
            bag.update(added)
        original(self, node, sent, part, sorted(bag.elements(), key=RowOrder(part.order, node.types).key), [])

    return patch.object(Installation, "_install_part", mutant)


def answers_from_before_the_question() -> AbstractContextManager[Any]:
    """A read gets rows that are exact only before what was applied when it was asked."""
    return patch.object(demands, "Demand", lambda wants, read=None, _=0: Demand(wants, read, 0))
