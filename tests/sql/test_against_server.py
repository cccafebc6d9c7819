"""Plans mean what the SQL means: random small data, every query of these files on the server and by the oracle.

And lookups bring what the plan needs: their rows, or the state rows put together, are the relation's rows.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from dataflow.engine.explain import lookups
from dataflow.evaluate import compile_predicate
from dataflow.ops.aggregate_state import accumulator_factory
from dataflow.plan.expressions import BOOL
from dataflow.plan.nodes import Aggregate, Chain, View, column_types
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.state.ordering import Ordering
from dataflow.types import Key, Row, Value
from service.demo.postgres_server import EmbeddedPostgres
from service.engine.databases.postgres.catalog import load_catalog
from tests.fixtures.postgres import discard_server, start_server
from tests.simulation.oracle import evaluate_relation, loose_columns, rows_of_key

PINNED = "-c TimeZone=UTC -c DateStyle=ISO,MDY -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE users (id int PRIMARY KEY, name text, karma numeric, mood mood);
CREATE TABLE stories (
    id bigint PRIMARY KEY, author_id int, title varchar(20), score int, price numeric, removed boolean NOT NULL
);
CREATE TABLE votes (story_id bigint NOT NULL, user_id int NOT NULL, value smallint, PRIMARY KEY (story_id, user_id));
CREATE TABLE comments (
    id int PRIMARY KEY, story_id bigint, user_id int, parent_id int, body text, weight numeric, at timestamptz
);
CREATE TABLE tags (story_id bigint NOT NULL, tag text NOT NULL);
CREATE INDEX ON stories (author_id);
CREATE INDEX ON comments (story_id);
CREATE VIEW voted AS SELECT story_id, count(*) AS votes, max(value) AS best FROM votes GROUP BY story_id;
CREATE VIEW popular (id, title, author, name) AS
    SELECT s.id, s.title, s.author_id, u.name FROM stories s LEFT JOIN users u ON u.id = s.author_id
    WHERE EXISTS (SELECT FROM voted v WHERE v.story_id = s.id AND v.votes > 1);
"""
FILES = ("queries.sql", "joins_and_subqueries.sql")
#: How many random databases.
SEEDS = 6
NUMBERS = ("0", "1", "1.0", "1.00", "2.50", "-3", "0.125", None)


def queries() -> list[str]:
    text = ";\n".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in FILES)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [query.strip() for query in text.split(";") if query.strip()]


def random_rows(rng: Random) -> dict[str, list[Row]]:
    """A few rows per table; keys are unique, everything else collides."""

    def some(*values: Value) -> Value:
        return rng.choice(values)

    def ids() -> list[str]:
        return [str(i) for i in range(1, rng.randint(1, 7))]

    pairs = [(str(s), str(u)) for s in range(1, 7) for u in range(1, 6)]
    return {
        "users": [(i, some("a", "b", "", None), some(*NUMBERS), some("sad", "ok", "happy", None)) for i in ids()],
        "stories": [
            (
                i,
                some("1", "2", "3", "9", None),
                some("a", "b", "ab", "", None),
                some("0", "1", "2", "3", None),
                some(*NUMBERS, "NaN" if rng.random() < 0.2 else "7"),
                some("t", "f"),
            )
            for i in ids()
        ],
        "votes": [(s, u, some("-1", "1", "1", "2", None)) for s, u in rng.sample(pairs, rng.randint(0, 15))],
        "comments": [
            (
                i,
                some("1", "2", "3", "9", None),
                some("1", "2", "3", None),
                some("1", "2", None),
                some("x", "y", None),
                some(*NUMBERS),
                some("2024-01-01 00:00:00+00", "2024-06-01 12:00:00.5+00", "infinity", None),
            )
            for i in ids()
        ],
        "tags": [(some("1", "2", "3", "9"), some("a", "b", "c")) for _ in range(rng.randint(0, 8))],
    }


