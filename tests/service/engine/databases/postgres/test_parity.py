"""A row must be the same text whether it came from the stream or from a lookup: else they would not cancel."""

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.streams import run, streaming

pytestmark = pytest.mark.postgres

#: Column type, and SQL for its edge values.
VALUES: dict[str, list[str]] = {
    "bool": ["true", "false", "NULL"],
    "int2": ["-32768", "32767"],
    "int4": ["-2147483648", "2147483647"],
    "int8": ["-9223372036854775808", "9223372036854775807"],
    "numeric": [
        "'NaN'",
        "'Infinity'",
        "'-Infinity'",
        "0",
        "-0.0",
        "1.0",
        "1.00",
        "1e-30",
        "1e100",
        "repeat('9', 400)::numeric",
    ],
    "numeric(10,2)": ["1", "-0.001", "99999999.99"],
    "float4": ["'NaN'", "'Infinity'", "'-Infinity'", "'-0'", "0", "0.1", "3.4028235e38", "1e-45", "16777217"],
    "float8": [
        "'NaN'",
        "'Infinity'",
        "'-Infinity'",
        "'-0'",
        "0.1",
        "1.7976931348623157e308",
        "5e-324",
        "1e15",
        "1e16",
        "0.1::float8 + 0.2",
    ],
    "text": ["''", "'NULL'", "E'tab\\tline\\nback\\\\slash'", "'žluťoučký 🐎'", "'  spaces  '", "repeat('x', 300)"],
    "varchar(20)": ["'abc   '", "''"],
    "char(8)": ["'ab'", "''", "'12345678'", "'é'"],
    '"char"': ["'a'", "''"],
    "name": ["'a name'"],
    "bytea": ["''", "'\\x00ff10'", "'abc'::bytea"],
    "date": ["'infinity'", "'-infinity'", "'0044-03-15 BC'", "'4713-01-01 BC'", "'5874897-12-31'", "'2024-02-29'"],
    "time": ["'00:00'", "'24:00'", "'12:34:56.789012'"],
    "timetz": ["'12:34:56+05:30'"],
    "timestamp": [
        "'infinity'",
        "'-infinity'",
        "'0044-03-15 12:00 BC'",
        "'294276-12-31 23:59:59.999999'",
        "'2024-02-29 00:00:00.1'",
    ],
    "timestamptz": [
        "'infinity'",
        "'0044-03-15 12:00+00 BC'",
        "'2024-07-01 12:00:00+02'",
        "'2024-01-01 00:00:00.000001 America/New_York'",
    ],
    "interval": [
        "'0'",
        "'1 year -2 months 3 days -04:05:06.789'",
        "'-1 day'",
        "'1 mon'",
        "'100:00:00'",
        "'178000000 years'",
        "'infinity'",
    ],
    "uuid": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
    "json": ['\'{"b":  1,\n"a":1, "a": 2}\'', "'null'", "'\"\\u00e9\"'"],
    "jsonb": ['\'{"b":  1, "a":1, "a": 2}\'', "'1.10'", "'null'"],
    "mood": ["'happy'", "'so so'", "'it''s \"fine\"'"],
    "positive": ["1"],
    "int4[]": ["'{}'", "'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'[0:1]={5,6}'"],
    "text[]": ["'{}'", "ARRAY['NULL', NULL, '', 'a\"b', 'c\\d', 'e,f', '{g}', ' h ']"],
    "mood[]": ["ARRAY['happy', 'so so', NULL]::mood[]"],
    "timestamptz[]": ["ARRAY['2024-07-01 12:00:00+02', NULL]::timestamptz[]"],
    "float8[]": ["ARRAY['NaN', 0.1, '-0']::float8[]"],
    "money": ["'1234.56'", "'-0.01'"],
    "inet": ["'10.0.0.1/8'", "'::1'"],
    "bit(3)": ["B'101'"],
    "varbit": ["B''", "B'10101'"],
    "int4range": ["'[1,5]'", "'empty'"],
    "point": ["'(0.1,-0)'"],
    "tsvector": ["'a fat cat'"],
}


OTHER_DEFAULTS = (
    "TimeZone = 'Asia/Kolkata'",
    "DateStyle = 'SQL, DMY'",
    "IntervalStyle = 'sql_standard'",
    "extra_float_digits = 0",
    "bytea_output = 'escape'",
)


@pytest.mark.parametrize("session", [(), OTHER_DEFAULTS], ids=["plain", "other defaults"])
def test_stream_and_lookup_print_alike(database: Database, session: tuple[str, ...]) -> None:
    """Every supported type, and others, through both; also where the database's defaults are other ones."""
    database.execute(
        "CREATE TYPE mood AS ENUM ('happy', 'so so', 'it''s \"fine\"')",
        "CREATE DOMAIN positive AS int8 CHECK (VALUE > 0)",
    )
    database.execute(*(f'ALTER DATABASE "{database.name}" SET {setting}' for setting in session))
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(VALUES))
    database.execute(
        f"CREATE TABLE samples (id int4 PRIMARY KEY, {columns})", "ALTER TABLE samples REPLICA IDENTITY FULL"
    )
    version, since_17 = database.version, [("interval", "'infinity'")]
    inserts = [
        f"INSERT INTO samples (id, c{i}) VALUES ({i * 100 + j + 1}, {value})"
        for i, (kind, values) in enumerate(VALUES.items())
        for j, value in enumerate(values)
        if version >= 17 or (kind, value) not in since_17
    ]

    async def check() -> None:
        async with streaming(database, "public.samples") as stream:
            database.execute(*inserts)
            database.execute("UPDATE samples SET id = -id")
            transactions = await stream.catch_up()
            found = await stream.lookups.run_statement("SELECT * FROM public.samples", [])
            updated = transactions[-1].tables["public.samples"]
            inserted = [row for t in transactions[:-1] for row in t.tables["public.samples"].added]
            assert len(inserted) == len(inserts)
            assert sorted(updated.removed, key=str) == sorted(inserted, key=str)
            assert sorted(updated.added, key=str) == sorted(found.rows, key=str)

    run(check())


def test_a_row_of_nulls_is_a_row(database: Database) -> None:
    """An empty result differs from one row of NULLs."""

    async def check() -> None:
        async with streaming(database) as stream:
            empty = await stream.lookups.run_statement("SELECT NULL::int AS a, NULL::text AS b", [])
            assert empty.rows == [(None, None)]
            assert (await stream.lookups.run_statement("SELECT 1 AS a WHERE false", [])).rows == []

    run(check())
