"""State rows of parts, put together, are those of the whole: for every call there is, without Spark."""

import random
from collections import defaultdict

import pytest

from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Block, BlockInput, Chain
from dataflow.scalar import ColumnRef
from dataflow.schema import Column, SqlType, Table
from dataflow.spark.relations import StateMerge, can_build, merges, width
from dataflow.types import Row
from tests.dataflow.ops.test_aggregates_against_server import CASES, CHAIN, TABLE, Rows, create, insert
from tests.fixtures.postgres import Database
from tests.spark.building import looked_up

pytest.importorskip("pyarrow")

from dataflow.spark.build_tasks import decimals_added
from dataflow.spark.partitions import parts_of, ranged
from dataflow.spark.postgres_reader import Exported, at_snapshot, batches
from dataflow.spark.snapshot_holder import holding
from tests.spark.building import rows_of

TABLES = {TABLE.name: TABLE}
TEXT = SqlType("text", "text")
COUNT = SqlType("int8", "int8")


def put_together(rows: list[Row], columns: tuple[StateMerge, ...]) -> list[Row]:
    """The oracle of Spark's merge: dictionaries and whole numbers."""
    groups: dict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(v for v, merge in zip(row, columns, strict=True) if merge is StateMerge.KEY)].append(row)
    found = []
    for same in groups.values():
        merged = []
        for merge, values in zip(columns, zip(*same, strict=True), strict=True):
            known = [value for value in values if value is not None]
            if merge is StateMerge.KEY:
                merged.append(values[0])
            elif merge is StateMerge.DECIMAL:
                merged.append(decimals_added(known))
            else:
                merged.append(str(sum(map(int, known))) if known else None)
        found.append(tuple(merged))
    return found


@pytest.mark.postgres
def test_state_rows_of_parts_make_those_of_the_whole(database: Database, connect) -> None:
    connection = connect()
    create(connection)
    insert(connection, Rows(random.Random(3)).make(250))
    relations: list[Aggregate] = [Aggregate(CHAIN, (1,), (case.call,)) for case in CASES]
    # Of the calls' types only the padded text has no length here.
    relations = [relation for relation in relations if can_build(relation) is None]
    assert len(CASES) - len(relations) < 10
    relations.append(Aggregate(CHAIN, (), (CASES[0].call, CASES[2].call)))
    # By a column whose equal values print differently.
    relations.append(Aggregate(CHAIN, (4, 5), (CASES[0].call,)))
    whole = looked_up(database, relations, TABLES)
    with holding(database.url, None, [TABLE.name]) as held:
        upstream = Exported(database.url, None, held.name)
        with at_snapshot(upstream) as reader:
            parts = parts_of(reader, TABLE.name, 1 << 20, 4)
            assert len(parts) == 4
            for relation, expected in zip(relations, whole, strict=True):
                columns = merges(relation)
                assert len(columns) == width(relation) == len(next(iter(expected)))
                names = [f"c{n}" for n in range(len(columns))]
                rows = [
                    row
                    for part in parts
                    for sql in ranged(relation, TABLE, part)
                    for batch in batches(reader, sql, names)
                    for row in rows_of(batch)
                ]
                assert sorted(put_together(rows, columns), key=repr) == sorted(expected.elements(), key=repr)


def test_what_is_not_built_says_why() -> None:
    table = Chain("public.t", None, (ColumnRef(0, TEXT),))
    assert can_build(table) is None
    assert can_build(Chain("public.t", None, ())) == "it has no columns"
    assert can_build(Block((BlockInput(table),), None, table.columns)) == "it reads more than one table"
    money = ColumnRef(0, SqlType("money", "money", "other"))
    total = AggregateCall(AggregateFunction.SUM, money, money.type)
    assert "SUM of money" in str(can_build(Aggregate(Chain("public.t", None, (money,)), (), (total,))))


def test_padded_text_without_a_length_is_not_grouped() -> None:
    count = AggregateCall(AggregateFunction.COUNT_ROWS, None, COUNT)
    for sql, refused in (("bpchar", True), ("char(3)", False)):
        table = Table("public.t", (Column("c", SqlType("bpchar", sql)),))
        chain = Chain(table.name, None, (ColumnRef(0, table.columns[0].type),))
        assert (can_build(Aggregate(chain, (0,), (count,))) is not None) == refused


@pytest.mark.parametrize(
    ("texts", "total"),
    [
        ([], None),
        (["1.50"], "1.50"),
        (["1.50", "-1.50"], "0.00"),
        (["0.1", "0.2"], "0.3"),
        (["9" * 400 + ".01", "0.99"], "1" + "0" * 400 + ".00"),
        (["0." + "0" * 60 + "1", "1." + "0" * 61], "1." + "0" * 60 + "1"),
        (["NaN", "NaN"], "NaN"),
        (["-Infinity", "-Infinity"], "-Infinity"),
        (["-5", "-6"], "-11"),
    ],
)
def test_decimals_are_added_exactly(texts: list[str], total: str | None) -> None:
    assert decimals_added(texts) == total
