"""Lookups that run together, over real databases: each read gets its own answer, and none waits for another's table."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from dataflow.engine.events import CancelUnawaited
from dataflow.engine.limits import Limits
from service.engine.databases.postgres.lookups import PostgresLookups, _Stalls
from service.engine.reads import lookup_tasks
from service.engine.reads.lookup_tasks import ROUND_LOOKUPS
from service.engine.session.runtime import Runtime
from service.ground.errors import ApiError
from service.protocol.reads import ReadItem
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.proxy import running_proxy
from tests.service.engine.running import running, until

TABLES = ("a", "b", "c")
VIEWS = {table: f"SELECT id, n FROM {table} WHERE id = :id" for table in TABLES}
FIRST = 1000
LARGE = 7
#: For a busy test machine, whose server may answer later than a round waits by default.
PATIENT_S = 0.5
#: Round trip to another continent: longer than a round waits beyond it.
FAR_S = 0.12


@dataclass(frozen=True)
class Upstream:
    """A database with the tables, and how one of them is locked."""

    database: Any
    locked: Callable[[str], AbstractContextManager[None]]


def create_tables(database: Database | MariaDatabase) -> None:
    rows = ", ".join(f"({i}, {i})" for i in range(2 * FIRST))
    for table in TABLES:
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int NOT NULL)")
        database.execute(f"INSERT INTO {table} VALUES {rows}")


@pytest.fixture(
    params=[pytest.param("database", marks=pytest.mark.postgres), pytest.param("mariadb", marks=pytest.mark.mariadb)]
)
def upstream(request: pytest.FixtureRequest) -> Upstream:
    database: Database | MariaDatabase = request.getfixturevalue(request.param)
    create_tables(database)

    @contextlib.contextmanager
    def locked(table: str) -> Iterator[None]:
        if isinstance(database, MariaDatabase):
            with closing(database.connect()) as connection, connection.cursor() as cursor:
                cursor.execute(f"LOCK TABLES {table} WRITE")
                yield
        else:
            with psycopg.connect(database.url) as connection:
                connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
                yield

    return Upstream(database, locked)


@asynccontextmanager
async def warmed(upstream: Upstream, directory: Path, **settings: Any) -> AsyncIterator[Runtime]:
    """A runtime that has looked a key of each table up: how many rows a key has is known."""
    async with running(upstream.database, directory, views=VIEWS, **settings) as runtime:
        for table in TABLES:
            await read(runtime, table, 0)
        yield runtime


async def read(runtime: Runtime, table: str, key: int) -> None:
    """Read a key; its answer is its own row."""
    reply = await runtime.read([ReadItem(table, (str(key),))])
    assert reply.answers[0].rows == b'[{"id":%d,"n":%d}]' % (key, key)


def together(runtime: Runtime, keys: range, tables: tuple[str, ...] = TABLES) -> list[asyncio.Task[None]]:
    """Reads that begin in one turn of the loop, a lookup each."""
    return [asyncio.create_task(read(runtime, table, key)) for key in keys for table in tables]


def test_reads_of_one_turn_share_rounds(upstream: Upstream, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with warmed(upstream, tmp_path) as runtime:
            counted = runtime.counters
            # By a unique key: a key has one row at most, before any was looked up.
            assert counted.lookup_rounds == 3
            await asyncio.gather(*together(runtime, range(1, 200)))
            assert counted.lookup_keys == 3 * 200
            assert counted.lookup_rounds > 3
            assert counted.lookups - 3 <= counted.lookup_rounds * ROUND_LOOKUPS
            # Of one table they share statements, too.
            assert counted.lookups - 3 < 3 * 199 / 4
            assert counted.lookup_failures == 0

    asyncio.run(scenario())


def test_a_locked_table_holds_up_no_other(upstream: Upstream, tmp_path: Path) -> None:
    """Its lookups leave their round, and come back to rounds when they are answered in time."""

    async def scenario() -> None:
        async with warmed(upstream, tmp_path) as runtime:
            with upstream.locked("b"):
                reads = together(runtime, range(1, 3))
                of_b = reads[1::3]
                async with asyncio.timeout(10):
                    await asyncio.gather(*(task for task in reads if task not in of_b))
                    for key in range(3, 10):
                        await asyncio.gather(*together(runtime, range(key, key + 1), ("a", "c")))
                assert not any(task.done() for task in of_b)
            await asyncio.gather(*of_b)
            await read(runtime, "b", 50)
            before = runtime.counters.lookup_rounds
            await asyncio.gather(*together(runtime, range(51, 52)))
            assert runtime.counters.lookup_rounds == before + 1

    asyncio.run(scenario())


def test_a_join_is_looked_up_in_one_round(upstream: Upstream, tmp_path: Path) -> None:
    """The joined table is not blamed for the lock of another one."""
    views = VIEWS | {"joined": "SELECT a.id, b.n FROM a JOIN b ON b.id = a.n WHERE a.id = :id"}

    async def scenario() -> None:
        async with running(upstream.database, tmp_path, views=views) as runtime:
            rounds = [runtime.counters.lookup_rounds]
            for key in range(5):
                await read(runtime, "joined", key)
                rounds.append(runtime.counters.lookup_rounds)
            # A server that was slow for a moment makes it two.
            assert min(after - before for before, after in pairwise(rounds)) == 1
            before = runtime.counters.lookup_rounds
            with upstream.locked("a"):
                waiting = asyncio.create_task(read(runtime, "joined", 10))
                # Its round waits for the lock in vain; then the lookup of `a` waits alone.
                await until(lambda: runtime.counters.lookup_rounds > before and runtime.lookup_tasks.in_flight == 1)
                before = runtime.counters.lookup_rounds
                await read(runtime, "b", 11)
                assert runtime.counters.lookup_rounds == before + 1
            await waiting

    asyncio.run(scenario())


def test_a_database_far_away_has_rounds(upstream: Upstream, tmp_path: Path) -> None:
    """Replies that are long on their way hold up no round."""
    url = upstream.database.url
    port = urlsplit(url).port
    assert port is not None

    async def scenario() -> None:
        with running_proxy(port, FAR_S) as proxy:
            far = replace(upstream.database, url=url.replace(f":{port}", f":{proxy.port}"))
            async with warmed(replace(upstream, database=far), tmp_path) as runtime:
                for keys in (range(1, 4), range(4, 7)):
                    before = runtime.counters.lookup_rounds
                    await asyncio.gather(*together(runtime, keys))
                    assert runtime.counters.lookup_rounds == before + 1
                assert runtime.counters.lookup_keys == 3 * 7
                # One of each table for the first keys, and one in each round.
                assert runtime.counters.lookups == 3 * 3

    asyncio.run(scenario())


def when(condition: Callable[[], bool], act: Callable[[], object]) -> None:
    """Act in the first turn of the loop in which the condition is true."""

    def look() -> None:
        if condition():
            act()
        else:
            asyncio.get_running_loop().call_soon(look)

    asyncio.get_running_loop().call_soon(look)


def block(upstream: Upstream) -> None:
    """Do something else for longer than a patient round waits, so that replies arrive meanwhile."""
    sleep = "pg_sleep" if isinstance(upstream.database, Database) else "sleep"
    upstream.database.query(f"SELECT {sleep}({PATIENT_S + 0.2})")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds wait longer."""
    monkeypatch.setattr(lookup_tasks, "_STALL_S", PATIENT_S)


