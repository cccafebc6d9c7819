"""Replica identities as a server has them, and the marks that show alterations."""

import psycopg
import pytest

from cdc.debezium.identity_proofs import Identities
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.replica_identities import read_identities
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres

TABLE = (
    "CREATE TABLE items (gone int, id int4, name text NOT NULL, other int NOT NULL)",
    "ALTER TABLE items DROP gone, ADD PRIMARY KEY (id)",
    "CREATE UNIQUE INDEX items_name ON items (name) INCLUDE (other)",
    "CREATE UNIQUE INDEX items_other ON items (other, id)",
)


def identities(database: Database, *more: int) -> Identities:
    async def read() -> Identities | None:
        pool = PostgresPool(database.url)
        try:
            return await read_identities(pool, [oid(database), *more])
        finally:
            await pool.close()

    found = run(read())
    assert found is not None
    return found


def oid(database: Database) -> int:
    return int(database.query("SELECT 'items'::regclass::oid::int8")[0][0])


def test_each_alteration_has_a_mark_of_its_own(database: Database) -> None:
    """Also one that is undone; columns are those of the identity in force."""
    database.execute(*TABLE)
    marks = set()
    alterations = (
        ("SELECT", {2}),
        ("ALTER TABLE items REPLICA IDENTITY USING INDEX items_name", {3}),
        ("ALTER TABLE items REPLICA IDENTITY USING INDEX items_other", {2, 4}),
        ("ALTER TABLE items REPLICA IDENTITY USING INDEX items_name", {3}),
        ("ALTER TABLE items REPLICA IDENTITY FULL", set()),
        ("ALTER TABLE items REPLICA IDENTITY DEFAULT", {2}),
        ("ALTER TABLE items DROP CONSTRAINT items_pkey, ADD PRIMARY KEY (other)", {4}),
        ("ALTER TABLE items REPLICA IDENTITY USING INDEX items_name; DROP INDEX items_name", set()),
    )
    for statement, columns in alterations:
        database.execute(*statement.split("; "))
        found = identities(database).tables[oid(database)]
        assert found.columns == columns, statement
        marks.add(found.mark)
    assert len(marks) == len(alterations)


def test_changes_of_rows_leave_the_mark(database: Database) -> None:
    database.execute(*TABLE)
    before = identities(database)
    database.execute(
        "INSERT INTO items SELECT i, i, i FROM generate_series(1, 100) i", "UPDATE items SET name = name || 'x'"
    )
    database.execute("VACUUM (FREEZE, ANALYZE) items", "VACUUM (FREEZE) pg_class", "VACUUM (FREEZE) pg_index")
    assert identities(database).tables == before.tables


def test_the_snapshot_is_that_of_the_catalog(database: Database) -> None:
    """A table that is altered by a transaction which it does not see has its former mark. Other tables are left out."""
    database.execute(*TABLE)
    before = identities(database)
    with psycopg.connect(database.url) as connection:
        connection.execute("ALTER TABLE items REPLICA IDENTITY FULL")
        ((xid,),) = connection.execute("SELECT pg_current_xact_id()::text::int8").fetchall()
        while_open = identities(database, 1)
        assert not while_open.snapshot.sees(xid, 0)
        assert while_open.tables == before.tables
    after = identities(database)
    assert after.snapshot.sees(xid, 0)
    assert after.tables != before.tables
    assert not identities(database, 1).tables.keys() - before.tables.keys()


def test_no_tables(database: Database) -> None:
    async def read() -> Identities | None:
        pool = PostgresPool(database.url)
        try:
            return await read_identities(pool, [])
        finally:
            await pool.close()

    found = run(read())
    assert found is not None
    assert found.tables == {}


def test_a_server_that_is_not_there() -> None:
    async def read() -> Identities | None:
        pool = PostgresPool("postgresql://nobody@127.0.0.1:1/none")
        try:
            return await read_identities(pool, [1])
        finally:
            await pool.close()

    assert run(read()) is None
