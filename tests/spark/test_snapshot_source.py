"""Tables as a Spark data source, and what of a filter the upstream is asked."""

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNotNull, IsNull

from cdc.postgres.session import SESSION_SETTINGS as STREAM
from dataflow.plan.render import render
from dataflow.schema import Column, SqlType, Table
from dataflow.spark.partitions import Range
from dataflow.spark.postgres_reader import SESSION_SETTINGS, Exported
from dataflow.spark.pushdown import condition
from dataflow.spark.snapshot_holder import holding
from dataflow.spark.snapshot_source import register
from dataflow.spark.upstreams import PostgresBatchUpstream
from tests.fixtures.postgres import Database

TABLE = Table(
    "public.t",
    (
        Column("i", SqlType("int4", "int4")),
        Column("t", SqlType("text", "text", collation="deterministic")),
        Column("x", SqlType("text", "text", collation="nondeterministic")),
        Column("n", SqlType("numeric", "numeric")),
    ),
)


def test_values_print_as_in_the_stream() -> None:
    assert SESSION_SETTINGS == STREAM


@pytest.mark.parametrize(
    ("wanted", "sql"),
    [
        (EqualTo(("i",), "5"), "t.\"i\" IN ('5'::int8)"),
        (EqualTo(("i",), "05"), None),
        (EqualTo(("i",), "5.0"), None),
        (EqualTo(("i",), str(2**63)), None),
        (EqualTo(("t",), "it's\\"), "t.\"t\" IN (E'it''s\\\\'::text)"),
        (EqualTo(("t",), "a\0b"), None),
        (EqualTo(("x",), "a"), None),
        (EqualTo(("n",), "1.0"), None),
        (In(("t",), ("a", "b")), "t.\"t\" IN ('a'::text, 'b'::text)"),
        (In(("i",), ("1", "x")), None),
        (IsNull(("n",)), 't."n" IS NULL'),
        (IsNotNull(("x",)), 't."x" IS NOT NULL'),
        (GreaterThan(("i",), "5"), None),
        (EqualTo(("unknown",), "5"), None),
    ],
)
def test_only_what_is_exact_is_asked_of_the_upstream(wanted: Filter, sql: str | None) -> None:
    found = condition(wanted, TABLE, compares_texts=True)
    assert (None if found is None else render(found, lambda n: f't."{TABLE.columns[n].name}"')) == sql


def test_texts_are_asked_of_no_upstream_to_which_others_are_equal() -> None:
    assert condition(EqualTo(("t",), "a"), TABLE, compares_texts=False) is None
    assert condition(EqualTo(("i",), "5"), TABLE, compares_texts=False) is not None


def test_a_range_is_a_table_to_the_rest_of_the_statement() -> None:
    assert Range("public.t", True, 3, 9).sql == (
        "(SELECT * FROM ONLY public.t s WHERE s.ctid >= '(3,0)'::tid AND s.ctid < '(9,0)'::tid)"
    )
    assert Range("public.t", only=False).sql == "(SELECT * FROM public.t s)"


@pytest.mark.postgres
@pytest.mark.spark
def test_a_table_as_a_frame(database: Database, spark: Any) -> None:
    database.execute(
        "CREATE TABLE items (id int4, name text, price numeric)",
        "INSERT INTO items SELECT n, CASE n % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'ä' END, 1.50"
        " FROM generate_series(1, 3000) n",
    )
    register(spark)
    with holding(database.url, None, ["public.items"]) as held:
        database.execute("DELETE FROM items WHERE id > 100")
        options = {
            **PostgresBatchUpstream(Exported(database.url, "secret-word", held.name)).options(),
            "table": "public.items",
            "columns": json.dumps(["price", "name", "id"]),
            "partitions": "2",
        }
        frame = spark.read.format("upquery").options(**options).load()
        assert frame.columns == ["price", "name", "id"]
        found = frame.where("id = '2999' or name is null").where("name = '' or name is null").count()
        assert found == 1000
        few = frame.where("id in ('1', '2', '3')").where("name = ''")
        assert [tuple(row) for row in few.collect()] == [("1.50", "", "1")]
        plan = few._jdf.queryExecution().toString()
        assert "secret-word" not in plan
