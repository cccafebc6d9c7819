"""Eviction of a key anywhere, with everything that depends on it (invariant I3; Gjengset's thesis on Noria, §4.5).

A key that a route drives by: its targets' keys go. A key that a later step of a route looks up: the known
combinations of the earlier inputs that look it up are found, and their targets' keys go. All this before the rows
themselves go.

Not here: which keys to choose (`budget`), added rows that meet a hole (`incongruence`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import Dependent, InnerNode, Merge, RouteUse, Stored
from dataflow.errors import contained
from dataflow.ops.block import Combination, where
from dataflow.state.intervals import Cover
from dataflow.types import Key, NodeId, Row

Target = tuple[Stored, Cover, Key]

#: Rows that are walked from to find out whether a key is still needed; beyond, it is taken to be.
_LOOKS = 4096


class Evictions:
    """Evicts keys, dependents first."""

    def __init__(
        self,
        counters: "Counter[str]",
        leaf_evicted: Callable[[Leaf, Key], None],
        whole_lost: Callable[[Stored], None],
    ) -> None:
        self._counters = counters
        #: Told of a node that is not covered whole any more, or that may be a step behind.
        self._whole_lost = whole_lost
        #: Told of a leaf's key while it is still covered.
        self._leaf_evicted = leaf_evicted

    def evict(self, node: Stored, columns: Cover, key: Key) -> None:
        """Makes `key` a hole, after all that depends on it. Nothing happens if it is one."""
        if not node.holds(columns, key):
            return
        for target, target_columns, target_key in _dependents(node, columns, key):
            self._counters["cascade"] += 1
            self.evict(target, target_columns, target_key)
        node.counts.evicted += 1
        if isinstance(node, Leaf):
            self._leaf_evicted(node, key)
            node.coverage.discard(key)
        elif isinstance(node, InnerNode):
            node.forget(columns, key)
            if columns == ():
                self._whole_lost(node)

    def evict_all(self, node: Stored) -> None:
        """Makes every key of a node a hole."""
        for columns, coverage in node.coverages().items():
            for key in list(coverage):
                self.evict(node, columns, key)

    def spoil(self, nodes: Iterable[Stored]) -> None:
        """Makes every key of some nodes a hole, and of all that can depend on them. Their state may be a step behind,
        so no cascade is asked: it would look at known rows."""
        for node in sorted(downstream(nodes), key=lambda n: -n.id):
            self._whole_lost(node)
            if isinstance(node, InnerNode):
                node.clear()
            else:
                self.evict_all(node)

    def has_dependents(self, node: Stored, columns: Cover, key: Key) -> bool:
        """Return whether anything that is covered depends on `key`, or may: not all of very many rows are asked."""
        for dependent in node.dependents:
            if dependent.use.covers[dependent.position] == columns and _may_be_read(dependent, columns, key):
                return True
        return any(
            merge.cover == columns and merge.target.coverage_of(merge.columns).agrees(merge.key_positions, key)
            for merge in node.merged_by
        )


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


def views_above(node: Stored) -> list[Leaf]:
    """The views that are computed from a node."""
    return [found for found in downstream([node]) if isinstance(found, Leaf)]


def _dependents(node: Stored, columns: Cover, key: Key) -> list[Target]:
    """`dependent_keys`, or every key that can be one if a row that is known makes looking for them fail."""
    try:
        return list(dependent_keys(node, columns, key))
    except Exception as error:
        contained(error)
    uses = [d.use for d in node.dependents if d.use.covers[d.position] == columns]
    fed: list[RouteUse | Merge] = [*uses, *(merge for merge in node.merged_by if merge.cover == columns)]
    return [(each.target, each.columns, k) for each in fed for k in list(each.target.coverage_of(each.columns))]


# --- what depends on a key ------------------------------------------------------------------------------------------


def dependent_keys(node: Stored, columns: Cover, key: Key, most_rows: int | None = None) -> Iterable[Target]:
    """The covered keys of other nodes whose routes read `key` of this one, or may. `most_rows`: so many rows are walked
    from, of each input that may lead here."""
    for dependent in node.dependents:
        use = dependent.use
        if use.covers[dependent.position] == columns:
            for target_key in _target_keys(dependent, columns, key, most_rows):
                yield use.target, use.columns, target_key
    for merge in node.merged_by:
        if merge.cover == columns:
            for target_key in merge.target.coverage_of(merge.columns).agreeing(merge.key_positions, key):
                yield merge.target, merge.columns, target_key


def _target_keys(dependent: Dependent, columns: Cover, key: Key, most_rows: int | None) -> Iterable[Key]:
    use = dependent.use
    coverage = use.target.coverage_of(use.columns)
    if not coverage.keys:
        return ()
    if not columns:
        return list(coverage)
    if dependent.position == 0:
        return coverage.agreeing(tuple(use.key_positions[p] for p in use.picks[0]), key)
    return keys_looking_up(use, dependent.position, key, most_rows)


def keys_looking_up(use: RouteUse, position: int, key: Key, most_rows: int | None = None) -> list[Key]:
    """The target's covered keys for which the route, over known rows, looks `key` up at `position`."""
    keys: dict[Key, None] = {}
    rows = islice(_rows_looking_up(use, position, key), most_rows)
    for combination in _looking_up(use, position, key, rows):
        keys.update(dict.fromkeys(driven_keys(use, combination)))
    return list(keys)


