"""Places of MariaDB's log: a stream continues at one, and knows whether the log has others behind it."""

import json
from typing import Any

import pytest

from cdc.fanout.places import SharedContinuableStream
from cdc.mysql.place import BinlogPlace
from cdc.stream import StreamPlace
from tests.fixtures.binlogs import BinlogStream, following
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run

pytestmark = pytest.mark.mariadb


async def _place_behind(stream: BinlogStream, first: int) -> StreamPlace:
    """The place behind three more transactions, each a row."""
    stream.database.execute(*(f"INSERT INTO numbers VALUES ({n})" for n in range(first, first + 3)))
    await stream.catch_up()
    place = stream.source.place
    assert place is not None
    assert place.position == stream.position
    return place


async def _places(database: MariaDatabase) -> tuple[StreamPlace, StreamPlace]:
    """Two places, in two files of the log."""
    database.execute("CREATE TABLE numbers (n int PRIMARY KEY)")
    async with following(database, "numbers") as stream:
        early = await _place_behind(stream, 0)
        database.execute("FLUSH BINARY LOGS")
        return early, await _place_behind(stream, 10)


def test_a_stream_begins_with_a_place(mariadb: MariaDatabase) -> None:
    """An idle log has one, too."""

    async def check() -> None:
        mariadb.execute("CREATE TABLE numbers (n int PRIMARY KEY)")
        async with following(mariadb, "numbers") as stream:
            assert (await stream.next()).transactions == []
            assert stream.source.place is not None
            assert stream.source.place.position == stream.position

    run(check())


def test_a_log_has_a_place_behind_the_one_where_it_is_continued(mariadb: MariaDatabase) -> None:
    async def check() -> None:
        early, late = await _places(mariadb)
        stream = BinlogStream(mariadb)
        stream.follow("numbers")
        (name,) = stream.layouts
        stream.layouts[name] = _read_from_the_beginning(stream.layouts[name])
        try:
            started = await stream.source.start_at(early.text)
            assert (started.continued, started.position) == (True, early.position)
            assert isinstance(stream.source, SharedContinuableStream)
            assert [await stream.source.refusal(place.text) for place in (early, late)] == ["", ""]
            found = await stream.catch_up()
            assert [t.tables[name].added for t in found] == [[("10",)], [("11",)], [("12",)]]
            assert found[-1].end <= late.position
        finally:
            await stream.source.close()

    run(check())


def _read_from_the_beginning(layout: Any) -> Any:
    return type(layout)(layout.columns, column_types=layout.column_types, key=layout.key, generated=layout.generated)


@pytest.mark.parametrize(
    "changed",
    [
        {"gtids": "0-1-1"},
        {"offset": 4},
        {"offset": 1 << 30},
        {"file": "binlog.999999"},
        {"server": "another"},
        {"version": "9.9.9"},
        {"more": 1},
    ],
)
def test_a_place_of_another_log_is_refused(mariadb: MariaDatabase, changed: dict[str, Any]) -> None:
    async def check() -> None:
        early, late = await _places(mariadb)
        stream = BinlogStream(mariadb)
        try:
            assert (await stream.source.start_at(early.text)).continued
            assert await stream.source.refusal(json.dumps(json.loads(late.text) | changed))
            assert await stream.source.refusal("no place")
            assert BinlogPlace.parse(late.text).position == late.position
            assert not await stream.source.refusal(late.text)
        finally:
            await stream.source.close()

    run(check())
