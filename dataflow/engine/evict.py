"""Eviction of a key anywhere, with everything that depends on it (architecture §3, invariant I3; thesis §4.5).

A key that a route drives by: its targets' keys go. A key that a later step of a route looks up: the known
combinations of the earlier inputs that look it up are found, and their targets' keys go. All this before the rows
themselves go.

Not here: which keys to choose (`budget`), added rows that meet a hole (`incongruence`).
"""

from collections import Counter
from collections.abc import Callable, Iterable

from dataflow.engine.nodes import Dependent, InnerNode, Leaf, OperatorNode, Stored, Use
from dataflow.ops.block import Combination
from dataflow.state.intervals import Cover
from dataflow.types import Key, NodeId

Target = tuple[Stored, Cover, Key]


class Evictions:
    """The cascade."""

    def __init__(self, counters: "Counter[str]", leaf_evicted: Callable[[Leaf, Key], None]) -> None:
        self._counters = counters
        self._leaf_evicted = leaf_evicted

    def evict(self, node: Stored, columns: Cover, key: Key) -> None:
        """Makes `key` a hole, after all that depends on it. Nothing happens if it is one."""
        if not node.holds(columns, key):
            return
        for target, target_columns, target_key in list(dependent_keys(node, columns, key)):
            self._counters["cascade"] += 1
            self.evict(target, target_columns, target_key)
        if isinstance(node, Leaf):
            node.coverage.discard(key)
            self._leaf_evicted(node, key)
        elif isinstance(node, InnerNode):
            node.forget(columns, key)

    def evict_all(self, node: Stored) -> None:
        """Makes every key of a node a hole."""
        for columns, coverage in node.coverages().items():
            for key in list(coverage):
                self.evict(node, columns, key)

    def spoil(self, nodes: Iterable[Stored]) -> None:
        """Makes every key of some nodes a hole, and of all that can depend on them. Their state may be a step behind,
        so no cascade is asked: it would look at known rows."""
        for node in sorted(downstream(nodes), key=lambda n: -n.id):
            if isinstance(node, OperatorNode):
                node.operator.clear()
            else:
                self.evict_all(node)

    def has_dependents(self, node: Stored, columns: Cover, key: Key) -> bool:
        """Whether anything that is covered depends on `key`."""
        return next(iter(dependent_keys(node, columns, key)), None) is not None


def downstream(nodes: Iterable[Stored]) -> Iterable[Stored]:
    """These nodes and all that is computed from them, each once."""
    found: dict[NodeId, Stored] = {}
    todo = list(nodes)
    while todo:
        node = todo.pop()
        if node.id not in found:
            found[node.id] = node
            todo += [child for source in node.children for child in source.children]
    return found.values()


def dependent_keys(node: Stored, columns: Cover, key: Key) -> Iterable[Target]:
    """The covered keys of other nodes whose routes read `key` of this one."""
    for dependent in node.dependents:
        use = dependent.use
        if use.covers[dependent.position] == columns:
            for target_key in _target_keys(dependent, columns, key):
                yield use.target, use.columns, target_key
    for merge in node.merged_by:
        if merge.cover == columns:
            for target_key in merge.target.coverage_of(merge.columns).agreeing(merge.key_positions, key):
                yield merge.target, merge.columns, target_key


def _target_keys(dependent: Dependent, columns: Cover, key: Key) -> Iterable[Key]:
    use = dependent.use
    coverage = use.target.coverage_of(use.columns)
    if not coverage.keys:
        return ()
    if not columns:
        return list(coverage)
    if dependent.position == 0:
        return coverage.agreeing(tuple(use.key_positions[p] for p in use.picks[0]), key)
    return keys_looking_up(use, dependent.position, key)


def keys_looking_up(use: Use, position: int, key: Key) -> list[Key]:
    """The target's covered keys for which the route, over known rows, looks `key` up at `position`."""
    input_, columns, positions, completion = use.lookers[position - 1]
    join = use.block.join
    found = join.known(input_, columns, tuple(key[p] for p in positions))
    combinations = [join.start(input_, row) for row in found]
    for before in completion.before[: completion.driven]:
        combinations = join.bind(before, combinations)
    keys: dict[Key, None] = {}
    for combination in combinations:
        if _may_look_up(use, position, combination, key):
            keys.update(dict.fromkeys(driven_keys(use, combination)))
    return list(keys)


def _may_look_up(use: Use, position: int, combination: Combination, key: Key) -> bool:
    """Whether the inputs that are bound agree with `key`; an input that is not bound is taken to agree."""
    for part, source in zip(key, use.covered_sources(position), strict=True):
        if combination[source.input] is not None and use.block.join.value_at(source, combination) != part:
            return False
    return True


def driven_keys(use: Use, combination: Combination) -> list[Key]:
    """The target's covered keys that the combination's driving row belongs to."""
    coverage = use.target.coverage_of(use.columns)
    if not coverage.keys:
        return []
    driver = use.route.driver
    row = combination[driver]
    if row is None:
        return []
    part = use.block.inputs[driver].materialization.indexes[use.route.driver_columns].key_of(row)
    return coverage.agreeing(use.key_positions, part)
