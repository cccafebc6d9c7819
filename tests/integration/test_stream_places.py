"""Places of a slot: a stream of another process continues there, and each transaction is in one of the two."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cdc.fanout.places import SharedContinuableStream
from cdc.postgres.place import SlotPlace
from cdc.postgres.slot import SlotOptions, slot_name
from cdc.stream import StreamStart
from service.engine.databases.postgres.connect import PostgresPool
from tests.fixtures.postgres import Database
from tests.fixtures.streams import Stream, run, streaming

pytestmark = pytest.mark.postgres

ITEMS = ("CREATE TABLE items (id int4 PRIMARY KEY, name text)", "ALTER TABLE items REPLICA IDENTITY FULL")
TABLE = "public.items"
SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"


@pytest.fixture
def options(database: Database, tmp_path: Path) -> SlotOptions:
    database.execute(*ITEMS)
    return SlotOptions("auto", slot_name("host", tmp_path, database.url), outlives_service=True)


def added(stream: Stream) -> list[int]:
    return [int(row[0]) for t in stream.transactions for row in t.tables[TABLE].added]


async def left(stream: Stream) -> str:
    """Leaves the slot, and returns the place."""
    marking = asyncio.ensure_future(stream.source.mark_place())
    while not marking.done():
        reading = asyncio.ensure_future(stream.next())
        await asyncio.wait({marking, reading}, return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        stream.source.acknowledge(stream.position)
        await asyncio.sleep(0)
    place = stream.source.place
    assert place is not None
    assert place.position == stream.position
    stream.source.leave()
    return place.text


@asynccontextmanager
async def continued(database: Database, options: SlotOptions, place: str) -> AsyncIterator[tuple[Stream, StreamStart]]:
    """Another stream, at a place."""
    pool = PostgresPool(database.url)
    stream = Stream(database, pool, slot=options)
    try:
        await stream.follow([TABLE])
        # The table is the same: rows from before its layout was read are delivered, too.
        stream.layouts = {name: replace(layout, since=0) for name, layout in stream.layouts.items()}
        started = await stream.source.start_at(place)
        stream.position = started.position
        yield stream, started
    finally:
        await stream.source.close()
        await pool.close()


def test_each_transaction_is_in_one_stream(
    database: Database, options: SlotOptions, connect: Callable[..., psycopg.Connection]
) -> None:
    """Also those that are open in between, and however often there is another stream."""

    async def check() -> None:
        writer = connect(autocommit=False)
        async with streaming(database, TABLE, slot=options) as first:
            database.execute("INSERT INTO items VALUES (1, 'before')")
            writer.execute("INSERT INTO items VALUES (2, 'open')")
            await first.catch_up()
            place = await left(first)
            assert added(first) == [1]
        assert database.query(SLOTS) == [(options.name,)]
        database.execute("INSERT INTO items VALUES (3, 'between')")
        writer.execute("INSERT INTO items VALUES (4, 'open')")
        writer.commit()
        async with continued(database, options, place) as (second, started):
            assert started.continued
            await second.catch_up()
            assert added(second) == [3, 2, 4]
            place = await left(second)
        async with continued(database, options, place) as (third, started):
            assert started.continued
            database.execute("INSERT INTO items VALUES (5, 'after')")
            await third.catch_up()
            assert added(third) == [5]
            third.source.acknowledge(third.position)
        assert database.query(SLOTS) == []

    run(check())


def test_a_stream_that_ends_before_its_first_batch_leaves_the_place(database: Database, options: SlotOptions) -> None:
    """A start that fails for another reason is repeated."""

    async def check() -> None:
        async with streaming(database, TABLE, slot=options) as first:
            place = await left(first)
        database.execute("INSERT INTO items VALUES (1, 'between')")
        for _ in range(2):
            async with continued(database, options, place) as (_, started):
                assert started.continued
        async with continued(database, options, place) as (last, _):
            await last.catch_up()
            assert added(last) == [1]

    run(check())


@pytest.mark.parametrize("field", ["start", "time_us", "xid"])
def test_another_last_transaction(database: Database, options: SlotOptions, field: str) -> None:
    """The log is not the same, whatever else is: the stream begins anew."""

    async def check() -> None:
        async with streaming(database, TABLE, slot=options) as first:
            place = SlotPlace.parse(await left(first))
        last = place.last._replace(**{field: getattr(place.last, field) + 8})
        async with continued(database, options, replace(place, last=last).text()) as (second, started):
            assert not started.continued
            assert "older copy" in started.refusal
            database.execute("INSERT INTO items VALUES (1, 'a')")
            await second.catch_up()
            assert added(second) == [1]

    run(check())


def test_what_has_been_acknowledged_has_no_place(database: Database, options: SlotOptions) -> None:
    """The server sends it no more. So nothing is acknowledged while a place is wanted."""

    async def check() -> None:
        async with streaming(database, TABLE, slot=options) as stream:
            database.execute("INSERT INTO items VALUES (1, 'a')")
            await stream.catch_up()
            assert stream.source.place is None
            await stream.source.mark_place()
            stream.source.acknowledge(stream.position)
            assert stream.source.place is not None
            stream.source.unmark()
            stream.source.acknowledge(stream.position)
            marking = asyncio.ensure_future(stream.source.mark_place())
            await asyncio.sleep(0)
            assert stream.source.place is None
            marking.cancel()
        async with streaming(database, TABLE, slot=replace(options, outlives_service=False)) as stream:
            database.execute("INSERT INTO items VALUES (2, 'a')")
            await stream.catch_up()
            assert stream.source.place is None
            await stream.source.mark_place()

    run(check())


def test_other_places_are_refused(database: Database, options: SlotOptions) -> None:
    """Several engines may continue where all of them stopped: no transaction but the last before that is compared."""

    async def check() -> None:
        async with streaming(database, TABLE, slot=options) as first:
            place = await left(first)
        other = SlotPlace.parse(place)
        async with continued(database, options, place) as (second, _):
            source = second.source
            assert isinstance(source, SharedContinuableStream)
            assert await source.refusal(place) == ""
            later = replace(other, position=other.position + 8)
            assert "earlier place" in await source.refusal(later.text())
        later = replace(other, last=other.last._replace(time_us=3))
        async with continued(database, options, later.text()) as (third, _):
            assert "earlier place" in await third.source.refusal(later.text())

    run(check())


def test_places_are_texts() -> None:
    place = '{"system": "7", "timeline": 1, "version": 180001, "slot": "s", "position": 9, "last": [5, 6, 7]}'
    assert SlotPlace.parse(place).text() == place
    for other in ("", "{}", "[]", '{"last": 3}'):
        with pytest.raises(ValueError):
            SlotPlace.parse(other)
