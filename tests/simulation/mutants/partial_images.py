"""Engines that misread changes of which the stream carries a part; see `table`."""

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from dataflow.engine import loads
from dataflow.engine.invalidation import Invalidator
from dataflow.engine.leaf import Leaf
from dataflow.engine.partial_images import PartialImages
from dataflow.types import UNKNOWN, Row


def old_row_stays() -> AbstractContextManager[Any]:
    """Keys that an old row may be under are not evicted."""
    original = PartialImages._keys_under

    def mutant(self: PartialImages, node: Any, row: Row) -> Any:
        known = sum(value is not UNKNOWN for value in row)
        return () if known <= len(self.table.identity or ()) else original(self, node, row)

    return patch.object(PartialImages, "_keys_under", mutant)


def old_row_stays_in_its_store() -> AbstractContextManager[Any]:
    """An old row that a store has is not taken away."""
    original = PartialImages._apply

    def mutant(self: PartialImages, node: Any, before: Row, after: Row | None, found: Any) -> None:
        removed = len(found.delta[0])
        original(self, node, before, after, found)
        del found.delta[0][removed:]

    return patch.object(PartialImages, "_apply", mutant)


def identity_is_the_catalogs() -> AbstractContextManager[Any]:
    """Old rows have the columns of the catalog's identity, NULL if the stream does not state them, and no others."""
    original = PartialImages._apply

    def mutant(self: PartialImages, node: Any, before: Row | None, after: Row | None, found: Any) -> None:
        identity = self.table.identity
        if before is not None and identity:
            values = [None if value is UNKNOWN else value for value in before]
            before = tuple([value if column in identity else UNKNOWN for column, value in enumerate(values)])
        original(self, node, before, after, found)

    return patch.object(PartialImages, "_apply", mutant)


def omitted_values_are_null() -> AbstractContextManager[Any]:
    """Values that a new row shares with the old one become NULL."""

    def mutant(_self: Any, after: Row, _held: Row | None) -> Row:
        return tuple([None if value is UNKNOWN else value for value in after])

    return patch.object(PartialImages, "_completed", mutant)


def key_of_a_row_known_in_part_filled() -> AbstractContextManager[Any]:
    """A leaf's key is filled again without the row that is known in part."""
    original = PartialImages.change_of

    def mutant(self: PartialImages, node: Any, changes: Any, implied: Any = ()) -> Any:
        found = original(self, node, changes, implied)
        found.known |= found.unknown if isinstance(node, Leaf) else set()
        return found

    return patch.object(PartialImages, "change_of", mutant)


def unknown_rows_of_a_lookup_ignored() -> AbstractContextManager[Any]:
    """A lookup's keys are not looked up again for rows that are known in part."""
    original = PartialImages.redo

    def mutant(self: PartialImages, rows: list[Row], unseen: Any) -> Any:
        found = original(self, rows, unseen)
        found.unknown.clear()
        return found

    return patch.object(PartialImages, "redo", mutant)


def old_row_of_a_lookup_stays() -> AbstractContextManager[Any]:
    """A row that a lookup found, and that changed since, is not taken away."""
    return patch.object(PartialImages, "_image", lambda *_: None)


def old_row_of_a_load_stays() -> AbstractContextManager[Any]:
    """A load replays the new rows only."""

    def mutant(self: Any, delta: Any, changes: Any) -> Any:
        change = self.images.change_of(self.staged.twin, changes)
        return delta[0], delta[1] + change.delta[1]

    return patch.object(loads.Load, "_with_partial", mutant)


def stale_key_of_an_old_row() -> AbstractContextManager[Any]:
    """Keys of a refreshed view that an old row may be under are not stale."""

    def mutant(_: Invalidator, delta: Any) -> Any:
        return [after for _, after in delta.partial if after is not None]

    return patch.object(Invalidator, "_partly_changed", mutant)


def implied_rows_stay() -> AbstractContextManager[Any]:
    """Keys of rows that a foreign key may have changed are not evicted."""
    original = PartialImages.change_of

    def mutant(self: PartialImages, node: Any, changes: Any, _: Any = ()) -> Any:
        return original(self, node, changes)

    return patch.object(PartialImages, "change_of", mutant)


def implied_rows_before_only() -> AbstractContextManager[Any]:
    """Only the first row counts of those that foreign keys may have changed."""
    original = PartialImages.change_of

    def mutant(self: PartialImages, node: Any, changes: Any, implied: Any = ()) -> Any:
        return original(self, node, changes, implied[:1])

    return patch.object(PartialImages, "change_of", mutant)


def key_of_an_implied_row_filled() -> AbstractContextManager[Any]:
    """A leaf's key is filled again though a foreign key may have changed its row."""
    original = PartialImages.change_of

    def mutant(self: PartialImages, node: Any, changes: Any, implied: Any = ()) -> Any:
        found, known = original(self, node, changes, implied), original(self, node, changes)
        found.known = known.known
        return found

    return patch.object(PartialImages, "change_of", mutant)


def implied_rows_of_a_lookup_stay() -> AbstractContextManager[Any]:
    """A lookup's keys are not looked up again for rows that a foreign key may have changed."""
    return _without_implied(PartialImages, "redo", 1)


def implied_rows_of_a_load_stay() -> AbstractContextManager[Any]:
    """A load goes on."""
    return _without_implied(loads.Load, "note", 0)


def implied_rows_are_not_stale() -> AbstractContextManager[Any]:
    """Keys of a refreshed view that a foreign key may have changed are not stale."""
    original = Invalidator.keys

    def mutant(self: Invalidator, delta: Any, among: Any) -> Any:
        return original(self, replace(delta, implied=[]), among)

    return patch.object(Invalidator, "keys", mutant)


def _without_implied(of: type, name: str, position: int) -> AbstractContextManager[Any]:
    """A method that gets changes, as its argument at a position, without those of foreign keys."""
    original = getattr(of, name)

    def mutant(self: Any, *arguments: Any) -> Any:
        deltas = [replace(delta, implied=[]) for delta in arguments[position]]
        return original(self, *arguments[:position], deltas, *arguments[position + 1 :])

    return patch.object(of, name, mutant)