@dataclass
class Upstream:
    """A database with the tables and a seed's rows."""

    server: EmbeddedPostgres
    catalog: Catalog
    connection: psycopg.Connection[Any]

    def fill(self, rows: dict[str, list[Row]]) -> None:
        for table, content in rows.items():
            if content:
                width = len(content[0])
                values = ", ".join(["(" + ", ".join(["%s"] * width) + ")"] * len(content))
                self.connection.execute(f"INSERT INTO {table} VALUES {values}", [v for row in content for v in row])

    def texts(self, sql: str, arrays: Sequence[Sequence[Value]] = ()) -> list[Row]:
        """Rows in the server's text form."""
        literals = [array_literal(a).encode() for a in arrays]
        result = self.connection.pgconn.exec_params(sql.encode(), literals)
        assert result.status in (psycopg.pq.ExecStatus.TUPLES_OK,), (sql, result.error_message)
        return [
            tuple(None if (v := result.get_value(i, j)) is None else v.decode() for j in range(result.nfields))
            for i in range(result.ntuples)
        ]


def array_literal(values: Sequence[Value]) -> str:
    quoted = ['"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' if v is not None else "NULL" for v in values]
    return "{" + ",".join(quoted) + "}"


@pytest.fixture(scope="module")
def upstreams() -> Iterator[list[Upstream]]:
    """By seed: copies of one database, of which the catalog is that without rows."""
    server = start_server()
    try:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CREATE DATABASE plans")
            catalog = asyncio.run(tables_made(server.database_url("plans")))
            for seed in range(SEEDS):
                connection.execute(f"CREATE DATABASE plans_{seed} TEMPLATE plans")
        with ExitStack() as opened:
            copies = [
                Upstream(server, catalog, opened.enter_context(psycopg.connect(url, options=PINNED, autocommit=True)))
                for url in (server.database_url(f"plans_{seed}") for seed in range(SEEDS))
            ]
            for seed, copy in enumerate(copies):
                copy.fill(data(seed))
            yield copies
    finally:
        discard_server(server)


async def tables_made(url: str) -> Catalog:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(SCHEMA)
        return await load_catalog(connection)


@pytest.fixture
def upstream(upstreams: list[Upstream]) -> Upstream:
    return upstreams[0]


@cache
def data(seed: int) -> dict[str, list[Row]]:
    return random_rows(Random(seed))


def tables(seed: int) -> dict[str, list[Row]]:
    return {f"public.{name}": rows for name, rows in data(seed).items()}


@dataclass(frozen=True)
class Question:
    """A read of a view: a value, or a list of them, per parameter."""

    #: By name; a list's values for one that takes a list.
    equal: dict[str, Value | tuple[Value, ...]]
    ranges: dict[str, Value]
    limit: int | None = None
    offset: int | None = None

    def sql(self, view: View) -> str:
        """The view's SQL with the values written in."""
        values: dict[str, str] = {name: constant(value) for name, value in (self.equal | self.ranges).items()}
        if view.limit_parameter:
            values[view.limit_parameter] = str(self.limit)
        if view.offset_parameter:
            values[view.offset_parameter] = str(self.offset)
        return re.sub(r"(?<!:):(\w+)", lambda found: values[found[1]], view.sql)

    def keys(self, view: View) -> list[Key]:
        """The keys that are read, each once."""
        types = column_types(view.relation)
        parts: list[list[Value]] = []
        for p in view.parameters:
            form = types[p.column].normal_form or str
            values: list[Value] = list(p.members.constants) if p.members is not None else []
            for value in (self.equal[name] for name in p.names):
                values += value if isinstance(value, tuple) else (value,)
            parts.append(list(dict.fromkeys(None if v is None else form(v) for v in values)))
        return list(product(*parts))


