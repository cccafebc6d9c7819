"""Deltas of windows and top-k are exact, whatever came before; what is not covered is dropped."""

import random

import pytest

from dataflow.ops.partitions import Partitioned
from dataflow.plan.nodes import Chain, Frame, OrderTerm, TopK, Window, WindowCall, column_types
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.state.materialization import Materialization, as_bag
from dataflow.types import Columns, Row

INT = SqlType("int4", "int4")
NUMERIC = SqlType("numeric", "numeric")
BIGINT = SqlType("int8", "int8")
#: Partition columns a, b; then a value.
CHAIN = Chain("public.t", None, (ColumnRef(0, INT), ColumnRef(1, NUMERIC), ColumnRef(2, INT)))
BY_VALUE = (OrderTerm(2, descending=True),)
RANKED = Window(CHAIN, (0, 1), (WindowCall("rank", (), BY_VALUE, Frame(), BIGINT),))
FIRST_TWO = TopK(CHAIN, (0, 1), BY_VALUE, 2)
THIRD = TopK(CHAIN, (0, 1), BY_VALUE, 1, 2)


def partitioned(relation: Window | TopK, *covered: Columns) -> Partitioned:
    made = Partitioned(relation, Materialization(column_types(relation)))
    for columns in covered:
        made.materialization.require_coverage(columns)
    return made


def test_a_rank_that_moves_is_replaced() -> None:
    node = partitioned(RANKED, (0, 1))
    node.fill((0, 1), ("1", "1"), node.partitions_of_rows([("1", "1.0", "5"), ("1", "1.00", "3")]))
    assert node.materialization.bag() == {("1", "1.0", "5", "1"): 1, ("1", "1.00", "3", "2"): 1}
    delta = node.absorb(([("1", "1.0", "5")], [("1", "1", "4"), ("1", "2", "9")]))
    assert as_bag(delta[0]) == {("1", "1.0", "5", "1"): 1}
    assert as_bag(delta[1]) == {("1", "1", "4", "1"): 1}
    node.check()


def test_the_next_row_moves_up() -> None:
    node = partitioned(FIRST_TWO, ())
    node.fill((), (), node.partitions_of_rows([("1", "1", str(i)) for i in range(4)]))
    assert node.absorb(([("1", "1", "3")], [])) == ([("1", "1", "3")], [("1", "1", "1")])
    assert node.absorb(([("1", "1", "0")], [])) == ([], [])
    node.check()


def test_a_partition_without_output_is_evicted_too() -> None:
    node = partitioned(THIRD, (0,))
    node.fill((0,), ("1",), node.partitions_of_rows([("1", "1", "5"), ("1", "1", "3")]))
    node.check()
    node.evict((0,), ("1",))
    assert not node.partitions
    node.check()


def test_truncate_keeps_coverage() -> None:
    node = partitioned(FIRST_TWO, (0,))
    node.fill((0,), ("1",), node.partitions_of_rows([("1", "1", "5"), ("1", "2", "3")]))
    removed, added = node.truncate()
    assert len(removed) == 2
    assert added == []
    assert node.absorb(([], [("1", "7", "1"), ("2", "7", "1")])) == ([], [("1", "7", "1")])
    node.check()


@pytest.mark.parametrize("relation", [RANKED, FIRST_TWO, THIRD, TopK(CHAIN, (0,), BY_VALUE, 1, with_ties=True)])
@pytest.mark.parametrize("seed", range(5))
def test_any_history_gives_what_the_rows_alone_give(relation: Window | TopK, seed: int) -> None:
    draw = random.Random(seed)
    node = partitioned(relation, (), (0,), relation.partition)
    fresh = partitioned(relation, ())
    table: list[Row] = []

    def row() -> Row:
        return draw.choice(["1", "2", None]), draw.choice(["1", "1.0", "2"]), str(draw.randint(1, 3))

    for _ in range(150):
        removed = [table.pop(draw.randrange(len(table))) for _ in range(draw.randint(0, 2)) if table]
        added = [row() for _ in range(draw.randint(0, 2))]
        table += added
        before = node.materialization.bag()
        delta = node.absorb((removed, added))
        for gone in delta[0]:
            before[gone] -= 1
        for came in delta[1]:
            before[came] = before.get(came, 0) + 1
        assert {r: n for r, n in before.items() if n} == node.materialization.bag()
        columns = draw.choice([(), (0,), relation.partition])
        key = ("1", "1")[: len(columns)]
        if key in node.materialization.coverage[columns]:
            node.evict(columns, key)
        elif columns and node.materialization.subsumed(columns, (key,)):
            node.cover_known(columns, key)
        else:
            under = [r for r in table if all(r[c] in ("1", "1.0") for c in columns)]
            node.fill(columns, key, node.partitions_of_rows(under))
        node.check()
        fresh.clear()
        fresh.fill((), (), fresh.partitions_of_rows(table))
        known = {r: n for r, n in fresh.materialization.bag().items() if node.materialization.is_known(r)}
        assert node.materialization.bag() == known
