"""Refills: lost keys that are filled again before a reader asks, because they must be covered or are hot.

Pinned keys and full views are owed: they are tried until they are there (but for keys that are covered in part: who
follows one reads what it wants of it). A hot key, one that was read since it was filled, that correctness took (an
added row met a hole, an expression failed) is wanted again in the same step, before the next reader misses it; a
bounded number at a time, each given up if it fails. What else its route read is still covered: a new row with a hole
behind it takes one lookup of one key, for all views together. Of a key that was covered in part, its first interval
comes back.

Not here: which keys are hot (`ranking`), refreshed views, which fetch by themselves (`refreshed_views`).
"""

from collections.abc import Callable

from dataflow.engine.context import Context
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.upquery import Demand, Upqueries, Want
from dataflow.plan.parts import WHOLE
from dataflow.types import Key


class Refills:
    """Collects what a step has lost."""

    def __init__(
        self,
        context: Context,
        upqueries: Upqueries,
        graph: Graph,
        attempt: Callable[[Demand], None],
    ) -> None:
        self._limits = context.limits
        self._counters = context.counters
        self._upqueries = upqueries
        self._graph = graph
        self._attempt = attempt
        self._owed: dict[tuple[Leaf, Key], None] = {}
        self._hot: dict[tuple[Leaf, Key], Want] = {}

    def owe(self, leaf: Leaf, key: Key) -> None:
        """A pinned key, or a full view, was lost."""
        self._owed[leaf, key] = None

    def lost_hot(self, leaf: Leaf, key: Key) -> None:
        """A hot key is about to be lost; it is still covered."""
        first = leaf.coverage.covered(key)[0]
        self._hot[leaf, key] = Want(leaf, key, None if first == WHOLE else first)

    def attempt_refills(self, lost_to_correctness: bool) -> None:
        """Attempts the keys again that this step has evicted and that must be covered, or are hot."""
        while owed := self._take_owed():
            for demand in owed:
                self._attempt_one(demand, "refill")
        if not lost_to_correctness:
            self.forget_hot()
        for demand in self._take_hot():
            self._attempt_one(demand, "hot_refill")

    def _attempt_one(self, demand: Demand, counter: str) -> None:
        (want,) = demand.wants
        if self._graph.leaves.get(want.leaf.view_id) is want.leaf and not want.leaf.stopped:
            self._counters[counter] += 1
            self._attempt(demand)

    def _take_owed(self) -> list[Demand]:
        """Demands for the keys that must be covered."""
        owed, self._owed = self._owed, {}
        return [Demand([Want(leaf, key)]) for leaf, key in owed]

    def _take_hot(self) -> list[Demand]:
        """Demands for hot keys, as many as there is room for."""
        if not self._hot:
            return []
        hot, self._hot = list(self._hot.values()), {}
        room = self._limits.hot_refills - sum(demand.hot for demand in self._upqueries.demands)
        return [Demand([want], hot=True) for want in hot[: max(0, room)]]

    def forget(self, leaf: Leaf, key: Key) -> None:
        """A key is better not filled again."""
        self._hot.pop((leaf, key), None)

    def forget_hot(self) -> None:
        """Drops the hot keys, which were not lost to correctness: they stay holes until somebody reads them."""
        self._hot.clear()
