"""Another server answers where the database's was: it is said loudly, nothing of the old one is served, and versions of
the old one are refused or waited for in vain, never taken for the new one's.

A relay stands for the address that a fail-over moves from one server to another.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from service.demo.postgres_server import EmbeddedPostgres
from service.engine.session.runtime import CannotStartError, Runtime
from service.engine.session.server_identity import Lineage
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.server_check import ServerWatch
from service.ground.errors import ApiError
from service.ground.version import version_text
from service.protocol.reads import ReadItem
from tests.fixtures.mariadb import MariaDatabase, MariaDbServer, start_mariadb
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.service.engine.running import running, until

TABLE = "CREATE TABLE stories (id int PRIMARY KEY, title varchar(40) NOT NULL)"


def test_a_server_that_is_accepted_at_once_replaces_nothing() -> None:
    async def scenario() -> None:
        watch = ServerWatch()
        watch.check("one,1")
        replaced = asyncio.ensure_future(watch.replaced(lambda: None))
        await asyncio.sleep(0)
        with pytest.raises(UpstreamError):
            watch.check("one,2")
        watch.accept("one,2")
        for _ in range(5):
            await asyncio.sleep(0)
        assert not replaced.done()
        replaced.cancel()

    asyncio.run(scenario())


def test_a_log_that_goes_on_elsewhere_is_no_other_one() -> None:
    lineage = Lineage()
    lineage.began("one,1", 100, 0)
    lineage.continues("one,2")
    with capture_logs() as logs:
        lineage.began("one,2", 300, 200)
    assert logs == []
    assert not lineage.may_be_gone(150)


def test_connections_to_another_server_are_refused_and_told_of() -> None:
    async def scenario() -> None:
        watch = ServerWatch()
        for _ in range(2):
            watch.check("one")
        watch.check("")
        with pytest.raises(UpstreamError, match="two instead of one"):
            watch.check("two")
        promoted: list[str] = []
        assert await watch.replaced(lambda: promoted.append("two")) == "two instead of one"
        assert promoted == []
        watch.begin_anew()
        watch.check("two")
        assert watch.server == "two"

    asyncio.run(scenario())


def test_a_promoted_standby_is_accepted_once_the_stream_continues_on_it() -> None:
    async def scenario() -> None:
        watch = ServerWatch()
        watch.check("system 1, timeline 1")
        promoted = asyncio.Event()
        waiting = asyncio.ensure_future(watch.replaced(promoted.set))
        with pytest.raises(UpstreamError, match="timeline 2 instead of system 1, timeline 1"):
            watch.check("system 1, timeline 2")
        await promoted.wait()
        watch.accept("system 1, timeline 2")
        watch.check("system 1, timeline 2")
        with pytest.raises(UpstreamError, match="timeline 1 instead of"):
            watch.check("system 1, timeline 1")
        watch.accept("system 1, timeline 2")
        with pytest.raises(UpstreamError, match="system 2"):
            watch.check("system 2, timeline 2")
        assert await waiting == "system 2, timeline 2 instead of system 1, timeline 2"

    asyncio.run(scenario())


def test_what_may_be_a_version_of_a_log_that_is_gone() -> None:
    lineage = Lineage()
    with capture_logs() as logged:
        lineage.began("one", 100, 0)
        lineage.began("one", 200, 150)
        assert not lineage.may_be_gone(1)
        lineage.began("two", 120, 250)
    assert [entry["log_level"] for entry in logged] == ["error"]
    assert (logged[0]["before"], logged[0]["now"]) == ("one", "two")
    assert lineage.may_be_gone(250)
    assert not lineage.may_be_gone(251)
    lineage.refuse(120, 120)
    with pytest.raises(ApiError, match="replaced"):
        lineage.refuse(121, 120)
    with capture_logs() as logged:
        lineage.began("two", 100, 300)
    assert "LOG IS ANOTHER ONE" in logged[0]["event"]
    assert lineage.may_be_gone(300)


class Relay:
    """A port whose connections go to `target`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        self._writers |= {writer, back}
        await asyncio.gather(_pass(reader, back), _pass(there, writer), return_exceptions=True)

    def move(self, target: int, *, breaking: bool = True) -> None:
        """New connections go there; those that are open break, or stay."""
        self.target = target
        if breaking:
            for writer in self._writers:
                writer.transport.abort()

    async def close(self) -> None:
        assert self._server is not None
        self.move(self.target)
        self._server.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


@dataclass
class Pair:
    """Two servers with the same table of other rows; `url` has the port to be filled in."""

    ports: tuple[int, int]
    databases: tuple[Database | MariaDatabase, Database | MariaDatabase]
    url: str

    @asynccontextmanager
    async def serving(self, directory: Path) -> AsyncIterator[tuple[Runtime, Relay]]:
        relay = Relay(self.ports[0])
        port = await relay.start()
        try:
            async with (
                asyncio.timeout(90),
                running(self.databases[0], directory, upstream={"url": self.url.format(port=port)}) as runtime,  # type: ignore[arg-type]
            ):
                yield runtime, relay
        finally:
            await relay.close()


@pytest.fixture(scope="module")
def other_postgres() -> Iterator[EmbeddedPostgres]:
    server = start_server()
    yield server
    discard_server(server)


