"""Plans of MariaDB's SQL mean what the server answers, and its lookups bring the rows of their relations.

As `test_against_server` for PostgreSQL, but that plans are computed by the engine's own expressions (`plan_rows`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise, product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dataflow.engine.effects import Lookup
from dataflow.evaluate import compile_predicate
from dataflow.ops.aggregate_state import accumulator_factory
from dataflow.plan.explain import lookups
from dataflow.plan.expressions import BOOL
from dataflow.plan.mysql_lookup import lookup_columns, lookup_statement
from dataflow.plan.mysql_render import string
from dataflow.plan.nodes import Aggregate, View, column_types
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.state.ordering import Ordering
from dataflow.types import Key, LookupId, NodeId, Row, Value
from dataflow.values import normal_form
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
    KEY (story_id)
);
CREATE TABLE tags (story_id bigint NOT NULL, tag varchar(10) NOT NULL);
"""
SEEDS = 4
SQL_MODES = ("ANSI_QUOTES", "PIPES_AS_CONCAT", "NO_BACKSLASH_ESCAPES", "ONLY_FULL_GROUP_BY")


def table(name: str, columns: str, *keys: Sequence[int]) -> Table:
    """A table from ``name type!`` pairs; ``!`` is NOT NULL."""
    found = []
    for pair in columns.split(", "):
        column, written = pair.split(" ")
        found.append(Column(column, TYPES[written.rstrip("!")], written.endswith("!")))
    return Table(f"{DATABASE}.{name}", tuple(found), tuple(map(tuple, keys)), indexes=tuple(map(tuple, keys)))


DATABASE = "against"
TYPES = {
    "int": SqlType("int4", "int"),
    "bigint": SqlType("int8", "bigint"),
    "smallint": SqlType("int2", "smallint"),
    "tinyint": SqlType("int2", "tinyint(1)"),
    "text20": SqlType("varchar", "varchar(20)"),
    "text10": SqlType("varchar", "varchar(10)"),
    "d8": SqlType("numeric", "decimal(8,2)"),
    "d10": SqlType("numeric", "decimal(10,3)"),
    "d6": SqlType("numeric", "decimal(6,1)"),
    "mood": SqlType("mysql_enum", "enum('sad','ok','happy')", "enum", labels=("sad", "ok", "happy")),
}
TABLES = [
    table("users", "id int!, name text20, karma d8, mood mood", (0,)),
    table("stories", "id bigint!, author_id int, title text20, score int, price d10, removed tinyint!", (0,)),
    table("votes", "story_id bigint!, user_id int!, value smallint", (0, 1)),
    table("comments", "id int!, story_id bigint, user_id int, parent_id int, body text20, weight d6", (0,)),
    table("tags", "story_id bigint!, tag text10!"),
]
CATALOG = Catalog({t.name: t for t in TABLES}, (DATABASE,), dialect="mariadb")


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

    pairs = [(str(s), str(u)) for s in range(1, 7) for u in range(1, 6)]
    return {
        "users": [(i, some("a", "b", "", None), number(2), some("sad", "ok", "happy", None)) for i in ids()],
        "stories": [
            (i, some("1", "2", "3", "9", None), some("a", "b", "ab", "", None), some("0", "1", "2", "3", None),
             number(3), some("0", "1")) for i in ids()
        ],
        "votes": [(s, u, some("-1", "1", "1", "2", None)) for s, u in rng.sample(pairs, rng.randint(0, 15))],
        "comments": [
            (i, some("1", "2", "3", "9", None), some("1", "2", "3", None), some("1", "2", None), some("x", "y", None),
             number(1)) for i in ids()
        ],
        "tags": [(some("1", "2", "3", "9"), some("a", "b", "c")) for _ in range(rng.randint(0, 8))],
    }  # fmt: skip


@cache
def tables(seed: int) -> dict[str, list[Row]]:
    return {f"{DATABASE}.{name}": rows for name, rows in random_rows(Random(seed)).items()}


