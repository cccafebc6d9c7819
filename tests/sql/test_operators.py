"""Operators without parentheses: what is computed here is what PostgreSQL reads of them."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import psycopg
import pytest

from cdc.postgres.session import session_sql
from dataflow.errors import EvaluationError, InvalidQuery, UnsupportedQuery
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.types import Row
from service.engine.databases.postgres.catalog import load_catalog
from tests.fixtures.postgres import discard_server, start_server
from tests.fixtures.seeds import day_seed
from tests.sql.operator_pairs import Operator, pairs
from tests.sql.plan_rows import plan_rows

KINDS = {
    "i": ("int", ["0", "1", "2", "3", "-1", "5", "12", None]),
    "n": ("numeric", ["0.5", "1", "2.00", "-3", None]),
    "t": ("text", ["a", "ab", "A%", "0", "1", "!", None]),
    "b": ("bool", ["t", "f", None]),
    "j": ("jsonb", ['{"a": {"b": 1}, "1": "ab"}', '[1, [2, "a"]]', '"a"', None]),
    "y": ("json", ['{"a": {"b": 1}, "1": "ab"}', '[1, [2, "a"]]', '"a"', None]),
    "a": ("int[]", ["{1,2}", "{}", "{2}", None]),
    "d": ("timestamp", ["2024-01-01 00:00:00", "2024-02-29 12:30:00", None]),
    "z": ("timestamptz", ["2024-01-01 00:00:00+00", "2024-02-29 12:30:00+00", None]),
    "v": ("interval", ["1 day", "-02:00:00", None]),
}
COLUMNS = ", ".join(f"{k}{n} {t}" for k, (t, _) in KINDS.items() for n in range(1, 7))
OPERATORS = (
    *(Operator(f"%% {o} %%", k * 2, k) for k in "in" for o in ("+", "-", "*", "/", "%", "^")),
    *(Operator(f"%% {o} %%", "ii", "i") for o in ("&", "|", "#", "<<", ">>")),
    *(Operator(o, k, k) for k in "in" for o in ("- %%", "+ %%", "-%%")),
    Operator("~ %%", "i", "i"),
    Operator("%% * ~ %%", "ii", "i"),
    Operator("- ~ %%", "i", "i"),
    Operator("%% = NOT %%", "bb", "b"),
    *(Operator(f"%% {o} %%", k * 2, "b") for k in "itbn" for o in ("<", "=", "<>", "IS NOT DISTINCT FROM")),
    *(Operator(o, "b" * n, "b") for o, n in (("NOT %%", 1), ("%% AND %%", 2), ("%% OR %%", 2))),
    *(Operator(f"%% IS {o}", k, "b") for k in "ibt" for o in ("NULL", "NOT NULL")),
    *(Operator(f"%% IS {o}", "b", "b") for o in ("TRUE", "NOT TRUE", "FALSE", "UNKNOWN", "NOT UNKNOWN")),
    *(Operator(f"%% {o}", k, "b") for k in "it" for o in ("ISNULL", "NOTNULL")),
    *(
        Operator(f"%% {o} %% AND %%", k * 3, "b")
        for k in "itb"
        for o in ("BETWEEN", "NOT BETWEEN", "BETWEEN SYMMETRIC")
    ),
    *(Operator(f"%% {o} (%%, %%)", k * 3, "b") for k in "itb" for o in ("IN", "NOT IN")),
    *(
        Operator(f"%% {o} %%", "tt", "b")
        for o in ("LIKE", "NOT LIKE", "ILIKE", "~~", "!~~", "~", "~*", "!~", "!~*", "^@")
    ),
    Operator("%% LIKE %% ESCAPE '!'", "tt", "b"),
    Operator("%% NOT LIKE %% ESCAPE %%", "ttt", "b"),
    Operator("%% SIMILAR TO %%", "tt", "b"),
    Operator("%% || %%", "tt", "t"),
    Operator("%% || %%", "ti", "t"),
    Operator("%% || %%", "it", "t"),
    Operator("%% || %%", "jj", "j"),
    Operator("%% || %%", "aa", "a"),
    Operator("%% || %%", "ai", "a"),
    *(Operator(f"%% {o} %%", k + r, k) for k in "jy" for r in "ti" for o in ("->",)),
    *(Operator(f"%% {o} %%", k + r, "t") for k in "jy" for r in "ti" for o in ("->>",)),
    *(Operator(f"%% {o} 'a'", "j", "j") for o in ("->", "-")),
    Operator("%% ->> 'a'", "j", "t"),
    Operator("%% #> '{a,b}'", "j", "j"),
    Operator("%% #>> '{a,b}'", "j", "t"),
    Operator("%% #- '{a}'", "j", "j"),
    Operator("%% - %%", "jt", "j"),
    Operator("%% - %%", "ji", "j"),
    Operator("%% @> %%", "jj", "b"),
    Operator("%% <@ %%", "jj", "b"),
    Operator("%% ? %%", "jt", "b"),
    Operator("%% ?| '{a}'", "j", "b"),
    Operator("%% @? '$.a'", "j", "b"),
    Operator("%% @@ '$.a'", "j", "b"),
    *(Operator(f"%% {o} %%", "aa", "b") for o in ("@>", "<@", "&&", "=")),
    Operator("%% = ANY(%%)", "ia", "b"),
    Operator("%% <> ALL (%%)", "ia", "b"),
    Operator("%%[1]", "a", "i"),
    Operator("%%::text", "i", "t"),
    Operator("%%::numeric", "i", "n"),
    Operator("%%::int", "n", "i"),
    Operator("%%::int", "b", "i"),
    Operator("%%::text", "b", "t"),
    Operator("%%::text", "j", "t"),
    Operator("CASE %% WHEN %% THEN %% END", "iii", "i"),
    Operator('%% COLLATE "C"', "t", "t"),
    Operator("%% AT TIME ZONE 'Asia/Tokyo'", "d", "z"),
    Operator("%% AT TIME ZONE 'Asia/Tokyo'", "z", "d"),
    Operator("%% AT TIME ZONE %%", "zv", "d"),
    Operator("%% AT LOCAL", "z", "d"),
    Operator("%% AT LOCAL", "d", "z"),
    Operator("%% + %%", "dv", "d"),
    Operator("%% - %%", "dd", "v"),
    Operator("%% - %%", "zv", "z"),
    Operator("%% < %%", "dd", "b"),
    Operator("%% < %%", "zz", "b"),
    Operator("%% * 2", "v", "v"),
    Operator("- %%", "v", "v"),
    Operator("- 2 ^ %%", "n", "n"),
    Operator("-2 * %%", "i", "i"),
    Operator("%% OPERATOR(pg_catalog.+) %%", "ii", "i"),
    Operator("%% OPERATOR(pg_catalog.*) %%", "ii", "i"),
    Operator("@ %%", "i", "i"),
    Operator("|/ %%", "n", "n"),
)
ROWS = 24


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    server = start_server()
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(session_sql().encode())
            connection.execute(f"CREATE TABLE o (id int PRIMARY KEY, {COLUMNS})".encode())
            yield connection
    finally:
        discard_server(server)


def random_rows(rng: Random) -> list[Row]:
    return [(str(i), *(rng.choice(v) for _, v in KINDS.values() for _ in range(6))) for i in range(ROWS)]


def fill(connection: psycopg.Connection[Any], rows: list[Row]) -> Catalog:
    width = len(rows[0])
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO o VALUES ({', '.join(['%s'] * width)})", rows)

    async def load() -> Catalog:
        info = connection.info
        async with await psycopg.AsyncConnection.connect(
            host=info.host, port=info.port, dbname=info.dbname, user=info.user, password=info.password, autocommit=True
        ) as other:
            return await load_catalog(other)

    return asyncio.run(load())


def answer(connection: psycopg.Connection[Any], sql: str) -> list[Row] | None:
    result = connection.pgconn.exec_(sql.encode())
    if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
        return None
    return [
        tuple(None if (v := result.get_value(i, j)) is None else v.decode() for j in range(result.nfields))
        for i in range(result.ntuples)
    ]


def differences(
    connection: psycopg.Connection[Any], catalog: Catalog, rows: list[Row], expression: str
) -> list[str] | None:
    """The rows of which PostgreSQL says otherwise; it is asked row by row if some fail. None: not computed here."""
    sql = f"SELECT id, {expression} AS x FROM o"
    try:
        view = plan_view("v", sql, catalog)
    except (InvalidQuery, UnsupportedQuery):
        return None
    result = []
    for part in [rows] if answer(connection, sql) is not None else [[row] for row in rows[:6]]:
        theirs = answer(connection, f"{sql} WHERE id IN ({', '.join(str(row[0]) for row in part)})")
        with suppress(EvaluationError):
            if theirs is not None and sorted(plan_rows(view.relation, {"public.o": part})) != sorted(theirs):
                result.append(f"{expression}: {part[0]}")
    return result


def test_operators_without_parentheses_mean_what_postgresql_reads(connection: psycopg.Connection[Any]) -> None:
    catalog = fill(connection, random_rows(Random(day_seed("operators"))))
    rows = answer(connection, "TABLE o") or []
    found = [differences(connection, catalog, rows, expression) for expression in dict.fromkeys(pairs(OPERATORS))]
    assert len([f for f in found if f is not None]) > 3000
    wrong = [difference for f in found for difference in f or ()]
    assert not wrong, "\n".join(wrong)
