"""Operators without parentheses: what is computed here is what MariaDB reads of them."""

import asyncio
from collections.abc import Iterator
from contextlib import closing, suppress
from random import Random

import pytest

from dataflow.errors import EvaluationError, InvalidQuery, UnsupportedQuery
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.types import Row
from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.catalog import load_catalog
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.row_decoder import answer_rows
from service.engine.databases.mysql.wire import Wire
from tests.fixtures.mariadb import MariaDbServer
from tests.fixtures.seeds import day_seed
from tests.sql.operator_pairs import Operator, pairs
from tests.sql.plan_rows import plan_rows

KINDS = {
    "i": ("int", ["0", "1", "2", "3", "-1", "5", "12", None]),
    "n": ("decimal(6,2)", ["0.50", "1.00", "2.00", "-3.00", None]),
    "t": ("varchar(10)", ["a", "ab", "A%", "b", None]),
    "d": ("datetime", ["2024-01-01 00:00:00", "2024-02-29 12:30:00", None]),
    "j": ("json", ['{"a": {"b": 1}}', '[1, "a"]', None]),
}
COLUMNS = ", ".join(f"{k}{n} {t}" for k, (t, _) in KINDS.items() for n in range(1, 7))
DATABASE = "operators"
OPERATORS = (
    *(Operator(f"%% {o} %%", k * 2, k) for k in "in" for o in ("+", "-", "*")),
    *(Operator(f"%% {o} %%", "ii", "i") for o in ("DIV", "MOD", "%", "&", "|", "^", "<<", ">>")),
    Operator("%% / %%", "ii", "n"),
    Operator("- %%", "i", "i"),
    Operator("-%%", "n", "n"),
    Operator("~ %%", "i", "i"),
    *(Operator(o, "i", "i") for o in ("! %%", "!%%", "NOT %%", "+ %%", "BINARY %%")),
    *(Operator(f"%% {o} %%", "ii", "i") for o in ("AND", "&&", "OR", "||", "XOR", ":=")),
    *(Operator(f"%% {o} %%", k * 2, "i") for k in "itn" for o in ("<", "=", "<>", ">=", "<=>")),
    *(Operator(f"%% IS {o}", k, "i") for k in "it" for o in ("NULL", "NOT NULL")),
    *(Operator(f"%% IS {o}", "i", "i") for o in ("TRUE", "NOT TRUE", "FALSE", "UNKNOWN")),
    *(Operator(f"%% {o} %% AND %%", k * 3, "i") for k in "it" for o in ("BETWEEN", "NOT BETWEEN")),
    *(Operator(f"%% {o} (%%, %%)", k * 3, "i") for k in "it" for o in ("IN", "NOT IN")),
    *(Operator(f"%% {o} %%", "tt", "i") for o in ("LIKE", "NOT LIKE", "REGEXP", "NOT RLIKE", "SOUNDS LIKE", "||")),
    Operator("%% LIKE %% ESCAPE '!'", "tt", "i"),
    Operator("%% COLLATE utf8mb4_bin", "t", "t"),
    Operator("CASE %% WHEN %% THEN %% END", "iii", "i"),
    Operator("%% -> '$.a'", "j", "t"),
    Operator("%% + INTERVAL %% DAY", "di", "d"),
    Operator("%% - INTERVAL %% DAY", "di", "d"),
    Operator("INTERVAL %% DAY + %%", "id", "d"),
    Operator("%% < %%", "dd", "i"),
    Operator("NOT %% + %%", "ii", "i"),
    Operator("! %% + %%", "ii", "i"),
    Operator("%% + ! %%", "ii", "i"),
    Operator("%% = NOT %%", "ii", "i"),
    Operator("- %% ^ %%", "ii", "i"),
    Operator("%% - - %%", "ii", "i"),
)
ROWS = 24


@pytest.fixture(scope="module")
def wire(mariadb_server: MariaDbServer) -> Iterator[tuple[asyncio.Runner, Wire]]:
    with closing(mariadb_server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {DATABASE}.o (id int PRIMARY KEY, {COLUMNS})")
        rng = Random(day_seed("operators"))
        rows = [(i, *(rng.choice(v) for _, v in KINDS.values() for _ in range(6))) for i in range(ROWS)]
        cursor.executemany(f"INSERT INTO {DATABASE}.o VALUES ({', '.join(['%s'] * len(rows[0]))})", rows)
        connection.commit()
    with asyncio.Runner() as runner:
        pool = MySqlPool(Address.parse(mariadb_server.url(DATABASE)), 1)
        lent = pool.connection()
        yield runner, runner.run(lent.__aenter__())
        runner.run(lent.__aexit__(None, None, None))
        runner.run(pool.close())


def answer(wire: tuple[asyncio.Runner, Wire], sql: str) -> list[Row] | None:
    runner, connection = wire
    try:
        return answer_rows(runner.run(connection.query(sql)))
    except Exception:
        return None


def differences(wire: tuple[asyncio.Runner, Wire], catalog: Catalog, rows: list[Row], expression: str) -> str | None:
    """Describe MariaDB's difference; None if the expression is not computed here."""
    sql = f"SELECT id, {expression} AS x FROM o"
    try:
        view = plan_view("v", sql, catalog)
    except (InvalidQuery, UnsupportedQuery):
        return None
    theirs = answer(wire, sql)
    with suppress(EvaluationError):
        ours = plan_rows(view.relation, {f"{DATABASE}.o": rows})
        for one, other in zip(ours, theirs or ours, strict=True):
            if one != other:
                return f"{expression}: {one} {other}"
    return ""


def test_operators_without_parentheses_mean_what_mariadb_reads(wire: tuple[asyncio.Runner, Wire]) -> None:
    catalog = wire[0].run(load_catalog(wire[1], "mariadb"))
    rows = answer(wire, "SELECT * FROM o") or []
    found = [differences(wire, catalog, rows, expression) for expression in dict.fromkeys(pairs(OPERATORS))]
    assert len([f for f in found if f is not None]) > 2000
    wrong = [f for f in found if f]
    assert not wrong, "\n".join(wrong)
