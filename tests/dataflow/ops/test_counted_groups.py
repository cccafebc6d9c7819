"""Groups that only count their rows: they are made of the rows that they give."""

import pytest

from dataflow.errors import InvariantViolation
from dataflow.ops.aggregate import Grouping
from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Chain, column_types
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.state.materialization import Materialization
from dataflow.types import Columns

TEXT, INT8 = SqlType("text", "text"), SqlType("int8", "int8")
CHAIN = Chain("public.t", None, (ColumnRef(0, TEXT), ColumnRef(1, TEXT)))
COUNT = AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8)


def counting(columns: Columns, calls: int = 1) -> Grouping:
    aggregate = Aggregate(CHAIN, (0, 1), (COUNT,) * calls)
    made = Grouping(aggregate, Materialization(column_types(aggregate)))
    made.materialization.require_coverage(columns)
    return made


@pytest.mark.parametrize("columns", [(), (0,), (0, 1)])
@pytest.mark.parametrize("calls", [1, 2])
def test_counts_follow_rows(columns: Columns, calls: int) -> None:
    kept = counting(columns, calls)
    key, rows = ("a", "x")[: len(columns)], [("a", "x"), ("a", "x")]
    kept.fill(columns, key, kept.groups_of_rows(rows))
    assert kept.materialization.bag() == {("a", "x", *("2",) * calls): 1}
    assert kept.absorb(([("a", "x")], [])) == ([("a", "x", *("2",) * calls)], [("a", "x", *("1",) * calls)])
    assert kept.absorb(([("a", "x")], [])) == ([("a", "x", *("1",) * calls)], [])
    kept.check()
    # The key is covered still; a group that comes and goes at once leaves nothing.
    assert kept.absorb(([("a", "x")], [("a", "x")])) == ([], [])
    assert kept.absorb(([], [("a", "x")])) == ([], [("a", "x", *("1",) * calls)])
    kept.check()
    assert kept.truncate() == ([("a", "x", *("1",) * calls)], [])
    kept.absorb(([], [("a", "x")]))
    kept.evict(columns, key)
    kept.check()
    assert not kept.groups
    assert kept.absorb(([], [("a", "x")])) == ([], [])
    assert kept.rows_dropped == 1


def test_groups_are_restored_once() -> None:
    kept, other = counting((0, 1)), counting((0, 1))
    kept.fill((0, 1), ("a", "x"), kept.groups_of_rows([("a", "x")] * 3))
    records = list(kept.records())
    other.materialization.coverage[0, 1].restore([("a", "x")], [0])
    other.restore(records, {}, all_known=True)
    other.check()
    assert list(other.records()) == records == [(("a", "x"), None, 3, ("a", "x", "3"), ((3,),))]
    for again in (records, records * 2):
        with pytest.raises(InvariantViolation):
            other.restore(again, {}, all_known=True)
    other.clear()
    other.materialization.coverage[0, 1].restore([("a", "x")], [0])
    with pytest.raises(InvariantViolation):
        other.restore(records * 2, {}, all_known=True)
