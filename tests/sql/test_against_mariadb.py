"""Plans of MariaDB's SQL mean what the server answers, and its lookups bring the rows of their relations.

As `test_against_server` for PostgreSQL, but that plans are computed by the engine's own expressions (`plan_rows`).
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dataflow.engine.explain import lookups
from dataflow.evaluate import compile_predicate
from dataflow.lookups.mysql.lookup import lookup_columns, lookup_statement
from dataflow.lookups.mysql.render import string
from dataflow.ops.aggregate_state import accumulator_factory
from dataflow.plan.expressions import BOOL, used_columns
from dataflow.plan.nodes import (
    Aggregate,
    AggregateFunction,
    Chain,
    Relation,
    TopK,
    Union,
    View,
    Window,
    column_types,
)
from dataflow.plan.parts import Lookup
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import Catalog, SqlType
from dataflow.sql import plan_view
from dataflow.sql.statement import statement_of
from dataflow.state.ordering import Ordering
from dataflow.types import Key, LookupId, NodeId, Row, Value
from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.catalog import load_catalog
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.packets import ServerReply
from service.engine.databases.mysql.row_decoder import answer_rows, lookup_rows
from service.engine.databases.mysql.wire import Wire
from tests.fixtures.mariadb import MariaDbServer
from tests.sql.plan_rows import key_of, plan_rows

SCHEMA = """
CREATE TABLE users (id int PRIMARY KEY, name varchar(20), karma decimal(8,2), mood enum('sad','ok','happy'));
CREATE TABLE stories (
    id bigint PRIMARY KEY, author_id int, title varchar(20), score int, price decimal(10,3),
    removed tinyint(1) NOT NULL, KEY (author_id)
);
CREATE TABLE votes (story_id bigint NOT NULL, user_id int NOT NULL, value smallint, PRIMARY KEY (story_id, user_id));
CREATE TABLE comments (
    id int PRIMARY KEY, story_id bigint, user_id int, parent_id int, body varchar(20), weight decimal(6,1),
    at datetime(3), KEY (story_id)
);
CREATE TABLE tags (story_id bigint NOT NULL, tag varchar(10) NOT NULL, day date);
CREATE TABLE kinds (
    id int unsigned PRIMARY KEY, big bigint unsigned, real8 double, real4 float, bytes varbinary(8), flags bit(4),
    year year, clock time(1), stamp timestamp NULL, choice set('a','b','c'), bin varchar(8) COLLATE utf8mb4_nopad_bin,
    uca varchar(8) COLLATE utf8mb4_unicode_ci, doc json, note text
);
"""
DATABASE = "against"
SEEDS = 4


def queries() -> list[str]:
    text = (Path(__file__).parent / "mariadb_queries.sql").read_text(encoding="utf-8")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    return [query.strip() for query in text.split(";") if query.strip()]


def random_rows(rng: Random) -> dict[str, list[Row]]:
    """A few rows per table; keys are unique, everything else collides."""

    def some(*values: Value) -> Value:
        return rng.choice(values)

    def number(scale: int) -> Value:
        value = rng.choice(("0", "1", "2.5", "-3", "0.1", "7.3", None))
        return None if value is None else f"{float(value):.{scale}f}"

    def ids() -> list[str]:
        return [str(i) for i in range(1, rng.randint(1, 7))]

    texts = ("a", "A", "b", "á", "ab ", "", None)
    pairs = [(str(s), str(u)) for s in range(1, 7) for u in range(1, 6)]
    return {
        "users": [(i, some(*texts), number(2), some("sad", "ok", "happy", None)) for i in ids()],
        "stories": [
            (i, some("1", "2", "3", "9", None), some(*texts), some("0", "1", "2", "3", None), number(3), some("0", "1"))
            for i in ids()
        ],
        "votes": [(s, u, some("-1", "1", "1", "2", None)) for s, u in rng.sample(pairs, rng.randint(0, 15))],
        "comments": [
            (
                i,
                some("1", "2", "3", "9", None),
                some("1", "2", "3", None),
                some("1", "2", None),
                some("x", "X", "y", None),
                number(1),
                some("2024-01-01 00:00:00.000", "2024-06-01 12:00:00.500", "2023-12-31 23:59:59.999", None),
            )
            for i in ids()
        ],
        "tags": [
            (some("1", "2", "3", "9"), some("a", "B", "b", "c"), some("2024-01-01", "2024-02-29", None))
            for _ in range(rng.randint(0, 8))
        ],
        "kinds": [
            (
                i,
                some("0", "7", "18446744073709551615", None),
                some("0", "1.5", "-0.1", "1e+30", None),
                some("0.1", "2.5", None),
                some("\\x6100", "\\x41", "\\x", None),
                some("0", "5", "15"),
                some("2024", "1999", None),
                some("-12:00:00.5", "01:00:00.0", "100:00:00.0", None),
                some("2024-01-01 00:00:00", "2024-06-01 12:00:00", None),
                some("", "a", "a,c", "b", None),
                some("a", "A", "a ", None),
                some("ß", "ss", "É", "e", None),
                some('{"a": 1}', "[]", ' {"a":"x"}', '{"a":["x",{"b":2.50}]}', None),
                some("a", "A", "b", None),
            )
            for i in ids()
        ],
    }


@cache
def tables(seed: int) -> dict[str, list[Row]]:
    return {f"{DATABASE}.{name}": rows for name, rows in random_rows(Random(seed)).items()}


class Server:
    """A connection as lookups have one, to the tables."""

    catalog: Catalog

    def __init__(self, runner: asyncio.Runner, wire: Wire) -> None:
        self._runner = runner
        self._wire = wire
        self.filled: int | None = None

    def reply(self, sql: str) -> ServerReply:
        return self._runner.run(self._wire.query(sql))

    def rows(self, sql: str) -> list[Row]:
        """The rows of a query, as a forwarded read has them."""
        return answer_rows(self.reply(sql))

    def lookup(self, lookup: Lookup) -> list[Row]:
        """A lookup's rows."""
        statement = lookup_statement(lookup, self.catalog)
        return lookup_rows(self.reply(statement), lookup_columns(lookup.relation, self.catalog))

    def names(self, sql: str) -> list[str]:
        """The names of a query's columns, repeated ones numbered."""
        names: list[str] = []
        for column in self.reply(sql).columns:
            unique, number = column.name, 1
            while unique in names:
                number += 1
                unique = f"{column.name}_{number}"
            names.append(unique)
        return names

    def make(self) -> None:
        """The tables."""
        for statement in SCHEMA.split(";"):
            if statement.strip():
                self.reply(statement)
        self.catalog = self._runner.run(load_catalog(self._wire, "mariadb"))

    def fill(self, seed: int) -> None:
        if self.filled == seed:
            return
        self.filled = seed
        for name, rows in tables(seed).items():
            self.reply(f"DELETE FROM {name}")
            if rows:
                values = ", ".join("(" + ", ".join(map(constant, row)) + ")" for row in rows)
                self.reply(f"INSERT INTO {name} VALUES {values}")


