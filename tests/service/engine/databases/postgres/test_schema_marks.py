"""The token of the catalog, and the event triggers that mark DDL."""

import asyncio

import psycopg
import pytest

from service.engine.databases.postgres.schema_marks import MARKING, check_marks, load_code, make_marks, read_token
from service.engine.upstream.results import SchemaToken, UpstreamError
from tests.fixtures.postgres import Database

pytestmark = pytest.mark.postgres

SETUP = (
    "CREATE TYPE mood AS ENUM ('sad')",
    "CREATE TYPE pair AS (l int)",
    "CREATE TABLE items (id int PRIMARY KEY, parent int REFERENCES items, mood mood)",
    "CREATE TABLE other (id int)",
    "CREATE VIEW v AS SELECT id FROM items",
    "CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE PUBLICATION p FOR TABLE items",
    "INSERT INTO items VALUES (1)",
)
MOVES = [
    "ALTER TABLE items ADD COLUMN a int",
    "ALTER TABLE items ALTER COLUMN mood TYPE text",
    "ALTER TABLE items RENAME COLUMN parent TO p",
    "ALTER TABLE items DROP CONSTRAINT items_parent_fkey",
    "ALTER TABLE items REPLICA IDENTITY FULL",
    "ALTER TABLE items ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY some_rows ON other USING (id = 1)",
    "CREATE TABLE child () INHERITS (items)",
    "CREATE UNIQUE INDEX ON items (parent)",
    "DROP TABLE items CASCADE",
    "ALTER TYPE mood ADD VALUE 'ok'",
    "ALTER TYPE mood RENAME VALUE 'sad' TO 'ok'",
    "ALTER TYPE pair ADD ATTRIBUTE r int",
    "CREATE OR REPLACE VIEW v AS SELECT id + 1 AS id FROM items",
    "CREATE OR REPLACE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT 2'",
    "ALTER PUBLICATION p SET (publish = 'insert')",
    "ALTER PUBLICATION p DROP TABLE items",
    "CREATE COLLATION c (LOCALE = 'C')",
    "ALTER TEXT SEARCH CONFIGURATION english ALTER MAPPING FOR asciiword WITH simple",
    "CREATE SCHEMA s",
]
STAYS = [
    "INSERT INTO items VALUES (2)",
    "ANALYZE items",
    "VACUUM items",
    "CREATE TEMP TABLE t (id int PRIMARY KEY DEFAULT 1, o mood); CREATE INDEX ON t (o); DROP TABLE t",
    "BEGIN; DROP TABLE items CASCADE; ROLLBACK",
]


async def token(connection: psycopg.AsyncConnection) -> SchemaToken:
    found = await connection.execute("SELECT to_regclass('items')::oid::int8")
    row = await found.fetchone()
    assert row is not None
    return await read_token(connection, [row[0] or 0], streamed=True)


def test_what_moves_it(database: Database) -> None:
    database.execute(*SETUP)

    async def check() -> None:
        async with await psycopg.AsyncConnection.connect(database.url) as connection:
            for statement in MOVES:
                before = await token(connection)
                await connection.execute(statement.encode())
                assert await token(connection) != before, statement
                await connection.rollback()
                assert await token(connection) == before, statement
                await connection.rollback()
            await connection.set_autocommit(True)
            before = await token(connection)
            for statement in STAYS:
                await connection.execute(statement.encode())
                assert await token(connection) == before, statement

    asyncio.run(check())


def test_code_is_marked_by_name(database: Database) -> None:
    """Code that SQL may use without its name is not marked."""
    database.execute(*SETUP)

    async def check() -> None:
        async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as connection:
            before = await load_code(connection)
            assert {("function", "f"), ("type", "mood"), ("type", "pair"), ("view", "v")} <= before.keys()
            database.execute(MOVES[14], "CREATE OPERATOR === (FUNCTION = int4eq, LEFTARG = int, RIGHTARG = int)")
            now = await load_code(connection)
            changed = {at for at in before.keys() | now.keys() if before.get(at) != now.get(at)}
            assert changed == {("function", "f"), ("operator", "")}

    asyncio.run(check())


def test_marks_are_made_by_who_may(database: Database) -> None:
    database.execute("DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN")

    async def check() -> None:
        async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as connection:
            await connection.execute("SET ROLE plain")
            with pytest.raises(UpstreamError, match="A superuser must run"):
                await make_marks(connection)
            (finding,) = await check_marks(connection)
            assert finding.fix is not None
            assert all(statement in finding.fix for statement in MARKING)
            await connection.execute("RESET ROLE")
            assert not (await token(connection)).exact
            for _ in range(2):
                await make_marks(connection)
                assert await check_marks(connection) == []
            assert (await token(connection)).exact
            await connection.execute("ALTER EVENT TRIGGER upquery_ddl_drop DISABLE")
            assert not (await token(connection)).exact

    asyncio.run(check())
