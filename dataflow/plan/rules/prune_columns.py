"""Only the columns that somebody needs, each once and in one order, so that equal sub-plans are equal values."""

from collections.abc import Iterable
from dataclasses import replace

from dataflow.plan.expressions import canonical, conjunction, conjuncts, renumber, sort_key, used_columns
from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    Block,
    BlockInput,
    Chain,
    JoinCondition,
    Relation,
)
from dataflow.plan.rules.join_conditions import condition_key
from dataflow.plan.rules.rewriting import offsets, widths
from dataflow.scalar import Scalar

#: Where the needed columns of a relation went: old index -> new index.
Moved = dict[int, int]


def prune(relation: Relation, needed: Iterable[int]) -> tuple[Relation, Moved]:
    """The relation with the `needed` columns only, in canonical order, and where they went."""
    if isinstance(relation, Chain):
        columns, moved = _ordered(relation.columns, needed)
        return Chain(relation.table, conjunction(conjuncts(relation.predicate)), columns), moved
    if isinstance(relation, Aggregate):
        return _prune_aggregate(relation, set(needed))
    return _prune_block(relation, set(needed))


def _ordered(columns: tuple[Scalar, ...], needed: Iterable[int]) -> tuple[tuple[Scalar, ...], Moved]:
    wanted = {i: canonical(columns[i]) for i in needed}
    ordered = tuple(sorted(dict.fromkeys(wanted.values()), key=sort_key))
    places = {column: i for i, column in enumerate(ordered)}
    return ordered, {i: places[column] for i, column in wanted.items()}


def _prune_block(block: Block, needed: set[int]) -> tuple[Relation, Moved]:
    used = used_columns(block.predicate, *(block.columns[i] for i in needed))
    inputs, moved = _prune_inputs(block, used)
    predicate = conjunction(renumber(p, moved) for p in conjuncts(block.predicate))
    columns = tuple(renumber(c, moved) if i in needed else c for i, c in enumerate(block.columns))
    kept, places = _ordered(columns, needed)
    return Block(inputs, predicate, kept), places


def _prune_inputs(block: Block, used: set[int]) -> tuple[tuple[BlockInput, ...], Moved]:
    """The inputs with the columns that the joined row needs, and where those went in it."""
    starts, sizes = offsets(block.inputs), widths(block.inputs)
    relations: list[Relation] = []
    places: list[Moved] = []
    for i, item in enumerate(block.inputs):
        own = {c - starts[i] for c in used if starts[i] <= c < starts[i] + sizes[i]}
        own |= {c.own for c in item.conditions}
        own |= {c.column for other in block.inputs for c in other.conditions if c.input == i}
        relation, moved = prune(item.relation, own)
        relations.append(relation)
        places.append(moved)
    inputs = tuple(
        replace(item, relation=relation, conditions=_conditions(item, places, i))
        for i, (item, relation) in enumerate(zip(block.inputs, relations, strict=True))
    )
    new_starts = offsets(inputs)
    return inputs, {
        starts[i] + old: new_starts[i] + new for i, moved in enumerate(places) for old, new in moved.items()
    }


def _conditions(item: BlockInput, places: list[Moved], position: int) -> tuple[JoinCondition, ...]:
    moved = {JoinCondition(places[position][c.own], c.input, places[c.input][c.column]) for c in item.conditions}
    return tuple(sorted(moved, key=condition_key))


def _prune_aggregate(aggregate: Aggregate, needed: set[int]) -> tuple[Relation, Moved]:
    width = len(aggregate.group)
    wanted = {i: aggregate.calls[i - width] for i in needed if i >= width}
    used = set(aggregate.group).union(*(_used_by(call) for call in wanted.values()))
    below, moved = prune(aggregate.input, used)
    assert not isinstance(below, Aggregate)
    group = tuple(sorted({moved[c] for c in aggregate.group}))
    renumbered = {i: _renumber_call(call, moved) for i, call in wanted.items()}
    calls = tuple(sorted(dict.fromkeys(renumbered.values()), key=_call_key))
    result = Aggregate(below, group, calls, aggregate.scalar)
    places = {i: group.index(moved[c]) for i, c in enumerate(aggregate.group)}
    places |= {i: len(group) + calls.index(call) for i, call in renumbered.items()}
    return result, places


def _used_by(call: AggregateCall) -> set[int]:
    return used_columns(call.argument, call.weight, call.count)


def _renumber_call(call: AggregateCall, moved: Moved) -> AggregateCall:
    def renumbered(expression: Scalar | None) -> Scalar | None:
        return None if expression is None else canonical(renumber(expression, moved))

    return replace(
        call, argument=renumbered(call.argument), weight=renumbered(call.weight), count=renumbered(call.count)
    )


def _call_key(call: AggregateCall) -> tuple[str, str]:
    return call.function.value, repr(call)