class Server:
    """A connection whose values are texts."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        for statement in (
            f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
            f"USE {DATABASE}",
        ):
            self.texts(statement)
        for statement in SCHEMA.split(";"):
            if statement.strip():
                self.texts(statement)
        modes = "@@sql_mode"
        for mode in SQL_MODES:
            modes = f"REPLACE({modes}, '{mode}', '')"
        self.texts(f"SET time_zone = '+00:00', sql_mode = {modes}")
        self.filled: int | None = None

    def texts(self, sql: str) -> list[Row]:
        """The rows of a statement."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    def names(self, sql: str) -> list[str]:
        """The names of its columns, repeated ones numbered."""
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            names: list[str] = []
            for name, *_ in cursor.description:
                unique, number = name, 1
                while unique in names:
                    number += 1
                    unique = f"{name}_{number}"
                names.append(unique)
            return names

    def fill(self, seed: int) -> None:
        if self.filled == seed:
            return
        self.filled = seed
        for name, rows in tables(seed).items():
            self.texts(f"DELETE FROM {name}")
            if rows:
                values = ", ".join("(" + ", ".join(map(constant, row)) + ")" for row in rows)
                self.texts(f"INSERT INTO {name} VALUES {values}")


@pytest.fixture(scope="module")
def server(mariadb_server: MariaDbServer) -> Iterator[Server]:
    with closing(mariadb_server.connect(conv={})) as connection:
        yield Server(connection)


def constant(value: Value | tuple[Value, ...]) -> str:
    """A value as SQL; a list as what stands between the parentheses of IN."""
    if isinstance(value, tuple):
        return ", ".join(map(constant, value))
    if value is None:
        return "NULL"
    return value if re.fullmatch(r"-?\d+(\.\d+)?", value) else string(value)


@dataclass(frozen=True)
class Question:
    """A read: values by parameter, a tuple for a list."""

    values: Mapping[str, Value | tuple[Value, ...]]

    def sql(self, view: View) -> str:
        """The view's SQL with the values written in."""
        names = iter(sorted(self.values, key=lambda name: int(name[1:]) if name[1:].isdecimal() else 0))
        written = re.sub(r"\?", lambda _: f":{next(names)}", view.sql)
        return re.sub(r"(?<!:):(\w+)", lambda found: constant(self.values[found[1]]), written)

    def keys(self, view: View) -> list[Key]:
        types = column_types(view.relation)
        parts: list[list[Value]] = []
        for p in view.parameters:
            form = normal_form(types[p.column]) or str
            value = self.values[p.name]
            values = value if isinstance(value, tuple) else (value,)
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
            if p.many:
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
    """What a read answers."""
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
    view = plan_view("v", sql, CATALOG)
    for seed in range(SEEDS):
        server.fill(seed)
        for question in questions(view, seed):
            written = question.sql(view)
            if seed == 0:
                assert [c.name for c in view.output] == server.names(written)
            expected, found = server.texts(written), answer(view, question, seed)
            if not view.order:
                expected.sort(key=repr)
                found.sort(key=repr)
            assert found == expected, (seed, written)


def as_value(text: Value, sql_type: SqlType) -> Value:
    """A lookup's text as the engine has it: conditions are numbers upstream."""
    return {"1": "t", "0": "f", None: None}[text] if sql_type.name == "bool" else text


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
    view = plan_view("v", sql, CATALOG)
    for seed in range(2):
        server.fill(seed)
        for lookup in lookups(view, CATALOG):
            relation, columns = lookup.relation, lookup.columns
            rows = plan_rows(relation, tables(seed))
            keys = list(dict.fromkeys(key_of(relation, columns, row) for row in rows))
            wanted = [key for key in keys if None not in key][::2] if columns else [()]
            if not wanted:
                continue
            effect = Lookup(LookupId(1), NodeId(1), relation, columns, tuple(wanted))
            statement = lookup_statement(effect, CATALOG)
            types = lookup_columns(relation, CATALOG)
            # Rows of no columns have one that means nothing.
            found = [tuple(map(as_value, row, types)) if types else () for row in server.texts(statement)]
            assert all(len(row) == len(types) for row in found)
            if isinstance(relation, Aggregate):
                found = merged(relation, found)
            expected = [row for row in rows if key_of(relation, columns, row) in wanted]
            assert sorted(found, key=repr) == sorted(expected, key=repr), statement