def constant(value: Value | tuple[Value, ...]) -> str:
    """A value as SQL; a list as what stands between the parentheses of IN."""
    if isinstance(value, tuple):
        return ", ".join(constant(v) for v in value)
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def questions(view: View, seed: int) -> list[Question]:
    """Keys that occur, one that does not, one with a NULL; ranges between values that occur; some limits."""
    rng = Random(seed)
    rows = evaluate_relation(view.relation, tables(seed))
    types = column_types(view.relation)
    found = list(dict.fromkeys(tuple(row[c] for c in view.key_columns) for row in rows))
    other = tuple(absent(types[c].name) for c in view.key_columns)
    # The first rows' keys, a key of no rows, straddled keys, a NULL.
    mixed = [tuple(a[:1] + b[1:]) for a, b in pairwise(found)][:2]
    keys = [*found[:5], *mixed, other, *([(None,) * len(other)] if other else [])]
    bounds = [row[view.ranges[0].column] for row in rows] if view.ranges else []
    result = []
    for key in keys * (3 if view.ranges or view.limit_parameter or view.offset_parameter else 1):
        equal: dict[str, Value | tuple[Value, ...]] = dict(zip((p.name for p in view.parameters), key, strict=True))
        for at, p in enumerate(view.parameters):
            if p.members is not None:
                equal |= {name: rng.choice([*found, other, (None,) * len(other)])[at] for name in p.names}
            elif p.many:
                equal[p.name] = tuple(rng.choice([*found, other])[at] for _ in range(3))
        chosen = {r.name: rng.choice(bounds or [absent(types[r.column].name)]) for r in view.ranges}
        result.append(Question(equal, chosen, rng.randint(0, 3), rng.randint(0, 2)))
    return result


def absent(type_name: str) -> str:
    others = {"bool": "f", "mood": "sad", "text": "zz", "varchar": "zz", "timestamptz": "2020-01-01 00:00:00+00"}
    return others.get(type_name, "77")


def answer(view: View, question: Question, seed: int) -> list[Row]:
    """Return a read's answer, by the oracle."""
    rows: list[Row] = []
    for key in question.keys(view):
        of_key = (
            rows_of_key(view.relation, view.key_columns, key, tables(seed)) if None not in key else view.rows_for_null
        )
        rows += [row for row in of_key if in_ranges(view, question, row)]
    rows.sort(key=Ordering(view.order, column_types(view.relation)).place_of_row)
    start = question.offset or 0 if view.offset_parameter else view.offset_rows
    limit = question.limit if view.limit_parameter else view.limit_rows
    return [tuple(row[c.column] for c in view.output) for row in rows[start : None if limit is None else start + limit]]


def in_ranges(view: View, question: Question, row: Row) -> bool:
    """Return whether a row's column is in all ranges."""
    types = column_types(view.relation)
    for r in view.ranges:
        ref = ColumnRef(r.column, types[r.column])
        bound = Literal(question.ranges[r.name], types[r.column])
        if not compile_predicate(Call(r.operator, (ref, bound), BOOL))(row):
            return False
    return True


@pytest.mark.parametrize("sql", queries())
def test_a_plan_means_what_its_sql_means(upstreams: list[Upstream], sql: str) -> None:
    view = plan_view("v", sql, upstreams[0].catalog)
    assert [c.name for c in view.output] == unique(upstreams[0], view)
    alike = same_text(view)
    for seed, upstream in enumerate(upstreams):
        for question in questions(view, seed):
            expected = [alike(row) for row in upstream.texts(question.sql(view))]
            found = [alike(row) for row in answer(view, question, seed)]
            if not view.order:
                expected.sort(key=repr)
                found.sort(key=repr)
            assert found == expected, (seed, question)


def same_text(view: View) -> Callable[[Row], Row]:
    """One text for rows that differ in what is the server's free choice: 1.0 or 1.00 for a group of both."""
    loose = loose_columns(view.relation)
    types = column_types(view.relation)
    forms = [types[c.column].normal_form if c.column in loose else None for c in view.output]
    return lambda row: alike(row, forms)