def _is_read(dependent: Dependent, columns: Cover, key: Key) -> bool:
    """Return whether `_target_keys` has any, or there are too many rows to say."""
    use = dependent.use
    coverage = use.target.coverage_of(use.columns)
    if not coverage.keys or not columns:
        return bool(coverage.keys)
    if dependent.position == 0:
        return coverage.agrees(tuple(use.key_positions[p] for p in use.picks[0]), key)
    rows, number = iter(_rows_looking_up(use, dependent.position, key)), 1
    # The first row mostly says so already; if not, ever more at once.
    while number <= _LOOKS:
        some = list(islice(rows, number))
        if any(use.drives(combination) for combination in _looking_up(use, dependent.position, key, some)):
            return True
        if len(some) < number:
            return False
        number *= 4
    return True


def _may_be_read(dependent: Dependent, columns: Cover, key: Key) -> bool:
    """`_is_read`, or True if a row that is known makes looking for it fail."""
    try:
        return _is_read(dependent, columns, key)
    except Exception as error:
        contained(error)
        return True


def _rows_looking_up(use: RouteUse, position: int, key: Key) -> Iterable[Row]:
    """The known rows of an input before `position` that may lead there to `key`."""
    input_, columns, positions, _ = use.lookers[position - 1]
    return use.block.join.known(input_, columns, tuple(key[p] for p in positions))


def _looking_up(use: RouteUse, position: int, key: Key, rows: Iterable[Row]) -> Iterator[Combination]:
    """The known combinations of some of these rows in which `key` is looked up at `position`."""
    input_, _, _, completion = use.lookers[position - 1]
    join = use.block.join
    combinations = [join.start(input_, row) for row in rows]
    for before in completion.before[: completion.driven]:
        combinations = join.bind(before, combinations)
    combinations = where(use.led[position - 1], combinations)
    return (c for c in combinations if _may_look_up(use, position, c, key))


def _may_look_up(use: RouteUse, position: int, combination: Combination, key: Key) -> bool:
    """Return whether the inputs that are bound agree with `key`; an input that is not bound is taken to agree."""
    for part, source in zip(key, use.covered_sources(position), strict=True):
        if combination[source.input] is not None and use.block.join.value_at(source, combination) != part:
            return False
    return True


def driven_keys(use: RouteUse, combination: Combination) -> list[Key]:
    """The target's covered keys that the combination's driving row belongs to."""
    coverage = use.target.coverage_of(use.columns)
    part = use.driving_part(combination) if coverage.keys else None
    return [] if part is None else coverage.agreeing(use.key_positions, part)


# --- what a key depends on ------------------------------------------------------------------------------------------


def covers_of(node: Stored, cover: Cover) -> tuple[Cover, ...]:
    """Covers that a key may be covered by; a leaf's key also in part."""
    return (cover, node.ordered) if isinstance(node, Leaf) and node.ordered is not None else (cover,)


def keys_read(use: RouteUse, key: Key) -> Iterator[Target]:
    """The keys of other nodes that a covered key's route has read, over known rows, as far as nothing fails for one
    that is known beside the part of the key that is covered."""
    part = use.driving_key(key)
    yield use.node_at(0), use.covers[0], use.cover_key(0, part)
    try:
        yield from _keys_joined(use, part)
    except Exception as error:
        contained(error)


def _keys_joined(use: RouteUse, part: Key) -> Iterator[Target]:
    """Those behind the route's driver."""
    route, join = use.route, use.block.join
    combinations = use.start(join.known(route.driver, route.driver_columns, part))
    for position, step in enumerate(route.steps, start=1):
        node, cover = use.node_at(position), use.covers[position]
        found = [use.cover_key(position, k) for k in join.keys_at(step, combinations) if k is not None]
        for step_key in dict.fromkeys(found) if cover else ((),):
            yield node, cover, step_key
        combinations = use.bind(position, combinations)


def merged(merge: Merge, key: Key) -> Iterator[Target]:
    """The keys of a union's inputs that a covered key has read."""
    for node in dict.fromkeys(merge.union.inputs):
        yield node, merge.cover, merge.part(key)


def direct_reads(node: Stored, columns: Cover, key: Key) -> list[Target]:
    """The keys of other nodes that a covered key, of whatever kind, has read itself."""
    uses = [node.uses[cover] for cover in covers_of(node, columns) if cover in node.uses]
    read = [target for use in uses for target in keys_read(use, key)]
    merges = [merge for merge in node.merges.values() if merge.columns == columns]
    return read + [target for merge in merges for target in merged(merge, key)]


def inner_keys(nodes: Iterable[Stored]) -> Iterator[Target]:
    """Every covered key of inner nodes as it is met, children before parents. The graph may change meanwhile."""
    for node in sorted((n for n in nodes if isinstance(n, InnerNode)), key=lambda n: -n.id):
        for columns, coverage in node.coverages().items():
            for key in list(coverage):
                yield node, columns, key
