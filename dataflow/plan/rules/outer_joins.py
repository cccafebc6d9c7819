"""A left join whose padded rows are thrown away is an inner join."""

from dataflow.plan.expressions import conjunction, conjuncts, equality, rejects_nulls
from dataflow.plan.nodes import Block, BlockInput, Relation
from dataflow.plan.rewriting import input_columns, offsets, widths
from dataflow.scalar import Scalar
from dataflow.schema import Catalog


def simplify_outer_joins(relation: Relation, catalog: Catalog) -> Relation:
    """Makes a left input inner if a conjunct cannot be TRUE for its padding: WHERE, or an inner join on its column."""
    del catalog
    if not isinstance(relation, Block):
        return relation
    block = relation
    while (position := _rejected(block)) is not None:
        block = _inner(block, position)
    return block


def _rejected(block: Block) -> int | None:
    """A left input whose padded rows no conjunct lets through."""
    parts = conjuncts(block.predicate)
    for i, (start, width) in enumerate(zip(offsets(block.inputs), widths(block.inputs), strict=True)):
        own = set(range(start, start + width))
        if block.inputs[i].left and any(rejects_nulls(p, own) for p in parts):
            return i
    return None


def _inner(block: Block, position: int) -> Block:
    """The block with that left input inner, its ON as conjuncts."""
    item = block.inputs[position]
    starts, columns = offsets(block.inputs), input_columns(block)
    on: list[Scalar] = [
        equality(columns[starts[position] + c.own], columns[starts[c.input] + c.column]) for c in item.conditions
    ]
    inputs = list(block.inputs)
    on += conjuncts(item.on)
    inputs[position] = BlockInput(item.relation)
    return Block(tuple(inputs), conjunction([*conjuncts(block.predicate), *on]), block.columns)
