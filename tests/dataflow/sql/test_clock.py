"""Text that becomes a date or time may be the current one."""

import pytest

from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql.clock import clock_read


def column(name: str, of: str, kind: str = "base") -> Column:
    return Column(name, SqlType(of, of, kind))


CATALOG = Catalog(
    {
        "public.a": Table(
            "public.a",
            (
                column("x", "text"),
                column("at", "timestamptz"),
                column("j", "jsonb"),
                column("n", "int4"),
                column("m", "mood", "enum"),
            ),
        )
    }
)
PARAMETERS = {"p": SqlType("timestamptz", "timestamptz"), "q": SqlType("text", "text")}


def reason(sql: str) -> str | None:
    return clock_read([sql], ["public.a"], CATALOG, PARAMETERS)


@pytest.mark.parametrize(
    "expression",
    [
        "x::date",
        "j::text::date",
        "date(x)",
        "timestamptz(x)",
        "(x || '')::date",
        "(:q::text)::timestamptz",
        ":q::timestamptz",
        "(j->>'a')::timestamptz",
        "coalesce(at::text, x)::date",
        "array_agg(x)::timestamptz[]",
        "string_to_array(x, ',')::date[]",
        "x::tstzrange",
        "x::event",
        "lower(x)::date",
        "max(x)::timestamp",
        "JSON_VALUE(j, '$.a' RETURNING timestamptz)",
        "(CASE WHEN n = 1 THEN x END)::date",
        "(SELECT max(x) FROM a)::date",
        "jsonb_populate_record(NULL::event, j)",
        "CAST(nullif(x, '') AS timestamp(0))",
        "unknown_column::date",
    ],
)
def test_text_that_may_be_the_current_time(expression: str) -> None:
    assert reason(f"SELECT {expression} FROM a") is not None


@pytest.mark.parametrize(
    "expression",
    [
        "at::date",
        "at::text::date",
        "date(at)",
        ":p::timestamptz",
        "(j->>'a')::int",
        "date_trunc('day', at)::date",
        "max(at)::date",
        "coalesce(at, '2020-01-01')::date",
        "(at + interval '1 day')::date",
        "(at AT TIME ZONE 'UTC')::date",
        "to_timestamp(n)::date",
        "x::int",
        "x::mood",
        "tstzrange(at, at)",
        "(SELECT max(at) FROM a)::date",
        "(CASE WHEN n = 1 THEN at END)::date",
        "x::text[]",
        "make_date(n, 1, 1)::timestamptz",
        "DATE '2020-01-01'",
        "(min(at) OVER ())::date",
        "to_date(x, 'YYYY')::timestamp",
        "'2020-01-01'::date",
        "CAST(at AS timestamp(0))",
    ],
)
def test_what_is_no_text(expression: str) -> None:
    assert reason(f"SELECT {expression} FROM a") is None


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("SELECT * FROM a, json_to_record(j) AS r(a int, b timestamptz)", True),
        ("SELECT * FROM a, json_to_record(j) AS r(a int, b text)", False),
        ("SELECT * FROM a, JSON_TABLE(j, '$[*]' COLUMNS (at timestamptz PATH '$.a')) t", True),
        ("SELECT * FROM a, JSON_TABLE(j, '$[*]' COLUMNS (at int PATH '$.a')) t", False),
        ("SELECT y::date FROM (SELECT x AS y FROM a) t", True),
        ("SELECT y::date FROM (SELECT at AS y FROM a) t", False),
        ("SELECT y::date FROM (SELECT y FROM (SELECT x AS y FROM a) t) t", True),
        ("SELECT y::date FROM a t(y)", True),
        ("SELECT x::date FROM (SELECT x || '' AS at FROM a) t, a", True),
        ("SELECT at::date FROM (SELECT 'no' || 'w' AS at) t, a", True),
        ("SELECT d::date FROM generate_series('2024-01-01'::timestamp, '2024-01-03', INTERVAL '1 day') AS g(d)", False),
        ("this is no SQL that casts x AS date", True),
    ],
)
def test_documents_and_derived_tables(sql: str, *, reads: bool) -> None:
    assert (reason(sql) is not None) == reads
