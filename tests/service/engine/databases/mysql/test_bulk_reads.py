"""All rows of a lookup at a place of the log that is known exactly, as they come."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing
from threading import Event
from typing import Any, cast

import pytest

from dataflow.plan.nodes import Chain
from dataflow.plan.parts import Lookup
from dataflow.scalar import ColumnRef
from dataflow.types import LookupId, NodeId, Row
from service.engine.databases.mysql.bulk_reads import BATCH_ROWS, MySqlReading, reading
from service.engine.databases.mysql.exact_snapshot import TRIES
from service.engine.databases.mysql.upstream import MySqlUpstream
from service.engine.upstream.results import UpstreamError
from tests.fixtures.binlogs import BinlogStream, following
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run
from tests.service.engine.databases.mysql.upstreams import opened

pytestmark = pytest.mark.mariadb

ROWS = 20_000


async def everything(upstream: MySqlUpstream, table: str) -> tuple[Lookup, Any]:
    async with upstream.session() as session:
        catalog = await session.load_catalog()
    types = [column.type for column in catalog.tables[table].columns]
    chain = Chain(table, None, tuple(ColumnRef(i, kind) for i, kind in enumerate(types)))
    return Lookup(LookupId(1), NodeId(1), chain, (), ()), catalog


async def all_rows(found: MySqlReading, lookup: Lookup) -> list[Row]:
    rows: list[Row] = []
    async for batch in found.batches(lookup):
        assert len(batch) <= BATCH_ROWS
        rows += batch
    return rows


def write(database: MariaDatabase, stop: Event) -> None:
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        number = 0
        while not stop.is_set():
            number += 1
            cursor.execute("UPDATE a SET n = n + 1 WHERE id = %s", (number % 50,))


def fill(database: MariaDatabase) -> None:
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY, n int NOT NULL, body text)",
        f"INSERT INTO a SELECT seq, 0, REPEAT('é', seq % 90) FROM seq_0_to_{ROWS - 1}",
    )


@pytest.mark.parametrize("tries", [TRIES, 0], ids=["between writers", "locked"])
def test_rows_are_as_the_log_makes_them_at_the_place(mariadb: MariaDatabase, tries: int) -> None:
    """Under writers that never pause: what was read, with the log from its place on, is what there is in the end."""
    fill(mariadb)

    async def scenario() -> None:
        stop = Event()
        async with opened(mariadb.url) as upstream, following(mariadb, "a") as stream:
            lookup, catalog = await everything(upstream, f"{mariadb.name}.a")
            with ThreadPoolExecutor(2) as pool:
                writers = [pool.submit(write, mariadb, stop) for _ in range(2)]
                try:
                    async with reading(upstream.pool, catalog, tries) as found:
                        rows = await all_rows(found, lookup)
                finally:
                    stop.set()
                for writer in writers:
                    await asyncio.to_thread(writer.result)
            assert found.snapshot.exact
            await assert_there(mariadb, stream, found.snapshot, rows)

    run(scenario())


async def assert_there(database: MariaDatabase, stream: BinlogStream, snapshot: Any, rows: list[Row]) -> None:
    """Rows of a snapshot, and what the log has since, are those of the table. Nobody writes any more."""
    state = Counter(rows)
    for transaction in await stream.catch_up():
        if not snapshot.sees(transaction.id, transaction.end):
            for change in transaction.tables.values():
                state.subtract(change.removed)
                state.update(change.added)
    assert +state == state
    there = [tuple(map(str, row)) for row in database.query("SELECT id, n, body FROM a")]
    assert sorted(state.elements()) == sorted(there)


def test_nothing_is_read_ahead_and_what_is_left_ends(mariadb: MariaDatabase) -> None:
    fill(mariadb)

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            lookup, catalog = await everything(upstream, f"{mariadb.name}.a")
            async with reading(upstream.pool, catalog) as found:
                async with aclosing(cast(Any, found.batches(lookup))) as batches:
                    assert len(await anext(batches)) == BATCH_ROWS
                # Not read to its end: at the same snapshot another one is.
                mariadb.execute("DELETE FROM a")
                assert len(await all_rows(found, lookup)) == ROWS

    run(scenario())


def test_a_connection_that_ends_is_an_error_in_words(mariadb: MariaDatabase) -> None:
    fill(mariadb)
    # More than the two sockets hold: else the server may have sent all of it before it is told to stop.
    mariadb.execute("UPDATE a SET body = REPEAT('x', 4000)")

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            lookup, catalog = await everything(upstream, f"{mariadb.name}.a")

            async def cut_off() -> None:
                async with reading(upstream.pool, catalog) as found:
                    async for _ in found.batches(lookup):
                        end_others(mariadb)

            with pytest.raises(UpstreamError) as raised:
                await cut_off()
            assert raised.value.retryable

    run(scenario())


def end_others(database: MariaDatabase) -> None:
    """Ends all connections to a database."""
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", [database.name])
        for (process,) in cursor.fetchall():
            if process != connection.thread_id():
                cursor.execute(f"KILL {process}")
