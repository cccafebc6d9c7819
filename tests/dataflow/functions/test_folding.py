"""Upper and lower case of every character, in every collation of the server's whose case is known."""

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from dataflow.evaluate import compile_scalar
from dataflow.functions.folding import class_of, folds_ascii_plainly, lower, upper
from dataflow.scalar import Call, ColumnRef
from dataflow.schema import SqlType
from service.demo.postgres_server import EmbeddedPostgres
from service.engine.databases.postgres.catalog import load_catalog
from tests.dataflow.functions.server import Connection

pytestmark = pytest.mark.postgres
CHARACTERS = "".join(chr(i) for i in range(1, 0x20000) if not 0xD800 <= i < 0xE000)


@pytest.fixture(scope="module")
def server(postgres_server: EmbeddedPostgres) -> Iterator[Connection]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


def column_types(url: str) -> dict[str, SqlType]:
    async def load() -> dict[str, SqlType]:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            table = (await load_catalog(connection)).tables["public.folded"]
            return {column.name: column.type for column in table.columns}

    return asyncio.run(load())


def test_every_character_folds_as_on_the_server(server: Connection, postgres_server: EmbeddedPostgres) -> None:
    collations = [
        name
        for (name,) in server.execute(
            "SELECT collname FROM pg_collation WHERE collprovider IN ('c', 'b', 'd') AND collencoding IN (-1, 6)"
        ).fetchall()
    ]
    columns = ", ".join(f'"{name}" text COLLATE "{name}"' for name in collations)
    server.execute(f"CREATE TABLE folded ({columns})".encode())
    try:
        types = column_types(postgres_server.url)
    finally:
        server.execute("DROP TABLE folded")
    known = {name: found for name, found in types.items() if found.folding}
    assert {"default", "C", "POSIX"} <= set(known)
    assert types.get("pg_unicode_fast", SqlType("text", "text")).folding == ""
    for name, found in known.items():
        for function in ("lower", "upper"):
            ours = compile_scalar(Call(function, (ColumnRef(0, found),), found))((CHARACTERS,))
            query = f'SELECT {function}(%s::text COLLATE "{name}")'
            assert [(ours,)] == server.execute(query.encode(), [CHARACTERS]).fetchall(), (name, function)


def test_exceptions_of_a_language() -> None:
    turkish = class_of({"I": "ı", "İ": "i"}, {"i": "İ"})  # noqa: RUF001
    assert lower(turkish, "ISTANBUL É") == "ıstanbul é"  # noqa: RUF001
    assert upper(turkish, "istanbul é") == "İSTANBUL É"
    assert not folds_ascii_plainly(turkish)
    assert folds_ascii_plainly("simple")
    assert folds_ascii_plainly("ascii")
    assert not folds_ascii_plainly("")
