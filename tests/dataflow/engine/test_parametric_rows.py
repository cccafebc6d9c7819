"""Rows of parametric chains that the simulation does not make."""

from dataflow.engine.parametric_rows import ParametricRows
from dataflow.ops.chain import ChainFunction
from dataflow.plan.nodes import Chain, ChainParameters
from dataflow.scalar import Call, ColumnRef
from dataflow.schema import SqlType
from dataflow.state.coverage import Coverage

INT, BOOL = SqlType("int4", "int4"), SqlType("bool", "bool")
#: id and least of the rows of a table of id and size whose size is more than least.
LARGER = Chain(
    "public.boxes",
    Call(">", (ColumnRef(1, INT), ColumnRef(2, INT)), BOOL),
    (ColumnRef(0, INT), ColumnRef(2, INT)),
    ChainParameters(2, (INT,)),
)


def keys(*values: str) -> list[tuple[tuple[int, ...], Coverage]]:
    coverage = Coverage((1,))
    for value in values:
        coverage.add((value,))
    return [((1,), coverage)]


def test_a_row_is_one_for_each_active_tuple_that_it_fits() -> None:
    rows = ParametricRows(ChainFunction(LARGER))
    assert rows.delta([], [("7", "3")], keys("1", "2", "5")) == ([], [("7", "1"), ("7", "2")])


def test_columns_that_were_added_to_the_table_are_no_parameters() -> None:
    rows = ParametricRows(ChainFunction(LARGER))
    assert rows.delta([], [("7", "3", "0")], keys("5")) == ([], [])


def test_the_keys_covered_first_are_beyond_the_limit() -> None:
    rows = ParametricRows(ChainFunction(LARGER))
    ((columns, coverage),) = keys("1", "2", "5")
    assert list(rows.surplus([("7", "3")], (columns, coverage), 2)) == [("1",)]
