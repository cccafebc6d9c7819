"""Broken connections of a stream with a permanent slot: another one continues, and nothing is lost or comes twice."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc.change import StreamLost
from cdc.postgres.slot import SlotOptions, slot_name
from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.proxy import running_proxy
from tests.fixtures.streams import LIMIT_S, PUBLICATION, Stream, run, streaming

pytestmark = pytest.mark.postgres

ITEMS = ("CREATE TABLE items (id int4 PRIMARY KEY, name text)", "ALTER TABLE items REPLICA IDENTITY FULL")
TABLE = "public.items"
SLOTS = "SELECT slot_name, temporary FROM pg_replication_slots WHERE database = current_database()"
KILL = "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE database = current_database()"


def permanent(tmp_path: Path, database: Database, **options: Any) -> SlotOptions:
    return SlotOptions("permanent", slot_name("host", tmp_path, database.url), **options)


def added(stream: Stream) -> list[int]:
    """Ids of the rows that were added, in the stream's order."""
    return [int(row[0]) for t in stream.transactions for row in t.tables[TABLE].added]


async def until_lost(stream: Stream) -> StreamLost:
    with pytest.raises(StreamLost) as lost:
        await until_resumed(stream)
    return lost.value


async def until_resumed(stream: Stream) -> None:
    while not (await stream.next()).resumed:
        # A server that is shut down waits for it.
        stream.source.acknowledge(stream.position)


def test_a_killed_process_of_the_server(database: Database, tmp_path: Path) -> None:
    """Transactions before, in and behind the gap come once each, however often the process is killed."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE, slot=permanent(tmp_path, database)) as stream:
            for i in range(5):
                database.execute(f"INSERT INTO items VALUES ({3 * i}, 'before')")
                if i % 2:
                    await stream.catch_up()
                database.execute(KILL, f"INSERT INTO items VALUES ({3 * i + 1}, 'in'), ({3 * i + 2}, 'in')")
                await until_resumed(stream)
            await stream.catch_up()
            assert added(stream) == list(range(15))

    run(check())
    assert database.query(SLOTS) == []


def test_a_position_that_was_requested_is_requested_again(database: Database, tmp_path: Path) -> None:
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE, slot=permanent(tmp_path, database)) as stream:
            await stream.catch_up()
            database.execute(KILL)
            stream.source.request_position()
            await until_resumed(stream)
            while stream.source._asked:
                await stream.next()

    run(check())


def test_an_open_transaction_of_the_gap(
    database: Database, connect: Callable[..., psycopg.Connection], tmp_path: Path
) -> None:
    """Transactions that begin before the stream's position, and commit behind it, are whole."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE, slot=permanent(tmp_path, database)) as stream:
            writer = connect(autocommit=False)
            writer.execute("INSERT INTO items VALUES (1, 'open')")
            database.execute("INSERT INTO items VALUES (2, 'a')")
            await stream.catch_up()
            stream.source.acknowledge(stream.position)
            database.execute(KILL)
            writer.execute("INSERT INTO items VALUES (3, 'open')")
            writer.commit()
            await stream.catch_up()
            assert added(stream) == [2, 1, 3]

    run(check())


def test_a_large_transaction_that_is_cut(database: Database, tmp_path: Path) -> None:
    """The part that was decoded is forgotten: the transaction comes again from its beginning."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE, slot=permanent(tmp_path, database)) as stream:
            await stream.catch_up()
            database.execute("INSERT INTO items SELECT i, repeat('x', 100) FROM generate_series(1, 60000) i")
            async with asyncio.timeout(LIMIT_S):
                while not stream.source._decoder.in_transaction:
                    stream.source._drain(1000)
                    await asyncio.sleep(0)
            database.execute(KILL)
            await stream.catch_up()
            assert sorted(added(stream)) == list(range(1, 60001))

    run(check())


def test_a_table_that_is_altered_in_the_gap(database: Database, tmp_path: Path) -> None:
    """Relations are described anew on the next connection."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE, slot=permanent(tmp_path, database)) as stream:
            database.execute("INSERT INTO items VALUES (1, 'a')")
            await stream.catch_up()
            database.execute(KILL, "ALTER TABLE items DROP COLUMN name", "INSERT INTO items VALUES (2)")
            await stream.catch_up()
            assert added(stream) == [1, 2]
            assert [notice.columns for notice in stream.notices] == [("name",)]

    run(check())


@pytest.mark.parametrize("closed", [True, False])
def test_a_connection_cut_by_the_network(database: Database, tmp_path: Path, closed: bool) -> None:
    """Closed, or half open: the server's process still holds the slot then, and is terminated."""
    database.execute(*ITEMS)

    async def check() -> None:
        with running_proxy(database.server.port) as proxy:
            near = Database(database.name, database.url.replace(f":{database.server.port}/", f":{proxy.port}/"), None)  # type: ignore[arg-type]
            async with streaming(near, TABLE, slot=permanent(tmp_path, database), silence_s=1.0) as stream:
                database.execute("INSERT INTO items VALUES (1, 'a')")
                await stream.catch_up()
                (connection,) = proxy.stall(b"replication\0database")
                if closed:
                    connection.close()
                database.execute("INSERT INTO items VALUES (2, 'b')")
                await until_resumed(stream)
                await stream.catch_up()
                assert added(stream) == [1, 2]

    run(check())


