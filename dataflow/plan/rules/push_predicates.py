"""Filters move to the input whose columns they read: only rows that are needed are looked up and materialized."""

from collections.abc import Sequence
from dataclasses import replace

from dataflow.plan.expressions import conjunction, conjuncts, inline, substitute, tells_texts, used_columns
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, Relation, TopK, Union, Window, column_types
from dataflow.plan.rewriting import as_source, inputs_used, offsets
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import Catalog


def push_predicates(relation: Relation, catalog: Catalog) -> Relation:
    """Moves each conjunct over one inner input into it; through GROUP BY and PARTITION BY by their columns only."""
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


def _pushed(item: BlockInput, part: Scalar, start: int) -> Relation | None:
    if item.left:
        return None
    local = substitute(part, lambda ref: ColumnRef(ref.index - start, ref.type))
    return filtered(item.relation, local)


def filtered(relation: Relation, part: Scalar) -> Relation | None:
    """The relation's rows for which `part` is TRUE, filtered as far down as possible; None if only above it."""
    match relation:
        case Aggregate():
            if relation.scalar:
                return None
            return _within_parts(relation, relation.group, part)
        case Window() | TopK():
            columns = range(len(column_types(relation.input)))
            return _within_parts(relation, columns, part) if used_columns(part) <= set(relation.partition) else None
        case Union():
            branches = [filtered(branch, part) for branch in relation.inputs]
            return Union(tuple(as_source(b) for b in branches if b is not None)) if None not in branches else None
        case Chain() | Block():
            predicate = conjunction([*conjuncts(relation.predicate), inline(part, relation.columns)])
            changed = replace(relation, predicate=predicate)
            return _repushed(changed) if isinstance(changed, Block) else changed


def _within_parts(relation: Aggregate | Window | TopK, columns: Sequence[int], part: Scalar) -> Relation | None:
    """Filtered below, if `part` keeps or drops whole groups: it must not tell equal values by their texts.

    The relation's column c is its input's column columns[c].
    """
    if any(c >= len(columns) for c in used_columns(part)) or tells_texts(part):
        return None
    below = filtered(relation.input, substitute(part, lambda ref: ColumnRef(columns[ref.index], ref.type)))
    return None if below is None else replace(relation, input=as_source(below))


def _repushed(block: Block) -> Block:
    pushed = push_predicates(block, Catalog())
    assert isinstance(pushed, Block)
    return pushed
