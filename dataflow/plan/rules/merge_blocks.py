"""Joins of joins become one join; a projection of a projection becomes one projection."""

from dataclasses import replace

from dataflow.plan.expressions import conjunction, conjuncts, inline, shift, substitute
from dataflow.plan.nodes import Block, BlockInput, Chain, JoinCondition, Relation, column_types
from dataflow.plan.rewriting import loosened, offsets, widths
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import Catalog


def merge_blocks(relation: Relation, catalog: Catalog) -> Relation:
    """Splices blocks that are inputs of a block into it, where that means the same. The result is loose."""
    del catalog
    if not isinstance(relation, Block):
        return relation
    block = loosened(relation)
    position = 0
    while position < len(block.inputs):
        merged = _splice(block, position)
        if merged is None:
            position += 1
        else:
            block = merged
    return _as_chain(block)


def _as_chain(block: Block) -> Relation:
    """A block of one chain is a chain."""
    (first, *others) = block.inputs
    chain = first.relation
    if others or not isinstance(chain, Chain):
        return block
    predicate = conjunction(
        [*conjuncts(chain.predicate), *(inline(p, chain.columns) for p in conjuncts(block.predicate))]
    )
    return replace(chain, predicate=predicate, columns=tuple(inline(c, chain.columns) for c in block.columns))


def _splice(block: Block, position: int) -> Block | None:
    """The block with the input at `position` replaced by what it is a block of; None if it stays an input."""
    item = block.inputs[position]
    inner = item.relation
    if not isinstance(inner, Block):
        return None
    return _splice_left(block, position, inner) if item.left else _splice_inner(block, position, loosened(inner))


def _splice_inner(block: Block, position: int, inner: Block) -> Block | None:
    named = {c.column for i in block.inputs for c in i.conditions if c.input == position}
    if not all(isinstance(inner.columns[c], ColumnRef) for c in named):
        return None
    more = len(inner.inputs) - 1
    inner_starts = offsets(inner.inputs)

    def target(condition: JoinCondition) -> JoinCondition:
        if condition.input < position:
            return condition
        if condition.input > position:
            return replace(condition, input=condition.input + more)
        source = inner.columns[condition.column]
        assert isinstance(source, ColumnRef)
        at = max(i for i, start in enumerate(inner_starts) if start <= source.index)
        return JoinCondition(condition.own, position + at, source.index - inner_starts[at])

    start, width = offsets(block.inputs)[position], len(inner.columns)
    growth = sum(widths(inner.inputs)) - width

    def moved(ref: ColumnRef) -> Scalar:
        if ref.index < start:
            return ref
        if ref.index >= start + width:
            return ColumnRef(ref.index + growth, ref.type)
        return shift(inner.columns[ref.index - start], start)

    def outside(item: BlockInput) -> BlockInput:
        on = None if item.on is None else conjunction(substitute(p, moved) for p in conjuncts(item.on))
        return replace(item, conditions=tuple(target(c) for c in item.conditions), on=on)

    def inside(item: BlockInput) -> BlockInput:
        conditions = tuple(replace(c, input=c.input + position) for c in item.conditions)
        return replace(item, conditions=conditions, on=None if item.on is None else shift(item.on, start))

    before, after = block.inputs[:position], block.inputs[position + 1 :]
    inputs = (*map(outside, before), *map(inside, inner.inputs), *map(outside, after))
    parts = [substitute(p, moved) for p in conjuncts(block.predicate)]
    parts += [shift(p, start) for p in conjuncts(inner.predicate)]
    columns = tuple(substitute(c, moved) for c in block.columns)
    return Block(inputs, conjunction(parts), columns)


def _splice_left(block: Block, position: int, inner: Block) -> Block | None:
    """A left input can only be replaced if its padding stays what it is: one relation, whose columns it passes on."""
    if len(inner.inputs) > 1:
        return None
    relation = inner.inputs[0].relation
    if isinstance(relation, Chain):
        composed = _as_chain(inner)
        return _with_input(block, position, replace(block.inputs[position], relation=composed))
    if inner.predicate is not None or not all(isinstance(c, ColumnRef) for c in inner.columns):
        return None
    return projected(block, position, relation, [c.index for c in inner.columns if isinstance(c, ColumnRef)])


def projected(block: Block, position: int, relation: Relation, places: list[int]) -> Block:
    """Column c of the input at `position` is column places[c] of `relation` instead."""

    start, width = offsets(block.inputs)[position], len(places)
    growth = len(column_types(relation)) - width

    def moved(ref: ColumnRef) -> Scalar:
        if ref.index < start:
            return ref
        if ref.index >= start + width:
            return ColumnRef(ref.index + growth, ref.type)
        return ColumnRef(start + places[ref.index - start], ref.type)

    def own(item: BlockInput, i: int) -> BlockInput:
        conditions = item.conditions
        if i == position:
            conditions = tuple(replace(c, own=places[c.own]) for c in conditions)
        conditions = tuple(replace(c, column=places[c.column]) if c.input == position else c for c in conditions)
        return replace(item, conditions=conditions, on=None if item.on is None else substitute(item.on, moved))

    inputs = tuple(own(item, i) for i, item in enumerate(block.inputs))
    inputs = (*inputs[:position], replace(inputs[position], relation=relation), *inputs[position + 1 :])
    parts = [substitute(p, moved) for p in conjuncts(block.predicate)]
    return Block(inputs, conjunction(parts), tuple(substitute(c, moved) for c in block.columns))


def _with_input(block: Block, position: int, item: BlockInput) -> Block:
    return replace(block, inputs=(*block.inputs[:position], item, *block.inputs[position + 1 :]))