def alike(row: Row, forms: Sequence[Callable[[str], str] | None]) -> Row:
    """The row with normal forms where there is one."""
    return tuple(v if f is None or v is None else f(v) for v, f in zip(row, forms, strict=True))


def unique(upstream: Upstream, view: View) -> list[str]:
    """The names the server gives the columns, repeated ones numbered."""
    nothing = Question(
        {name: None for p in view.parameters for name in p.names}, {r.name: None for r in view.ranges}, 0, 0
    )
    cursor = upstream.connection.execute(nothing.sql(view).encode())
    names: list[str] = []
    for column in cursor.description or ():
        name, number = column.name, 1
        while name in names:
            number += 1
            name = f"{column.name}_{number}"
        names.append(name)
    return names


@pytest.mark.parametrize("sql", queries())
def test_lookups_bring_the_rows_of_their_relations(upstreams: list[Upstream], sql: str) -> None:
    view = plan_view("v", sql, upstreams[0].catalog)
    for seed, upstream in enumerate(upstreams[:2]):
        for lookup in lookups(view, upstream.catalog):
            check_lookup(upstream, lookup.relation, lookup.columns, lookup.sql, seed)


def check_lookup(
    upstream: Upstream, relation: Chain | Aggregate, columns: tuple[int, ...], sql: str, seed: int
) -> None:
    rows = evaluate_relation(relation, tables(seed))
    types = column_types(relation)
    forms = [types[c].normal_form or str for c in columns]

    def key_of(row: Row) -> Key | None:
        values = [row[c] for c in columns]
        return None if None in values else tuple(f(v) for f, v in zip(forms, values, strict=True) if v is not None)

    wanted = list(dict.fromkeys(key for row in rows if (key := key_of(row)) is not None))[::2]
    expected = [row for row in rows if not columns or key_of(row) in wanted]
    if columns and not wanted:
        return
    found = upstream.texts(sql, list(zip(*wanted, strict=True)) if columns else [])
    if isinstance(relation, Aggregate):
        found = merged(relation, found)
    loose = loose_columns(relation)
    free = [t.normal_form if i in loose else None for i, t in enumerate(types)]
    assert sorted((alike(row, free) for row in found), key=repr) == sorted(
        (alike(row, free) for row in expected), key=repr
    ), sql


def merged(aggregate: Aggregate, state_rows: list[Row]) -> list[Row]:
    """The aggregate's rows from state rows."""
    groups: dict[Row, list[Any]] = {}
    width = len(aggregate.group)
    forms = [t.normal_form for t in column_types(aggregate)[:width]]
    for row in state_rows:
        if row[-1] == "0":
            continue
        values = alike(row[:width], forms)
        if values not in groups:
            groups[values] = [accumulator_factory(call)() for call in aggregate.calls]
        rest = iter(row[width:])
        for accumulator in groups[values]:
            accumulator.merge(tuple(islice(rest, accumulator.width)))
    if aggregate.scalar and not width and not groups:
        groups[()] = [accumulator_factory(call)() for call in aggregate.calls]
    return [values + tuple(a.result() for a in accumulators) for values, accumulators in groups.items()]


def test_lookups_by_one_key_use_an_index(upstream: Upstream) -> None:
    view = plan_view(
        "v",
        "SELECT s.title, u.name FROM stories s JOIN users u ON u.id = s.author_id WHERE s.id = :id",
        upstream.catalog,
    )
    upstream.connection.execute("SET enable_seqscan = off")
    for lookup in lookups(view, upstream.catalog):
        statement = re.sub(r"\$1", "'{1}'", lookup.sql)
        plan = "\n".join(row[0] for row in upstream.connection.execute(f"EXPLAIN {statement}").fetchall())
        assert "Index" in plan
        assert lookup.warning is None
    upstream.connection.execute("RESET enable_seqscan")
