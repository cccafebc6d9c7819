"""Loading of large full materializations while all else continues: under writers, and under failures."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.engine.reads import misses
from service.engine.session.runtime import Runtime
from service.engine.views.registry import Status, ViewOptions
from service.ground.errors import ApiError
from service.protocol.reads import AnswerSource, ReadItem
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.service.engine.initial_load.loading_site import (
    JOINED,
    SUM,
    VOTES,
    Site,
    Writer,
    check_equal,
    gate,
    problem_of,
    put,
    read,
    status,
)
from tests.service.engine.running import running, until

LIMIT_S = 120.0
OTHER = "SELECT id, n FROM other WHERE id = :id"
ALL_VOTES = "SELECT id, story, value FROM votes"


@pytest.fixture
def on_postgres(database: Database) -> Site:
    site = Site(database.url, lambda: psycopg.connect(database.url))
    site.create(*(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in ("stories", "votes", "other")))
    database.execute("ANALYZE")
    return site


@pytest.fixture
def on_mariadb(mariadb: MariaDatabase) -> Site:
    site = Site(mariadb.url, lambda: mariadb.connect(autocommit=False))
    site.create()
    site.execute("ANALYZE TABLE votes, stories, other")
    return site


def serving(site: Site, directory: Path, **engine: Any) -> Any:
    """A runtime that reads in slices what has more than a few rows."""
    return running(site, directory, views={"other": OTHER}, engine={"load_rows": 1000, **engine})  # type: ignore[arg-type]


def loading(runtime: Runtime) -> bool:
    return any(load["rows"] for load in runtime.load_reports.stats())


async def load_under_writers(site: Site, directory: Path) -> None:
    async with serving(site, directory) as runtime:
        writers = [Writer(site, seed) for seed in range(2)]
        await asyncio.to_thread(_start_all, writers)
        committed = asyncio.Event()
        gate(runtime, committed.wait)
        await put(runtime, "joined", JOINED)
        await until(lambda: loading(runtime), LIMIT_S)
        before = sum(writer.commits for writer in writers)
        await until(lambda: sum(writer.commits for writer in writers) > before + 300, LIMIT_S)
        # What is there of it is not shown, and everything else is answered.
        problem = await problem_of(runtime, "joined")
        assert problem is not None
        assert problem.code == "view_building"
        assert b'"n":10' in (await runtime.read([_one_other()])).answers[0].rows
        committed.set()
        await until(lambda: status(runtime, "joined") is Status.READY, LIMIT_S)
        # At that moment, and at every one after it, nothing is lost or counted twice.
        for _ in range(10):
            rows = await read(runtime, "joined")
            assert len({row["id"] for row in rows}) == len(rows) == VOTES
            assert sum(row["value"] for row in rows) == SUM
        await asyncio.to_thread(_stop_all, writers)
        await check_equal(runtime, site)
        engine = runtime.dispatcher.engine
        assert engine is not None
        engine.check()
        assert engine.counters["load_redo"]
        assert runtime.counters.load_failures == runtime.counters.engine_failures == 0
        assert runtime.load_reports.stats() == []


def _one_other() -> ReadItem:
    return ReadItem("other", ("1",))


def _start_all(writers: list[Writer]) -> None:
    for writer in writers:
        writer.start()


def _stop_all(writers: list[Writer]) -> None:
    for writer in writers:
        writer.stop()


@pytest.mark.postgres
def test_a_join_is_loaded_under_writers(on_postgres: Site, tmp_path: Path) -> None:
    asyncio.run(load_under_writers(on_postgres, tmp_path))


@pytest.mark.mariadb
def test_a_join_is_loaded_under_writers_of_mariadb(on_mariadb: Site, tmp_path: Path) -> None:
    asyncio.run(load_under_writers(on_mariadb, tmp_path))


async def begun(runtime: Runtime, until_: Callable[[], Any]) -> None:
    """A load of all votes, which waits behind its first batch."""
    gate(runtime, until_)
    await put(runtime, "votes", ALL_VOTES)
    await until(lambda: loading(runtime), LIMIT_S)


async def ends_well(runtime: Runtime, site: Site) -> None:
    await until(lambda: status(runtime, "votes") is Status.READY, LIMIT_S)
    await check_equal(runtime, site, "votes", ALL_VOTES)


@pytest.mark.postgres
def test_truncate_while_it_is_read(on_postgres: Site, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(on_postgres, tmp_path) as runtime:
            gone = asyncio.Event()
            await begun(runtime, gone.wait)
            # It waits for the transaction that reads, and others for it: as with a dump.
            emptied = asyncio.ensure_future(
                asyncio.to_thread(on_postgres.execute, "TRUNCATE votes", "INSERT INTO votes VALUES (7, 7, 7)")
            )
            await until(lambda: _waits(on_postgres), LIMIT_S)
            gone.set()
            await emptied
            await ends_well(runtime, on_postgres)
            assert len(await read(runtime, "votes")) == 1

    asyncio.run(scenario())


def _waits(site: Site) -> bool:
    return bool(site.rows("SELECT pid FROM pg_locks WHERE NOT granted"))


@pytest.mark.postgres
def test_a_connection_that_is_lost_while_it_is_read(on_postgres: Site, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(on_postgres, tmp_path) as runtime:
            lost = asyncio.Event()
            await begun(runtime, lost.wait)
            on_postgres.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'upquery' AND state = 'idle in transaction'"
            )
            lost.set()
            await until(lambda: runtime.counters.load_failures == 1, LIMIT_S)
            assert runtime.registry.views["votes"].status_reason == "The database cannot be reached right now."
            await ends_well(runtime, on_postgres)
            assert runtime.counters.streams == 1

    asyncio.run(scenario())


@pytest.mark.postgres
def test_a_view_that_is_loaded_again_is_answered_by_the_database(
    on_postgres: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        settings: Any = {"engine": {"load_rows": 1000}, "cdc": {"slot": "temporary"}}
        async with running(on_postgres, tmp_path, views={"other": OTHER}, **settings) as runtime:  # type: ignore[arg-type]
            await put(runtime, "votes", ALL_VOTES)
            await until(lambda: status(runtime, "votes") is Status.READY, LIMIT_S)
            again = asyncio.Event()
            gate(runtime, again.wait)
            on_postgres.rows(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()"
            )
            await until(lambda: runtime.counters.streams == 2 and loading(runtime), LIMIT_S)
            await asyncio.to_thread(on_postgres.execute, "UPDATE votes SET value = value + 1")
            await check_equal(runtime, on_postgres, "votes", ALL_VOTES)
            assert status(runtime, "votes") is Status.BUILDING
            assert (await runtime.read([ReadItem("votes", ())])).source is AnswerSource.FORWARDED
            with pytest.raises(ApiError) as refused:
                await runtime.read([ReadItem("votes", ()), _one_other()])
            assert refused.value.code == "view_building"
            # Once it takes too long, nobody waits for it any more.
            monkeypatch.setattr(misses, "_AGAIN_S", 0.0)
            for _ in range(2):
                problem = await problem_of(runtime, "votes")
                assert problem is not None
                assert problem.code == "view_building"
                monkeypatch.undo()
            again.set()
            await ends_well(runtime, on_postgres)

    asyncio.run(scenario())


@pytest.mark.postgres
def test_a_log_that_cannot_be_written_fails_the_load_and_nothing_else(on_postgres: Site, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(on_postgres, tmp_path) as runtime:
            directory = tmp_path / "state" / "loads"
            directory.parent.mkdir(exist_ok=True)
            directory.write_text("a file where the directory is to be")
            changed = asyncio.Event()
            await begun(runtime, changed.wait)
            await asyncio.to_thread(on_postgres.execute, "UPDATE votes SET value = value + 1")
            await until(lambda: runtime.counters.load_failures, LIMIT_S)
            reason = runtime.registry.views["votes"].status_reason
            assert reason is not None
            assert str(directory) in reason
            problem = await problem_of(runtime, "votes")
            assert problem is not None
            assert problem.members["progress"] == reason
            assert b'"n":10' in (await runtime.read([_one_other()])).answers[0].rows
            directory.unlink()
            changed.set()
            await ends_well(runtime, on_postgres)
            assert runtime.counters.engine_failures == 0

    asyncio.run(scenario())


@pytest.mark.postgres
def test_a_view_that_is_dropped_is_not_read_on(on_postgres: Site, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(on_postgres, tmp_path) as runtime:
            never = asyncio.Event()
            await begun(runtime, never.wait)
            await until(lambda: runtime.registry.views["votes"].status_reason, LIMIT_S)
            reason = runtime.registry.views["votes"].status_reason or ""
            assert "30,000 rows of votes read" in reason
            problem = await problem_of(runtime, "votes")
            assert problem is not None
            assert problem.members["progress"] == reason
            await runtime.changes.drop("votes")
            # The connection goes, and with it the transaction.
            await until(lambda: not _in_transaction(on_postgres), LIMIT_S)
            assert runtime.load_reports.stats() == []
            assert b'"n":10' in (await runtime.read([_one_other()])).answers[0].rows
            assert runtime.counters.load_failures == 0

    asyncio.run(scenario())


def _in_transaction(site: Site) -> bool:
    return bool(
        site.rows(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'upquery' AND state = 'idle in transaction'"
        )
    )


@pytest.mark.postgres
def test_a_replacement_is_built_beside_the_view(on_postgres: Site, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(on_postgres, tmp_path) as runtime:
            await put(runtime, "votes", "SELECT id FROM other")
            await until(lambda: status(runtime, "votes") is Status.READY, LIMIT_S)
            built = asyncio.Event()
            gate(runtime, built.wait)
            result = await runtime.changes.put("votes", ALL_VOTES, ViewOptions(), create_only=False)
            assert result.building
            await until(lambda: loading(runtime), LIMIT_S)
            assert await read(runtime, "votes") == [{"id": 1}]
            built.set()
            await until(lambda: runtime.registry.views["votes"].replacement is None, LIMIT_S)
            await check_equal(runtime, on_postgres, "votes", ALL_VOTES)

    asyncio.run(scenario())
