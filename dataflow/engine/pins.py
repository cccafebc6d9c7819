"""Pins: keys that somebody follows. They are filled, and filled again whenever correctness takes them.

Not here: pinned keys of refreshed views (`refreshed_views`), who fills again what was lost (`refills`).
"""

from collections.abc import Callable

from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.ranking import Ranking
from dataflow.engine.upquery import Demand, Want
from dataflow.types import Key, ViewId


class Pins:
    """Counts them, by leaf and key."""

    def __init__(self, graph: Graph, ranking: Ranking, attempt: Callable[[Demand], None]) -> None:
        self._graph = graph
        self._ranking = ranking
        self._attempt = attempt

    def pin(self, view: ViewId, key: Key) -> None:
        """Somebody follows a key."""
        leaf = self._graph.leaves.get(view)
        if leaf is not None and leaf.view.may_match(key):
            key = leaf.covering_key(key)
            leaf.pins[key] = leaf.pins.get(key, 0) + 1
            self._ranking.pinned(leaf, key)
            if leaf.ordered is None and not leaf.covered(leaf.coverage.columns, key):
                self._attempt(Demand([Want(leaf, key)]))

    def unpin(self, view: ViewId, key: Key) -> None:
        """Somebody does not any more."""
        leaf = self._graph.leaves.get(view)
        if leaf is not None and leaf.view.may_match(key):
            key = leaf.covering_key(key)
            left = leaf.pins.pop(key, 0) - 1
            if left > 0:
                leaf.pins[key] = left
            elif left == 0:
                self._ranking.unpinned(leaf, key)


def needed_keys(leaf: Leaf) -> list[Key]:
    """The keys that must be there: of a full view its only one; else the pinned ones, unless they are covered in part
    (who follows one of those reads what it wants of it)."""
    if leaf.full:
        return [()]
    return [] if leaf.ordered is not None else list(leaf.pins)
