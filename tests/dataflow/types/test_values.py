"""Normal forms and order forms against the server itself: every type, every pair of awkward values."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import psycopg
import pytest

from dataflow.schema import SqlType
from tests.fixtures.postgres import Database

PINNED = "-c TimeZone=UTC -c DateStyle=ISO,MDY -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"


def base(name: str, **other: str) -> SqlType:
    return replace(SqlType(name, name), **other)  # type: ignore[arg-type]


MOOD = SqlType("mood", "mood", kind="enum", labels=("sad", "ok", "happy"))

#: Literals of each type, several spellings of equal values among them.
VALUES: dict[SqlType, tuple[str, ...]] = {
    base("int2"): ("-32768", "-1", "0", "7", "32767"),
    base("int4"): ("-2147483648", "-10", "-9", "0", "9", "10", "2147483647"),
    base("int8"): ("-9223372036854775808", "-1", "0", "1", "9223372036854775807"),
    base("oid"): ("0", "1", "4294967295"),
    base("numeric"): (
        "0",
        "0.0",
        "-0.00",
        "1",
        "1.0",
        "1.000",
        "-1",
        "-1.50",
        "-1.5",
        "10",
        "100",
        "99.99",
        "0.1",
        "0.10",
        "0.01",
        "-0.01",
        "-0.1",
        "-10",
        "12345678901234567890.123456789",
        "12345678901234567890.1234567890",
        "1e40",
        "1e-40",
        "-1e40",
        "-1e-40",
        "9.9",
        "9.99",
        "NaN",
        "Infinity",
        "-Infinity",
        "0.000001",
        "1000000",
        "20",
        "2",
    ),
    base("float8"): (
        "0",
        "-0",
        "1",
        "-1",
        "0.1",
        "-0.1",
        "1e300",
        "-1e300",
        "5e-324",
        "1e15",
        "1e16",
        "123456789012345678",
        "NaN",
        "Infinity",
        "-Infinity",
        "0.30000000000000004",
        "0.3",
        "2.2250738585072014e-308",
        "9007199254740993",
    ),
    base("float4"): ("0", "-0", "1", "0.1", "-0.1", "3.4e38", "1e-45", "16777217", "NaN", "Infinity", "-Infinity"),
    base("text"): ("", "a", "A", "b", "aa", "ab", "a b", "a ", "ä", "z", "日本", "\U0001f600", "￿", "\x01", "a\x01"),
    base("varchar"): ("", "a", "a ", "b"),
    base("name"): ("", "a", "B", "b"),
    base("bpchar"): ("", " ", "a", "a ", "a  ", "ab", "a b", "b", "a\t", "a\t "),
    base("bpchar", sql="character(4)"): ("", "a", "ab", "a b", "b"),
    base("bool"): ("t", "f"),
    base("date"): (
        "2024-02-29",
        "2024-03-01",
        "1999-12-31",
        "0001-01-01",
        "0001-12-31 BC",
        "0044-03-15 BC",
        "0044-03-16 BC",
        "4714-11-24 BC",
        "5874897-12-31",
        "9999-12-31",
        "10000-01-01",
        "infinity",
        "-infinity",
        "1970-01-01",
    ),
    base("time"): ("00:00:00", "10:00:00", "10:00:00.5", "10:00:00.05", "10:00:00.500001", "24:00:00"),
    base("timetz"): (
        "10:00:00+00",
        "11:00:00+01",
        "09:00:00-01",
        "10:00:00+01",
        "10:00:00+05:30",
        "24:00:00-15:59",
        "10:00:00.5+00",
        "00:00:00+15:59",
    ),
    base("timestamp"): (
        "2024-02-29 10:00:00",
        "2024-02-29 10:00:00.1",
        "2024-02-29 10:00:00.000001",
        "0001-01-01 00:00:00",
        "0001-12-31 23:59:59 BC",
        "0044-03-15 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
        "infinity",
        "-infinity",
        "1900-02-28 00:00:00",
        "1900-03-01 00:00:00",
    ),
    base("timestamptz"): (
        "2024-02-29 10:00:00+00",
        "2024-02-29 11:00:00+01",
        "2024-02-29 10:00:00.1+00",
        "0044-03-15 00:00:00+00 BC",
        "infinity",
        "-infinity",
        "294276-12-31 23:59:59.999999+00",
    ),
    base("interval"): (
        "0",
        "1 day",
        "24:00:00",
        "23:59:59.999999",
        "1 mon",
        "30 days",
        "720:00:00",
        "-1 day",
        "-24:00:00",
        "1 mon -30 days",
        "1 year 2 mons 3 days 04:05:06.789",
        "-1 year -2 mons +3 days -04:05:06",
        "infinity",
        "-infinity",
        "1 day -00:00:00.000001",
        "1 year",
        "12 mons",
        "360 days",
        "178956970 years 7 mons",
        "-00:00:00.5",
    ),
    base("uuid"): (
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        "00000000-0000-0000-0000-000000000000",
        "6BA7B8109DAD11D180B400C04FD430C9",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ),
    base("jsonb"): (
        "1",
        "1.0",
        '{"a": 1, "b": [1.50, "x"]}',
        '{"b": [1.5, "x"], "a": 1.00}',
        '"1"',
        "null",
        "[]",
        "{}",
        '["a\\n"]',
        "1e3",
        "1000",
        "true",
        '{"a": {"a": -0.0}}',
        '{"a": {"a": 0}}',
    ),
    base("bytea"): (r"\x", r"\x00", r"\x0001", r"\x01", r"\xFF", r"\xff00", r"\x7f"),
    MOOD: ("ok", "happy", "sad"),
    SqlType("int4", "int4[]", kind="array", element=base("int4")): (
        "{}",
        "{1}",
        "{1,2}",
        "{NULL}",
        "{1,NULL}",
        "[0:1]={1,2}",
        "{{1,2}}",
    ),
    SqlType("text", "text[]", kind="array", element=base("text")): (
        "{}",
        '{""}',
        "{NULL}",
        '{"NULL"}',
        '{"a,b"}',
        "{a,b}",
    ),
}
TYPES = pytest.mark.parametrize("sql_type", VALUES, ids=lambda t: t.sql)


@pytest.fixture(scope="module")
def connection(module_database: Database) -> Iterator[psycopg.Connection[Any]]:
    # Tests have other tables of the same name: nothing may be prepared.
    with psycopg.connect(module_database.url, options=PINNED, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        yield connection


@pytest.fixture
def server(connection: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Leaves no tables behind."""
    yield connection
    connection.execute("DISCARD TEMP")


