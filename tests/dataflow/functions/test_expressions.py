"""Expressions as people write them: planned by the planner, computed by us, and compared with the server.

`expressions.sql` lists them. Those that are refused are named here, so that none becomes so unnoticed.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import psycopg
import pytest

from dataflow.errors import EvaluationError, UnsupportedQuery
from dataflow.evaluate import compile_scalar
from dataflow.plan.nodes import Chain
from dataflow.plan.render import render
from dataflow.scalar import Scalar
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.types import Row, Value
from service.demo.postgres_server import EmbeddedPostgres
from service.engine.databases.postgres.catalog import load_catalog
from tests.dataflow.functions.awkward import VALUES
from tests.dataflow.functions.server import PINNED, Connection, Failed, StoredRows, printed

pytestmark = pytest.mark.postgres
COLUMNS = {
    "i2": "int2",
    "i4": "int4",
    "i8": "int8",
    "n": "numeric",
    "n2": "numeric(10,2)",
    "f4": "float4",
    "f8": "float8",
    "t": "text",
    "vc": "varchar",
    "bc": "bpchar(4)",
    "b": "bool",
    "d": "date",
    "ts": "timestamp",
    "tz": "timestamptz",
    "iv": "interval",
    "tm": "time",
    "j": "json",
    "jb": "jsonb",
    "u": "uuid",
    "ta": "text[]",
    "ia": "int4[]",
    "m": "mood",
}
ROWS = 90
REFUSED = frozenset(
    {
        "quote_ident(t) is null",
        "date_trunc('hour', tz, 'Europe/Paris')",
        "substring(t from 'a|b')",
        "current_date is null",
        "neg(i4)",
        r"regexp_replace(t, '^\s', 'X')",
        "regexp_replace(t, '(a|b)', 'X')",
        "regexp_replace(t, 'a*', 'X')",
        r"regexp_replace(t, 'a', '\1')",
    }
)

#: The server's definitions have types that are not taken (unknown, interval day), or VARIADIC.
MISSPELLED = frozenset(
    {
        "concat(t, i4, b, n, d, NULL)",
        "interval '1' day + ts",
        "jsonb_extract_path_text(jb, 'a')",
        "jsonb_extract_path(jb, 'a', 'b')",
        "json_extract_path_text(j, 'a')",
    }
)


def expressions() -> list[str]:
    lines = (Path(__file__).parent / "expressions.sql").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("--")]


@dataclass
class Upstream:
    """The server, its catalog, and the rows to compute over."""

    connection: Connection
    catalog: Catalog
    rows: list[Row]
    stored: StoredRows
    #: By expression as it is written.
    _evaluated: dict[str, list[Value | Failed]] = field(default_factory=dict)
    _planned: dict[str, Scalar] = field(default_factory=dict)

    def evaluate(self, sql: str) -> list[Value | Failed]:
        """Return the values that the server prints for an expression, row by row; each is computed once."""
        if sql not in self._evaluated:
            self._evaluated[sql] = self.stored.evaluate(sql)
        return self._evaluated[sql]

    def planned(self, sql: str) -> Scalar:
        """The expression over the table's row."""
        if sql not in self._planned:
            view = plan_view("v", f"SELECT {sql} AS x FROM awkward", self.catalog)
            assert isinstance(view.relation, Chain)
            self._planned[sql] = view.relation.columns[view.output[0].column]
        return self._planned[sql]


@pytest.fixture(scope="module")
def upstream(postgres_server: EmbeddedPostgres) -> Iterator[Upstream]:
    async def load() -> Catalog:
        async with await psycopg.AsyncConnection.connect(postgres_server.url, autocommit=True) as other:
            return await load_catalog(other)

    with psycopg.connect(postgres_server.url, options=PINNED, autocommit=True) as connection:
        columns = ", ".join(f"{name} {type_name}" for name, type_name in COLUMNS.items())
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        connection.execute(f"CREATE TABLE awkward ({columns})".encode())
        rng = Random(7)
        values = [printed(connection, t, VALUES.get(t, VALUES.get(t.split("(")[0], ()))) for t in COLUMNS.values()]
        rows = [tuple(rng.choice(v) for v in values) for _ in range(ROWS)]
        yield Upstream(connection, asyncio.run(load()), rows, StoredRows(connection, COLUMNS, rows))
        connection.execute("DROP TABLE awkward; DROP TYPE mood")


def differences(rows: list[Row], expected: list[Value | Failed], expression: Scalar) -> list[tuple[object, ...]]:
    function = compile_scalar(expression)
    found: list[tuple[object, ...]] = []
    for row, wanted in zip(rows, expected, strict=True):
        try:
            actual: object = function(row)
        except EvaluationError as error:
            if isinstance(wanted, Failed) or str(error).startswith("not computed"):
                continue
            actual = error
        if isinstance(wanted, Failed) or actual != wanted:
            found.append((actual, wanted, dict(zip(COLUMNS, row, strict=True))))
    return found


@pytest.mark.parametrize("sql", [e for e in expressions() if e not in REFUSED])
def test_an_expression_is_the_server_s(upstream: Upstream, sql: str) -> None:
    expression = upstream.planned(sql)
    expected = upstream.evaluate(sql)
    assert not all(isinstance(e, Failed) for e in expected), expected[0]
    assert differences(upstream.rows, expected, expression) == []


@pytest.mark.parametrize("sql", [e for e in expressions() if e not in REFUSED])
def test_what_is_looked_up_is_the_same_expression(upstream: Upstream, sql: str) -> None:
    """Rendered as SQL for the upstream, the expression has the same type and values."""
    expression = upstream.planned(sql)
    names = list(COLUMNS)
    rendered = render(expression, lambda i: names[i])
    assert upstream.evaluate(rendered) == upstream.evaluate(sql), rendered
    written, ours = (
        upstream.connection.execute(
            f"SELECT pg_typeof({e})::text FROM (SELECT 1) one LEFT JOIN awkward ON true".encode()
        )
        for e in (sql, rendered)
    )
    # varchar and text differ in name only.
    assert {(t or "").replace("character varying", "text") for (t,) in ours.fetchall()} == {
        (t or "").replace("character varying", "text") for (t,) in written.fetchall()
    }


@pytest.mark.parametrize("sql", [e for e in expressions() if e not in REFUSED | MISSPELLED])
def test_the_server_s_spelling_of_it_is_the_same(upstream: Upstream, sql: str) -> None:
    """A view's definition spells it otherwise: casts and parentheses everywhere, operators for LIKE and ANY."""
    upstream.connection.execute(f"CREATE TEMP VIEW spelled AS SELECT {sql} AS x FROM awkward".encode())
    try:
        ((definition,),) = upstream.connection.execute("SELECT pg_get_viewdef('spelled'::regclass)").fetchall()
    finally:
        upstream.connection.execute("DROP VIEW spelled")
    view = plan_view("v", definition.rstrip(";"), upstream.catalog)
    assert isinstance(view.relation, Chain)
    again = outcomes(view.relation.columns[view.output[0].column], upstream.rows)
    assert again == outcomes(upstream.planned(sql), upstream.rows), definition


def outcomes(expression: Scalar, rows: list[Row]) -> list[Value | Failed]:
    function = compile_scalar(expression)
    found: list[Value | Failed] = []
    for row in rows:
        try:
            found.append(function(row))
        except EvaluationError as error:
            found.append(Failed(str(error)))
    return found


@pytest.mark.parametrize("sql", sorted(REFUSED))
def test_what_is_not_exact_is_refused(upstream: Upstream, sql: str) -> None:
    with pytest.raises(UnsupportedQuery):
        upstream.planned(sql)
