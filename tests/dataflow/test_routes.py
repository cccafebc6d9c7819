"""Which input of a join is driven, in which order the others follow, and by which columns a relation can be had."""

from dataclasses import replace

import pytest

from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Block,
    BlockInput,
    Chain,
    Frame,
    JoinCondition,
    OrderTerm,
    Relation,
    TopK,
    Union,
    Window,
    WindowCall,
)
from dataflow.plan.route_conditions import conditions, paddings_read, relevant_columns
from dataflow.plan.routes import block_route, coverable, delta_order, union_columns
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.types import Columns

INT4, INT8, BOOL = SqlType("int4", "int4"), SqlType("int8", "int8"), SqlType("bool", "bool")


def refs(*indexes: int) -> tuple[ColumnRef, ...]:
    return tuple(ColumnRef(i, INT4) for i in indexes)


def table(name: str, rows: float, *, unique: bool = False, indexed: Columns = ()) -> Table:
    columns = tuple(Column(c, INT4, True) for c in "abc")
    return Table(name, columns, ((0,),) if unique else (), indexes=tuple((c,) for c in indexed), estimated_rows=rows)


CATALOG = Catalog(
    {
        t.name: t
        for t in (
            table("big", 1e6),
            table("small", 10),
            table("indexed", 1e7, indexed=(0,)),
            table("keyed", 1e8, unique=True),
        )
    }
)
BIG, SMALL, INDEXED, KEYED = (Chain(name, None, refs(0, 1, 2)) for name in ("big", "small", "indexed", "keyed"))
COMPUTED = Chain("big", None, (*refs(0), Call("+", refs(1, 2), INT4)))
COUNTS = Aggregate(BIG, (1, 0), (AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8),))
RANKS = Window(BIG, (1, 2), (WindowCall("row_number", (), (), Frame(), INT8),))
FIRST = TopK(BIG, (2,), (OrderTerm(0),), 3)


def joined(*relations: Relation) -> Block:
    """Joined by their first columns; all columns of the first."""
    inputs = [BlockInput(r, False, (JoinCondition(0, 0, 0),) if i else ()) for i, r in enumerate(relations)]
    return Block(tuple(inputs), None, refs(0, 1, 2))


@pytest.mark.parametrize(
    ("relation", "columns", "expected"),
    [
        (BIG, (0, 2), (0, 2)),
        (COMPUTED, (0, 1), (0,)),
        (COMPUTED, (1,), ()),
        (COUNTS, (0, 2), (0,)),
        (COUNTS, (0, 1), (0, 1)),
        (replace(COUNTS, input=COMPUTED, group=(1, 0)), (0, 1), (1,)),
        (RANKS, (0, 1, 3), (1,)),
        (FIRST, (0, 2), (2,)),
        (joined(BIG, SMALL), (1, 2), (1, 2)),
        (Union((BIG, COMPUTED)), (0, 1), (0, 1)),
        (Union((BIG, COMPUTED)), (1,), ()),
    ],
)
def test_what_a_relation_can_be_had_by(relation: Relation, columns: Columns, expected: Columns) -> None:
    assert coverable(relation, columns) == expected


def test_the_branches_of_a_union_are_had_by_what_they_share() -> None:
    tagged = Chain("small", None, (Literal("1", INT4), *refs(1)))
    assert union_columns(Union((BIG, tagged)), (0, 1)) == (1,)
    assert union_columns(Union((tagged, COMPUTED)), (0, 1)) == ()


@pytest.mark.parametrize(
    ("inputs", "driver"),
    [
        ((BIG, SMALL), 1),
        ((BIG, SMALL, INDEXED), 2),
        ((BIG, INDEXED, KEYED), 2),
        ((FIRST, BIG), 1),
        ((joined(FIRST), SMALL), 1),
    ],
)
def test_what_is_cheapest_to_look_up_is_driven(inputs: tuple[Relation, ...], driver: int) -> None:
    route = block_route(joined(*inputs), (0,), CATALOG)
    assert route is not None
    assert (route.driver, route.driver_columns) == (driver, (0,))


def test_what_owns_more_of_the_key_is_driven_first() -> None:
    route = block_route(joined(BIG, KEYED), (0, 1), CATALOG)
    assert route is not None
    assert (route.driver, route.driver_columns, route.key_positions) == (0, (0, 1), (0, 1))


def test_what_nothing_connects_comes_last_of_the_inner_ones() -> None:
    counts = BlockInput(COUNTS, True, (JoinCondition(1, 0, 0),))
    inputs = (BlockInput(BIG), BlockInput(SMALL), BlockInput(KEYED, False, (JoinCondition(0, 0, 1),)), counts)
    block = Block(inputs, None, refs(0))
    order = delta_order(block, 0)
    assert [(step.input, step.columns) for step in order.inner] == [(2, (0,)), (1, ())]
    assert [step.input for step in order.left] == [3]
    assert [step.input for step in delta_order(block, 3).inner] == [0, 2, 1]


def test_the_rest_of_on_is_asked_when_all_it_reads_is_bound() -> None:
    """big, LEFT JOIN small ON equal, LEFT JOIN keyed ON small.b is NULL, LEFT JOIN indexed ON equal to keyed's."""
    missing = Call("is null", refs(4), BOOL)
    hung = BlockInput(KEYED, True, (JoinCondition(0, 0, 1),), missing)
    below = BlockInput(INDEXED, True, (JoinCondition(0, 2, 1),))
    block = Block((BlockInput(BIG), BlockInput(SMALL, True, (JoinCondition(0, 0, 0),)), hung, below), None, refs(0))
    order = delta_order(block, 3)
    assert [step.input for step in order.inner] == [2, 0]
    assert [(step.input, step.pads) for step in order.above] == [(1, True)]
    assert order.matched == (2,)
    route = block_route(block, (0,))
    assert route is not None
    assert relevant_columns(block, route, 1) == (0, 1)


def test_a_condition_is_asked_when_all_it_reads_is_bound_and_may_let_a_route_go_on() -> None:
    """big, LEFT JOIN small, LEFT JOIN keyed; small.b is NULL. What may fail for a row is asked last."""
    missing, failing = Call("is null", refs(4), BOOL), Call("=", (Call("/", refs(0, 1), INT4), *refs(4)), BOOL)
    inputs = (
        BlockInput(BIG),
        BlockInput(SMALL, True, (JoinCondition(0, 0, 0),)),
        BlockInput(KEYED, True, (JoinCondition(0, 0, 1),)),
    )
    block = Block(inputs, Call("and", (missing, failing), BOOL), refs(0))
    route = block_route(block, (0,))
    assert route is not None
    assert conditions(block, route.order()) == [[], [missing], []]
    assert relevant_columns(block, route, 1) == (0, 1)
    assert paddings_read(block, route) == {1}
