"""JSON forms of what a real PostgreSQL prints, against its own ISO 8601 intervals and its own JSON."""

import json
from collections.abc import Callable

import psycopg
import pytest

from dataflow.schema import SqlType
from tests.fixtures.postgres import Database

INTERVALS = (
    "0",
    "1 day",
    "-1 day +02:03:04.5",
    "1 year 2 mons -3 days -04:05:06.000007",
    "-00:00:00.5",
    "100:00:00",
    "14 mons",
    "-2 years",
    "1 mon -1 day",
    "00:01",
    "-1 year -1 mon 1 day",
)
#: Type, and expressions whose to_json must be what we say.
VALUES = {
    "int4": ("-7", "0"),
    "float8": ("1e300", "0.1", "'-0'", "1e-7", "123456789012345680000"),
    "float4": ("0.1", "1e10"),
    "bool": ("true", "false"),
    "text": ("E'a\"b\\\\c\\n\\t\\x01 é ☃'", "''"),
    "bpchar": ("'ab  '::char(4)",),
    "uuid": ("'6F9619FF-8B86-D011-B42D-00CF4FC964FF'",),
    "date": ("'2024-02-29'", "'infinity'"),
    "timestamp": ("'2024-02-29 12:00:00.5'", "'0001-01-01'", "'infinity'"),
    "time": ("'12:00:00.5'", "'24:00:00'"),
}
ARRAYS = {
    "int4": ("'{1,NULL,-3}'", "'{{1,2},{3,4}}'", "'{}'"),
    "text": ("""ARRAY['a', 'b,c', 'NULL', 'q"\\ {}', '', ' x ', NULL]""", "ARRAY[['a','b'],['c','d']]"),
    "bool": ("'{t,f,NULL}'",),
}


@pytest.mark.postgres
def test_forms_are_postgres_own(database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:

        def one(statement: str) -> str:
            (row,) = connection.execute(statement.encode())
            return str(row[0])

        for text in INTERVALS:
            printed = one(f"SELECT '{text}'::interval::text")
            connection.execute("SET intervalstyle = iso_8601")
            expected = one(f"SELECT '{text}'::interval::text")
            connection.execute("RESET intervalstyle")
            form = SqlType("interval", "interval").json_form()
            assert form is not None
            assert json.loads(form(printed)) == expected
        for name, expressions in VALUES.items():
            check(one, SqlType(name, name), expressions)
        for name, expressions in ARRAYS.items():
            check(one, SqlType(name, name + "[]", "array", SqlType(name, name)), expressions)


def check(one: Callable[[str], str], sql_type: SqlType, expressions: tuple[str, ...]) -> None:
    """Compare the output function's text, in our form, with to_json."""
    form = sql_type.json_form()
    for expression in expressions:
        printed = one(f"SELECT format('%s', ({expression})::{sql_type.sql})")
        rendered = printed if form is None else form(printed)
        # to_json::jsonb would normalise numbers; its text does not.
        assert json.loads(rendered) == json.loads(one(f"SELECT to_json(({expression})::{sql_type.sql})::text"))
