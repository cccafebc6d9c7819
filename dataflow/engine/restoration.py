"""Restoration of an engine's state from the chunks of another engine (`checkpoint`), before its first transaction.

Views are planned and installed anew. A node takes the state of the node with its digest, as far as this engine
covers keys in the same way, and as far as what the keys' routes read has been restored (invariant I3: parents come
before children). Everything else stays a hole. That need not be looked at key by key where the routes are those of the
other engine and all nodes that they read are *whole*: they cover all that they covered there, in the coverages that
both have.

*Invariants*: no other event comes between the chunks, so a node that is whole stays so. A node with a chunk that is
missing or damaged, or with a group that does not give the row that it had, is empty afterwards.

Not here: whether the stream continues at the chunks' position.
"""

from collections.abc import Set
from typing import cast

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.chunks import (
    Chunk,
    CoveredKeys,
    Damaged,
    NodeBegun,
    NodeEnded,
    NodeGroups,
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
from dataflow.engine.nodes import GroupingNode, InnerNode, PartitionNode, Store, Stored
from dataflow.engine.ranking import Ranking
from dataflow.engine.staging import say_ready
from dataflow.engine.state_digests import StateDigests
from dataflow.errors import contained
from dataflow.state.coverage import Coverage
from dataflow.state.intervals import Cover, OrderedCoverage
from dataflow.types import Key, NodeId, Row


class Restoration:
    """Takes chunks in their order, then `finish`.

    *State*: `_node` is the node whose chunks are being taken, `_untested` those of its coverages that have the other
    engine's routes, `_has_all` whether it has all of the other node's coverages; `_free`, nodes without state by their
    digests; `_whole`, restored nodes that cover all that they did; `_leaves`, restored views by the ids that they had;
    `_shared`, all keys, by themselves, so that equal ones are one object.
    """

    def __init__(self, context: Context, graph: Graph, ranking: Ranking, changed: Set[str]) -> None:
        self._ranking = ranking
        self._emit = context.emit
        self._counters = context.counters
        self._node: Stored | None = None
        self._keys = self._rows = 0
        self._untested: set[Cover] = set()
        self._has_all = True
        self._whole: set[NodeId] = set()
        self._shared: dict[Key, Key] = {}
        self._leaves: dict[int, Leaf] = {}
        self._free: dict[bytes, list[Stored]] = {}
        self._digests = digests = StateDigests(graph)
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
        self._ranking.restored(self._leaves.values())
        for leaf in self._leaves.values():
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
        self._untested, self._has_all = set(), True

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
            self._cover(node, chunk)
        elif isinstance(chunk, NodeRows) and isinstance(node, PartitionNode):
            self._rows += len(chunk.rows)
            node.partitioned.restore(cast("tuple[Row, ...]", chunk.rows), chunk.times)
        elif isinstance(chunk, NodeRows) and isinstance(node, Store):
            self._rows += len(chunk.rows)
            node.materialization.restore(chunk.rows, chunk.times, self._shared, all_known=self._has_all)
        elif isinstance(chunk, NodeGroups) and isinstance(node, GroupingNode):
            self._rows += len(chunk.groups)
            node.grouping.restore(chunk.groups, self._shared, all_known=self._has_all)
        elif isinstance(chunk, NodeEnded):
            if (self._keys, self._rows) != (chunk.keys, chunk.rows):
                self._abandon()
            else:
                self._end(node)

    def _cover(self, node: Stored, chunk: CoveredKeys) -> None:
        cover = cover_named(chunk.columns, chunk.order)
        coverage = node.coverages().get(cover)
        if coverage is None:
            self._has_all = False
            return
        if chunk.routes and cover not in self._untested and chunk.routes == self._digests.of_routes(node, cover):
            self._untested.add(cover)
        keys = list(map(self._shared.setdefault, chunk.keys, chunk.keys))
        if isinstance(coverage, OrderedCoverage) and chunk.parts is not None:
            parts = [None if part is None else list(map(interval_of, part)) for part in chunk.parts]
            coverage.restore_parts(keys, chunk.sizes, parts)
        else:
            coverage.restore(keys, chunk.sizes)
        if isinstance(node, Leaf) and node.sizes is not None:
            if chunk.rows is None or min(chunk.rows) < 0:
                raise ValueError("the rows of keys with limits were not counted")
            for key, rows, size in zip(keys, chunk.rows, chunk.sizes, strict=True):
                node.sizes.changed(key, rows, size)

    def _end(self, node: Stored) -> None:
        if isinstance(node, PartitionNode):
            node.partitioned.publish_restored()
        self._node = None
        node.counts.filled += self._keys
        self._counters["restored_keys"] += sum(map(len, node.coverages().values()))
        self._counters["restored_rows"] += self._rows
        lost = 0
        inputs_whole = isinstance(node.source, ChainNode) or self._whole.issuperset(i.id for i in node.source.inputs)
        for cover, coverage in node.coverages().items():
            if inputs_whole and cover in self._untested:
                self._counters["restored_untested"] += len(coverage)
            else:
                lost += self._test(node, cover, coverage)
        if not lost:
            self._whole.add(node.id)

    def _test(self, node: Stored, cover: Cover, coverage: Coverage) -> int:
        """Makes those keys holes again that are not supported; returns how many."""
        lost = [key for key in coverage if not is_supported(node, cover, key)]
        for key in lost:
            if isinstance(node, Leaf):
                _lose(node, key)
                self._emit(LeafEvict(node.view_id, key))
            elif isinstance(node, InnerNode):
                node.counts.evicted += 1
                node.forget(cover, key)
        self._counters["restored_unsupported"] += len(lost)
        return len(lost)

    def _rank(self, chunk: RankedKeys) -> None:
        known, restore = self._shared.get, self._ranking.restore
        whole = {view: leaf.id in self._whole for view, leaf in self._leaves.items()}
        for view, read, standing in zip(chunk.views, chunk.keys, chunk.standings, strict=True):
            if view in whole and (key := known(read)) is not None:
                leaf = self._leaves[view]
                if whole[view] or key in leaf.coverage.keys:
                    restore(leaf, key, standing)


def _lose(leaf: Leaf, key: Key) -> None:
    leaf.coverage.discard(key)
    leaf.counts.evicted += 1
    if leaf.sizes is not None:
        leaf.sizes.lost(key)
