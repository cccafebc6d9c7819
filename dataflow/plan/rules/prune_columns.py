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
    ChainParameters,
    JoinCondition,
    OrderTerm,
    Relation,
    Source,
    TopK,
    Union,
    View,
    Window,
    WindowCall,
    column_types,
)
from dataflow.plan.rewriting import as_source, offsets, widths
from dataflow.plan.rules.join_conditions import condition_key
from dataflow.scalar import Scalar

#: Where the needed columns of a relation went: old index -> new index.
Moved = dict[int, int]


def prune(relation: Relation, needed: Iterable[int]) -> tuple[Relation, Moved]:
    """The relation with the `needed` columns only, in canonical order, and where they went."""
    match relation:
        case Chain():
            return _prune_chain(relation, needed)
        case Block():
            return _prune_block(relation, set(needed))
        case Union():
            return _prune_union(relation, set(needed))
        case Aggregate():
            return _prune_aggregate(relation, set(needed))
        case Window():
            return _prune_window(relation, set(needed))
        case TopK():
            return _prune_top_k(relation, set(needed))


def prune_view(view: View) -> View:
    """The view without columns that nobody needs."""
    needed = {c.column for c in view.output} | set(view.key_columns) | {t.column for t in view.leaf_order}
    relation, moved = prune(view.relation, needed | set(view.range_columns))
    return replace(
        view,
        relation=as_source(relation),
        parameters=tuple(replace(p, column=moved[p.column]) for p in view.parameters),
        output=tuple(replace(c, column=moved[c.column]) for c in view.output),
        order=tuple(replace(t, column=moved[t.column]) for t in view.order),
        ranges=tuple(replace(r, column=moved[r.column]) for r in view.ranges),
        clock=tuple(replace(b, column=moved[b.column]) for b in view.clock),
        clock_filters=tuple(replace(b, column=moved[b.column]) for b in view.clock_filters),
        clock_keys=tuple(replace(b, column=moved[b.column]) for b in view.clock_keys),
    )


def _prune_chain(chain: Chain, needed: Iterable[int]) -> tuple[Relation, Moved]:
    columns, moved = _ordered(chain.columns, needed)
    pruned = replace(chain, predicate=conjunction(conjuncts(chain.predicate)), columns=columns)
    if chain.parameters is None:
        return pruned, moved
    first, types = chain.parameters.first, chain.parameters.types
    used = sorted(c - first for c in used_columns(pruned.predicate, *columns) if c >= first)
    if not used:
        return replace(pruned, parameters=None), moved
    if len(used) == len(types):
        return pruned, moved
    places = {c: c for c in range(first)} | {first + old: first + new for new, old in enumerate(used)}
    predicate = None if pruned.predicate is None else renumber(pruned.predicate, places)
    kept = tuple(renumber(c, places) for c in columns)
    return Chain(chain.table, predicate, kept, ChainParameters(first, tuple(types[i] for i in used))), moved


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
    used = used | used_columns(*(item.on for item in block.inputs))
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
    moved = {starts[i] + old: new_starts[i] + new for i, gone in enumerate(places) for old, new in gone.items()}
    return tuple(replace(item, on=_renumbered(item.on, moved)) for item in inputs), moved


def _renumbered(expression: Scalar | None, moved: Moved) -> Scalar | None:
    return None if expression is None else conjunction(renumber(p, moved) for p in conjuncts(expression))


def _prune_union(union: Union, needed: set[int]) -> tuple[Relation, Moved]:
    """All branches with the same columns in the same places; the branches stand in a canonical order."""
    branches = [prune(branch, needed) for branch in union.inputs]
    branches.sort(key=lambda branch: repr(branch[0]))
    tuples = {i: tuple(moved[i] for _, moved in branches) for i in needed}
    order = sorted(set(tuples.values()))
    aligned = [_aligned(as_source(branch), [t[k] for t in order]) for k, (branch, _) in enumerate(branches)]
    return Union(tuple(aligned)), {i: order.index(t) for i, t in tuples.items()}


