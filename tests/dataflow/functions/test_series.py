"""GENERATE_SERIES against the server, over starts, ends and steps at the limits of their types."""

from itertools import product

import psycopg
import pytest

from dataflow.errors import EvaluationError
from dataflow.evaluate import compile_scalar
from dataflow.functions.series import MOST_ROWS, series
from dataflow.plan.expressions import INT4
from dataflow.scalar import Call, ColumnRef, Literal
from service.demo.postgres_server import EmbeddedPostgres
from tests.dataflow.functions.server import PINNED, Connection

NUMBERS = {
    "int4": ("-2147483648", "-2147483647", "-367", "-1", "0", "1", "365", "366", "2147483646", "2147483647"),
    "int8": ("-9223372036854775808", "-3", "0", "366", "367", "9223372036854775800", "9223372036854775807"),
}
STEPS = {
    "int4": ("-2147483648", "-3", "-1", "0", "1", "2", "1000000000", "2147483647"),
    "int8": ("-9223372036854775808", "-5", "-1", "0", "1", "7", "9223372036854775807"),
}
MOMENTS = (
    "4713-11-24 00:00:00 BC",
    "0001-12-30 12:00:00 BC",
    "2023-12-31 23:59:59.999999",
    "2024-01-01 00:00:00",
    "2024-01-31 00:00:00",
    "2024-12-31 00:00:00",
    "2025-01-01 00:00:00",
    "294276-12-30 20:00:00",
    "294276-12-31 23:59:59.999999",
    "infinity",
    "-infinity",
)
ZONED = ("0001-12-30 12:00:00+00 BC", "2024-01-31 00:00:00+00", "2024-12-31 23:00:00+00", "infinity")
INTERVALS = (
    "00:00:00",
    "1 day",
    "-1 days",
    "1 mon",
    "-1 mons",
    "1 mon -30 days",
    "1 mon -29 days",
    "-1 mons +31 days",
    "1 year 2 days 03:04:05.678",
    "-1000 years",
    "00:00:00.000001",
    "36:00:00",
)


def expected(server: Connection, kind: str, step: str, arguments: tuple[str, str, str]) -> tuple[str, ...] | None:
    """The rows that the server has; None if it fails, or has too many."""
    types = (kind, kind, step)
    call = ", ".join(f"%s::{name}" for name in types)
    sql = f"SELECT n::text FROM (SELECT generate_series({call}) AS n LIMIT {MOST_ROWS + 1}) g"
    try:
        rows = server.execute(sql.encode(), arguments).fetchall()
    except psycopg.Error:
        return None
    return tuple(row[0] for row in rows) if len(rows) <= MOST_ROWS else None


def found(kind: str, arguments: tuple[str, str, str]) -> tuple[str, ...] | None:
    try:
        return series(kind, *arguments)
    except EvaluationError:
        return None


@pytest.mark.postgres
def test_series_are_those_of_the_server(postgres_server: EmbeddedPostgres) -> None:
    cases = [(k, k, a) for k in NUMBERS for a in product(NUMBERS[k], NUMBERS[k], STEPS[k])]
    cases += [("timestamp", "interval", a) for a in product(MOMENTS, MOMENTS, INTERVALS)]
    cases += [("timestamptz", "interval", a) for a in product(ZONED, ZONED, INTERVALS)]
    ours = [found(kind, arguments) for kind, _, arguments in cases]
    with psycopg.connect(postgres_server.url, options=PINNED, autocommit=True) as server:
        theirs = [expected(server, *case) for case in cases]
    wrong = [case for case, a, b in zip(cases, ours, theirs, strict=True) if a != b]
    assert not wrong, wrong[:5]
    assert {0, 1, MOST_ROWS} <= {len(values) for values in ours if values is not None}


def test_infinite_steps_are_refused() -> None:
    """PostgreSQL has them since 17."""
    with pytest.raises(EvaluationError, match="infinite"):
        series("timestamp", "2024-01-01 00:00:00", "2024-01-02 00:00:00", "infinity")


def test_a_value_by_its_place() -> None:
    parts = tuple(ColumnRef(i, INT4) for i in range(4))
    value = compile_scalar(Call("series_value", parts, INT4))
    assert [value(("3", "-3", "-3", str(place))) for place in range(4)] == ["3", "0", "-3", None]
    assert [value(tuple(None if i == j else "1" for j in range(4))) for i in range(4)] == [None] * 4
    with pytest.raises(EvaluationError, match="366"):
        value(("1", "367", "1", "0"))
    constant = compile_scalar(Call("series_value", (*(Literal("1", INT4),) * 3, Literal("0", INT4)), INT4))
    assert constant(()) == "1"


def test_long_texts_are_computed_too() -> None:
    assert series("int4", "0" * 200 + "1", "2", "1") == ("1", "2")
