"""Conditions of a join block along its routes: where each is asked, and the changes that can make one TRUE.

*Invariants*: a route asks each condition as soon as all that it reads is bound, and goes no further where one is not
TRUE: so whatever makes a condition TRUE is a change that a route meets.

Not here: the routes (`routes`), evaluating conditions (`ops.block`).
"""

from collections.abc import Sequence, Set

from dataflow.plan.expressions import conjunction, conjuncts, never_fails
from dataflow.plan.nodes import Block
from dataflow.plan.routes import Route, Source, equalities, hangs_off, mentioned
from dataflow.scalar import Scalar
from dataflow.types import Columns


def conditions(block: Block, order: Sequence[int]) -> list[list[Scalar]]:
    """Conjuncts of the block's predicate, each where the last input that it reads is bound when inputs are bound in
    this order. Those that may fail for a row are left for the complete one: it may never come to be."""
    places = {input_: place for place, input_ in enumerate(order)}
    found: list[list[Scalar]] = [[] for _ in order]
    for part in _early(block):
        found[max((places[source.input] for source in mentioned(block, part)), default=0)].append(part)
    return found


def on_inputs(block: Block, bound: Set[int]) -> list[Scalar]:
    """Returns the conditions that read bound inputs only."""
    return [part for part in _early(block) if all(source.input in bound for source in mentioned(block, part))]


def _early(block: Block) -> list[Scalar]:
    return [part for part in conjuncts(block.predicate) if never_fails(part)]


def asked_last(block: Block) -> Scalar | None:
    """Returns the conditions that may fail, for complete combinations only."""
    return conjunction(part for part in conjuncts(block.predicate) if not never_fails(part))


def _deciding(block: Block, route: Route) -> list[Source]:
    """Returns the columns that a route's conditions read before its last lookup: they decide whether it goes on."""
    parts = [part for at_place in conditions(block, route.order())[:-1] for part in at_place]
    return [source for part in parts for source in mentioned(block, part)]


def relevant_columns(block: Block, route: Route, input_: int) -> Columns:
    """The columns of an input that the route compares or drives by, or that its conditions read: rows that agree in
    them take the same way."""
    relevant = set(route.driver_columns) if input_ == route.driver else set()
    relevant |= {source.column for source in _deciding(block, route) if source.input == input_}
    relevant |= {s.column for item in block.inputs for s in mentioned(block, item.on) if s.input == input_}
    for step in route.steps:
        for column, source in equalities(step):
            if step.input == input_:
                relevant.add(column)
            if source.input == input_:
                relevant.add(source.column)
    return tuple(sorted(relevant))


def paddings_read(block: Block, route: Route) -> frozenset[int]:
    """Left inputs that the rest of another one's ON or a condition of the route reads, which may become TRUE where they
    are padded, and those that they hang off: padding there pads them too."""
    read = {s.input for i, item in enumerate(block.inputs) for s in mentioned(block, item.on) if s.input != i}
    read |= {source.input for source in _deciding(block, route)}
    above = read.union(*(hangs_off(block, i) for i in read))
    return frozenset(i for i in above if block.inputs[i].left)
