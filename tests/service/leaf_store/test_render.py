"""JSON forms of PostgreSQL's text values."""

import json

import pytest

from dataflow.schema import SqlType
from dataflow.types.integers import UINT8
from service.leaf_store.render import compile_row, compile_rows, unique_names


def base(name: str) -> SqlType:
    return SqlType(name, name)


def array_of(element: SqlType) -> SqlType:
    return SqlType(element.name, element.sql + "[]", "array", element)


@pytest.mark.parametrize(
    ("sql_type", "text", "expected"),
    [
        (base("int4"), "-7", "-7"),
        (base("int8"), "9223372036854775807", "9223372036854775807"),
        (base("numeric"), "1.00", '"1.00"'),
        (base("numeric"), "NaN", '"NaN"'),
        (base("float8"), "1e+20", "1e+20"),
        (base("float8"), "-0", "-0"),
        (base("float8"), "-Infinity", '"-Infinity"'),
        (base("float4"), "NaN", '"NaN"'),
        (base("bool"), "t", "true"),
        (base("bool"), "f", "false"),
        (base("text"), 'a "b"\\\n\té☃\x01', json.dumps('a "b"\\\n\té☃\x01', ensure_ascii=False)),
        (base("bpchar"), "ab  ", '"ab  "'),
        (base("uuid"), "6f9619ff-8b86-d011-b42d-00cf4fc964ff", '"6f9619ff-8b86-d011-b42d-00cf4fc964ff"'),
        (base("date"), "2024-02-29", '"2024-02-29"'),
        (base("date"), "0044-03-15 BC", '"0044-03-15 BC"'),
        (base("date"), "infinity", '"infinity"'),
        (base("timestamp"), "2024-02-29 12:00:00.5", '"2024-02-29T12:00:00.5"'),
        (base("timestamp"), "infinity", '"infinity"'),
        (base("timestamp"), "0044-03-15 00:00:00 BC", '"0044-03-15 00:00:00 BC"'),
        (base("timestamp"), "12024-01-01 00:00:00", '"12024-01-01 00:00:00"'),
        (base("timestamptz"), "2024-02-29 12:00:00+00", '"2024-02-29T12:00:00Z"'),
        (base("timestamptz"), "2024-02-29 12:00:00+05:30", '"2024-02-29T12:00:00+05:30"'),
        (base("timestamptz"), "2024-02-29 12:00:00-08", '"2024-02-29T12:00:00-08:00"'),
        (base("time"), "24:00:00", '"24:00:00"'),
        (base("timetz"), "12:00:00+00", '"12:00:00Z"'),
        (base("timetz"), "24:00:00+00", '"24:00:00+00"'),
        (base("interval"), "1 year 2 mons 3 days 04:05:06.7", '"P1Y2M3DT4H5M6.7S"'),
        (base("interval"), "00:00:00", '"PT0S"'),
        (base("interval"), "-1 days +02:03:00", '"P-1DT2H3M"'),
        (base("interval"), "-00:00:00.5", '"PT-0.5S"'),
        (base("interval"), "1 day", '"P1D"'),
        (base("interval"), "-3 years -1 mons", '"P-3Y-1M"'),
        (base("interval"), "infinity", '"infinity"'),
        (base("bytea"), "\\x00ff10", '"AP8Q"'),
        (base("bytea"), "\\x", '""'),
        (base("jsonb"), '{"a": [1.0, null]}', '{"a": [1.0, null]}'),
        (SqlType("mood", "public.mood", "enum", labels=("ok",)), "ok", '"ok"'),
        (SqlType("point", "point", "other"), "(1,2)", '"(1,2)"'),
        (base("uint8"), "18446744073709551615", "18446744073709551615"),
        (base("mysql_date"), "2024-02-29", '"2024-02-29"'),
        (base("mysql_date"), "2024-00-00", '"2024-00-00"'),
        (base("mysql_datetime"), "2024-02-29 12:00:00.500", '"2024-02-29T12:00:00.500"'),
        (base("mysql_datetime"), "2024-02-00 00:00:00", '"2024-02-00 00:00:00"'),
        (base("mysql_timestamp"), "2024-02-29 12:00:00", '"2024-02-29T12:00:00Z"'),
        (base("mysql_timestamp"), "0000-00-00 00:00:00.0", '"0000-00-00 00:00:00.0"'),
        (base("mysql_time"), "-838:59:59.5", '"-838:59:59.5"'),
        (SqlType("mysql_enum", "enum('a\"')", "enum", labels=('a"',)), 'a"', '"a\\""'),
        (base("mysql_set"), 'a,"', '"a,\\""'),
        (base("inet6"), "::1", '"::1"'),
        (base("mysql_uuid"), "6ba7b810-9dad-11d1-80b4-00c04fd430c8", '"6ba7b810-9dad-11d1-80b4-00c04fd430c8"'),
        (SqlType("mysql_json", "json", "other"), '{"a": [1, null]}', '{"a": [1, null]}'),
        (SqlType("mysql_json", "public.mysql_json", "other"), "x", '"x"'),
        (base("mariadb_json"), ' {"a": 1e400} ', ' {"a": 1e400} '),
        *((base("mariadb_json"), text, f'"{text}"') for text in ("[1.]", "", "NaN", "[-]", "1]")),
        (base("mariadb_json"), '"\\x"', '"\\"\\\\x\\""'),
        (base("mariadb_document"), '{"a": 1}', '"{\\"a\\": 1}"'),
        (array_of(base("int4")), "{}", "[]"),
        (array_of(base("int4")), "{1,NULL,-3}", "[1,null,-3]"),
        (array_of(base("int4")), "[0:1]={1,2}", "[1,2]"),
        (array_of(base("int4")), "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
        (array_of(base("text")), '{a,"b,c","NULL","q\\"\\\\",""}', '["a","b,c","NULL","q\\"\\\\",""]'),
        (array_of(base("bool")), "{t,f}", "[true,false]"),
        (array_of(base("timestamptz")), '{"2024-02-29 12:00:00+00"}', '["2024-02-29T12:00:00Z"]'),
    ],
)
def test_json_form(sql_type: SqlType, text: str, expected: str) -> None:
    form = sql_type.json_form()
    rendered = text if form is None else form(text)
    assert rendered == expected
    json.loads(rendered)


@pytest.mark.parametrize(
    ("sql_type", "text", "expected"),
    [
        (base("int8"), "-9223372036854775808", '"-9223372036854775808"'),
        (base(UINT8), "18446744073709551615", '"18446744073709551615"'),
        (array_of(base("int8")), "{1,NULL}", '["1",null]'),
        (base("int4"), "7", "7"),
        (base("oid"), "7", "7"),
        (base("jsonb"), "[7]", "[7]"),
    ],
)
def test_bigints_as_strings(sql_type: SqlType, text: str, expected: str) -> None:
    row_json = compile_row([("a", 0, sql_type)], bigint_text=True)
    assert row_json((text,)) == b'{"a":%b}' % expected.encode()


def test_row_has_columns_in_order_and_null() -> None:
    row_json = compile_row([("100%", 1, base("text")), ("id", 0, base("int8")), ("id", 1, base("text"))])
    assert row_json(("7", None)) == b'{"100%":null,"id":7,"id_2":null}'


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_many_rows_are_rendered_as_each_is(count: int) -> None:
    columns = [("100%", 1, base("text")), ("n", 0, base("int8")), ("on", 2, base("date")), ("n", 0, base("int8"))]
    rows = [(str(n), None if n % 2 else f'"{n}"', f"2020-01-0{n + 1}") for n in range(count)]
    for bigint_text in (False, True):
        row_json = compile_row(columns, bigint_text)
        assert compile_rows(columns, bigint_text)(rows) == [row_json(row) for row in rows]
    assert compile_rows([])(rows) == [b"{}"] * count


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["a", "a", "a"], ["a", "a_2", "a_3"]), (["a_2", "a", "a"], ["a_2", "a", "a_3"]), ([], [])],
)
def test_repeated_names(names: list[str], expected: list[str]) -> None:
    assert unique_names(names) == expected
