"""Added rows whose route goes on through a hole (incongruent joins: Gjengset's thesis, §4.5.2).

A row added to one input of a route makes new combinations: they may look up keys of later inputs that nobody has
covered. The targets' keys that they belong to are evicted at the end of the step. A removed row needs nothing, unless
another left input's ON or a condition reads it (`x IS NULL`): padding in its place may let that be TRUE.

A new row's children are a hole like any other: foreign keys promise nothing of rows that came while they were not
enforced, and the upstream does not say when that was.
"""

from collections import Counter
from collections.abc import Iterable

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.evictions import Target, driven_keys
from dataflow.engine.nodes import BlockNode, InnerNode, RouteUse
from dataflow.ops.block import Combination, where_row
from dataflow.plan.routes import Step
from dataflow.state.intervals import OrderedCover
from dataflow.types import Columns, Delta, Key, NodeId, Row


def covered_or_subsumed(node: InnerNode, columns: Columns, key: Key, counters: "Counter[str]") -> bool:
    """Return whether `key` is covered, if need be by `subsume`."""
    return node.covered(columns, key) or bool(subsume(node, columns, (key,), counters))


def subsume(node: InnerNode, columns: Columns, holes: Iterable[Key], counters: "Counter[str]") -> list[Key]:
    """Covers in their own right those holes that covered parts of them make known; returns these.

    Only over a chain: elsewhere the key's own route would have to be covered too.
    """
    if not isinstance(node.source, ChainNode):
        return []
    found = node.materialization.subsumed(columns, holes)
    for key in found:
        node.cover_known(columns, key)
    if found:
        counters["subsumed"] += len(found)
    return found


class Incongruence:
    """Finds the keys to evict for what a step added."""

    def __init__(self, counters: "Counter[str]") -> None:
        self._counters = counters

    def targets(self, block: BlockNode, deltas: dict[NodeId, Delta]) -> list[Target]:
        """Keys of targets below `block` whose routes now meet a hole, given this step's deltas by node."""
        found: list[Target] = []
        for i, node in enumerate(block.inputs):
            delta = deltas.get(node.id)
            if delta is None:
                continue
            for use in block.uses:
                if not use.route.full and use.completions[i].after and use.target.coverage_of(use.columns).keys:
                    keys = self.holes(use, i, delta)
                    found.extend((use.target, use.columns, key) for key in keys)
        return found

    def holes(self, use: RouteUse, input_: int, delta: Delta) -> list[Key]:
        """The target's keys for which a change of an input leads the route to a hole."""
        found: dict[Key, None] = {}
        for row in _newly_connected(delta, use.relevant[input_]):
            self._go_on(use, input_, self._complete_backwards(use, input_, row), found)
        if input_ in use.paddings:
            step = next(step for step in use.route.steps if step.input == input_)
            for row in _newly_connected((delta[1], delta[0]), use.relevant[input_]):
                left = self._complete_backwards(use, input_, row)
                for combination in left:
                    combination[input_] = None
                self._go_on(use, input_, use.block.join.bind(step, left), found)
        return list(found)

    def _go_on(self, use: RouteUse, input_: int, combinations: list[Combination], found: dict[Key, None]) -> None:
        """Walks the route on behind an input, and notes what meets a hole."""
        order = use.route.order()
        place = order.index(input_) + 1
        for bound, condition in zip(order[:place], use.conditions[:place], strict=True):
            combinations = where_row(condition, bound, combinations)
        for step in use.completions[input_].after:
            if not combinations:
                break
            combinations = self._step_over_known(use, step, order.index(step.input), combinations, found)

    def _complete_backwards(self, use: RouteUse, input_: int, row: Row) -> list[Combination]:
        join = use.block.join
        completion = use.completions[input_]
        combinations = [join.start(input_, row)]
        for step in completion.before[: completion.driven]:
            combinations = join.bind(step, combinations)
        combinations = [c for c in combinations if driven_keys(use, c)]
        for step in completion.before[completion.driven :]:
            combinations = join.bind(step, combinations)
        return join.where_matches(completion.matched, combinations)

    def _step_over_known(
        self,
        use: RouteUse,
        step: Step,
        position: int,
        combinations: list[Combination],
        found: dict[Key, None],
    ) -> list[Combination]:
        """Binds a later input; combinations that meet a hole end here, and what they belong to is noted."""
        join, node, cover = use.block.join, use.block.inputs[step.input], use.covers[position]
        assert not isinstance(cover, OrderedCover)
        kept: list[Combination] = []
        for combination, key in zip(combinations, join.keys_at(step, combinations), strict=True):
            if key is None or covered_or_subsumed(node, cover, use.cover_key(position, key), self._counters):
                kept.append(combination)
            else:
                self._counters["forward_hole"] += 1
                found.update(dict.fromkeys(driven_keys(use, combination)))
        return use.bind(position, kept)


def _newly_connected(delta: Delta, relevant: Columns) -> list[Row]:
    """Added rows but those that were there before with the same values in all of these columns."""
    if not delta[0]:
        return delta[1]
    before = {tuple(row[c] for c in relevant) for row in delta[0]}
    return [row for row in delta[1] if tuple(row[c] for c in relevant) not in before]
