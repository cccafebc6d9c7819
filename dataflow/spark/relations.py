"""Relations that Spark computes, and the merging of state rows of several partitions into those of one lookup.

A lookup of everything of a chain is its rows; those of partitions are simply together. Of an aggregate it is state
rows (`ops.aggregate_state`), which the upstream makes for each partition: one for each distinct combination of texts of
what it grouped by. So state rows of several partitions are those of the whole when rows of equal texts are made one:
counts are added, and sums.

*Invariants*: texts that the upstream printed are compared and passed on, never parsed and printed again, but for counts
and sums, whose texts are those of exact numbers.

Not here: the SQL (`lookups`), Spark (`build_tasks`).
"""

from enum import StrEnum

from dataflow.ops.aggregate_state import accumulator_factory
from dataflow.plan.calls import CallState, argument_of, list_columns, state_of
from dataflow.plan.expressions import inline
from dataflow.plan.nodes import Aggregate, AggregateCall, Chain, Relation
from dataflow.plan.table_access import chain_of
from dataflow.scalar import Call, Literal, Scalar


class StateMerge(StrEnum):
    """Merging of a column of state rows over several partitions."""

    #: Its text is part of what is equal.
    KEY = "key"
    #: Counts are added.
    COUNT = "count"
    #: Whole numbers are added. NULL is nothing.
    WHOLE = "whole"
    #: Decimals of one scale (NaN and infinities: only those) are added. NULL is nothing.
    DECIMAL = "decimal"


def can_build(relation: Relation) -> str | None:
    """None, or why Spark does not compute the rows of a lookup of everything."""
    chain = relation.input if isinstance(relation, Aggregate) else relation
    if not isinstance(chain, Chain) or not isinstance(relation, Chain | Aggregate):
        return "it reads more than one table"
    if isinstance(relation, Chain):
        return None if relation.columns else "it has no columns"
    for call in relation.calls:
        try:
            accumulator_factory(call)
        except ValueError as problem:
            return str(problem)
    # Which text of equal ones stands for a group is by chance, so that partitions do not agree.
    if any(_has_unsized_padding(value) for value in _grouped_values(relation)):
        return "it groups by text of no fixed length whose trailing spaces do not count"
    return None


def width(relation: Chain | Aggregate) -> int:
    """How many columns the rows of a lookup have."""
    return len(relation.columns) if isinstance(relation, Chain) else len(merges(relation))


def merges(aggregate: Aggregate) -> tuple[StateMerge, ...]:
    """By column of the aggregate's state rows, in the order of `lookups`."""
    found = [StateMerge.KEY] * len(aggregate.group)
    for call in aggregate.calls:
        found += _of_call(call)
    return (*found, StateMerge.COUNT)


def _of_call(call: AggregateCall) -> list[StateMerge]:
    match state_of(call):
        case CallState.ROWS | CallState.COUNT:
            return [StateMerge.COUNT]
        case CallState.SUM:
            whole = argument_of(call).type.is_integer
            return (
                [StateMerge.COUNT, StateMerge.WHOLE]
                if whole
                else [StateMerge.KEY, StateMerge.COUNT, StateMerge.DECIMAL]
            )
        case CallState.TRUTHS:
            return [StateMerge.COUNT, StateMerge.COUNT]
        case CallState.VALUES:
            return [StateMerge.KEY, StateMerge.COUNT]
        case CallState.LIST:
            return [StateMerge.KEY] * len(list_columns(call)) + [StateMerge.COUNT]


def _grouped_values(aggregate: Aggregate) -> list[Scalar]:
    chain = chain_of(aggregate)
    found = [chain.columns[c] for c in aggregate.group]
    for call in aggregate.calls:
        match state_of(call):
            case CallState.LIST:
                found += [inline(column, chain.columns) for column in list_columns(call)]
            case CallState.VALUES:
                found.append(inline(argument_of(call), chain.columns))
            case CallState.ROWS | CallState.COUNT | CallState.SUM | CallState.TRUTHS:
                pass
    return found


def _has_unsized_padding(value: Scalar) -> bool:
    if isinstance(value, Literal) or value.type.is_text or not value.type.is_string:
        return False
    return isinstance(value, Call) or not value.type.sql.endswith(")")


__all__ = ["StateMerge", "can_build", "merges", "width"]
