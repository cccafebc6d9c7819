"""Plans over rows whose columns are at other places than in the table's definition."""

from dataclasses import replace

from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Block, BlockInput, Chain
from dataflow.plan.placement import placed
from dataflow.plan.refresh import TableRead
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import SqlType

INT = SqlType("int4", "integer")
BOOL = SqlType("bool", "boolean")
TABLE, OTHER = "public.t", "public.u"


def column(index: int) -> ColumnRef:
    return ColumnRef(index, INT)


def chain(table: str, *columns: int) -> Chain:
    positive = Call(">", (column(columns[0]), Literal("0", INT)), BOOL)
    return Chain(table, positive, tuple(column(index) for index in columns))


def test_only_columns_of_the_table_move() -> None:
    """Nodes above a chain refer to the chain's columns."""
    count = AggregateCall(AggregateFunction.SUM, column(1), INT)
    relation = Block(
        (BlockInput(Aggregate(chain(TABLE, 0, 1), (0,), (count,))), BlockInput(chain(OTHER, 0, 1))), None, (column(1),)
    )
    moved = placed(relation, {TABLE: (0, 5)})
    first, second = relation.inputs
    assert isinstance(first.relation, Aggregate)
    assert moved == replace(relation, inputs=(BlockInput(replace(first.relation, input=chain(TABLE, 0, 5))), second))
    assert placed(relation, {}) is relation
    assert placed(relation, {TABLE: (0, 1)}) == relation


def test_reads_of_refreshed_views_move() -> None:
    read = TableRead(TABLE, frozenset((0, 1)), Call("is null", (column(1),), BOOL), ((1, 0),))
    assert placed((read,), {TABLE: (3, 2)}) == (
        TableRead(TABLE, frozenset((3, 2)), Call("is null", (column(2),), BOOL), ((2, 0),)),
    )
