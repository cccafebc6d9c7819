"""Values that were once answered differently from the server, or too slowly: found by ``make fuzz ARGS=hostile``."""

from collections.abc import Callable

import psycopg
import pytest

from dataflow.errors import EvaluationError
from dataflow.evaluate import compile_scalar
from dataflow.functions import arrays
from dataflow.ops.aggregate_sums import FloatSum, IntervalSum, RealSum
from dataflow.plan.render import render
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types import Row
from service.demo.postgres_server import EmbeddedPostgres
from tests.dataflow.functions.awkward import type_of
from tests.dataflow.functions.server import PINNED, evaluate
from tests.fuzz.hostile.comparison import NotComputed, computed, digest

_LONGEST = "2562047788:00:54.775807"
_HUGE = "1" + "0" * 400
#: A function, the types of its arguments and its result, and their values.
CASES: list[tuple[str, str, str, Row]] = [
    ("#>", "json text[]", "json", ("\n\tnull\n", "{}")),
    ("#>", "json text[]", "json", (' {"a": 1} ', "{}")),
    ("#>>", "json text[]", "text", (' "a" ', "{}")),
    *(
        (path, "json text[]", result, ("[0, 1, [2, 3]]", f"{{{step}}}"))
        for path, result in (("#>", "json"), ("#>>", "text"))
        # Digits of another script, an underscore, spaces.
        for step in ("\u0662", "\uff12", "1_0", '" 2"', '"2 "', "+2", "02")
    ),
    ("#>>", "json text[]", "text", (" null ", "{}")),
    ("#>>", "json text[]", "text", (" -0.0 ", "{}")),
    ("#>", "json text[]", "json", ('{"a":{"b":1},"a":{"b":2},"a":3}', "{a,b}")),
    ("div", "numeric numeric", "numeric", ("1" + "0" * 131_071, "0.001")),
    ("+", "time interval", "time", ("24:00:00", _LONGEST)),
    ("-", "time interval", "time", ("00:00:01", f"-{_LONGEST}")),
    ("-", "interval interval", "interval", ("1 year -1 days", "-2147483648 days")),
    ("-", "interval interval", "interval", ("-infinity", "-2147483648 days")),
    ("-", "interval interval", "interval", ("infinity", "infinity")),
    (
        "date_bin",
        "interval timestamp timestamp",
        "timestamp",
        ("2147483647 days", "2000-01-01 00:00:00", "0004-02-29 00:00:00"),
    ),
    ("-", "timestamp interval", "timestamp", ("infinity", "-2147483648 days")),
    ("cast", "timestamp", "timestamp(0)", ("294276-12-31 23:59:59.999999",)),
    ("sqrt", "numeric", "numeric", ("1" * 20_000,)),
    ("cast", "numeric", "float4", ("1" + "0" * 50,)),
    ("cast", "text", "float4", ("1e308",)),
    ("cast", "text", "float8", ("0x1F",)),
    ("cast", "text", "numeric", ("1e-16383",)),
    ("cast", "text", "json", ("1e131072",)),
    ("=", "numeric float8", "bool", (_HUGE, "1")),
    ("<", "float4 numeric", "bool", ("1", "0." + "0" * 400 + "1")),
    ("=", "numeric float8", "bool", (_HUGE, None)),
    ("initcap", "text", "text", ("\u00e9\u00e9b \u00c0\u00c9\u00ee\u00df",)),
    ("array_length", "int4[] int4", "int4", ("{1,2}", "2147483647")),
    ("array_to_string", "text[] text text", "text", ("{a,NULL,b}", "-", None)),
    ("array_to_string", "text[] text text", "text", ("{a,NULL,b}", None, "x")),
    ("split_part", "text text int4", "text", ("aaaaa", "aa", "-1")),
    ("split_part", "text text int4", "text", ("a,b", ",", "2147483647")),
    ("@>", "jsonb jsonb", "bool", ('"a"', '["a"]')),
    ("@>", "jsonb jsonb", "bool", ('[1.0, {"a": [1, 2]}, "1"]', '[{"a": [2]}, 1]')),
    ("?|", "jsonb text[]", "bool", ('["a", 1]', "{1,NULL,a}")),
]


