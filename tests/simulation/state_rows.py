"""What a lookup of an Aggregate over a Chain brings back: its *state rows* (dataflow/ops/aggregate_state.py), grouped
as the statement's GROUP BY would, with whichever of several equal texts as their representative."""

from collections.abc import Callable, Sequence
from random import Random

from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction
from dataflow.types import Columns, Key, Row, Value
from tests.simulation.oracle import compiled
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
    plans: list[tuple[int | None, Partials]] = []
    for call in aggregate.calls:
        grouping, partials = of_call(call)
        plans.append((len(groupings) if grouping else None, partials))
        if grouping:
            groupings.append(grouping)
    groups: dict[Key, list[Row]] = {} if groupings else {(): []}
    for row in compiled(aggregate.input).evaluate(rows_of):
        groups.setdefault(tuple(n(value(row)) for value, n in groupings), []).append(row)
    return [state_row(aggregate, rows, groupings, plans, rng) for rows in groups.values()]


def state_row(
    aggregate: Aggregate,
    rows: list[Row],
    groupings: list[Grouping],
    plans: list[tuple[int | None, Partials]],
    rng: Random,
) -> Row:
    """One group: its group columns, each call's partial columns, the number of rows."""
    texts = [rng.choice(rows) for _ in groupings]
    values = [value(row) for (value, _), row in zip(groupings, texts, strict=True)]
    result = values[: len(aggregate.group)]
    for index, partials in plans:
        if index is not None:
            result.append(values[index])
        result.extend(partials(rows))
    return (*result, str(len(rows)))


def of_call(call: AggregateCall) -> tuple[Grouping | None, Partials]:
    """What one call adds to GROUP BY, if anything, and its other partial columns."""
    if call.function is AggregateFunction.COUNT_ROWS:
        return None, lambda rows: (str(len(rows)),)
    assert call.argument is not None
    assert call.weight is None
    assert call.count is None
    argument = compile_scalar(call.argument)

    def count(rows: list[Row]) -> str:
        return str(sum(argument(row) is not None for row in rows))

    def total(rows: list[Row]) -> Value:
        values = [(v, 1) for row in rows if (v := argument(row)) is not None]
        if (ERROR, 1) in values:
            return ERROR
        return sum_numeric(values) if values else None

    if call.function is AggregateFunction.COUNT:
        return None, lambda rows: (count(rows),)
    if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return (argument, identity), lambda rows: (count(rows),)
    if call.argument.type.name in INTEGERS:
        return None, lambda rows: (count(rows), total(rows))
    return (lambda row: numeric_class(argument(row)), identity), lambda rows: (count(rows), total(rows))


def numeric_class(text: Value) -> Value:
    """What SUM and AVG must keep apart: the scale, or which special value it is."""
    if text is None or text in SPECIAL:
        return text
    return str(len(text.partition(".")[2]))
