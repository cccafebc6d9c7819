"""The list of hot keys: written, read, and filled in another process's sessions, over a real PostgreSQL."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dataflow.types import Key
from service.engine.checkpoint.files import checkpoint_path, hot_keys_path
from service.engine.session.runtime import Runtime
from service.engine.workload.hot_keys import MOST_KEYS, HotKey, HotKeys, read_list, write_list
from service.protocol.engine_requests import Report
from service.protocol.reads import ReadItem
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, until

LISTED: list[HotKey] = [(b"a view", (n, f"key {n}"), None) for n in range(1000)]
VIEWS = {
    "story": "SELECT id, title FROM stories WHERE id = :id",
    "newest": "SELECT id, title FROM stories WHERE author = :author ORDER BY id DESC LIMIT 3",
    "few": "SELECT author, count(*) AS stories FROM stories GROUP BY author",
}
OFTEN = {"hot_keys_s": 0.05}


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "hot-keys"
    assert read_list(path) == []
    write_list(path, LISTED)
    assert read_list(path) == LISTED
    assert path.stat().st_mode & 0o077 == 0
    write_list(path, [])
    assert read_list(path) == []
    assert list(path.parent.iterdir()) == [path]


def test_damage_costs_the_keys_of_its_frame(tmp_path: Path) -> None:
    path = tmp_path / "hot-keys"
    write_list(path, LISTED)
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert set(read_list(path)) < set(LISTED)
        path.write_bytes(whole[:place])
        assert read_list(path) == LISTED[: len(read_list(path))]


def test_what_cannot_be_read_or_written_is_logged_only(tmp_path: Path) -> None:
    write_list(tmp_path / "file" / "hot-keys", LISTED)
    write_list(tmp_path / "file" / "hot-keys" / "below a file", LISTED)
    assert read_list(tmp_path) == []
    write_list(tmp_path / "odd", [(b"a view", (object(),), None)])
    assert read_list(tmp_path / "odd") == []


@pytest.fixture
def stories(database: Database) -> Database:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL, author int NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i, i % 20 FROM generate_series(1, 400) i",
    )
    return database


def covered(runtime: Runtime, view: str) -> dict[Key, Any]:
    """The covered keys of a view, with the covered parts of each."""
    engine, installed = runtime.dispatcher.engine, runtime.registry.views[view].installed
    assert engine is not None
    assert installed is not None
    coverage = engine.graph.leaves[installed.id].coverage
    return {key: coverage.covered(key) for key in coverage}


async def read(runtime: Runtime, view: str, keys: range, times: int = 1) -> None:
    """Reads keys as a worker does: each is filled, and reported."""
    items = [ReadItem(view, [str(key)]) for key in keys]
    await runtime.reads.read(items)
    installed = runtime.registry.views[view].installed
    assert installed is not None
    runtime.report(Report(worker=0, touches=[(installed.id, (str(key),), times) for key in keys]))


async def listed(directory: Path, keys: int) -> list[HotKey]:
    """Waits for a list of so many keys."""
    path = directory / "state" / "hot-keys"
    await until(lambda: len(read_list(path)) == keys)
    return read_list(path)


@pytest.mark.postgres
def test_the_next_process_fills_them_hottest_first(stories: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(stories, tmp_path, views=VIEWS, state=OFTEN) as runtime:
            await read(runtime, "story", range(1, 301))
            await read(runtime, "newest", range(10), times=5)
            assert [key for _, key, _ in (await listed(tmp_path, 310))[:10]] == [(str(n),) for n in range(10)]
            before = covered(runtime, "story"), covered(runtime, "newest")
        async with running(stories, tmp_path, views=VIEWS, state=OFTEN) as runtime:
            await until(lambda: (covered(runtime, "story"), covered(runtime, "newest")) == before)
            assert runtime.lookups.statements < 40

    asyncio.run(scenario())


@pytest.mark.postgres
def test_keys_of_a_view_that_has_changed_are_left_out(stories: Database, tmp_path: Path) -> None:
    changed = {**VIEWS, "story": "SELECT id, title FROM stories WHERE author = :author"}

    async def scenario() -> None:
        async with running(stories, tmp_path, views=VIEWS, state=OFTEN) as runtime:
            await read(runtime, "story", range(1, 21))
            await read(runtime, "newest", range(10))
            await listed(tmp_path, 30)
        async with running(stories, tmp_path, views=changed, state=OFTEN) as runtime:
            await until(lambda: len(covered(runtime, "newest")) == 10)
            assert covered(runtime, "story") == {}
            await read(runtime, "newest", range(1))
            await listed(tmp_path, 10)

    asyncio.run(scenario())


@pytest.mark.postgres
def test_a_key_that_cannot_be_filled_costs_itself_only(stories: Database, tmp_path: Path) -> None:
    views = {"story": VIEWS["story"], "share": "SELECT id, 100 / author AS share FROM stories WHERE id = :id"}

    async def scenario() -> None:
        async with running(stories, tmp_path, views=views, state=OFTEN) as runtime:
            for key in range(1, 11):
                await read(runtime, "share", range(key, key + 1))
            await listed(tmp_path, 10)
        stories.execute("UPDATE stories SET author = 0 WHERE id = 5")
        async with running(stories, tmp_path, views=views, state=OFTEN) as runtime:
            await until(lambda: len(covered(runtime, "share")) == 9)
            assert ("5",) not in covered(runtime, "share")

    asyncio.run(scenario())


@pytest.mark.postgres
def test_a_list_stays_until_it_has_been_filled(stories: Database, tmp_path: Path) -> None:
    path = tmp_path / "state" / "hot-keys"

    async def scenario() -> None:
        async with running(stories, tmp_path, views=VIEWS, state=OFTEN) as runtime:
            await read(runtime, "story", range(1, 21))
            before = await listed(tmp_path, 20)
        async with running(stories, tmp_path, views=VIEWS, state={"hot_keys_s": 0}) as runtime:
            outcomes = [False, False, True]

            async def cover(*_: object) -> bool:
                # Meanwhile others are read.
                await read(runtime, "newest", range(3))
                assert read_list(path) == before
                return outcomes.pop(0)

            runtime.prewarm.cover = cover  # type: ignore[method-assign]
            keys = HotKeys(runtime.dispatcher, runtime.prewarm, path.parent, 0, 1, 0.01)
            runtime.hot_keys.touched = keys.touched  # type: ignore[method-assign]
            keeping = asyncio.ensure_future(keys.keep())
            await until(lambda: outcomes == [] and len(read_list(path)) == 3)
            keeping.cancel()

    asyncio.run(scenario())


@pytest.mark.postgres
def test_a_list_of_another_form_is_left(stories: Database, tmp_path: Path) -> None:
    odd: Any = [(b"a view", ("1",)), 7]

    async def scenario() -> None:
        write_list(tmp_path / "state" / "hot-keys", odd)
        async with running(stories, tmp_path, views=VIEWS, state=OFTEN) as runtime:
            await read(runtime, "newest", range(3))
            await listed(tmp_path, 3)

    asyncio.run(scenario())


@pytest.mark.postgres
def test_the_list_is_bounded_and_forgets(stories: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(stories, tmp_path, views=VIEWS, state=OFTEN) as runtime:
            await read(runtime, "story", range(1, 4))
            await listed(tmp_path, 3)
            installed = runtime.registry.views["story"].installed
            assert installed is not None
            for start in range(0, 10 * MOST_KEYS, MOST_KEYS):
                # Keys that are not covered count, but are not listed.
                touches = [(installed.id, (f"-{key}",), 2) for key in range(start, start + MOST_KEYS)]
                runtime.report(Report(worker=0, touches=touches))
            await until(lambda: read_list(tmp_path / "state" / "hot-keys") == [])
            await read(runtime, "story", range(1, 4), times=9)
            await listed(tmp_path, 3)

    asyncio.run(scenario())


@pytest.mark.postgres
@pytest.mark.parametrize("before", [2, 11])
def test_lists_of_another_number_of_engines_are_removed(stories: Database, tmp_path: Path, before: int) -> None:
    state = tmp_path / "state"
    others = [hot_keys_path(state, engine, before) for engine in range(before)]
    others.append(others[0].with_suffix(".new"))
    others.append(checkpoint_path(state, 1, before))

    async def scenario() -> None:
        for path in others:
            write_list(path, LISTED)
        write_list(hot_keys_path(state), LISTED)
        async with running(stories, tmp_path, views=VIEWS, state={"hot_keys_s": 0}):
            assert not any(path.exists() for path in others)
            assert hot_keys_path(state).exists()

    asyncio.run(scenario())
