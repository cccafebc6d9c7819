"""Restoration of an engine's state from the chunks of another engine (`checkpoint`), before its first transaction.

Views are planned and installed anew. A node takes the state of the node with its digest, as far as this engine
covers keys in the same way, and as far as what the keys' routes read has been restored (invariant I3: parents come
before children). Everything else stays a hole.

*Invariants*: a node with a chunk that is missing or damaged, or with a group that does not give the row that it had, is
empty afterwards.

Not here: whether the stream continues at the chunks' position.
"""

from collections.abc import Set

from dataflow.engine.chunks import (
    Chunk,
    CoveredKeys,
    Damaged,
    NodeBegun,
    NodeEnded,
    NodeRows,
    RankedKeys,
    cover_named,
    interval_of,
)
from dataflow.engine.context import Context
from dataflow.engine.effects import LeafEvict, LeafForget, LeafRestored
from dataflow.engine.graph import Graph
from dataflow.engine.invariants import is_supported
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import GroupingNode, InnerNode, PartitionNode, Stored
from dataflow.engine.ranking import Ranking
from dataflow.engine.staging import say_ready
from dataflow.engine.state_digests import StateDigests
from dataflow.errors import contained
from dataflow.state.coverage import Coverage
from dataflow.state.intervals import OrderedCoverage
from dataflow.types import Key


class Restoration:
    """Takes chunks in their order, then `finish`.

    *State*: `_node` is the node whose chunks are being taken; `_free`, nodes without state by their digests;
    `_leaves`, restored views by the ids that they had.
    """

    def __init__(self, context: Context, graph: Graph, ranking: Ranking, changed: Set[str]) -> None:
        self._ranking = ranking
        self._emit = context.emit
        self._counters = context.counters
        self._node: Stored | None = None
        self._keys = self._rows = 0
        self._leaves: dict[int, Leaf] = {}
        self._free: dict[bytes, list[Stored]] = {}
        digests = StateDigests(graph)
        for node in graph.stored():
            digest = None if changed & graph.tables_of(node) else digests.of(node)
            if digest is not None:
                self._free.setdefault(digest, []).append(node)

    def take(self, chunk: Chunk) -> None:
        """Uses the next chunk."""
        if isinstance(chunk, NodeBegun):
            self._abandon()
            self._begin(chunk)
        elif isinstance(chunk, RankedKeys):
            self._abandon()
            self._rank(chunk)
        elif isinstance(chunk, Damaged):
            self._abandon()
        elif self._node is not None:
            try:
                self._take(self._node, chunk)
            except Exception as error:
                contained(error)
                self._abandon()

    def finish(self) -> None:
        """Ends: all keys have a place in the policy, and views that are kept whole are ready."""
        self._abandon()
        for leaf in self._leaves.values():
            self._ranking.restored(leaf)
            if leaf.full and () in leaf.coverage:
                say_ready(leaf, self._emit)

    def _begin(self, chunk: NodeBegun) -> None:
        free = self._free.get(chunk.digest, [])
        node = free[0] if free else None
        if isinstance(node, Leaf):
            same = node.coverage.columns == chunk.columns and (node.ordered is not None) == chunk.in_part
            if not same or chunk.view is None:
                return
            node.refill_cost = chunk.refill_cost
            self._leaves[chunk.view] = node
            self._emit(LeafRestored(node.view_id, chunk.view))
        if node is not None:
            free.pop(0)
        self._node, self._keys, self._rows = node, 0, 0

    def _abandon(self) -> None:
        """A node that has begun and not ended is empty."""
        node, self._node = self._node, None
        self._counters["restored_damaged"] += node is not None
        if isinstance(node, InnerNode):
            node.clear()
        elif isinstance(node, Leaf):
            for key in list(node.coverage):
                _lose(node, key)
            self._emit(LeafForget(node.view_id))

    def _take(self, node: Stored, chunk: Chunk) -> None:
        if isinstance(chunk, CoveredKeys):
            self._keys += len(chunk.keys)
            coverage = node.coverages().get(cover_named(chunk.columns, chunk.order))
            if coverage is not None:
                _cover(node, coverage, chunk)
        elif isinstance(chunk, NodeRows):
            self._rows += len(chunk.rows)
            _know(node, chunk)
        elif isinstance(chunk, NodeEnded):
            if (self._keys, self._rows) != (chunk.keys, chunk.rows):
                self._abandon()
            else:
                self._end(node)

    def _end(self, node: Stored) -> None:
        if isinstance(node, PartitionNode):
            node.partitioned.publish_restored()
        self._node = None
        node.counts.filled += self._keys
        self._counters["restored_keys"] += sum(map(len, node.coverages().values()))
        self._counters["restored_rows"] += self._rows
        for cover, coverage in node.coverages().items():
            for key in list(coverage):
                if not is_supported(node, cover, key):
                    self._counters["restored_unsupported"] += 1
                    if isinstance(node, Leaf):
                        _lose(node, key)
                        self._emit(LeafEvict(node.view_id, key))
                    elif isinstance(node, InnerNode):
                        node.counts.evicted += 1
                        node.forget(cover, key)

    def _rank(self, chunk: RankedKeys) -> None:
        for view, key, *standing in chunk.keys:
            leaf = self._leaves.get(view)
            if leaf is not None and key in leaf.coverage:
                self._ranking.restore(leaf, key, (standing[0], standing[1], standing[2], standing[3]))


def _lose(leaf: Leaf, key: Key) -> None:
    leaf.coverage.discard(key)
    leaf.counts.evicted += 1
    if leaf.sizes is not None:
        leaf.sizes.lost(key)


def _cover(node: Stored, coverage: Coverage, chunk: CoveredKeys) -> None:
    for key, intervals, size, rows in chunk.keys:
        if intervals is None:
            coverage.add(key)
        else:
            assert isinstance(coverage, OrderedCoverage)
            for interval in intervals:
                coverage.extend(key, interval_of(interval))
        coverage.keys[key] = size
        if isinstance(node, Leaf) and node.sizes is not None:
            if rows < 0:
                raise ValueError("the rows of a key with limits were not counted")
            node.sizes.changed(key, rows, size)


def _know(node: Stored, chunk: NodeRows) -> None:
    if isinstance(node, GroupingNode):
        node.grouping.restore(chunk.rows)
    elif isinstance(node, PartitionNode):
        node.partitioned.restore(chunk.rows)
    elif isinstance(node, InnerNode):
        node.absorb(([], [row for row, times in chunk.rows for _ in range(times)]), False)