def printed(server: psycopg.Connection[Any], sql_type: SqlType) -> list[str]:
    """The type's values through its output function."""
    collation = 'COLLATE "C"' if sql_type.family in ("text", "bpchar") else ""
    server.execute(f"CREATE TEMP TABLE v (n serial, v {sql_type.sql} {collation})")
    for value in VALUES[sql_type]:
        server.execute(f"INSERT INTO v (v) SELECT %s::{sql_type.sql}", (value,))
    cursor = server.execute("SELECT v FROM v ORDER BY n")
    result = cursor.pgresult
    assert result is not None
    return [(result.get_value(i, 0) or b"").decode() for i in range(result.ntuples)]


@TYPES
def test_normal_forms_are_equal_as_the_server_says(server: psycopg.Connection[Any], sql_type: SqlType) -> None:
    texts = printed(server, sql_type)
    form = sql_type.normal_form or str
    equal = server.execute("SELECT a.v = b.v FROM v a CROSS JOIN v b ORDER BY a.n, b.n").fetchall()
    assert sql_type.comparable
    for (a, b), (is_equal,) in zip(product(texts, texts), equal, strict=True):
        assert (form(a) == form(b)) is is_equal, (a, b)
        assert not sql_type.one_text or not is_equal or a == b


@TYPES
def test_normal_forms_are_literals_of_the_same_value(server: psycopg.Connection[Any], sql_type: SqlType) -> None:
    form = sql_type.normal_form or str
    for n, text in enumerate(printed(server, sql_type), 1):
        found = server.execute(f"SELECT v = %s::{sql_type.sql} FROM v WHERE n = %s", (form(text), n)).fetchall()
        assert found == [(True,)], text


