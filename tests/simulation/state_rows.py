"""Rows of a lookup of an Aggregate over a Chain: its *state rows* (dataflow/ops/aggregate_state.py), grouped as the
statement's GROUP BY would, with whichever of several equal texts as their representative."""

from collections.abc import Callable, Sequence
from random import Random

from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction
from dataflow.types import Columns, Key, Row, Value
from tests.simulation.oracle import compiled
from tests.simulation.oracle_aggregates import LISTS
from tests.simulation.oracle_values import (
    ERROR,
    INTEGERS,
    SPECIAL,
    Normal,
    compile_scalar,
    identity,
    normals_of,
    sum_numeric,
)

#: A value by which state rows are grouped, from an input row, with its normal form; and the partials of a group.
Grouping = tuple[Callable[[Row], Value], Normal]
Partials = Callable[[list[Row]], Row]


def state_normals(aggregate: Aggregate, columns: Columns) -> tuple[Normal, ...]:
    """Normal forms of group columns, by their index in the aggregate."""
    return normals_of(aggregate, columns)


def state_rows(aggregate: Aggregate, rows_of: Callable[[str], Sequence[Row]], rng: Random) -> list[Row]:
    """The state rows of all groups."""
    groupings: list[Grouping] = [(lambda row, c=c: row[c], identity) for c in aggregate.group]  # type: ignore[misc]
    plans: list[tuple[range, Partials]] = []
    for call in aggregate.calls:
        own, partials = of_call(call)
        plans.append((range(len(groupings), len(groupings) + len(own)), partials))
        groupings += own
    groups: dict[Key, list[Row]] = {} if groupings else {(): []}
    for row in compiled(aggregate.input).evaluate(rows_of):
        groups.setdefault(tuple(n(value(row)) for value, n in groupings), []).append(row)
    return [state_row(aggregate, rows, groupings, plans, rng) for rows in groups.values()]


def state_row(
    aggregate: Aggregate,
    rows: list[Row],
    groupings: list[Grouping],
    plans: list[tuple[range, Partials]],
    rng: Random,
) -> Row:
    """One group: its group columns, each call's partial columns, the number of rows."""
    texts = [rng.choice(rows) for _ in groupings]
    values = [value(row) for (value, _), row in zip(groupings, texts, strict=True)]
    result = values[: len(aggregate.group)]
    for own, partials in plans:
        result += [values[i] for i in own]
        result.extend(partials(rows))
    return (*result, str(len(rows)))


def of_call(call: AggregateCall) -> tuple[list[Grouping], Partials]:
    """Return one call's additions to GROUP BY, and its other partial columns."""
    assert call.weight is None
    assert call.count is None
    keeps = None if call.keeps is None else compile_scalar(call.keeps)

    def kept(rows: list[Row]) -> list[Row]:
        return [row for row in rows if keeps is None or keeps(row) == "t"]

    if call.argument is None:
        return [], lambda rows: (str(len(kept(rows))),)
    argument = compile_scalar(call.argument)
    if call.function in LISTS:
        columns = dict.fromkeys((call.argument, *call.others, *(term.expression for term in call.order)))
        return [(compile_scalar(c), identity) for c in columns], lambda rows: (str(len(kept(rows))),)

    def count(rows: list[Row], *wanted: str) -> str:
        values = [argument(row) for row in kept(rows)]
        return str(sum(value in wanted if wanted else value is not None for value in values))

    def total(rows: list[Row]) -> Value:
        values = [(v, 1) for row in kept(rows) if (v := argument(row)) is not None]
        if (ERROR, 1) in values:
            return ERROR
        return sum_numeric(values) if values else None

    if call.function in (AggregateFunction.BOOL_AND, AggregateFunction.BOOL_OR):
        return [], lambda rows: (count(rows, "t"), count(rows, "f"))
    if call.distinct or call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return [(argument, identity)], lambda rows: (count(rows),)
    if call.function is AggregateFunction.COUNT:
        return [], lambda rows: (count(rows),)
    if call.function not in (AggregateFunction.SUM, AggregateFunction.AVG):
        raise NotImplementedError(f"state rows of {call.function} are not made here")
    if call.argument.type.name in INTEGERS:
        return [], lambda rows: (count(rows), total(rows))
    return [(lambda row: numeric_class(argument(row)), identity)], lambda rows: (count(rows), total(rows))


def numeric_class(text: Value) -> Value:
    """Return the class of values that SUM and AVG must keep apart: the scale, or the special value."""
    if text is None or text in SPECIAL:
        return text
    return str(len(text.partition(".")[2]))
