"""Eviction when memory is short: keys of views that the policy names, with the inner keys that only they needed; and
keys that have outgrown their view's limits.

An inner key goes only when nothing covered depends on it, since readers never touch it and its eviction would take all
that does. That is asked when a leaf key that read it goes; and because keys are also left behind by others (correctness
took what needed them, a row that led to them went, a reader left), a pass goes round all inner keys, a few at each
eviction.

*Maintains*: pinned keys, full views and what a waiting read has fetched stay; a step forgets a bounded number of keys
and bytes.

Not here: when memory is short (`service.engine.loop.memory_budget`), which key is first (`ranking`).
"""

from collections.abc import Iterator

from dataflow.engine.context import Context
from dataflow.engine.evictions import Evictions, Target, direct_reads, inner_keys
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import Stored
from dataflow.engine.ranking import KEY_BYTES, Ranking
from dataflow.engine.refreshed_views import RefreshedViews
from dataflow.engine.upquery import Upqueries
from dataflow.state.intervals import Cover
from dataflow.types import Key, ViewId


class Budget:
    """Evicts keys by the policy."""

    def __init__(
        self,
        context: Context,
        graph: Graph,
        ranking: Ranking,
        evictions: Evictions,
        upqueries: Upqueries,
        refreshes: RefreshedViews,
    ) -> None:
        self._limits = context.limits
        self._counters = context.counters
        self._graph = graph
        self._ranking = ranking
        self._evictions = evictions
        self._upqueries = upqueries
        self._refreshes = refreshes
        #: The pass round the inner keys, and how many of them it has forgotten.
        self._pass: Iterator[Target] | None = None
        self._pass_forgot = 0
        #: Bytes that this step has forgotten.
        self._forgotten = 0
        #: Whether the last eviction found no key to choose and a whole pass nothing that was left behind.
        self.exhausted = False

    def evict_some(self, keys: int) -> None:
        """Forgets at most so many leaf keys; then looks at as many inner ones."""
        self._forgotten = 0
        self.exhausted = False
        chosen = 0
        while chosen < keys and self._may_go_on():
            victim = self._ranking.victim()
            if victim is None:
                break
            chosen += 1
            self._forget(*victim)
        self._sweep(keys, alone=not chosen)

    def evict_outgrown(self) -> list[tuple[Leaf, Key]]:
        """Forgets keys that have more rows by now than they may, and says which. Who reads one finds out how many it
        has."""
        limited = [(self._graph.leaves[view], sizes) for view, sizes in self._graph.limited.items()]
        gone = [(leaf, key) for leaf, sizes in limited for key in sizes.take_outgrown()]
        for leaf, key in gone:
            self._counters["outgrown"] += 1
            self._evictions.evict(leaf, leaf.coverage.columns, key)
        return gone

    def _may_go_on(self) -> bool:
        return self._forgotten < self._limits.evict_bytes

    def _forget(self, view_id: ViewId, key: Key) -> None:
        leaf = self._graph.leaves.get(view_id)
        view = self._refreshes.leaves[view_id] if leaf is None else leaf
        self._forgotten += KEY_BYTES + view.coverage.keys[key]
        view.counts.evicted_by_budget += 1
        self._counters["evicted"] += 1
        if leaf is None:
            self._refreshes.evict(view_id, key)
        else:
            self._release(leaf, leaf.coverage.columns, key)

    def _release(self, node: Stored, columns: Cover, key: Key) -> None:
        """Forgets a key that nothing depends on, then what it read, as far as nothing else does."""
        read = direct_reads(node, columns, key)
        before = node.state_bytes()
        self._evictions.evict(node, columns, key)
        self._forgotten += before - node.state_bytes()
        for parent, parent_columns, parent_key in reversed(read):
            self._release_if_unused(parent, parent_columns, parent_key)

    def _release_if_unused(self, node: Stored, columns: Cover, key: Key) -> bool:
        """Forgets an inner key, unless something that is covered depends on it or a waiting read has fetched it."""
        if not node.holds(columns, key) or self._upqueries.is_fetched(node, columns, key):
            return False
        if self._evictions.has_dependents(node, columns, key):
            return False
        node.counts.evicted_by_budget += 1
        self._release(node, columns, key)
        return True

    def _sweep(self, keys: int, alone: bool) -> None:
        """Looks at the next inner keys of the pass. `alone`: there was no leaf key to choose."""
        for _ in range(keys):
            if not self._may_go_on():
                return
            if self._pass is None:
                self._pass, self._pass_forgot = inner_keys(self._graph.stored()), 0
            found = next(self._pass, None)
            if found is None:
                self._pass = None
                self.exhausted = alone and not self._pass_forgot
                return
            node, columns, key = found
            if self._graph.by_id.get(node.id) is node:
                left_behind = self._release_if_unused(node, columns, key)
                self._pass_forgot += left_behind
                self._counters["left_behind"] += left_behind
