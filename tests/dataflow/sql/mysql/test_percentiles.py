"""MEDIAN and percentiles of MariaDB: which are planned, of which types, and why others are not."""

from dataclasses import replace

import pytest

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.nodes import column_types
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view

_COLUMNS = {
    "id": SqlType("int4", "int"),
    "i": SqlType("int4", "int"),
    "n": SqlType("numeric", "decimal(10,2)"),
    "z": SqlType("int8", "int unsigned zerofill"),
    "u": SqlType("uint8", "bigint unsigned"),
    "bits": SqlType("uint8", "bit(8)"),
    "y": SqlType("int2", "year"),
    "f": SqlType("float8", "double"),
    "t": SqlType("text", "text"),
}
CATALOG = Catalog(
    {"app.sales": Table("app.sales", tuple(Column(n, t, n == "id") for n, t in _COLUMNS.items()), keys=((0,),))},
    ("app",),
    dialect="mariadb",
)


def percentile(fraction: str, order: str, name: str = "PERCENTILE_DISC") -> str:
    return f"{name}({fraction}) WITHIN GROUP (ORDER BY {order}) OVER (PARTITION BY i)"


@pytest.mark.parametrize(
    ("written", "sql"),
    [
        ("MEDIAN(i) OVER (PARTITION BY i)", "float8"),
        ("MEDIAN(n) OVER ()", "float8"),
        ("MEDIAN(z) OVER ()", "float8"),
        ("MEDIAN(i > 3) OVER ()", "float8"),
        (percentile("0.50", "n DESC", "PERCENTILE_CONT"), "float8"),
        (percentile("0.9", "i"), "int"),
        (percentile("1e-1", "n DESC"), "decimal(10,2)"),
    ],
)
def test_planned(written: str, sql: str) -> None:
    for clauses in (f"SELECT id, {written} AS x FROM sales", f"SELECT id, {written} AS x FROM sales ORDER BY x, id"):
        assert column_types(plan_view("v", clauses, CATALOG).relation)[1].sql == sql


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        *((f"MEDIAN({c}) OVER ()", "is not kept up to date") for c in ("u", "bits", "y", "f", "t", "1")),
        *((percentile("0.5", c), "is not kept up to date") for c in ("u", "z", "y", "f", "t", "1")),
        ("MEDIAN(i / 3) OVER ()", "of a quotient or average"),
        ("MEDIAN(i) OVER () + 1", "in an expression or an inner query"),
        (percentile("0.5", "n") + " > 1", "in an expression or an inner query"),
        ("COALESCE(MEDIAN(i) OVER (), 0)", "in an expression or an inner query"),
        (percentile("0.9", "i", "PERCENTILE_CONT"), "other fractions than 0, 0.5 and 1"),
        (percentile("5e-1", "i", "PERCENTILE_CONT"), "other fractions than 0, 0.5 and 1"),
        (percentile("1.5", "i"), "one constant fraction"),
        (percentile("0.5 * 1", "i"), "one constant fraction"),
        (percentile("i", "i"), "one constant fraction"),
    ],
)
def test_refused(written: str, reason: str) -> None:
    with pytest.raises(UnsupportedQuery) as raised:
        plan_view("v", f"SELECT id, {written} AS x FROM sales", CATALOG)
    assert reason in raised.value.reason


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM (SELECT id, i, MEDIAN(i) OVER () AS m FROM sales) s WHERE i > m",
        "SELECT MEDIAN(i) OVER () AS m FROM sales UNION SELECT n FROM sales",
        "WITH s AS (SELECT id, MEDIAN(i) OVER () AS m FROM sales) SELECT id, m FROM s",
    ],
)
def test_inner_queries_are_refused(sql: str) -> None:
    with pytest.raises(UnsupportedQuery, match="in an expression or an inner query"):
        plan_view("v", sql, CATALOG)


@pytest.mark.parametrize(
    "written",
    [
        "MEDIAN(i)",
        "MEDIAN(DISTINCT i) OVER ()",
        "MEDIAN(i) OVER (ORDER BY id)",
        "MEDIAN(i) OVER w",
        "PERCENTILE_DISC(0.5) OVER ()",
    ],
)
def test_invalid(written: str) -> None:
    with pytest.raises(InvalidQuery):
        plan_view("v", f"SELECT {written} AS x FROM sales WINDOW w AS (PARTITION BY i)", CATALOG)


@pytest.mark.parametrize(
    "shown",
    [
        "-i AS i, MEDIAN(i) OVER ()",
        f"n AS i, {percentile('0.5', 'i')}",
        "-i AS I, ROW_NUMBER() OVER (ORDER BY i, id)",
        "n AS i, RANK() OVER w",
        "*, n AS i, RANK() OVER (ORDER BY i)",
        "i AS place, RANK() OVER (ORDER BY place)",
        "i AS place, MEDIAN(place) OVER ()",
    ],
)
def test_a_window_in_the_order_of_another_shown_column_is_refused(shown: str) -> None:
    with pytest.raises(UnsupportedQuery, match="in the order of what a SELECT shows"):
        plan_view("v", f"SELECT {shown} FROM sales WINDOW w AS (ORDER BY i)", CATALOG)


def test_a_window_in_the_order_of_a_column_of_a_join_is_refused() -> None:
    sql = "SELECT o.id, RANK() OVER (ORDER BY id) AS r FROM sales s LEFT JOIN sales o USING (id)"
    with pytest.raises(UnsupportedQuery, match="in the order of what a SELECT shows"):
        plan_view("v", sql, CATALOG)


@pytest.mark.parametrize(
    "shown",
    [
        "i AS i, MEDIAN(i) OVER ()",
        "sales.i, ROW_NUMBER() OVER (ORDER BY i, id)",
        "-i AS i, RANK() OVER (ORDER BY sales.i)",
        "-i AS i, SUM(i) OVER (PARTITION BY i) AS s, RANK() OVER (ORDER BY i + 0) AS r",
    ],
)
def test_a_window_in_the_order_of_a_column_is_planned(shown: str) -> None:
    assert plan_view("v", f"SELECT id, {shown} FROM sales", CATALOG)


def test_mysql_has_none() -> None:
    with pytest.raises(UnsupportedQuery, match="MEDIAN is not kept up to date"):
        plan_view("v", "SELECT MEDIAN(i) OVER () AS x FROM sales", replace(CATALOG, dialect="mysql"))