@TYPES
def test_order_forms_sort_as_the_server_does(server: psycopg.Connection[Any], sql_type: SqlType) -> None:
    if not sql_type.orderable:
        pytest.skip("not orderable")
    texts = printed(server, sql_type)
    forms = [sql_type.order_form(text) for text in texts]
    below = server.execute("SELECT a.v < b.v FROM v a CROSS JOIN v b ORDER BY a.n, b.n").fetchall()
    for (a, b), (is_below,) in zip(product(forms, forms), below, strict=True):
        assert (a < b) is is_below, (texts[forms.index(a)], texts[forms.index(b)])
        assert a == b or not b.startswith(a)


@TYPES
def test_parameters_are_printed_as_the_server_prints_them(server: psycopg.Connection[Any], sql_type: SqlType) -> None:
    if sql_type.kind == "array" or sql_type.sql == "character(4)":
        pytest.skip("no parameters")
    form = sql_type.normal_form or str
    for value, text in zip(VALUES[sql_type], printed(server, sql_type), strict=True):
        try:
            parsed = sql_type.parse(value)
        except ValueError:
            assert sql_type.name in ("interval", "float4", "float8"), value
        else:
            assert form(parsed) == form(text), value
            assert sql_type.family in ("float4", "float8") or parsed == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("int4", "2147483648"),
        ("int4", "1.0"),
        ("int4", ""),
        ("int4", "0x10"),
        ("numeric", "."),
        ("numeric", "1,5"),
        ("numeric", ""),
        ("float8", "one"),
        ("float8", "1e400"),
        ("float4", "1e-60"),
        ("bool", "maybe"),
        ("uuid", "1234"),
        ("date", "infinityx"),
        ("date", "2023-02-29"),
        ("date", "0000-01-01"),
        ("date", "yesterday"),
        ("time", "25:00"),
        ("time", "10:60"),
        ("timestamp", "2024-01-01T10:00:00Z"),
        ("timestamptz", "2024-01-01 10:00:00+99"),
        ("interval", "a while"),
        ("bytea", "abc"),
        ("json", "{}"),
        ("text", "a\0b"),
        ("interval", ""),
        ("timestamptz", ""),
    ],
)
def test_ill_typed_parameters_are_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|cannot be given"):
        base(name).parse(text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("timestamptz", "2024-01-01T10:00:00Z", "2024-01-01 10:00:00+00"),
        ("timestamptz", "2024-01-01 10:00:00+05:30", "2024-01-01 04:30:00+00"),
        ("timestamptz", "2024-01-01", "2024-01-01 00:00:00+00"),
        ("timestamp", "2024-01-01 10:00", "2024-01-01 10:00:00"),
        ("interval", "P1DT2H30M", "1 day 02:30:00"),
        ("interval", "PT-1.5S", "-00:00:01.5"),
        ("numeric", "1.50e1", "15.0"),
        ("numeric", "-.5", "-0.5"),
        ("int8", " +042 ", "42"),
        ("bool", "True", "t"),
    ],
)
def test_parameters_in_other_spellings(name: str, text: str, expected: str) -> None:
    assert base(name).parse(text) == expected


@pytest.mark.parametrize(
    "sql_type",
    [
        base("json"),
        base("point"),
        SqlType("x", "x", kind="other"),
        base("text", collation="nondeterministic"),
    ],
    ids=lambda t: t.sql,
)
def test_what_is_not_known_is_not_guessed(sql_type: SqlType) -> None:
    assert not sql_type.comparable
    assert not sql_type.orderable
    with pytest.raises(ValueError, match="not known"):
        _ = sql_type.order_form


def test_order_of_a_collation_is_its_own() -> None:
    german = base("text", collation="deterministic")
    assert german.comparable
    assert not german.orderable
