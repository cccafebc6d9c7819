"""A simple byte budget: the keys covered longest ago go first (architecture §7 has the policy to come).

Leaf keys are chosen; an inner key only when nothing covered depends on it, since readers never touch it and its
eviction would take all that does. Pinned keys, full views and what a waiting read has fetched stay.
"""

from collections.abc import Iterator

from dataflow.engine.evict import Evictions
from dataflow.engine.graph import Graph
from dataflow.engine.nodes import InnerNode, Leaf, Merge, PartitionNode, Stored, Use
from dataflow.engine.upquery import Upqueries
from dataflow.state.intervals import Cover
from dataflow.types import Key, NodeId

_KEY_BYTES = 400

#: Keys of nodes that a waiting read has fetched.
Fetched = set[tuple[NodeId, Cover, Key]]


class Budget:
    """Chooses what to forget."""

    def __init__(self, graph: Graph, evictions: Evictions, upqueries: Upqueries) -> None:
        self._graph = graph
        self._evictions = evictions
        self._upqueries = upqueries

    def state_bytes(self) -> int:
        """About what all nodes hold."""
        total = 0
        for node in self._graph.stored():
            if isinstance(node, InnerNode):
                total += node.materialization.state_bytes()
            if isinstance(node, PartitionNode):
                total += node.partitioned.state_bytes()
            total += sum(len(c) * _KEY_BYTES for c in node.coverages().values())
        return total

    def evict(self, state_bytes: int) -> int:
        """Forgets keys until about so many bytes are free, leaves first; returns how many leaf keys went."""
        target = self.state_bytes() - state_bytes
        fetched = {flight for demand in self._upqueries.demands for flight in demand.fetched}
        leaves = [leaf for leaf in self._graph.leaves.values() if not leaf.full]
        evicted = 0
        for leaf, key in _round_robin(leaves):
            if self.state_bytes() <= target:
                return evicted
            self._release(leaf, leaf.coverage.columns, key, fetched)
            evicted += 1
        if self.state_bytes() > target:
            self._release_unused(fetched)
        return evicted

    def _release(self, node: Stored, columns: Cover, key: Key, fetched: Fetched) -> None:
        """Forgets a key that nothing depends on, then what it read, as far as nothing else does."""
        uses = [node.uses[cover] for cover in covers_of(node, columns) if cover in node.uses]
        read = [parent for use in uses for parent in keys_read(use, key)]
        read += [parent for merge in node.merges.values() if merge.columns == columns for parent in merged(merge, key)]
        self._evictions.evict(node, columns, key)
        for parent, parent_columns, parent_key in reversed(read):
            if self._unused(parent, parent_columns, parent_key, fetched):
                self._release(parent, parent_columns, parent_key, fetched)

    def _unused(self, node: Stored, columns: Cover, key: Key, fetched: Fetched) -> bool:
        if (node.id, columns, key) in fetched or not node.holds(columns, key):
            return False
        return not self._evictions.has_dependents(node, columns, key)

    def _release_unused(self, fetched: Fetched) -> None:
        """Forgets inner keys that a cascade has left behind, children before parents."""
        for node in sorted(self._graph.stored(), key=lambda n: -n.id):
            if not isinstance(node, Leaf):
                for columns, coverage in node.coverages().items():
                    for key in list(coverage):
                        if self._unused(node, columns, key, fetched):
                            self._release(node, columns, key, fetched)


def covers_of(node: Stored, cover: Cover) -> tuple[Cover, ...]:
    """What a key may be covered by: a leaf's also in part."""
    return (cover, node.ordered) if isinstance(node, Leaf) and node.ordered is not None else (cover,)


def keys_read(use: Use, key: Key) -> Iterator[tuple[Stored, Cover, Key]]:
    """The keys of other nodes that a covered key's route has read, over known rows."""
    route, join = use.route, use.block.join
    part = use.driving_key(key)
    yield use.node_at(0), use.covers[0], use.cover_key(0, part)
    combinations = [join.start(route.driver, row) for row in join.known(route.driver, route.driver_columns, part)]
    for position, step in enumerate(route.steps, start=1):
        node, cover = use.node_at(position), use.covers[position]
        found = [use.cover_key(position, k) for k in join.keys_at(step, combinations) if k is not None]
        for step_key in dict.fromkeys(found) if cover else ((),):
            yield node, cover, step_key
        combinations = join.bind(step, combinations)


def merged(merge: Merge, key: Key) -> Iterator[tuple[Stored, Cover, Key]]:
    """The keys of a union's inputs that a covered key has read."""
    for node in dict.fromkeys(merge.union.inputs):
        yield node, merge.cover, merge.part(key)


def _round_robin(leaves: list[Leaf]) -> Iterator[tuple[Leaf, Key]]:
    """The keys of each view that no subscription pins, the oldest first, one of each view in turn."""
    live = [(leaf, iter([key for key in leaf.coverage if key not in leaf.pins])) for leaf in leaves]
    while live:
        still: list[tuple[Leaf, Iterator[Key]]] = []
        for leaf, keys in live:
            key = next(keys, None)
            if key is not None:
                yield leaf, key
                still.append((leaf, keys))
        live = still