@pytest.mark.usefixtures("patient")
def test_a_busy_loop_ends_no_round(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with warmed(upstream, tmp_path) as runtime:
            before = runtime.counters.lookup_rounds
            ended: list[object] = []
            monkeypatch.setattr(type(runtime.lookups), "run", lambda *arguments: ended.append(arguments))
            monkeypatch.setattr(_Stalls, "cancel", lambda stalls: ended.append(stalls))
            when(lambda: runtime.counters.lookup_rounds > before, lambda: block(upstream))
            await asyncio.gather(*together(runtime, range(1, 4)))
            assert not ended

    asyncio.run(scenario())


@pytest.mark.usefixtures("patient")
def test_a_busy_loop_makes_no_table_slow(upstream: Upstream, tmp_path: Path) -> None:
    """A lookup runs alone since its table was locked. Its reply arrives while the loop is busy; the next lookup is in a
    round again."""

    async def returns(runtime: Runtime, key: int) -> bool:
        before = runtime.counters.lookup_rounds
        with contextlib.ExitStack() as stack:
            stack.enter_context(upstream.locked("b"))

            def release() -> None:
                stack.close()
                block(upstream)

            tasks = runtime.lookup_tasks
            when(lambda: runtime.counters.lookup_rounds > before and not tasks._rounds, release)
            await read(runtime, "b", key)
        assert runtime.counters.lookup_rounds == before + 1
        await read(runtime, "b", key + 1)
        return runtime.counters.lookup_rounds > before + 1

    async def scenario() -> None:
        async with warmed(upstream, tmp_path) as runtime:
            # A server that was slow for a moment makes a table slow, too.
            for key in (1, 3, 5, 7):
                if await returns(runtime, key):
                    return
                await read(runtime, "b", 100 + key)
            raise AssertionError("each of the lookups made its table slow")

    asyncio.run(scenario())


def test_readers_who_leave_make_no_table_slow(upstream: Upstream, tmp_path: Path) -> None:
    """They may leave since the loop is busy. Whether a table is slow is seen in the next round."""
    views = {"b": VIEWS["b"], "many": "SELECT n, id FROM b WHERE n = :n"}

    async def scenario() -> None:
        async with running(upstream.database, tmp_path, views=views) as runtime:
            with upstream.locked("b"):
                # How many rows a key has is not known, so its lookup runs alone.
                reader = asyncio.create_task(runtime.read([ReadItem("many", ("5",))]))
                await until(lambda: runtime.lookup_tasks.in_flight == 1)
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)
                for _ in range(Limits().unawaited_looks):
                    runtime.dispatcher.step(CancelUnawaited())
                assert runtime.lookup_tasks.in_flight == 0
            assert runtime.counters.lookup_rounds == 0
            await read(runtime, "b", 5)
            assert runtime.counters.lookup_rounds == 1

    asyncio.run(scenario())