@pytest.fixture(scope="module")
def server(mariadb_server: MariaDbServer) -> Iterator[Server]:
    with closing(mariadb_server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE OR REPLACE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    with asyncio.Runner() as runner:
        pool = MySqlPool(Address.parse(mariadb_server.url(DATABASE)), 1)
        lent = pool.connection()
        found = Server(runner, runner.run(lent.__aenter__()))
        found.reply("SET sql_mode = REPLACE(@@sql_mode, 'ONLY_FULL_GROUP_BY', '')")
        found.make()
        yield found
        runner.run(lent.__aexit__(None, None, None))
        runner.run(pool.close())


def constant(value: Value | tuple[Value, ...]) -> str:
    """A value as SQL; a list as what stands between the parentheses of IN."""
    if isinstance(value, tuple):
        return ", ".join(map(constant, value))
    if value is None:
        return "NULL"
    if value.startswith("\\x"):
        return f"x'{value[2:]}'"
    return value if re.fullmatch(r"-?\d+(\.\d+)?(e[+]\d+)?", value) else string(value)


@dataclass(frozen=True)
class Question:
    """A read: values by parameter, a tuple for a list."""

    values: Mapping[str, Value | tuple[Value, ...]]

    def sql(self, view: View) -> str:
        """The view's SQL with the values written in."""
        statement = statement_of(view.sql, "mariadb")
        parts, at = [], 0
        for occurrence in statement.occurrences:
            value = constant(self.values[occurrence.name])
            listed = f"{occurrence.listed} ({value})" if occurrence.listed else value
            parts += [view.sql[at : occurrence.span.start], listed]
            at = occurrence.span.end
        return "".join([*parts, view.sql[at:]])

    def keys(self, view: View) -> list[Key]:
        types = column_types(view.relation)
        parts: list[list[Value]] = []
        for p in view.parameters:
            form = types[p.column].normal_form or str
            values: list[Value] = list(p.members.constants) if p.members is not None else []
            for value in (self.values[name] for name in p.names):
                values += value if isinstance(value, tuple) else (value,)
            parts.append(list(dict.fromkeys(None if v is None else form(v) for v in values)))
        return list(product(*parts))


def questions(view: View, seed: int) -> list[Question]:
    """Keys that occur, one that does not, one with a NULL; ranges between values that occur; some limits."""
    rng = Random(seed)
    rows = plan_rows(view.relation, tables(seed))
    types = column_types(view.relation)
    found = list(dict.fromkeys(tuple(row[c] for c in view.key_columns) for row in rows))
    other = tuple(absent(types[c]) for c in view.key_columns)
    mixed = [tuple(a[:1] + b[1:]) for a, b in pairwise(found)][:2]
    keys = [*found[:4], *mixed, other, *([(None,) * len(other)] if other else [])]
    result = []
    for key in keys * (2 if view.ranges or view.limit_parameter or view.offset_parameter else 1):
        values: dict[str, Value | tuple[Value, ...]] = dict(zip((p.name for p in view.parameters), key, strict=True))
        for at, p in enumerate(view.parameters):
            if p.members is not None:
                values |= {name: rng.choice([*found, other, (None,) * len(other)])[at] for name in p.names}
            elif p.many:
                values[p.name] = tuple(rng.choice([*found, other])[at] for _ in range(3))
        for r in view.ranges:
            values[r.name] = rng.choice([row[r.column] for row in rows] or ["1"])
        for name, least in ((view.limit_parameter, 0), (view.offset_parameter, 0)):
            if name is not None:
                values[name] = str(rng.randint(least, 3))
        result.append(Question(values))
    return result


def absent(sql_type: SqlType) -> str:
    return {"enum": "sad"}.get(sql_type.kind, "zz" if sql_type.name == "varchar" else "77")


def answer(view: View, question: Question, seed: int) -> list[Row]:
    everything = plan_rows(view.relation, tables(seed))
    rows: list[Row] = []
    for key in question.keys(view):
        of_key = [row for row in everything if key_of(view.relation, view.key_columns, row) == key]
        if None in key:
            of_key = list(view.rows_for_null or ())
        elif not of_key and view.rows_for_null:
            of_key = list(view.rows_for_null)
        rows += [row for row in of_key if in_ranges(view, question, row)]
    rows.sort(key=Ordering(view.order, column_types(view.relation)).place_of_row)
    start = int(str(question.values[view.offset_parameter])) if view.offset_parameter else view.offset_rows
    limit = int(str(question.values[view.limit_parameter])) if view.limit_parameter else view.limit_rows
    return [tuple(row[c.column] for c in view.output) for row in rows[start : None if limit is None else start + limit]]


def in_ranges(view: View, question: Question, row: Row) -> bool:
    types = column_types(view.relation)
    for r in view.ranges:
        value = question.values[r.name]
        assert not isinstance(value, tuple)
        ref = ColumnRef(r.column, types[r.column])
        if not compile_predicate(Call(r.operator, (ref, Literal(value, types[r.column])), BOOL))(row):
            return False
    return True


@pytest.mark.parametrize("sql", queries())
def test_a_plan_means_what_its_sql_means(server: Server, sql: str) -> None:
    view = plan_view("v", sql, server.catalog)
    for seed in range(SEEDS):
        server.fill(seed)
        for question in questions(view, seed):
            written = question.sql(view)
            if seed == 0:
                assert [c.name for c in view.output] == server.names(written)
            alike = same_text(view.relation)
            expected = [alike(row, [c.column for c in view.output]) for row in server.rows(written)]
            found = [alike(row, [c.column for c in view.output]) for row in answer(view, question, seed)]
            if not view.order:
                expected.sort(key=repr)
                found.sort(key=repr)
            assert found == expected, (seed, written)


def loose_columns(relation: Relation) -> frozenset[int]:
    """Columns whose text is the server's choice among equal ones."""
    match relation:
        case Chain():
            return frozenset()
        case Union():
            return frozenset().union(*map(loose_columns, relation.inputs))
        case Window() | TopK():
            return loose_columns(relation.input)
        case Aggregate():
            extremes = (AggregateFunction.MIN, AggregateFunction.MAX)
            size = len(relation.group)
            return frozenset(
                {*range(size), *(size + i for i, c in enumerate(relation.calls) if c.function in extremes)}
            )
    below: set[int] = set()
    offset = 0
    for item in relation.inputs:
        below |= {offset + c for c in loose_columns(item.relation)}
        offset += len(column_types(item.relation))
    return frozenset(i for i, c in enumerate(relation.columns) if used_columns(c) & below)


def same_text(relation: Relation) -> Callable[[Row, Sequence[int]], Row]:
    """One text for rows that differ in what is the server's free choice: ``a`` or ``A`` for a group of both."""
    loose = loose_columns(relation)
    types = column_types(relation)

    def alike(row: Row, columns: Sequence[int]) -> Row:
        forms = [types[c].normal_form if c in loose else None for c in columns]
        return tuple(v if v is None or form is None else form(v) for v, form in zip(row, forms, strict=True))

    return alike


def merged(aggregate: Aggregate, state_rows: list[Row]) -> list[Row]:
    """The aggregate's rows from state rows."""
    width = len(aggregate.group)
    groups: dict[Key, tuple[Row, list[Any]]] = {}
    for row in state_rows:
        if row[-1] == "0":
            continue
        key = key_of(aggregate, tuple(range(width)), row)
        if key not in groups:
            groups[key] = (row[:width], [accumulator_factory(call)() for call in aggregate.calls])
        rest = iter(row[width:])
        for accumulator in groups[key][1]:
            accumulator.merge(tuple(islice(rest, accumulator.width)))
    if aggregate.scalar and not width and not groups:
        groups[()] = ((), [accumulator_factory(call)() for call in aggregate.calls])
    return [values + tuple(a.result() for a in accumulators) for values, accumulators in groups.values()]


@pytest.mark.parametrize("sql", queries())
def test_lookups_bring_the_rows_of_their_relations(server: Server, sql: str) -> None:
    view = plan_view("v", sql, server.catalog)
    for seed in range(2):
        server.fill(seed)
        for lookup in lookups(view, server.catalog):
            relation, columns = lookup.relation, lookup.columns
            rows = plan_rows(relation, tables(seed))
            keys = list(dict.fromkeys(key_of(relation, columns, row) for row in rows))
            wanted = [key for key in keys if None not in key][::2] if columns else [()]
            if not wanted:
                continue
            effect = Lookup(LookupId(1), NodeId(1), relation, columns, tuple(wanted))
            found = server.lookup(effect)
            if isinstance(relation, Aggregate):
                found = merged(relation, found)
            expected = [row for row in rows if key_of(relation, columns, row) in wanted]
            alike, every = same_text(relation), range(len(column_types(relation)))
            found, expected = ([alike(row, every) for row in rows] for rows in (found, expected))
            assert sorted(found, key=repr) == sorted(expected, key=repr), effect