@pytest.mark.parametrize(
    ("afterwards", "why"),
    [
        ((), "was dropped"),
        (
            # Changes between the stream's position and the new slot's are missing there.
            ("INSERT INTO items VALUES (1, 'lost')", "SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"),
            "was created again by another service",
        ),
    ],
    ids=["gone", "created again"],
)
def test_a_slot_that_was_dropped(database: Database, tmp_path: Path, afterwards: tuple[str, ...], why: str) -> None:
    database.execute(*ITEMS)
    options = permanent(tmp_path, database)

    async def check() -> None:
        async with streaming(database, TABLE, slot=options) as stream:
            await stream.catch_up()
            database.drop_slots()
            for statement in afterwards:
                database.execute(statement.format(slot=options.name))
            lost = await until_lost(stream)
            assert lost.retryable
            assert f"The slot {options.name} {why}" in str(lost)

    run(check())


def test_a_slot_in_use_by_a_namesake(database: Database, tmp_path: Path) -> None:
    """The second service uses a temporary slot; the first one's is left alone."""
    database.execute(*ITEMS)
    options = permanent(tmp_path, database)

    async def check() -> None:
        async with streaming(database, TABLE, slot=options):
            async with streaming(database, TABLE, slot=options) as second:
                assert sorted(temporary for _, temporary in database.query(SLOTS)) == [False, True]
                database.execute(
                    "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots "
                    "WHERE temporary AND database = current_database()"
                )
                await until_lost(second)
            assert database.query(SLOTS) == [(options.name, False)]

    run(check())


def test_a_leftover_slot(database: Database, tmp_path: Path) -> None:
    """The slot of a service that was killed is replaced at the next start."""
    database.execute(*ITEMS, f"CREATE PUBLICATION {PUBLICATION}")
    options = permanent(tmp_path, database)
    database.execute(f"SELECT pg_create_logical_replication_slot('{options.name}', 'pgoutput')")
    database.execute("INSERT INTO items VALUES (1, 'before')")

    async def check() -> None:
        async with streaming(database, TABLE, slot=options) as stream:
            database.execute("INSERT INTO items VALUES (2, 'after')")
            await stream.catch_up()
            assert added(stream) == [2]

    run(check())


@pytest.fixture
def own_server() -> Iterator[Callable[..., Database]]:
    """Databases of servers with other settings."""
    started: list[EmbeddedPostgres] = []

    def start(**settings: str) -> Database:
        server = start_server(settings)
        started.append(server)
        return Database("postgres", server.url, server)

    yield start
    for server in started:
        discard_server(server)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restarted_server(own_server: Callable[..., Database], tmp_path: Path, mode: str) -> None:
    database = own_server()
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(
            database, TABLE, slot=SlotOptions("auto", slot_name("h", tmp_path, database.url))
        ) as stream:
            database.execute("INSERT INTO items VALUES (1, 'a')")
            await stream.catch_up()
            database.execute("INSERT INTO items VALUES (2, 'b')")
            reading = asyncio.ensure_future(until_resumed(stream))
            await asyncio.to_thread(database.server.stop, mode)
            await asyncio.to_thread(database.server.start)
            database.execute("INSERT INTO items VALUES (3, 'c')")
            await reading
            await stream.catch_up()
            assert added(stream) == [1, 2, 3]

    run(check())


def test_an_invalidated_slot(own_server: Callable[..., Database], tmp_path: Path) -> None:
    """The reason names the setting."""
    database = own_server(max_slot_wal_keep_size="0", min_wal_size="32MB", max_wal_size="32MB")
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(
            database, TABLE, slot=SlotOptions("auto", slot_name("h", tmp_path, database.url))
        ) as stream:
            await stream.catch_up()
            database.execute("INSERT INTO items VALUES (1, 'a')", "SELECT pg_switch_wal()")
            for _ in range(3):
                database.execute(
                    "INSERT INTO items SELECT i, repeat('x', 100) FROM generate_series(2, 999) i",
                    "DELETE FROM items",
                    "SELECT pg_switch_wal()",
                )
            database.execute("CHECKPOINT")
            lost = await until_lost(stream)
            assert "max_slot_wal_keep_size" in str(lost)

    run(check())


def test_a_server_without_a_limit(own_server: Callable[..., Database], tmp_path: Path) -> None:
    """By default the slot is temporary; a permanent one is dropped when it holds too much."""
    database = own_server(max_wal_senders="1", max_slot_wal_keep_size="-1")
    database.execute(*ITEMS)
    name = slot_name("h", tmp_path, database.url)

    async def check() -> None:
        async with streaming(database, TABLE, slot=SlotOptions("auto", name)):
            assert [temporary for _, temporary in database.query(SLOTS)] == [True]
        async with streaming(database, TABLE, slot=SlotOptions("permanent", name, keep_bytes=1 << 20)) as stream:
            await stream.catch_up()
            waiting = asyncio.ensure_future(until_lost(stream))
            other = _other_sender(database)
            database.execute("INSERT INTO items SELECT i, repeat('x', 100) FROM generate_series(1, 30000) i")
            lost = await waiting
            assert "[cdc] slot_keep" in str(lost)
            assert database.query(SLOTS) == []
            other.close()

    run(check())


def _other_sender(database: Database) -> psycopg.Connection:
    """Take the only place of a replication connection from the stream, which does not run meanwhile."""
    give_up = time.monotonic() + LIMIT_S
    with psycopg.connect(database.url, autocommit=True) as killer:
        while True:
            killer.execute(KILL)
            try:
                return psycopg.connect(database.url + "?replication=database", autocommit=True)  # type: ignore[arg-type]
            except psycopg.OperationalError:
                assert time.monotonic() < give_up
