"""A left join that brings no column and no second row is left out: views below views join what others of them need.

*Invariants*: the input that goes has at most one row for what it is joined on, and nothing reads it, so that the block
has the same rows without it.
"""

from dataclasses import replace

from dataflow.plan.expressions import conjunction, conjuncts, renumber, used_columns
from dataflow.plan.nodes import Block, BlockInput, JoinCondition, Relation
from dataflow.plan.rewriting import at_most_one, offsets, widths
from dataflow.scalar import Scalar
from dataflow.schema import Catalog


def drop_unused_joins(relation: Relation, catalog: Catalog) -> Relation:
    """Takes such inputs out of a block, the last ones first: what only they were joined for may go then, too."""
    if not isinstance(relation, Block):
        return relation
    block = relation
    for position in reversed(range(len(block.inputs))):
        if _is_unused(block, position, catalog):
            block = _without(block, position)
    return block


def _is_unused(block: Block, position: int, catalog: Catalog) -> bool:
    item = block.inputs[position]
    if not item.left or not at_most_one(item.relation, {c.own for c in item.conditions}, catalog):
        return False
    start, width = offsets(block.inputs)[position], widths(block.inputs)[position]
    others = [other for i, other in enumerate(block.inputs) if i != position]
    read = used_columns(block.predicate, *block.columns, *(other.on for other in others))
    joined = {c.input for other in others for c in other.conditions}
    return position not in joined and read.isdisjoint(range(start, start + width))


def _without(block: Block, position: int) -> Block:
    start, width = offsets(block.inputs)[position], widths(block.inputs)[position]
    total = sum(widths(block.inputs))
    moved = {c: c if c < start else c - width for c in range(total) if not start <= c < start + width}

    def expression(of: Scalar | None) -> Scalar | None:
        return None if of is None else conjunction(renumber(part, moved) for part in conjuncts(of))

    def condition(of: JoinCondition) -> JoinCondition:
        return of if of.input < position else replace(of, input=of.input - 1)

    def kept(item: BlockInput) -> BlockInput:
        return replace(item, conditions=tuple(map(condition, item.conditions)), on=expression(item.on))

    inputs = tuple(kept(item) for i, item in enumerate(block.inputs) if i != position)
    return Block(inputs, expression(block.predicate), tuple(renumber(c, moved) for c in block.columns))
