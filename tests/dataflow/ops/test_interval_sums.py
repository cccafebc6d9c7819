"""Sums of intervals whose finite part is out of range, infinities or not: the server's error."""

import psycopg
import pytest

from dataflow.errors import EvaluationError
from dataflow.ops.aggregate_sums import IntervalAverage, IntervalSum

FAR = "178000000 years"


@pytest.mark.postgres
@pytest.mark.parametrize(
    "values",
    [
        (FAR, FAR),
        (FAR, FAR, "infinity"),
        (FAR, FAR, "-infinity"),
        ("infinity", "-infinity"),
        (FAR, "infinity"),
        ("178956970 years 7 mons", "2147483647 days", "2562047788:00:54.775807"),
        ("2147483647 days", "1 day", "infinity"),
        ("2562047788:00:00", "2562047788:00:00", "-infinity"),
        ("1 day",),
    ],
)
def test_it_is_the_server_s(connect, values: tuple[str, ...]) -> None:
    for function, state in (("sum", IntervalSum()), ("avg", IntervalAverage())):
        for value in values:
            state.add(value, 1)
        sql = f"SELECT {function}(v::interval)::text FROM unnest(%s::text[]) v"
        try:
            ((expected,),) = connect().execute(sql.encode(), [list(values)]).fetchall()
        except psycopg.Error:
            with pytest.raises(EvaluationError):
                state.result()
        else:
            assert state.result() == expected


@pytest.mark.parametrize("state", [IntervalSum(), IntervalAverage()])
def test_a_sum_that_may_be_out_of_range_on_the_way_is_not_computed(state: IntervalSum) -> None:
    for value in (FAR, f"-{FAR}", FAR, f"-{FAR}", "1 day"):
        state.add(value, 1)
    with pytest.raises(EvaluationError, match="not computed"):
        state.result()
    for value in (FAR, f"-{FAR}"):
        state.add(value, -1)
    assert state.result() is not None