def _type_of(name: str) -> SqlType:
    return SqlType(name.partition("(")[0], name) if "(" in name else type_of(name)


def _call(name: str, types: str, result: str) -> Scalar:
    return Call(name, tuple(ColumnRef(i, type_of(t)) for i, t in enumerate(types.split())), _type_of(result))


@pytest.mark.postgres
@pytest.mark.parametrize(("name", "types", "result", "row"), CASES)
def test_a_hostile_value_is_answered_as_the_server_does(
    postgres_server: EmbeddedPostgres, name: str, types: str, result: str, row: Row
) -> None:
    _check(postgres_server, _call(name, types, result), types.split(), row)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("field", "moment"),
    [
        ("milliseconds", "3262-12-26 00:22:16.635723 BC"),
        ("epoch", "9999-12-31 19:20:45.639908"),
        ("second", "2000-01-01 00:00:45.639908"),
    ],
)
def test_fields_are_rounded_as_often_as_the_server_rounds(
    postgres_server: EmbeddedPostgres, field: str, moment: str
) -> None:
    arguments = (Literal(field, type_of("text")), ColumnRef(0, type_of("timestamp")))
    _check(postgres_server, Call("date_part", arguments, type_of("float8")), ["timestamp"], (moment,))


def _check(server: EmbeddedPostgres, expression: Scalar, types: list[str], row: Row) -> None:
    with psycopg.connect(server.url, options=PINNED, autocommit=True) as connection:
        ((expected),) = evaluate(connection, render(expression, lambda i: f"c{i}"), types, [row])
    ours = computed(compile_scalar(expression), row)[0]
    wanted = digest(expected) if isinstance(expected, str) else expected
    assert isinstance(ours, NotComputed) or ours == wanted


def test_a_sum_of_intervals_reaches_the_lowest_one() -> None:
    total = IntervalSum()
    total.add("-178956970 years -8 mons", 1)
    total.add("-2147483648 days", 1)
    assert total.result() == "-178956970 years -8 mons -2147483648 days"
    total.add("-1 days", 1)
    with pytest.raises(EvaluationError, match="out of range"):
        total.result()


@pytest.mark.parametrize("make", [FloatSum, RealSum])
def test_a_sum_of_negative_zeros_is_one(make: Callable[[], FloatSum]) -> None:
    total = make()
    total.add("-0", 2)
    assert total.result() == "-0"
    total.add("0", 1)
    assert total.result() == "0"
    total.add("0", -1)
    assert total.result() == "-0"


@pytest.mark.parametrize(
    ("name", "types", "result", "row"),
    [
        ("#>", "jsonb text[]", "jsonb", ('{"a":' * 5000 + "1" + "}" * 5000, "{" + ",".join("a" * 5000) + "}")),
        ("=", "jsonb jsonb", "bool", ("[" + ",".join(["0.50"] * 30_000) + "]", "null")),
        ("?|", "jsonb text[]", "bool", ("[" + ",".join(["0"] * 60_000) + "]", "{a,b}")),
        ("@>", "jsonb jsonb", "bool", ("[" + ",".join(["[0]"] * 900) + "]", "[" + ",".join(["[1]"] * 900) + "]")),
        ("cardinality", "text[]", "int4", ("{" + ",".join(['"a b"'] * 60_000) + "}",)),
        ("initcap", "text", "text", ("x " * 60_000,)),
    ],
)
def test_a_value_of_very_many_parts_is_the_upstreams(name: str, types: str, result: str, row: Row) -> None:
    with pytest.raises(EvaluationError, match="not computed"):
        compile_scalar(_call(name, types, result))(row)


def test_an_array_without_quotes_may_be_long() -> None:
    elements = [*map(str, range(100_000)), None]
    assert arrays.parse(arrays.render(elements)).elements == elements