def _aligned(relation: Source, places: list[int]) -> Source:
    """The relation with the columns at `places` for columns."""
    if isinstance(relation, Union):
        return Union(tuple(_aligned(branch, places) for branch in relation.inputs))
    return replace(relation, columns=tuple(relation.columns[c] for c in places))


def _conditions(item: BlockInput, places: list[Moved], position: int) -> tuple[JoinCondition, ...]:
    moved = {JoinCondition(places[position][c.own], c.input, places[c.input][c.column]) for c in item.conditions}
    return tuple(sorted(moved, key=condition_key))


def _prune_aggregate(aggregate: Aggregate, needed: set[int]) -> tuple[Relation, Moved]:
    width = len(aggregate.group)
    wanted = {i: aggregate.calls[i - width] for i in needed if i >= width}
    used = set(aggregate.group).union(*(_used_by(call) for call in wanted.values()))
    below, moved = prune(aggregate.input, used)
    group = tuple(sorted({moved[c] for c in aggregate.group}))
    renumbered = {i: _renumber_call(call, moved) for i, call in wanted.items()}
    calls = tuple(sorted(dict.fromkeys(renumbered.values()), key=_call_key))
    result = Aggregate(as_source(below), group, calls, aggregate.scalar)
    places = {i: group.index(moved[c]) for i, c in enumerate(aggregate.group)}
    places |= {i: len(group) + calls.index(call) for i, call in renumbered.items()}
    return result, places


def _used_by(call: AggregateCall) -> set[int]:
    ordered = (term.expression for term in call.order)
    return used_columns(call.argument, call.weight, call.count, call.keeps, *call.others, *ordered)


def _renumber_call(call: AggregateCall, moved: Moved) -> AggregateCall:
    def renumbered(expression: Scalar | None) -> Scalar | None:
        return None if expression is None else canonical(renumber(expression, moved))

    return replace(
        call,
        argument=renumbered(call.argument),
        weight=renumbered(call.weight),
        count=renumbered(call.count),
        others=tuple(canonical(renumber(other, moved)) for other in call.others),
        order=tuple(replace(t, expression=canonical(renumber(t.expression, moved))) for t in call.order),
        keeps=renumbered(call.keeps),
    )


def _call_key(call: AggregateCall) -> tuple[str, str]:
    return call.function.value, repr(call)


def _prune_window(window: Window, needed: set[int]) -> tuple[Relation, Moved]:
    width = len(column_types(window.input))
    wanted = {i: window.calls[i - width] for i in needed if i >= width}
    own = {i for i in needed if i < width}
    if not wanted:
        return prune(window.input, own)
    below, moved = prune(window.input, own.union(window.partition, *(_used_by_window(c) for c in wanted.values())))
    renumbered = {i: _renumber_window_call(call, moved) for i, call in wanted.items()}
    calls = tuple(sorted(dict.fromkeys(renumbered.values()), key=repr))
    result = Window(as_source(below), tuple(sorted({moved[c] for c in window.partition})), calls)
    start = len(column_types(below))
    return result, {i: moved[i] for i in own} | {i: start + calls.index(call) for i, call in renumbered.items()}


def _used_by_window(call: WindowCall) -> set[int]:
    return used_columns(*call.arguments, call.keeps) | {term.column for term in call.order}


def _renumber_window_call(call: WindowCall, moved: Moved) -> WindowCall:
    return replace(
        call,
        arguments=tuple(canonical(renumber(a, moved)) for a in call.arguments),
        order=_renumber_order(call.order, moved),
        keeps=None if call.keeps is None else canonical(renumber(call.keeps, moved)),
    )


def _renumber_order(order: tuple[OrderTerm, ...], moved: Moved) -> tuple[OrderTerm, ...]:
    return tuple(replace(term, column=moved[term.column]) for term in order)


def _prune_top_k(top: TopK, needed: set[int]) -> tuple[Relation, Moved]:
    below, moved = prune(top.input, needed.union(top.partition, (term.column for term in top.order)))
    partition = tuple(sorted({moved[c] for c in top.partition}))
    pruned = replace(top, input=as_source(below), partition=partition, order=_renumber_order(top.order, moved))
    return pruned, moved