def test_cancelled_reads_of_a_round_do_not_end_the_others(upstream: Upstream, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with warmed(upstream, tmp_path) as runtime:
            for begun in range(1, 40, 2):
                reads = together(runtime, range(begun, begun + 2))
                for _ in range(begun % 5):
                    await asyncio.sleep(0)
                reads[begun % 6].cancel()
                found = await asyncio.gather(*reads, return_exceptions=True)
                assert sum(error is not None for error in found) <= 1
            await until(lambda: runtime.lookup_tasks.in_flight == 0)

    asyncio.run(scenario())


def test_one_answer_that_is_too_large_fails_alone(upstream: Upstream, tmp_path: Path) -> None:
    """Reads of it are forwarded; the other keys are stored."""
    for table in TABLES:
        upstream.database.execute(f"CREATE TABLE {table}_many (id int PRIMARY KEY, k int NOT NULL)")
        upstream.database.execute(
            f"INSERT INTO {table}_many SELECT id, CASE WHEN id < {FIRST} THEN {LARGE} ELSE id END FROM a"
        )
    views = {table: f"SELECT k, id FROM {table}_many WHERE k = :k" for table in TABLES}

    async def scenario() -> None:
        async with running(upstream.database, tmp_path, views=views, upstream={"limit_rows": 500}) as runtime:

            async def rows(table: str, key: int) -> int:
                reply = await runtime.read([ReadItem(table, (str(key),))])
                return reply.answers[0].rows.count(b"{")

            for table in TABLES:
                assert await rows(table, FIRST) == 1
            reads = [rows(table, LARGE if table == "b" else FIRST + n) for n in range(1, 4) for table in TABLES]
            assert await asyncio.gather(*reads) == [1, FIRST, 1] * 3
            assert runtime.counters.lookups_too_large == 1

    asyncio.run(scenario())


@pytest.mark.postgres
def test_a_table_without_the_column_fails_alone(database: Database, tmp_path: Path) -> None:
    create_tables(database)

    async def scenario() -> None:
        async with running(database, tmp_path, views=VIEWS) as runtime:
            for table in TABLES:
                await read(runtime, table, 0)
            database.execute("ALTER TABLE b RENAME COLUMN n TO m")
            found = await asyncio.gather(*together(runtime, range(1, 4)), return_exceptions=True)
            assert [isinstance(each, ApiError) for each in found] == [False, True, False] * 3

    asyncio.run(scenario())


@pytest.mark.postgres
def test_statements_that_the_server_has_discarded_run_again(database: Database, tmp_path: Path) -> None:
    create_tables(database)

    async def scenario() -> None:
        async with running(database, tmp_path, views=VIEWS, upstream={"pool_size": 3}) as runtime:
            for table in TABLES:
                await read(runtime, table, 0)
            for key in (1, 2, 3):
                lookups = runtime.lookups
                assert isinstance(lookups, PostgresLookups)
                async with lookups._pool.connection() as connection:
                    await connection.execute("DEALLOCATE ALL")
                await asyncio.gather(*together(runtime, range(10 * key, 10 * key + 5)))
            assert runtime.counters.lookup_failures == 0

    asyncio.run(scenario())
