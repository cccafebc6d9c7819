"""A filter goes down to the input whose columns it reads: only rows that somebody needs are looked up and kept."""

from dataclasses import replace

from dataflow.plan.expressions import conjunction, conjuncts, inline, substitute, used_columns
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, Relation
from dataflow.plan.rules.rewriting import inputs_used, offsets
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import Catalog


def push_predicates(relation: Relation, catalog: Catalog) -> Relation:
    """Moves each conjunct over one inner input into it, through GROUP BY if it reads group columns only."""
    del catalog
    if not isinstance(relation, Block):
        return relation
    starts = offsets(relation.inputs)
    inputs = list(relation.inputs)
    kept: list[Scalar] = []
    for part in conjuncts(relation.predicate):
        used = inputs_used(starts, used_columns(part))
        target = next(iter(used)) if len(used) == 1 else None
        below = None if target is None else _pushed(inputs[target], part, starts[target])
        if below is None or target is None:
            kept.append(part)
        else:
            inputs[target] = replace(inputs[target], relation=below)
    return Block(tuple(inputs), conjunction(kept), relation.columns)


def _pushed(item: BlockInput, part: Scalar, start: int) -> Chain | Aggregate | Block | None:
    if item.left:
        return None
    local = substitute(part, lambda ref: ColumnRef(ref.index - start, ref.type))
    return filtered(item.relation, local)


def filtered(relation: Relation, part: Scalar) -> Relation | None:
    """The relation's rows for which `part` is TRUE, filtered as far down as possible; None if only above it."""
    if isinstance(relation, Aggregate):
        if relation.scalar or any(c >= len(relation.group) for c in used_columns(part)):
            return None
        below = filtered(relation.input, substitute(part, lambda r: ColumnRef(relation.group[r.index], r.type)))
        assert not isinstance(below, Aggregate)
        return None if below is None else replace(relation, input=below)
    predicate = conjunction([*conjuncts(relation.predicate), inline(part, relation.columns)])
    changed = replace(relation, predicate=predicate)
    return _repushed(changed) if isinstance(changed, Block) else changed


def _repushed(block: Block) -> Block:
    pushed = push_predicates(block, Catalog())
    assert isinstance(pushed, Block)
    return pushed
