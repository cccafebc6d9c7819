"""Every overload of every plain function against the server, over awkward values of its arguments' types."""

from collections.abc import Iterator
from itertools import product
from math import prod
from random import Random

import psycopg
import pytest

from dataflow.errors import EvaluationError, UnsupportedQuery
from dataflow.evaluate import SIGNATURES, compile_scalar
from dataflow.functions.signature import Signature
from dataflow.plan.render import render
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.sql.postgres import resolve
from dataflow.types import Row, Value
from service.demo.postgres_server import EmbeddedPostgres
from tests.dataflow.functions.awkward import VALUES, type_of
from tests.dataflow.functions.server import PINNED, Connection, Failed, evaluate, printed

pytestmark = pytest.mark.postgres
MAX_ROWS = 700
FIELDS = (
    "microseconds",
    "milliseconds",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "decade",
    "century",
    "millennium",
    "isoyear",
    "dow",
    "isodow",
    "doy",
    "epoch",
    "timezone",
    "timezone_hour",
    "Years",
    "mon",
    "timezone_minute",
    "bogus",
)
PATTERNS = (
    "",
    "a",
    "^a",
    "a$",
    "a|b",
    "(a|x)+",
    "[a-c]",
    "[^a]",
    "a.b",
    "x{2}",
    "a?b*",
    r"\d+",
    r"a\.b",
    "ä",
    "^$",
    "z+?y",
    "(?:ab)+",
    r"[0-9]{2,}",
    "^[A-Z]",
    "[a-]",
    "(xyz){2}",
    "ß",
)
#: Arguments that plans have as constants only, by function and place.
CONSTANTS: dict[tuple[str, int], tuple[Value, ...]] = {
    ("encode", 1): ("hex", "base64", "BASE64", "escape"),
    ("extract", 0): FIELDS,
    ("date_part", 0): FIELDS,
    ("date_trunc", 0): FIELDS,
    ("timezone", 0): ("UTC", "utc"),
    ("to_char", 1): (
        "YYYY-MM-DD",
        "HH24:MI:SS",
        "MS US",
        "Mon Month MON month",
        "Day DAY dy Dy",
        '"T"HH24',
        "Q",
        "YYYYMMDD",
        "HH24MISS",
    ),
    ("matches", 1): PATTERNS,
    ("imatches", 1): tuple(p for p in PATTERNS if p.isascii()),
}
#: Without arguments, or all but the first are constants: tested from SQL on (`expressions.sql`).
ALL_CONSTANT = frozenset({"pi", "regexp_replace"})


@pytest.fixture(scope="module")
def server(postgres_server: EmbeddedPostgres) -> Iterator[Connection]:
    with psycopg.connect(postgres_server.url, options=PINNED, autocommit=True) as connection:
        yield connection


def cases() -> list[tuple[str, Signature]]:
    names = sorted(set(SIGNATURES) - ALL_CONSTANT)
    return [(n, s) for n in names for s in SIGNATURES[n] if s.function is not None]


def rows_of(server: Connection, name: str, signature: Signature) -> list[Row]:
    """Combinations of awkward values, a random part of them where there are many."""
    lists: list[list[Value]] = []
    for place, type_name in enumerate(signature.arguments):
        values = list(CONSTANTS.get((name, place), ())) or printed(server, type_name, VALUES[type_name])
        lists.append(values)
    number = prod(map(len, lists))
    if number <= MAX_ROWS:
        return list(product(*lists))
    return [combination(lists, place) for place in Random(number).sample(range(number), MAX_ROWS)]


def combination(lists: list[list[Value]], place: int) -> Row:
    """The row at a place of the lists' product, which may be far too long to be made."""
    row: list[Value] = []
    for values in reversed(lists):
        place, index = divmod(place, len(values))
        row.append(values[index])
    return tuple(reversed(row))


def differences(
    server: Connection, expression: Scalar, types: tuple[str, ...], rows: list[Row]
) -> list[tuple[Row, object, object]]:
    """The rows for which the server and we do not say the same."""
    expected = evaluate(server, render(expression, lambda i: f"c{i}"), types, rows)
    function = compile_scalar(expression)
    found = []
    for row, wanted in zip(rows, expected, strict=True):
        try:
            actual: object = function(row)
        except EvaluationError as error:
            # What is not computed is refused where it can be seen beforehand, and else answered upstream.
            if isinstance(wanted, Failed) or str(error).startswith("not computed"):
                continue
            actual = error
        if isinstance(wanted, Failed) or actual != wanted:
            found.append((row, actual, wanted))
    return found


def is_taken(name: str, signature: Signature, constant: Value) -> bool:
    """Return whether SQL with that constant is planned."""
    try:
        arguments = [ColumnRef(i, type_of(t)) for i, t in enumerate(signature.arguments)]
        place = next(p for n, p in CONSTANTS if n == name)
        taken = [*arguments[:place], Literal(constant, arguments[place].type), *arguments[place + 1 :]]
        resolve.call(name, taken, type_of("text"))
    except UnsupportedQuery:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "signature"), cases(), ids=lambda c: c if isinstance(c, str) else " ".join(c.arguments)
)
def test_an_overload_is_the_server_s(server: Connection, name: str, signature: Signature) -> None:
    rows = rows_of(server, name, signature)
    fixed = [place for place in range(len(signature.arguments)) if (name, place) in CONSTANTS]
    result = type_of(signature.result)
    if not fixed:
        arguments = tuple(ColumnRef(i, type_of(t)) for i, t in enumerate(signature.arguments))
        assert differences(server, Call(name, arguments, result), signature.arguments, rows) == []
        return
    (place,) = fixed
    for constant in CONSTANTS[name, place]:
        if not is_taken(name, signature, constant):
            continue
        arguments_: tuple[Scalar, ...] = tuple(
            Literal(constant, type_of(t)) if i == place else ColumnRef(i, type_of(t))
            for i, t in enumerate(signature.arguments)
        )
        some = [row for row in rows if row[place] == constant]
        assert differences(server, Call(name, arguments_, result), signature.arguments, some) == [], constant
