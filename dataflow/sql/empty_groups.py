"""An aggregate without GROUP BY has a row where there is nothing: COUNT is 0, everything else NULL."""

from dataclasses import replace

from dataflow.errors import UnsupportedQuery
from dataflow.ops.evaluation import evaluator
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Source
from dataflow.sql.clauses import Lowered
from dataflow.types import Row


def one_row(lowered: Lowered) -> bool:
    """Return whether a query without parameters has exactly one row."""
    block = lowered.relation
    if not lowered.scalar or not isinstance(block, Block) or block.predicate is not None:
        return False
    first, *others = (item.relation for item in block.inputs)
    scalars = [isinstance(r, Aggregate) and r.scalar and not r.group for r in (first, *others)]
    return all(scalar or item.left for scalar, item in zip(scalars, block.inputs, strict=True))


def grouped_by_parameters(lowered: Lowered) -> tuple[Source, Row | None]:
    """Groups by the parameters of an aggregate without GROUP BY, and the row that a group without rows stands for."""
    block = lowered.relation
    aggregate = block.inputs[0].relation if isinstance(block, Block) and len(block.inputs) == 1 else None
    if not isinstance(block, Block) or not isinstance(aggregate, Aggregate) or not aggregate.scalar:
        raise UnsupportedQuery(
            "An aggregate without GROUP BY in a subquery, with more computed above it, is not kept up to date.",
            lowered.parameters[0].span,
        )
    rows = evaluator(block)([])
    if rows and block.predicate is not None:
        raise UnsupportedQuery(
            "HAVING that keeps the row of no rows, in a subquery, is not kept up to date.", lowered.parameters[0].span
        )
    grouped = replace(block, inputs=(BlockInput(replace(aggregate, scalar=False)),))
    return grouped, rows[0] if rows else None
