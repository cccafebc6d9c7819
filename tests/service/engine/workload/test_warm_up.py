"""The first readiness of a process that finds a list of hot keys, over a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.engine.admin.operations import Operations
from service.engine.session.runtime import Runtime
from service.engine.workload.hot_keys import read_list
from service.protocol.admin_models import WarmingUp
from service.protocol.engine_requests import Report
from service.protocol.reads import ReadItem
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, started, until

pytestmark = pytest.mark.postgres

KEYS = range(1, 21)
OFTEN = {"hot_keys_s": 0.05}


@pytest.fixture(autouse=True)
def _stories(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 100) i",
    )


def warm(runtime: Runtime) -> bool:
    """Return the readiness of a service with this engine."""
    return runtime.ready and runtime.warm_up.progress is None


async def leave_a_list(database: Database, directory: Path) -> None:
    """A process that is ready at once, since there is no list, and writes one."""
    async with running(database, directory, state=OFTEN) as runtime:
        await until(lambda: warm(runtime))
        await runtime.reads.read([ReadItem("story", [str(key)]) for key in KEYS])
        installed = runtime.registry.views["story"].installed
        assert installed is not None
        runtime.report(Report(worker=0, touches=[(installed.id, (str(key),), 1) for key in KEYS]))
        await until(lambda: len(read_list(directory / "state" / "hot-keys")) == len(KEYS))


def covered(runtime: Runtime) -> int:
    engine, installed = runtime.dispatcher.engine, runtime.registry.views["story"].installed
    assert engine is not None
    assert installed is not None
    return len(engine.graph.leaves[installed.id].coverage)


@asynccontextmanager
async def locked_out(
    database: Database, directory: Path, *, limit_s: float
) -> AsyncIterator[tuple[Runtime, psycopg.AsyncConnection[Any]]]:
    """A process that has caught up, and whose lookups wait for a lock until its transaction ends."""
    state = OFTEN | {"warm_timeout_s": limit_s}
    async with (
        started(database, directory, state=state) as runtime,
        await psycopg.AsyncConnection.connect(database.url) as connection,
    ):
        # After the stream has begun, which would wait for the transaction.
        await connection.execute("LOCK TABLE stories IN ACCESS EXCLUSIVE MODE")
        sessions = asyncio.ensure_future(runtime.run())
        try:
            await until(lambda: runtime._session is not None and runtime._session.caught_up.is_set())
            yield runtime, connection
        finally:
            sessions.cancel()
            await asyncio.gather(sessions, return_exceptions=True)


Scenario = Callable[[Runtime, psycopg.AsyncConnection[Any]], Awaitable[None]]


def run(database: Database, directory: Path, scenario: Scenario, *, limit_s: float) -> None:
    async def whole() -> None:
        await leave_a_list(database, directory)
        async with locked_out(database, directory, limit_s=limit_s) as (runtime, connection):
            await scenario(runtime, connection)

    asyncio.run(whole())


def test_it_waits_until_the_list_is_filled(database: Database, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime, connection: psycopg.AsyncConnection[Any]) -> None:
        health = await Operations(runtime).health()
        assert health.warming_up == WarmingUp(keys=len(KEYS), filled=0)
        await connection.rollback()
        await until(lambda: warm(runtime))
        assert covered(runtime) == len(KEYS)
        assert (await Operations(runtime).health()).warming_up is None

    run(database, tmp_path, scenario, limit_s=60)


def test_it_waits_for_a_limited_time(database: Database, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime, _: psycopg.AsyncConnection[Any]) -> None:
        assert not warm(runtime)
        await until(lambda: warm(runtime))
        assert covered(runtime) == 0
        assert (await Operations(runtime).health()).warming_up is None

    run(database, tmp_path, scenario, limit_s=0.5)


def test_a_limit_of_nothing_is_no_wait(database: Database, tmp_path: Path) -> None:
    async def scenario(runtime: Runtime, _: psycopg.AsyncConnection[Any]) -> None:
        assert warm(runtime)

    run(database, tmp_path, scenario, limit_s=0)


def test_a_session_that_begins_again_is_waited_for_only_if_the_first_was_not_ready(
    database: Database, tmp_path: Path
) -> None:
    async def scenario(runtime: Runtime, connection: psycopg.AsyncConnection[Any]) -> None:
        # No event of the engine's: its step raises, as a bug would.
        runtime.dispatcher.step("not an event")  # type: ignore[arg-type]
        assert not warm(runtime)
        await connection.rollback()
        await until(lambda: warm(runtime))
        assert covered(runtime) == len(KEYS)
        runtime.dispatcher.step("not an event")  # type: ignore[arg-type]
        streams = runtime.counters.streams
        while runtime.counters.streams == streams or covered(runtime) < len(KEYS):
            assert warm(runtime)
            await asyncio.sleep(0.01)
        assert warm(runtime)

    run(database, tmp_path, scenario, limit_s=60)


def test_a_stream_that_cannot_begin_is_no_reason_to_be_ready_earlier(database: Database, tmp_path: Path) -> None:
    """The keys cannot be filled then, and others may be able to."""

    async def scenario(runtime: Runtime, connection: psycopg.AsyncConnection[Any]) -> None:
        runtime.wait_no_longer()
        assert not warm(runtime)
        await connection.rollback()
        await until(lambda: warm(runtime))

    run(database, tmp_path, scenario, limit_s=60)


def test_reads_do_not_wait(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        await leave_a_list(database, tmp_path)
        async with started(database, tmp_path, state=OFTEN) as runtime:
            assert not warm(runtime)
            reply = await runtime.read([ReadItem("story", ["1"])])
            assert b"title 1" in reply.answers[0].rows
            assert not warm(runtime)

    asyncio.run(scenario())
