"""Reads that wait for the lock of a statement that rewrites a table: they see the table as it is behind that."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psycopg
import pytest

from dataflow.plan.nodes import Chain
from dataflow.plan.parts import Lookup
from dataflow.scalar import ColumnRef
from dataflow.spark.snapshot_holder import SnapshotHolder
from dataflow.types import LookupId, NodeId, Row
from service.engine.databases.postgres.bulk_reads import reading
from service.engine.databases.postgres.catalog import load_catalog
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.held_snapshot import holding
from service.engine.databases.postgres.lookups import PostgresLookups
from service.engine.databases.postgres.named_snapshot import held_snapshot
from service.engine.upstream.results import UpstreamError
from tests.fixtures.postgres import Database
from tests.fixtures.streams import LIMIT_S, run

pytestmark = pytest.mark.postgres

ITEMS = (
    "CREATE TABLE parent (id int8, name text)",
    "CREATE TABLE items (PRIMARY KEY (id)) INHERITS (parent)",
    "INSERT INTO items VALUES (1, 'a'), (2, 'b')",
    "CREATE VIEW shown AS SELECT id, name FROM items",
)
CHANGES = {
    "rewrite": ["ALTER TABLE items ADD COLUMN c uuid DEFAULT gen_random_uuid()"],
    "truncate": ["TRUNCATE items", "INSERT INTO items VALUES (1, 'a'), (2, 'b')"],
    "swap": [
        "CREATE TABLE other (LIKE items INCLUDING ALL)",
        "INSERT INTO other VALUES (1, 'a'), (2, 'b')",
        "ALTER TABLE items RENAME TO former",
        "DELETE FROM former",
        "ALTER TABLE other RENAME TO items",
        "CREATE OR REPLACE VIEW shown AS SELECT id, name FROM items",
    ],
}
PARTITIONED = (
    "CREATE TABLE whole (id int8 PRIMARY KEY, name text) PARTITION BY HASH (id)",
    "CREATE TABLE items PARTITION OF whole FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    "INSERT INTO whole VALUES (1, 'a'), (2, 'b')",
)
CHANGES_OF_PARTITIONS = {
    "truncate": CHANGES["truncate"],
    "exchange": [
        "CREATE TABLE other (LIKE items INCLUDING ALL)",
        "INSERT INTO other VALUES (1, 'a'), (2, 'b')",
        "ALTER TABLE whole DETACH PARTITION items",
        "DELETE FROM items",
        "ALTER TABLE whole ATTACH PARTITION other FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    ],
}
#: Backends that wait for a lock on a table.
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
#: Its arguments: the SQL of a read, and the table that it is about.
Read = Callable[[PostgresLookups, str, str], Awaitable[list[Row]]]


async def lookup(lookups: PostgresLookups, sql: str, _: str) -> list[Row]:
    return (await lookups.run_statement(sql, [])).rows


async def forward_one(lookups: PostgresLookups, sql: str, _: str) -> list[Row]:
    return (await lookups.forward([(sql, [])])).rows[0]


async def forward_several(lookups: PostgresLookups, sql: str, _: str) -> list[Row]:
    return (await lookups.forward([("SELECT 1", []), (sql, [])])).rows[1]


async def audit(lookups: PostgresLookups, sql: str, table: str) -> list[Row]:
    async with holding(lookups._pool, [table]) as held:
        while True:
            # It waits for a moment only, since nothing is applied meanwhile.
            with suppress(UpstreamError):
                await held.take()
                break
        async with held.readers(1) as (reader,):
            return (await reader.ask(sql, []))[0]


async def build(lookups: PostgresLookups, sql: str, table: str) -> list[Row]:
    async with held_snapshot(lookups._pool, [table]) as held:
        return await at_snapshot(lookups._pool._conninfo, held.name, sql)


async def spark(lookups: PostgresLookups, sql: str, table: str) -> list[Row]:
    holder = await asyncio.to_thread(SnapshotHolder, lookups._pool._conninfo, None, [table])
    try:
        return await at_snapshot(lookups._pool._conninfo, holder.snapshot.name, sql)
    finally:
        holder.close()


async def at_snapshot(url: str, name: str, sql: str) -> list[Row]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await connection.execute(f"SET TRANSACTION SNAPSHOT '{name}'".encode())
        found = await connection.execute(f"SELECT id::text, name FROM ({sql}\n) q".encode())
        return await found.fetchall()


async def load(lookups: PostgresLookups, _: str, table: str) -> list[Row]:
    async with lookups._pool.connection() as connection:
        catalog = await load_catalog(connection)
    columns = catalog.tables[table].columns[:2]
    chain = Chain(table, None, tuple(ColumnRef(i, column.type) for i, column in enumerate(columns)))
    wanted = Lookup(LookupId(1), NodeId(1), chain, (), ((),))
    async with reading(lookups._pool, [wanted], catalog) as found:
        return sorted([row async for rows in found.batches(wanted) for row in rows])


async def waits(database: Database, reading: "asyncio.Future[list[Row]]") -> None:
    """Return when somebody waits for a lock."""
    async with asyncio.timeout(LIMIT_S):
        while not reading.done() and database.query(WAITING) == [(0,)]:
            await asyncio.sleep(0)


#: (PostgreSQL itself may look for a table's children before it waits for one of them, and miss one that was swapped.)
CASES = [
    (read, table, change)
    for read, tables in {
        **dict.fromkeys((lookup, forward_one, forward_several), ("items", "shown", "parent")),
        **dict.fromkeys((audit, build, spark, load), ("items",)),
    }.items()
    for table in tables
    for change in CHANGES
    if (table, change) != ("parent", "swap")
]


@pytest.mark.parametrize(("read", "table", "change"), CASES)
def test_what_waits_for_a_table_sees_it_as_it_is_then(database: Database, read: Read, table: str, change: str) -> None:
    database.execute(*ITEMS)
    run(waiting(database, read, table, CHANGES[change]))


@pytest.mark.parametrize("change", CHANGES_OF_PARTITIONS)
@pytest.mark.parametrize("read", [lookup, forward_one, forward_several, audit, build, spark, load])
def test_what_waits_for_a_partition_sees_it_as_it_is_then(database: Database, read: Read, change: str) -> None:
    database.execute(*PARTITIONED)
    run(waiting(database, read, "whole", CHANGES_OF_PARTITIONS[change]))


async def waiting(database: Database, read: Read, table: str, changes: list[str]) -> None:
    """Read while a transaction has made these changes, and commit it."""
    pool = PostgresPool(database.url)
    with psycopg.connect(database.url) as writer:
        for statement in changes:
            writer.execute(statement.encode())
        sql = f"SELECT id, name FROM {table} ORDER BY id -- all"
        reading = asyncio.ensure_future(read(PostgresLookups(pool), sql, f"public.{table}"))
        await waits(database, reading)
    assert await reading == [("1", "a"), ("2", "b")]
    await pool.close()
