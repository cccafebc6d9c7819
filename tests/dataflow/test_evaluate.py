"""Every function against the server: the same expression over every combination of awkward values."""

from collections.abc import Iterator, Sequence
from itertools import product

import psycopg
import pytest

from dataflow.errors import EvaluationError
from dataflow.evaluate import FUNCTIONS, MYSQL_SIGNATURES, SIGNATURES, compile_predicate, compile_scalar
from dataflow.functions import array_operations, json_constructors, mysql_json, mysql_numbers, series
from dataflow.plan.render import render, type_name
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types import Value
from tests.fixtures.postgres import Database
from tests.fuzz.hostile.mariadb import functions_of

PINNED = "-c TimeZone=UTC -c DateStyle=ISO,MDY -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
Connection = psycopg.Connection[tuple[object, ...]]


def base(name: str) -> SqlType:
    return SqlType(name, name)


BOOL, INT2, INT4, INT8, NUMERIC, TEXT = (base(n) for n in ("bool", "int2", "int4", "int8", "numeric", "text"))
FLOAT4, FLOAT8, BPCHAR = base("float4"), base("float8"), base("bpchar")

VALUES: dict[str, tuple[Value, ...]] = {
    "bool": ("t", "f", None),
    "int2": ("-32768", "-1", "0", "2", "32767", None),
    "int4": ("-2147483648", "-1", "0", "2", "2147483647", None),
    "int8": ("-9223372036854775808", "-1", "0", "2", "9007199254740993", "9223372036854775807", None),
    "numeric": (
        "0",
        "0.00",
        "1",
        "1.0",
        "-1.50",
        "2",
        "2.5",
        "0.5",
        "-0.5",
        "1.49",
        "1e30",
        "9007199254740993",
        "NaN",
        "Infinity",
        "-Infinity",
        "32767.5",
        None,
    ),
    "float4": ("0", "-0", "0.1", "NaN", "Infinity", "-1.5", None),
    "float8": ("0", "-0", "0.1", "9007199254740992", "NaN", "-Infinity", "2", None),
    "text": ("", "a", "ab", "A", "aä", "%", "a\nb", "1", "\\", "a'b", None),
    "bpchar": ("", "a", "a ", "b", None),
    "uuid": ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "00000000-0000-0000-0000-000000000000", None),
    "date": ("2024-02-29", "0044-03-15 BC", "infinity", None),
    "interval": ("1 mon", "30 days", "-1 day", "00:00:00.5", None),
}


def col(index: int, sql_type: SqlType) -> ColumnRef:
    return ColumnRef(index, sql_type)


def call(function: str, result: SqlType, *arguments: Scalar) -> Call:
    return Call(function, arguments, result)


def lit(value: Value, sql_type: SqlType) -> Literal:
    return Literal(value, sql_type)


NUMBER_PAIRS = list(product((INT2, INT4, INT8, NUMERIC, FLOAT4, FLOAT8), repeat=2))
SAME_PAIRS = [(t, t) for t in (BOOL, TEXT, BPCHAR, base("uuid"), base("date"), base("interval"))]


def comparisons() -> Iterator[Scalar]:
    operators = ("=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from")
    for left, right in NUMBER_PAIRS + SAME_PAIRS:
        for operator in operators:
            yield call(operator, BOOL, col(0, left), col(1, right))
    yield call("=", BOOL, col(0, TEXT), col(1, base("varchar")))


def logic() -> Iterator[Scalar]:
    a, b, c = (col(i, BOOL) for i in range(3))
    yield call("and", BOOL, a, b)
    yield call("or", BOOL, a, b)
    yield call("and", BOOL, a, b, c)
    yield call("or", BOOL, a, b, c)
    yield call("and", BOOL, call("or", BOOL, a, b), call("not", BOOL, c))
    yield call("not", BOOL, call("and", BOOL, a, b))
    for function in ("not", "is null", "is not null", "is true", "is not true", "is false", "is not false"):
        yield call(function, BOOL, a)
        yield call(function, BOOL, call("or", BOOL, a, b))