@pytest.fixture(scope="module")
def other_mariadb() -> Iterator[MariaDbServer]:
    server = start_mariadb({"server_id": "2"})
    yield server
    server.discard()


@pytest.fixture
def postgres_pair(postgres_server: EmbeddedPostgres, other_postgres: EmbeddedPostgres) -> Iterator[Pair]:
    servers = (postgres_server, other_postgres)
    pair = tuple(Database("twin", server.database_url("twin"), server) for server in servers)
    for number, database in enumerate(pair, 1):
        Database("postgres", database.server.url, database.server).execute("CREATE DATABASE twin")
        insert = f"INSERT INTO stories VALUES (1, 'of server {number}')"
        database.execute(TABLE, "ALTER TABLE stories REPLICA IDENTITY FULL", insert)
    # The first one's log is far ahead of the other's.
    for _ in range(3):
        pair[0].execute("SELECT pg_switch_wal()", "UPDATE stories SET title = title")
    ports = [int(database.url.partition("@")[2].split(":")[1].split("/")[0]) for database in pair]
    yield Pair((ports[0], ports[1]), (pair[0], pair[1]), "postgresql://postgres@127.0.0.1:{port}/twin")
    for server in servers:
        Database("postgres", server.url, server).execute("DROP DATABASE twin WITH (FORCE)")


@pytest.fixture
def mariadb_pair(mariadb_server: MariaDbServer, other_mariadb: MariaDbServer) -> Iterator[Pair]:
    servers = (mariadb_server, other_mariadb)
    pair = tuple(MariaDatabase("twin", server.url("twin"), server) for server in servers)
    for number, database in enumerate(pair, 1):
        MariaDatabase("", database.server.url(""), database.server).execute("CREATE DATABASE twin")
        database.execute(TABLE, f"INSERT INTO stories VALUES (1, 'of server {number}')")
    pair[0].execute("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "UPDATE stories SET title = 'of server 1.'")
    pair[0].execute("UPDATE stories SET title = 'of server 1'")
    ports = (mariadb_server.port, other_mariadb.port)
    yield Pair(ports, (pair[0], pair[1]), "mariadb://root@127.0.0.1:{port}/twin")
    for database in pair:
        database.execute("DROP DATABASE twin")


@pytest.fixture(
    params=[
        pytest.param("postgres_pair", marks=pytest.mark.postgres),
        pytest.param("mariadb_pair", marks=pytest.mark.mariadb),
    ]
)
def pair(request: pytest.FixtureRequest) -> Pair:
    found: Pair = request.getfixturevalue(request.param)
    return found


async def title(runtime: Runtime) -> bytes:
    return (await runtime.read([ReadItem("story", ("1",), None)])).answers[0].rows


@pytest.mark.parametrize("breaking", [True, False])
def test_a_fail_over(pair: Pair, tmp_path: Path, breaking: bool) -> None:
    """The old server is gone; or it lives on beside the new one, and only new connections are to that."""

    async def scenario() -> None:
        async with pair.serving(tmp_path) as (runtime, relay):
            assert b"of server 1" in await title(runtime)
            await runtime.reach(await runtime.checkpoint())
            old = runtime.positions.applied
            with capture_logs() as logged:
                relay.move(pair.ports[1], breaking=breaking)
                asking = asyncio.ensure_future(_keep_asking(runtime))
                await until(lambda: runtime.counters.streams == 2 and runtime.dispatcher.running, 60)
                asking.cancel()
            loud = [entry for entry in logged if "ANOTHER DATABASE SERVER" in entry["event"]]
            assert len(loud) == 1
            assert loud[0]["log_level"] == "error"
            assert loud[0]["before"] != loud[0]["now"]
            assert b"of server 2" in await title(runtime)
            # A version of the old server's, beyond what the new one has, and one of the new one's own.
            assert await runtime.checkpoint() < old, version_text(old)
            with pytest.raises(ApiError, match="replaced"):
                await runtime.reach(old)
            pair.databases[1].execute("UPDATE stories SET title = 'newer' WHERE id = 1")
            await runtime.reach(await runtime.checkpoint())
            assert b"newer" in await title(runtime)

    asyncio.run(scenario())


async def _keep_asking(runtime: Runtime) -> None:
    """On all connections that there may be, so that new ones are made when some have broken."""
    while True:
        await asyncio.gather(*(_ask(runtime) for _ in range(8)))
        await asyncio.sleep(0.05)


async def _ask(runtime: Runtime) -> Any:
    try:
        return await runtime.lookups.snapshot()
    except UpstreamError:
        return None


def test_a_stream_of_another_server_than_the_lookups_is_refused(pair: Pair, tmp_path: Path) -> None:
    async def scenario() -> None:
        here, there = (pair.url.format(port=port) for port in pair.ports)
        if isinstance(pair.databases[1], Database):
            pair.databases[1].execute("CREATE PUBLICATION upquery FOR TABLE stories")
        async with running(pair.databases[0], tmp_path, upstream={"url": here}, cdc={"url": there}):  # type: ignore[arg-type]
            pass

    with pytest.raises(CannotStartError, match="use different servers"):
        asyncio.run(scenario())
