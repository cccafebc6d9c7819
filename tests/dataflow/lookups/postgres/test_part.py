"""A part of a key's rows, as the server finds it, is what lies between the cuts."""

import random
from itertools import product

import pytest

from dataflow.lookups.postgres.lookup import lookup_arguments, lookup_sql
from dataflow.plan.nodes import Chain, OrderTerm, column_types
from dataflow.plan.parts import END, START, Cut, Lookup, Part
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.state.ordering import Ordering
from dataflow.types import LookupId, NodeId, Row, Value
from tests.dataflow.ops.server_texts import texts

INT = SqlType("int4", "int4")
TEXT = SqlType("text", "text")
MOOD = SqlType("mood", "public.mood", "enum", labels=("sad", "ok", "happy"))
TYPES = {
    "k": INT,
    "n": INT,
    "m": INT,
    "t": TEXT,
    "x": SqlType("numeric", "numeric"),
    "f": SqlType("float8", "float8"),
    "c": SqlType("bpchar", "bpchar"),
    "e": MOOD,
    "s": SqlType("timestamptz", "timestamptz"),
    "b": SqlType("bool", "bool"),
    "v": SqlType("varchar", "varchar"),
}
VALUES: dict[str, list[Value]] = {
    "k": ["1", "2"],
    "n": ["1", "2", "-3"],
    "m": ["1", "2", None],
    "t": ["", "a", "B", "ä", "a'b\\", None],
    "x": ["1.0", "1.00", "-2", "NaN", "Infinity", None],
    "f": ["-0", "0", "1e+300", "NaN", None],
    "c": ["a", "b", None],
    "e": [*MOOD.labels, None],
    "s": ["2020-01-01 00:00:00+00", "infinity", "0044-03-15 10:00:00+00 BC", None],
    "b": ["t", "f", None],
    "v": ["x", "X", None],
}
TABLE = Table("public.t", tuple(Column(name, t, name in "kn") for name, t in TYPES.items()))
CATALOG = Catalog({TABLE.name: TABLE})
NAMES = list(TYPES)
DOUBLED = Call("||", (ColumnRef(NAMES.index("t"), TEXT), ColumnRef(NAMES.index("v"), TEXT)), TEXT)
#: All columns, then a computed one and a constant.
CHAIN = Chain(TABLE.name, None, (*(ColumnRef(i, t) for i, t in enumerate(TYPES.values())), DOUBLED, Literal("7", INT)))
KEY = (0,)


@pytest.fixture
def table(connect):
    """A table without indexes, with rows of all values, and its rows."""
    connection = connect()
    connection.execute("SET timezone = 'UTC'; CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    connection.execute(
        'CREATE TABLE t (k int NOT NULL, n int NOT NULL, m int, t text COLLATE "C", x numeric, f float8, c char(2), '
        'e mood, s timestamptz, b bool, v varchar COLLATE "C")'
    )
    draw = random.Random(1)
    with connection.cursor().copy("COPY t FROM STDIN") as copy:
        for _ in range(300):
            copy.write_row([draw.choice(VALUES[name]) for name in NAMES])
    return connection, texts(connection, lookup_sql(CHAIN, (), CATALOG), [])


def wanted(rows: list[Row], part: Part) -> list[Row]:
    """Rows between the cuts, in order."""
    ordering = Ordering(part.order, column_types(CHAIN))
    start, end = ordering.place(part.start), ordering.place(part.end)
    found = [
        row
        for row in rows
        if row[0] == "1"
        and start is not None
        and start <= (place := ordering.place_of_row(row))
        and (end is None or place < end)
    ]
    found.sort(key=ordering.place_of_row)
    if part.limit_rows is None or len(found) <= part.limit_rows:
        return found
    last = ordering.place_of_row(found[part.limit_rows - 1]) if part.limit_rows else b""
    return [row for row in found if ordering.place_of_row(row) <= last]


def check(connection, rows: list[Row], part: Part) -> None:
    lookup = Lookup(LookupId(1), NodeId(1), CHAIN, KEY, (("1",),), part)
    sql = lookup_sql(CHAIN, KEY, CATALOG, part)
    arguments = [a for a in lookup_arguments(lookup) if a is None or isinstance(a, str)]
    found = texts(connection, sql, arguments)
    expected = wanted(rows, part)
    assert sorted(map(repr, found)) == sorted(map(repr, expected)), sql
    place = Ordering(part.order, column_types(CHAIN)).place_of_row
    assert [place(row) for row in found] == [place(row) for row in expected], sql


@pytest.mark.postgres
def test_parts_are_what_lies_between_the_cuts(table) -> None:
    connection, rows = table
    draw = random.Random(2)
    for _ in range(600):
        columns = draw.sample(range(1, len(CHAIN.columns)), draw.randint(1, 3))
        order = tuple(OrderTerm(c, draw.random() < 0.5, draw.random() < 0.5) for c in columns)
        ordering = Ordering(order, column_types(CHAIN))

        def cut(ordering: Ordering = ordering) -> Cut:
            row = draw.choice(rows)
            values = ordering.cut_at(row, behind=False).values
            return Cut(values[: draw.randint(1, len(values))], draw.random() < 0.5)

        part = Part(order, draw.choice([START, cut()]), draw.choice([END, cut()]), draw.choice([None, None, 1, 4, 30]))
        check(connection, rows, part)


@pytest.mark.postgres
@pytest.mark.parametrize(("start", "end"), list(product([START, END], repeat=2)))
def test_the_ends_of_the_order(table, start: Cut, end: Cut) -> None:
    connection, rows = table
    check(connection, rows, Part((OrderTerm(2),), start, end, 5))


@pytest.mark.postgres
@pytest.mark.parametrize("descending", [False, True])
def test_a_part_starts_in_the_index(table, descending: bool) -> None:
    connection, rows = table
    connection.execute("CREATE INDEX ON t (k, n, s); SET enable_seqscan = off; SET enable_bitmapscan = off")
    # Of a column with NULLs, those that come behind make a condition of two parts; the first term's is enough.
    order = (OrderTerm(1, descending), OrderTerm(8, descending, descending))
    part = Part(order, Cut(("1", "2020-01-01 00:00:00+00"), True), END, 3)
    check(connection, rows, part)
    sql = lookup_sql(CHAIN, KEY, CATALOG, part)
    sql = sql.replace("$1", "'1'").replace("$2", "'1'").replace("$3", "'2020-01-01 00:00:00+00'")
    plan = "\n".join(row[0] for row in connection.execute(f"EXPLAIN {sql}").fetchall())
    condition = next(line for line in plan.splitlines() if "Index Cond" in line)
    assert "Sort" not in plan
    assert "n <" in condition or "n >" in condition, plan
