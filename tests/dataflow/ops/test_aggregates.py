"""Taking values away from an aggregate leaves exactly what the others alone give."""

import random

import pytest

from dataflow.ops.aggregate_state import Accumulator, accumulator_factory
from dataflow.plan.nodes import AggregateCall, AggregateFunction
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import Value

INT = SqlType("int4", "int4")
BIGINT = SqlType("int8", "int8")
NUMERIC = SqlType("numeric", "numeric")
TEXT = SqlType("text", "text")

INTEGERS: list[Value] = ["1", "-7", "0", "2147483647", None]
DECIMALS: list[Value] = ["1.0", "1.00", "-3", "0.125", "NaN", "Infinity", "-Infinity", None]
WORDS: list[Value] = ["", "a", "B", "ä", None]

CASES = [
    (AggregateFunction.COUNT, INT, BIGINT, INTEGERS),
    (AggregateFunction.SUM, INT, BIGINT, INTEGERS),
    (AggregateFunction.SUM, BIGINT, NUMERIC, INTEGERS),
    (AggregateFunction.AVG, INT, NUMERIC, INTEGERS),
    (AggregateFunction.SUM, NUMERIC, NUMERIC, DECIMALS),
    (AggregateFunction.AVG, NUMERIC, NUMERIC, DECIMALS),
    (AggregateFunction.MIN, TEXT, TEXT, WORDS),
    (AggregateFunction.MAX, INT, INT, INTEGERS),
]


def empty(function: AggregateFunction, argument: SqlType, result: SqlType) -> Accumulator:
    return accumulator_factory(AggregateCall(function, ColumnRef(0, argument), result))()


@pytest.mark.parametrize(("function", "argument", "result", "values"), CASES)
def test_taking_away_is_exact(
    function: AggregateFunction, argument: SqlType, result: SqlType, values: list[Value]
) -> None:
    draw = random.Random(1)
    kept: list[Value] = []
    state = empty(function, argument, result)
    for _ in range(500):
        if kept and draw.random() < 0.5:
            state.add(kept.pop(draw.randrange(len(kept))), -1)
        else:
            kept.append(draw.choice(values))
            state.add(kept[-1], 1)
        fresh = empty(function, argument, result)
        for value in kept:
            fresh.add(value, 1)
        assert state.result() == fresh.result(), kept


def test_a_sum_prints_with_the_largest_scale_that_is_left() -> None:
    state = empty(AggregateFunction.SUM, NUMERIC, NUMERIC)
    for value in ("1.5", "2.25", "1"):
        state.add(value, 1)
    assert state.result() == "4.75"
    state.add("2.25", -1)
    assert state.result() == "2.5"


def test_a_partial_sum_counts_its_values() -> None:
    state = empty(AggregateFunction.AVG, INT, NUMERIC)
    state.add_partial("10", 4, 3)
    assert state.result() == "2.5000000000000000"
    state.add_partial(None, 0, 5)
    assert state.result() == "2.5000000000000000"