def arithmetic() -> Iterator[Scalar]:
    results = {
        ("int2", "int2"): INT2,
        ("int2", "int4"): INT4,
        ("int4", "int4"): INT4,
        ("int4", "int8"): INT8,
        ("int8", "int8"): INT8,
        ("int8", "int2"): INT8,
        ("numeric", "numeric"): NUMERIC,
    }
    for (left, right), result in results.items():
        for operator in "+-*":
            yield call(operator, result, col(0, base(left)), col(1, base(right)))
    for sql_type in (INT2, INT4, INT8, NUMERIC):
        yield call("neg", sql_type, col(0, sql_type))


def choices() -> Iterator[Scalar]:
    for sql_type in (INT4, NUMERIC, TEXT, BPCHAR):
        a, b, c = (col(i, sql_type) for i in range(3))
        yield call("coalesce", sql_type, a, b)
        yield call("coalesce", sql_type, a, b, c)
        yield call("nullif", sql_type, a, b)
    p, q = col(0, BOOL), col(1, BOOL)
    one, two = lit("1", INT4), lit("2", INT4)
    yield call("case", INT4, p, one, lit(None, INT4))
    yield call("case", INT4, p, one, q, two, col(2, INT4))
    yield call("in", BOOL, col(0, INT4), one, two)
    yield call("in", BOOL, col(0, INT4), one, lit(None, INT4), two)
    yield call("in", BOOL, col(0, NUMERIC), lit("1.00", NUMERIC), lit("NaN", NUMERIC))
    yield call("in", BOOL, col(0, BPCHAR), lit("a  ", BPCHAR))
    yield call("in", BOOL, col(0, TEXT), lit("a'b", TEXT), lit("\\", TEXT))


def texts() -> Iterator[Scalar]:
    yield call("||", TEXT, col(0, TEXT), col(1, TEXT))
    yield call("length", INT4, col(0, TEXT))
    for pattern in ("", "%", "a%", "%b", "_", "a_", "a_b", "%a%", ".", "a'b", None):
        yield call("like", BOOL, col(0, TEXT), lit(pattern, TEXT))


def casts() -> Iterator[Scalar]:
    for source in (INT2, INT4, INT8, NUMERIC):
        for target in (INT2, INT4, INT8, NUMERIC, TEXT):
            yield call("cast", target, col(0, source))
    for target in (INT4, TEXT):
        yield call("cast", target, col(0, BOOL))
    yield call("cast", TEXT, col(0, base("uuid")))


#: Tested from SQL on (`functions/expressions.sql`). The others are in `functions/test_signatures.py`.
AS_SQL = {
    "array",
    "array_length",
    "array_lower",
    "array_to_string",
    "array_upper",
    "cardinality",
    "collate",
    "concat",
    "concat_ws",
    "greatest",
    "least",
    "num_nonnulls",
    "num_nulls",
    "subscript",
    *(f"{q} {o}" for q in ("any", "all") for o in ("=", "<>", "<", "<=", ">", ">=")),
}

EXPRESSIONS = [*comparisons(), *logic(), *arithmetic(), *choices(), *texts(), *casts()]


def columns(expression: Scalar) -> dict[int, SqlType]:
    if isinstance(expression, ColumnRef):
        return {expression.index: expression.type}
    if isinstance(expression, Literal):
        return {}
    return {i: t for a in expression.arguments for i, t in columns(a).items()}


def name_of(index: int) -> str:
    return f"c{index}"


@pytest.fixture
def server(database: Database) -> Connection:
    return psycopg.connect(database.url, options=PINNED, autocommit=True)


def on_server(
    server: Connection, expression: Scalar, types: Sequence[SqlType], row: Sequence[Value]
) -> Value | Exception:
    """Return the server's value, or its error."""
    casts = ", ".join(f"%s::{type_name(t)} AS c{i}" for i, t in enumerate(types))
    try:
        cursor = server.execute(f"SELECT {render(expression, name_of).replace('%', '%%')} FROM (SELECT {casts}) r", row)
    except psycopg.Error as error:
        return error
    result = cursor.pgresult
    assert result is not None
    value = result.get_value(0, 0)
    return None if value is None else value.decode()


