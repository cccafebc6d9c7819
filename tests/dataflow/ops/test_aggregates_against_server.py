"""Every aggregate gives what the server gives: made of looked-up state rows, and kept while rows come and go."""

import random
from dataclasses import dataclass
from math import isclose
from typing import Any

import psycopg
import pytest

from dataflow.lookups.postgres.lookup import lookup_sql
from dataflow.ops.aggregate import Grouping
from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, CallOrder, Chain, column_types
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.state.materialization import Materialization
from dataflow.types import Row, Value
from tests.dataflow.ops.server_texts import texts


def base(name: str) -> SqlType:
    return SqlType(name, name)


INT, BIGINT, NUMERIC, TEXT, BOOL = base("int4"), base("int8"), base("numeric"), base("text"), base("bool")
MOOD = SqlType("mood", "public.mood", "enum", labels=("sad", "ok"))
COLUMNS: dict[str, tuple[SqlType, str, list[Value]]] = {
    "id": (INT, "int", []),
    "g": (INT, "int", ["1", "2"]),
    "i": (INT, "int", ["1", "-7", "0", "2147483647", None]),
    "l": (BIGINT, "bigint", ["9007199254740993", "-5", None]),
    "n": (NUMERIC, "numeric", ["1.0", "1.00", "-3", "0.125", "NaN", None]),
    "m": (NUMERIC, "numeric", ["1.5", "-3.25", "Infinity", None]),
    "f": (base("float8"), "float8", ["0.1", "-1.5", "1e+20", "-0", "0", None]),
    "h": (base("float8"), "float8", ["NaN", "Infinity", "1", None]),
    "r": (base("float4"), "float4", ["0.1", "1.6777216e+07", "-2.5", None]),
    "v": (base("interval"), "interval", ["1 mon", "-2 days", "27:00:00.5", "5 mons 3 days 00:00:00.000001", None]),
    "b": (BOOL, "bool", ["t", "f", None]),
    "t": (TEXT, 'text COLLATE "C"', ["", "a", "B", "null", 'q"\\,{', "ä \n\x01\x7f/", None]),
    "w": (TEXT, 'text COLLATE "C"', [", ", "", None]),
    "c": (base("bpchar"), "char(3)", ["a  ", "bc ", None]),
    "e": (MOOD, "mood", ["sad", "ok", None]),
    "s": (base("timestamptz"), "timestamptz", ["2020-01-01 10:00:00.5+00", "infinity", "0044-03-15 10:00:00+00 BC"]),
    "p": (base("timestamp"), "timestamp", ["2020-01-01 10:00:00", "12020-01-01 00:00:00", None]),
    "d": (base("date"), "date", ["2020-02-29", "-infinity", "0044-03-15 BC", None]),
    "u": (base("uuid"), "uuid", ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", None]),
    "y": (base("bytea"), "bytea", ["\\x", "\\x00ff", "\\x5c22", None]),
    "j": (base("json"), "json", ['{"b":1,  "a":[2]}', "[1, 2]", "3.50", "null", None]),
    "k": (base("jsonb"), "jsonb", ['{"a": [2], "b": 1.50}', "[1.5]", '"x"', None]),
    "a": (SqlType("int4", "int4[]", "array", INT), "int[]", ["{1,2}", "{{1,NULL},{3,4}}", "{}", None]),
    "z": (SqlType("text", "text[]", "array", TEXT), "text[]", ['{a,"b c",NULL}', '{"\\"",""}', None]),
    "q": (base("json"), "json", ['{"b":1, "a":-0, "b":1E5}', '"\\u00e9"', "1.50", "[1e-3]", None]),
    "o": (INT, "int", ["1", "2", "3"]),
}
NAMES = list(COLUMNS)
TABLE = Table("public.t", tuple(Column(name, COLUMNS[name][0]) for name in NAMES))
CHAIN = Chain(TABLE.name, None, tuple(ColumnRef(i, c.type) for i, c in enumerate(TABLE.columns)))
BY_ID = "id"
F = AggregateFunction


def col(name: str) -> ColumnRef:
    return ColumnRef(NAMES.index(name), COLUMNS[name][0])


@dataclass(frozen=True)
class Case:
    """A call and how it is written."""

    call: AggregateCall
    sql: str


def simple(function: AggregateFunction, name: str, result: SqlType | None = None, *, distinct: bool = False) -> Case:
    argument = col(name)
    call = AggregateCall(function, argument, result or argument.type, distinct=distinct)
    return Case(call, f"{function.value}({'DISTINCT ' if distinct else ''}{name})")


def listed(
    function: AggregateFunction,
    name: str,
    *others: Scalar | str,
    order: str = BY_ID,
    distinct: bool = False,
    keeps: bool = False,
) -> Case:
    """A list, ordered by `order`: names, each with ``-`` before it to descend."""
    arguments = [col(other) if isinstance(other, str) else other for other in others]
    written = [name, *(o if isinstance(o, str) else "','" for o in others)]
    terms = [CallOrder(col(n.lstrip("-")), n[0] == "-", n[0] == "-") for n in order.split()]
    by = ", ".join(n.lstrip("-") + (" DESC" if n[0] == "-" else "") for n in order.split())
    call = AggregateCall(
        function,
        col(name),
        TEXT,
        others=tuple(arguments),
        distinct=distinct,
        order=tuple(terms),
        keeps=Call("is true", (col("b"),), BOOL) if keeps else None,
    )
    kept = " FILTER (WHERE b)" if keeps else ""
    return Case(call, f"{function.value}({'DISTINCT ' if distinct else ''}{', '.join(written)} ORDER BY {by}){kept}")


COMMA = Literal(",", TEXT)
SPREADS = (F.STDDEV_SAMP, F.STDDEV_POP, F.VAR_SAMP, F.VAR_POP)
CASES = [
    Case(AggregateCall(F.COUNT_ROWS, None, BIGINT), "count(*)"),
    simple(F.COUNT, "i", BIGINT),
    simple(F.SUM, "i", BIGINT),
    simple(F.SUM, "l", NUMERIC),
    simple(F.SUM, "n"),
    simple(F.SUM, "m"),
    simple(F.SUM, "f"),
    simple(F.SUM, "h"),
    simple(F.SUM, "r"),
    simple(F.SUM, "v"),
    simple(F.AVG, "v"),
    simple(F.AVG, "i", NUMERIC),
    simple(F.AVG, "n"),
    simple(F.AVG, "m"),
    simple(F.AVG, "f"),
    simple(F.AVG, "h"),
    simple(F.AVG, "r", base("float8")),
    *(simple(function, name) for function in (F.MIN, F.MAX) for name in "ilnmfhrvtcespd"),
    *(simple(function, name, NUMERIC) for function in SPREADS for name in "ilnmo"),
    *(simple(function, name, NUMERIC, distinct=True) for function in SPREADS for name in "im"),
    simple(F.BOOL_AND, "b"),
    simple(F.BOOL_OR, "b"),
    *(simple(F.COUNT, name, BIGINT, distinct=True) for name in "inmfhrvbtcespduyo"),
    simple(F.SUM, "i", BIGINT, distinct=True),
    simple(F.SUM, "n", distinct=True),
    simple(F.SUM, "f", distinct=True),
    simple(F.AVG, "i", NUMERIC, distinct=True),
    simple(F.AVG, "m", distinct=True),
    listed(F.STRING_AGG, "t", COMMA),
    listed(F.STRING_AGG, "t", "t", order="-o id"),
    listed(F.STRING_AGG, "t", COMMA, order="-t", distinct=True),
    listed(F.STRING_AGG, "t", "w", order="t w", distinct=True),
    listed(F.STRING_AGG, "y", "y"),
    *(listed(F.ARRAY_AGG, name) for name in "ilnmfhrvbtcespduyjk"),
    listed(F.ARRAY_AGG, "t", order="n -s id", keeps=True),
    listed(F.ARRAY_AGG, "s", order="-s", distinct=True),
    *(listed(function, name) for function in (F.JSON_AGG, F.JSONB_AGG) for name in "ilnmfhrvbtcespduykazq"),
    listed(F.JSON_AGG, "j", order="-o id", keeps=True),
    listed(F.JSON_AGG, "t", order="t", distinct=True),
    *(listed(F.JSON_OBJECT_AGG, "id", name) for name in "infrbtcespdjkaz"),
    *(listed(F.JSONB_OBJECT_AGG, "id", name) for name in "infrbtcespdkazq"),
    listed(F.JSONB_OBJECT_AGG, "o", "t", order="t id", keeps=True),
]


def create(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SET timezone = 'UTC'; CREATE TYPE mood AS ENUM ('sad', 'ok')")
    connection.execute(f"CREATE TABLE t ({', '.join(f'{n} {COLUMNS[n][1]}' for n in NAMES)})")


def insert(connection: psycopg.Connection[Any], rows: list[Row]) -> None:
    with connection.cursor().copy("COPY t FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


class Rows:
    """Random rows, each with an id of its own."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._id = 0

    def make(self, count: int) -> list[Row]:
        return [self._one() for _ in range(count)]

    def _one(self) -> Row:
        self._id += 1
        return (str(self._id), *(self._draw.choice(COLUMNS[name][2]) for name in NAMES[1:]))


def grouping(case: Case) -> Grouping:
    aggregate = Aggregate(CHAIN, (1,), (case.call,))
    made = Grouping(aggregate, Materialization(column_types(aggregate)))
    made.materialization.require_coverage(())
    return made


def check(connection: psycopg.Connection[Any], case: Case, kept: Grouping) -> None:
    expected = dict(texts(connection, f"SELECT g, {case.sql} FROM t GROUP BY g"))
    found = dict(kept.materialization.bag())
    assert {row[0] for row in found} == set(expected)
    for group, ours in found:
        assert same(case.call, ours, expected[group]), (case.sql, ours, expected[group])


def same(call: AggregateCall, ours: Value, theirs: Value) -> bool:
    """Floats differ in their last places; of equal values any text may be shown."""
    if ours == theirs or ours is None or theirs is None:
        return ours == theirs
    if call.function in (F.SUM, F.AVG) and call.type.name in ("float4", "float8"):
        return isclose(float(ours), float(theirs), rel_tol=1e-6 if call.type.name == "float4" else 1e-14)
    form = call.type.normal_form if call.function in (F.MIN, F.MAX) or call.distinct else None
    return form is not None and form(ours) == form(theirs)


@pytest.mark.postgres
@pytest.mark.parametrize("seed", range(2))
def test_aggregates_are_the_servers(connect, seed: int) -> None:
    connection = connect()
    create(connection)
    draw = random.Random(seed)
    source = Rows(draw)
    rows = source.make(40)
    insert(connection, rows)
    catalog = Catalog({TABLE.name: TABLE})
    groupings = [grouping(case) for case in CASES]
    for case, kept in zip(CASES, groupings, strict=True):
        state = texts(connection, lookup_sql(kept.aggregate, (), catalog))
        kept.fill((), (), kept.groups_of_state_rows(state))
        check(connection, case, kept)
    for size in (3, 12, 36, 3):
        removed = draw.sample(rows, min(size, len(rows)))
        added = source.make(draw.randint(1, 4))
        rows = [row for row in rows if row not in removed] + added
        connection.execute("DELETE FROM t WHERE id::text = ANY(%s)", ([row[0] for row in removed],))
        insert(connection, added)
        for case, kept in zip(CASES, groupings, strict=True):
            kept.absorb((removed, added))
            kept.check()
            check(connection, case, kept)


@pytest.mark.postgres
def test_several_histograms_of_one_aggregate(connect) -> None:
    connection = connect()
    create(connection)
    source = Rows(random.Random(5))
    insert(connection, source.make(60))
    cases = [case for case in CASES if "(id" not in case.sql and "ORDER BY id" not in case.sql][::3]
    aggregate = Aggregate(CHAIN, (1,), tuple(case.call for case in cases))
    kept = Grouping(aggregate, Materialization(column_types(aggregate)))
    kept.materialization.require_coverage(())
    state = texts(connection, lookup_sql(aggregate, (), Catalog({TABLE.name: TABLE})))
    kept.fill((), (), kept.groups_of_state_rows(state))
    expected = texts(connection, f"SELECT g, {', '.join(case.sql for case in cases)} FROM t GROUP BY g")
    for ours, theirs in zip(sorted(kept.materialization.bag()), sorted(expected), strict=True):
        for case, our, their in zip(cases, ours[1:], theirs[1:], strict=True):
            assert same(case.call, our, their), case.sql
