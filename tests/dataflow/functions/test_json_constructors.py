"""Documents built of values of every type are the server's."""

import random

import pytest

from dataflow.errors import EvaluationError
from dataflow.evaluate import compile_scalar
from dataflow.functions.json_constructors import COMPILERS
from dataflow.scalar import Call, Literal, Scalar
from dataflow.schema import SqlType
from tests.dataflow.ops.server_texts import texts
from tests.dataflow.ops.test_aggregates_against_server import BOOL, NAMES, TEXT, Rows, base, col, create, insert

#: Columns whose values are no keys: documents and arrays.
NO_KEYS = "ajkqz"


def calls(function: str, name: str) -> list[tuple[tuple[Scalar, ...], str]]:
    """Arguments, and how they are written."""
    if function.startswith("to_"):
        return [((col(name),), name)]
    if function.endswith("array"):
        return [((col("id"), col(name), Literal("x", TEXT)), f"id, {name}, 'x'"), ((), "")]
    repeated = (Literal("k", TEXT), col(name), col("id"), Literal("t", BOOL), Literal("k", TEXT), col("o"))
    found: list[tuple[tuple[Scalar, ...], str]] = [(repeated, f"'k', {name}, id, true, 'k', o"), ((), "")]
    key: tuple[Scalar, ...] = (Call("coalesce", (col(name), col(name)), col(name).type), col("i"))
    return found if name in NO_KEYS else [*found, (key, f"{name}, i")]


@pytest.mark.postgres
def test_documents_are_the_servers(connect) -> None:
    connection = connect()
    create(connection)
    rows = Rows(random.Random(3)).make(60)
    insert(connection, rows)
    for function in COMPILERS:
        for name in NAMES:
            place = NAMES.index(name)
            for arguments, written in calls(function, name):
                compute = compile_scalar(Call(function, arguments, base("jsonb" if "jsonb" in function else "json")))
                sql = f"SELECT id, {function}({written}) FROM t WHERE {name} IS NOT NULL OR {len(arguments)} <> 2"
                expected = dict(texts(connection, sql))
                for row in rows:
                    if row[place] is not None or len(arguments) != 2:
                        assert compute(row) == expected[row[0]], sql


def test_a_key_that_is_null_is_the_upstreams_error() -> None:
    compute = compile_scalar(Call("json_build_object", (Literal(None, TEXT), Literal("1", base("int4"))), base("json")))
    with pytest.raises(EvaluationError):
        compute(())


@pytest.mark.parametrize("key", [base("jsonb"), SqlType("int4", "int4[]", "array", base("int4"))])
def test_what_is_no_key_is_refused(key: SqlType) -> None:
    with pytest.raises(ValueError):
        compile_scalar(Call("json_build_object", (Literal(None, key), Literal("1", TEXT)), base("json")))
