"""Engines that take a snapshot to be sure of what it saw; see `table`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from cdc.mysql.bracket import BracketSnapshot
from dataflow.engine import ring, uncertain_visibility
from dataflow.engine.installation import redo_deltas
from dataflow.engine.uncertain_visibility import UncertainVisibility, Verdict
from dataflow.types import Delta, Row


def judging(verdict: Callable[..., Verdict]) -> AbstractContextManager[Any]:
    """Another judgement of rows whose snapshot is unsure."""
    judge = UncertainVisibility.judge

    def mutant(self: Any, sent: Any, result: Any, unseen: Any) -> Verdict:
        exact = result.snapshot.exact
        return judge(self, sent, result, unseen) if exact else verdict(self, sent, result.snapshot, unseen)

    return patch.object(UncertainVisibility, "judge", mutant)


def unsure_taken_as_seen() -> AbstractContextManager[Any]:
    """Transactions that a lookup may have seen are not added to its rows."""

    def verdict(self: Any, sent: Any, snapshot: Any, _: Any) -> Verdict:
        chain = sent.chain
        entries = [
            t for t in self._ring._entries if not snapshot.sees(t.id, t.end) and not snapshot.unsure(t.id, t.end)
        ]
        return Verdict(redo_deltas(sent, [t.tables[chain.table] for t in entries if chain.table in t.tables]))

    return judging(verdict)


def unsure_taken_as_unseen() -> AbstractContextManager[Any]:
    """Transactions that a lookup may have seen are added to its rows."""
    return judging(lambda _, sent, __, unseen: Verdict(redo_deltas(sent, unseen)))


def unsure_truncate_ignored() -> AbstractContextManager[Any]:
    """Rows are brought up to date although a TRUNCATE, or more than the stream carries, may be missing."""
    return patch.object(uncertain_visibility, "_hides_rows", lambda _: False)


def unsure_ones_only() -> AbstractContextManager[Any]:
    """Rows are replaced by their last images in transactions that are not seen for sure, whatever came after these."""
    return patch.object(ring.Ring, "since_unseen", ring.Ring.unseen)


def rows_that_an_unsure_one_removed_stay() -> AbstractContextManager[Any]:
    """Rows are replaced by their last images only where they have some."""
    original = uncertain_visibility.last_images

    def images(rows: list[Row], deltas: list[Delta], unique: Any) -> Delta:
        removed, added = original(rows, deltas, unique)
        left = {tuple(row[c] for c in unique) for row in added}
        return [row for row in removed if tuple(row[c] for c in unique) in left], added

    return patch.object(uncertain_visibility, "last_images", images)


def trimmed_though_unsure() -> AbstractContextManager[Any]:
    """The ring lets go what a snapshot may have seen."""
    trim = ring.Ring.trim

    def mutant(self: Any, oldest_issue: int | None) -> int:
        with patch.object(BracketSnapshot, "sees", lambda snapshot, _, end: end <= snapshot.position):
            return trim(self, oldest_issue)

    return patch.object(ring.Ring, "trim", mutant)


def unsure_crosses_nothing() -> AbstractContextManager[Any]:
    """Whole-view rows are said to be exact where what they may have seen counts as seen."""
    exact = ring.Ring.exact_position

    def mutant(self: Any, *arguments: Any) -> Any:
        with (
            patch.object(BracketSnapshot, "sees", lambda snapshot, _, end: end <= snapshot.position),
            patch.object(BracketSnapshot, "unsure", lambda *_: False),
        ):
            return exact(self, *arguments)

    return patch.object(ring.Ring, "exact_position", mutant)


def start_covered_by_what_is_executed() -> AbstractContextManager[Any]:
    """A lookup is installed that may miss a commit from before the stream."""
    return patch.object(BracketSnapshot, "covers", lambda snapshot, other: other.seen <= snapshot.seen)