def all_on_server(server: Connection, expression: Scalar, types: Sequence[SqlType]) -> dict[tuple[Value, ...], Value]:
    """Return the server's value for every combination of the types' values; combinations with an error are missing."""
    wanted = list(product(*(printed(server, t) for t in types)))
    found: dict[tuple[Value, ...], Value] = {}
    sources = ", ".join(f"unnest(%s::text[]) WITH ORDINALITY AS v{i}(t{i}, n{i})" for i in range(len(types)))
    casts = ", ".join(f"t{i}::{type_name(t)} AS c{i}" for i, t in enumerate(types))
    numbers = ", ".join(f"n{i}" for i in range(len(types)))
    text = render(expression, name_of).replace("%", "%%")
    try:
        cursor = server.execute(
            f"SELECT {text} FROM (SELECT {casts}, {numbers} FROM {sources}) r ORDER BY {numbers}",
            [list(VALUES[t.name]) for t in types],
        )
    except psycopg.Error:
        for row in wanted:
            value = on_server(server, expression, types, row)
            if not isinstance(value, Exception):
                found[row] = value
        return found
    result = cursor.pgresult
    assert result is not None
    for i, row in enumerate(wanted):
        data = result.get_value(i, 0)
        found[row] = None if data is None else data.decode()
    return found


def printed(server: Connection, sql_type: SqlType) -> list[Value]:
    """The type's values as the server prints them."""
    cursor = server.execute(f"SELECT unnest(%s::{type_name(sql_type)}[])", ([*VALUES[sql_type.name]],))
    result = cursor.pgresult
    assert result is not None
    return [None if (v := result.get_value(i, 0)) is None else v.decode() for i in range(result.ntuples)]


VALUES["varchar"] = VALUES["text"]


def test_every_function_is_the_server_s(server: Connection) -> None:
    for expression in EXPRESSIONS:
        types = [t for _, t in sorted(columns(expression).items())]
        expected = all_on_server(server, expression, types)
        function, predicate = compile_scalar(expression), compile_predicate(expression)
        for row in product(*(printed(server, t) for t in types)):
            where = (render(expression, name_of), row)
            if row in expected:
                assert function(row) == expected[row], where
                assert predicate(row) is (expected[row] == "t"), where
            else:
                with pytest.raises(EvaluationError):
                    function(row)


def test_average_is_avg(server: Connection) -> None:
    average = compile_scalar(call("average", NUMERIC, col(0, NUMERIC), col(1, INT8)))
    for values in (
        ["1"],
        ["1", "2"],
        ["1.50", "2", "2"],
        ["NaN", "1"],
        ["Infinity"],
        ["10000", "1", "1"],
        ["0.00"],
        [],
    ):
        cursor = server.execute(
            "SELECT sum(v)::text, count(v)::text, avg(v)::text FROM unnest(%s::numeric[]) v", (values,)
        )
        total, count, expected = cursor.fetchall()[0]
        assert average((total, count)) == expected  # type: ignore[arg-type]


def test_every_function_is_tested() -> None:
    """Those of MariaDB are in `tests.fuzz.hostile`."""
    compilers = (
        json_constructors.COMPILERS,
        array_operations.COMPILERS,
        mysql_json.COMPILERS,
        mysql_numbers.COMPILERS,
        series.COMPILERS,
    )
    elsewhere = {"average", "GREATEST", "LEAST", *SIGNATURES, *MYSQL_SIGNATURES, *AS_SQL}.union(*compilers)
    assert set().union(*map(functions_of, EXPRESSIONS)) | elsewhere == FUNCTIONS


def test_unknown_functions_and_types_are_refused() -> None:
    with pytest.raises(ValueError, match="no function"):
        compile_scalar(call("random", FLOAT8))
    with pytest.raises(ValueError, match="not compared"):
        compile_scalar(call("=", BOOL, col(0, TEXT), col(1, INT4)))
    with pytest.raises(ValueError, match="cast"):
        compile_scalar(call("cast", base("date"), col(0, TEXT)))
    with pytest.raises(ValueError, match="escape character"):
        compile_scalar(call("like", BOOL, col(0, TEXT), lit("a\\", TEXT)))
