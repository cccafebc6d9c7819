"""Engines that keep a stale answer of a refreshed view; see `table`."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from dataflow.engine.events import TableDelta
from dataflow.engine.invalidation import Invalidator
from dataflow.engine.refresh_leaf import Fetch, RefreshLeaf
from dataflow.engine.refreshed_views import RefreshedViews
from tests.simulation.mutants.propagation import replace_truncated


def stale_answer_kept() -> AbstractContextManager[Any]:
    """A change leaves the refreshed keys that it touches."""
    return patch.object(RefreshedViews, "invalidate", lambda *_: None)


def invalidating(keys: Callable[[Invalidator, TableDelta, Any], Any]) -> AbstractContextManager[Any]:
    """Another judgement of which keys a change of rows concerns."""
    return patch.object(Invalidator, "keys", lambda self, delta, among: keys(self, delta, among))


def only_the_new_row_is_filtered() -> AbstractContextManager[Any]:
    """An update counts only if the row passes the view's filter after it."""
    original = Invalidator.keys

    def keys(self: Invalidator, delta: TableDelta, among: Any) -> Any:
        passes = not delta.added or any(map(self._may_pass, delta.added))
        return original(self, delta, among) if passes else ()

    return invalidating(keys)


def only_the_new_row_has_a_key() -> AbstractContextManager[Any]:
    """An update concerns the keys that the row has after it."""
    original = Invalidator.keys

    def keys(self: Invalidator, delta: TableDelta, among: Any) -> Any:
        found = original(self, delta, among)
        if not delta.added or not self._key_columns:
            return found
        return [key for key in found if key in set(original(self, replace(delta, removed=[]), among))]

    return invalidating(keys)


def an_unread_column_too_many() -> AbstractContextManager[Any]:
    """A column that the view reads counts as one that it does not."""
    original = Invalidator._changed

    def changed(self: Invalidator, delta: TableDelta) -> Any:
        columns, self._columns = self._columns, self._columns[:-1]
        try:
            return original(self, delta)
        finally:
            self._columns = columns

    return patch.object(Invalidator, "_changed", changed)


def one_read_of_a_table() -> AbstractContextManager[Any]:
    """A view that reads a table twice is touched as it reads it the first time."""
    original = RefreshLeaf.invalidated

    def invalidated(self: RefreshLeaf, table: str, *arguments: Any) -> Any:
        self.invalidators = {name: reads[:1] for name, reads in self.invalidators.items()}
        return original(self, table, *arguments)

    return patch.object(RefreshLeaf, "invalidated", invalidated)


def unseen_transaction_of_a_refresh() -> AbstractContextManager[Any]:
    """Rows are stored although a transaction was applied that they do not see."""
    return patch.object(RefreshedViews, "_exact", lambda self, *_: self._context.applied)


def refresh_before_the_bound() -> AbstractContextManager[Any]:
    """Rows are stored although the stream has not brought all that they see."""
    done = RefreshedViews.refresh_done
    return patch.object(RefreshedViews, "refresh_done", lambda self, event: done(self, replace(event, bound=0)))


def refresh_the_ring_forgets() -> AbstractContextManager[Any]:
    """The ring lets go what a refresh under way may not see."""
    return patch.object(Fetch, "keeps_ring", False)


def truncate_touches_nothing() -> AbstractContextManager[Any]:
    """TRUNCATE touches refreshed keys only by the rows that came afterwards."""
    original = Invalidator.keys
    return invalidating(lambda invalidator, delta, among: original(invalidator, replace_truncated(delta), among))


def overflow_touches_nothing() -> AbstractContextManager[Any]:
    """A transaction that is too large to be carried touches no refreshed key."""
    original = Invalidator.keys
    return invalidating(lambda invalidator, delta, among: original(invalidator, replace(delta, overflow=False), among))
