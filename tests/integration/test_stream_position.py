"""How far the stream is: an idle server, a log that is not published, a log that is not flushed."""

import asyncio
from collections.abc import Callable

import psycopg
import pytest

from cdc.change import Batch
from tests.fixtures.postgres import Database
from tests.fixtures.streams import LIMIT_S, Stream, run, streaming

pytestmark = pytest.mark.postgres

ITEMS = ("CREATE TABLE items (id int4 PRIMARY KEY, name text)", "ALTER TABLE items REPLICA IDENTITY FULL")
TABLE = "public.items"


async def _ask_until(stream: Stream, position: int) -> None:
    """Ask how far the stream is until it is at `position`. No push."""
    async with asyncio.timeout(LIMIT_S):
        while stream.position < position:
            stream.source.request_position()
            await stream.next()


def test_a_keepalive_tells_where_an_idle_stream_is(database: Database) -> None:
    """An answer comes also when there is nothing new."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            await stream.catch_up()
            for _ in range(3):
                stream.source.request_position()
                batch = await stream.next()
                assert (batch.transactions, batch.schema) == ([], [])

    run(check())


def test_unpublished_log_moves_the_stream(database: Database) -> None:
    """Work on other tables brings the stream along without a push."""
    database.execute(*ITEMS, "CREATE TABLE others (id int4)")

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute("INSERT INTO others SELECT generate_series(1, 10000)")
            flushed = (await stream.lookups.snapshot()).flush
            assert flushed > stream.position
            await _ask_until(stream, flushed)
            assert stream.transactions == []

    run(check())


def test_a_push_passes_what_an_open_transaction_holds(
    database: Database, connect: Callable[..., psycopg.Connection]
) -> None:
    """An open transaction that has written keeps the insert LSN unflushed; asking alone does not get there."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            writer = connect(autocommit=False)
            writer.execute("INSERT INTO items VALUES (1, 'open')")
            found = await stream.lookups.run_statement("SELECT id FROM public.items", [])
            assert found.rows == []
            assert await stream.lookups.push()
            await _ask_until(stream, found.bound)
            assert stream.transactions == []
            writer.commit()
            (late,) = await stream.catch_up()
            assert not found.snapshot.sees(late.id, late.end)

    run(check())


def test_an_unflushed_commit_is_visible_and_within_the_bound(
    database: Database, connect: Callable[..., psycopg.Connection]
) -> None:
    """With synchronous_commit = off a lookup sees what is not flushed: the bound is the insert LSN."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            writer = connect()
            writer.execute("SET synchronous_commit = off")
            writer.execute("INSERT INTO items VALUES (1, 'a')")
            found = await stream.lookups.run_statement("SELECT id, name FROM public.items", [])
            assert found.rows == [("1", "a")]
            await stream.lookups.push()
            await _ask_until(stream, found.bound)
            (only,) = stream.transactions
            assert found.snapshot.sees(only.id, only.end)
            assert only.end <= found.bound

    run(check())


def test_a_cancelled_wait_loses_nothing(database: Database) -> None:
    """Whoever stops waiting gets everything later."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            await stream.catch_up()
            waiting = asyncio.ensure_future(stream.source.next_batch())
            done, _ = await asyncio.wait([waiting], timeout=0.01)
            if not done:
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            database.execute("INSERT INTO items VALUES (1, 'a')")
            assert len(await stream.catch_up()) == 1

    run(check())


def test_small_transactions_come_together_and_large_batches_end(database: Database) -> None:
    """A backlog is delivered in batches of about the rows asked for."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(*(f"INSERT INTO items VALUES ({i}, 'n')" for i in range(300)))
            end = (await stream.lookups.snapshot()).bound
            await stream.lookups.push()
            batches: list[Batch] = []
            async with asyncio.timeout(LIMIT_S):
                while stream.position < end:
                    batches.append(await stream.source.next_batch(max_rows=50))
                    stream.position = batches[-1].position
            sizes = [len(batch.transactions) for batch in batches]
            assert sum(sizes) == 300
            assert max(sizes) == 50
            assert [t.end for b in batches for t in b.transactions] == sorted(
                t.end for b in batches for t in b.transactions
            )

    run(check())


def test_acknowledged_log_may_go(database: Database) -> None:
    """The server hears how far we are, so that it can drop its log."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute("INSERT INTO items VALUES (1, 'a')")
            await stream.catch_up()
            stream.source.acknowledge(stream.position)
            stream.source.request_position()
            await stream.next()
            confirmed = (
                "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots WHERE database = current_database()"
            )
            async with asyncio.timeout(LIMIT_S):
                while int(database.query(confirmed)[0][0]) < stream.started.position:  # type: ignore[union-attr]
                    stream.source.request_position()
                    await stream.next()

    run(check())


def test_closing_leaves_no_slot(database: Database) -> None:
    """A temporary slot goes with its connection."""
    database.execute(*ITEMS)
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"

    async def check() -> None:
        async with streaming(database, TABLE):
            assert database.query(slots) == [(1,)]
        async with asyncio.timeout(LIMIT_S):
            while database.query(slots) != [(0,)]:
                await asyncio.sleep(0)

    run(check())
