"""Which overload a call means, and what its result's type is: as the server says."""

from collections.abc import Iterator
from itertools import product

import psycopg
import pytest

from dataflow.evaluate import SIGNATURES
from dataflow.sql.postgres.resolve import resolve
from service.demo.postgres_server import EmbeddedPostgres
from tests.dataflow.functions.server import Connection

pytestmark = pytest.mark.postgres
TYPES = (
    "bool",
    "int2",
    "int4",
    "int8",
    "numeric",
    "float4",
    "float8",
    "text",
    "varchar",
    "bpchar",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "json",
    "jsonb",
    "uuid",
    "bytea",
)
#: Ours, and what the server calls them.
OPERATORS = {"matches": "~", "imatches": "~*", "like": "~~", "ilike": "~~*", "neg": "-"}
QUOTED = frozenset({"extract", "overlay", "position", "substring"})


@pytest.fixture(scope="module")
def server(postgres_server: EmbeddedPostgres) -> Iterator[Connection]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION pg_temp.type_of(e text) RETURNS text LANGUAGE plpgsql AS $$ DECLARE r text; BEGIN"
            " EXECUTE 'SELECT pg_typeof(' || e || ')::oid::regtype::text' INTO r; RETURN r;"
            " EXCEPTION WHEN OTHERS THEN RETURN '!' || SQLERRM; END $$"
        )
        yield connection


def written(name: str, arguments: list[str]) -> str:
    operator = OPERATORS.get(name, name)
    if operator.isidentifier():
        function = f'"{operator}"' if operator in QUOTED else operator
        return f"{function}({', '.join(arguments)})"
    return f"{operator} {arguments[0]}" if len(arguments) == 1 else f"{arguments[0]} {operator} {arguments[1]}"


def calls() -> list[tuple[str, tuple[str, ...]]]:
    """Every name with all types in one place, and what fits, or a constant of no type, in the others."""
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for name, overloads in sorted(SIGNATURES.items()):
        for overload in overloads:
            for place, _ in enumerate(overload.arguments):
                for type_name, rest in product((*TYPES, "unknown"), ("same", "unknown", "fitting")):
                    others = {"same": (type_name,) * 9, "unknown": ("unknown",) * 9, "fitting": overload.arguments}
                    types = tuple(type_name if i == place else others[rest][i] for i in range(len(overload.arguments)))
                    if set(types) != {"unknown"}:
                        found[name, types] = None
    return list(found)


def test_calls_mean_what_they_mean_to_the_server(server: Connection) -> None:
    cases = calls()
    texts = [written(name, ["NULL" if t == "unknown" else f"NULL::{t}" for t in types]) for name, types in cases]
    names = sorted({s.result for overloads in SIGNATURES.values() for s in overloads})
    spelled = dict(server.execute("SELECT n, n::regtype::text FROM unnest(%s::text[]) n", [names]).fetchall())
    rows = server.execute(
        "SELECT pg_temp.type_of(e) FROM unnest(%s::text[]) WITH ORDINALITY AS u(e, n) ORDER BY n", [texts]
    ).fetchall()
    wrong = []
    for (name, types), text, (theirs,) in zip(cases, texts, rows, strict=True):
        ours = resolve(name, types)
        if ours is None or ours.function is None:
            continue  # Refused, whatever the server says.
        if spelled[ours.result] != theirs:
            wrong.append((text, ours, theirs))
    assert wrong == []
