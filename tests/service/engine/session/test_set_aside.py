"""Which sessions use the answers of the one before, on a real PostgreSQL."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from service.engine.admin.operations import Operations
from service.engine.session.runtime import Runtime
from service.engine.workload import until_warm
from service.engine.workload.until_warm import UntilWarm
from service.leaf_store.writer import LeafWriter
from service.protocol.admin_models import EvictKeys
from service.protocol.reads import ReadItem
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, started, until

pytestmark = pytest.mark.postgres

READ = [ReadItem("story", ("7",))]
STREAMS = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()"


@pytest.fixture(autouse=True)
def _stories(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers that are set aside are used until something ends it."""
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 10) i",
    )
    cold = property(lambda self: self._leaf.uses_previous)
    monkeypatch.setattr(UntilWarm, "_is_loading", cold)


def run(database: Database, directory: Path, **sections: Any) -> AbstractAsyncContextManager[Runtime]:
    return running(database, directory, cdc={"slot": "temporary"}, **sections)


async def next_session(runtime: Runtime, end: Callable[[], object]) -> None:
    """End a session that has stored a story; the next one has begun then."""
    await runtime.read(READ)
    end()
    await until(lambda: runtime.counters.streams == 2)


def test_a_stream_that_was_lost(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with run(database, tmp_path) as runtime:
            await next_session(runtime, lambda: database.query(STREAMS))
            assert runtime.leaf.uses_previous
            # What is evicted is not answered as it was before either.
            await Operations(runtime).evict(EvictKeys(view="story"))
            assert not runtime.leaf.uses_previous
            await until(lambda: not runtime.leaf.has_previous)

    asyncio.run(scenario())


def test_an_engine_that_failed(database: Database, tmp_path: Path) -> None:
    """Answers may be wrong in its store."""

    async def scenario() -> None:
        async with run(database, tmp_path) as runtime:
            await next_session(runtime, lambda: runtime.dispatcher.step("not an event"))  # type: ignore[arg-type]
            assert not runtime.leaf.has_previous

    asyncio.run(scenario())


@pytest.mark.parametrize("reason", ["no time", "no memory", "another server", "a log that ends before"])
def test_none_are_used(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    if reason == "no memory":
        monkeypatch.setattr(until_warm, "_NEEDED", 0)
    asides, reset = list[bool](), LeafWriter.reset

    def noting(self: LeafWriter, epoch: str, *, aside: bool = False) -> None:
        asides.append(aside)
        reset(self, epoch, aside=aside)

    monkeypatch.setattr(LeafWriter, "reset", noting)
    state = {"warm_timeout_s": 0} if reason == "no time" else {}

    async def scenario() -> None:
        async with run(database, tmp_path, state=state) as runtime:

            def end() -> None:
                state = runtime.leaf.reader.state()
                assert state is not None
                if reason == "another server":
                    runtime.leaf.set_epoch("of another server")
                    runtime.leaf.commit([], state.position, state.at_ms)
                elif reason == "a log that ends before":
                    runtime.leaf.commit([], state.position + (1 << 40), state.at_ms)
                database.query(STREAMS)

            await next_session(runtime, end)
            # Whatever is set aside may be deleted at once.
            assert not asides[-1]
            assert len(asides) > 1

    asyncio.run(scenario())


def test_a_view_over_another_one_that_changed_means_something_else(database: Database, tmp_path: Path) -> None:
    """A plan has columns by number: it is the same in both cases."""
    over = "SELECT v FROM n WHERE id = :id"

    async def meaning(column: str) -> str:
        views = {"n": f"SELECT id, {column} AS v FROM stories", "over": over}
        async with started(database, tmp_path / column, views=views) as runtime:
            view = runtime.leaf.reader.catalog().by_name["over"]
            assert view.status == "ready", view.reason
            return view.meaning

    async def scenario() -> None:
        database.execute("ALTER TABLE stories ADD COLUMN body text")
        before = await meaning("title")
        assert before == await meaning("title")
        database.execute("ALTER TABLE stories DROP COLUMN title")
        assert await meaning("body") not in ("", before)

    asyncio.run(scenario())


def test_a_view_whose_expression_is_long(database: Database, tmp_path: Path) -> None:
    """Nothing is known of what it means, and it is installed all the same."""
    text = " || ".join(["title"] * 200)

    async def scenario() -> None:
        views = {"long": f"SELECT {text} AS t FROM stories WHERE id = :id"}
        async with started(database, tmp_path, views=views) as runtime:
            view = runtime.leaf.reader.catalog().by_name["long"]
            assert (view.status, view.meaning) == ("ready", "")

    asyncio.run(scenario())
