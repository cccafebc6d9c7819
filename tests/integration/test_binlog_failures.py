"""Failures of MariaDB's stream: those after which it resumes without a gap, and the errors of the rest."""

import asyncio
import ssl
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from cdc.change import CommittedTransaction, StreamLost
from cdc.mysql.stream import MySqlStream
from tests.fixtures.binlogs import BinlogStream, following, options_of
from tests.fixtures.mariadb import MariaDatabase, MariaDbServer, start_mariadb
from tests.fixtures.service import until
from tests.fixtures.streams import LIMIT_S, TRANSACTION_ROWS, run

pytestmark = pytest.mark.mariadb

NUMBERS = "CREATE TABLE numbers (n int PRIMARY KEY)"


@pytest.fixture
def own_server() -> Iterator[MariaDbServer]:
    """A server that the test may break."""
    server = start_mariadb()
    yield server
    server.discard()


@pytest.fixture
def own(own_server: MariaDbServer) -> MariaDatabase:
    """A database on it."""
    with closing(own_server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE own")
    database = MariaDatabase("own", own_server.url("own"), own_server)
    database.execute(NUMBERS)
    return database


def added(transactions: list[CommittedTransaction], table: str = "own.numbers") -> list[int]:
    """The numbers that came."""
    return [int(row[0] or "") for t in transactions for row in t.tables[table].added]


DUMPS = "SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'"


def kill_dumps(database: MariaDatabase) -> int:
    """End every connection that the log is sent on."""
    ids = database.query(DUMPS)
    with suppress(pymysql.err.OperationalError):  # One may have gone by itself.
        database.execute(*(f"KILL {i}" for (i,) in ids))
    return len(ids)


def disconnect(database: MariaDatabase) -> None:
    """Disconnect the streams, and wait until the server sends no log."""
    kill_dumps(database)
    until(lambda: not database.query(DUMPS), LIMIT_S)


async def lost(stream: BinlogStream) -> StreamLost:
    """How the stream ends."""
    with pytest.raises(StreamLost) as raised:
        await asyncio.wait_for(_read_on(stream), LIMIT_S)
    return raised.value


async def _read_on(stream: BinlogStream) -> None:
    while True:
        await stream.next()


def test_connections_that_break(own: MariaDatabase) -> None:
    """Between any two transactions, and in large ones: nothing is missing, nothing comes twice."""

    async def check() -> None:
        async with following(own, "numbers") as stream:
            killed = count = 0
            # Some rounds find no connection: the last one is not replaced yet.
            while (killed <= 5 or count < 2000) and count < 10_000:
                writer = asyncio.create_task(asyncio.to_thread(_write_numbers, own, count, count + 200))
                await stream.next()
                killed += await asyncio.to_thread(kill_dumps, own)
                await writer
                count += 200
            await stream.catch_up()
            assert killed > 5
            assert added(stream.transactions) == list(range(count))
            positions = [t.end for t in stream.transactions]
            assert positions == sorted(set(positions))

    run(check())


def _write_numbers(database: MariaDatabase, start: int, end: int) -> None:
    """In transactions of different sizes, over some files of the log."""
    with closing(database.connect(autocommit=False)) as connection, connection.cursor() as cursor:
        n = start
        while n < end:
            for _ in range(min(1 + n % 50, end - n)):
                cursor.execute(f"INSERT INTO numbers VALUES ({n})")
                n += 1
            connection.commit()
        cursor.execute("FLUSH BINARY LOGS")


@pytest.mark.parametrize("stop", [MariaDbServer.stop, MariaDbServer.kill])
def test_the_server_restarts(own: MariaDatabase, stop: Callable[[MariaDbServer], None]) -> None:
    """Stopped or crashed: the stream goes on where it was when the server is back, with other table ids."""

    async def check() -> None:
        async with following(own, "numbers") as stream:
            own.execute("INSERT INTO numbers VALUES (0)", "CREATE TABLE other (n int)", "INSERT INTO other VALUES (1)")
            await stream.catch_up()
            own.execute("INSERT INTO numbers VALUES (1)")
            await asyncio.to_thread(stop, own.server)
            reading = asyncio.create_task(stream.catch_up_to(2))
            await asyncio.to_thread(own.server.start)
            own.execute("INSERT INTO other VALUES (1)", "INSERT INTO numbers VALUES (2), (3)")
            await reading
            await stream.catch_up()
            assert added(stream.transactions) == [0, 1, 2, 3]
            assert stream.notices == []
            assert stream.resumed >= 1

    run(check())


def test_a_prepared_transaction_outlives_a_broken_connection(own: MariaDatabase) -> None:
    """A transaction that XA PREPARE ended is held until it is committed."""

    async def check() -> None:
        async with following(own, "numbers") as stream:
            with closing(own.connect()) as connection, connection.cursor() as cursor:
                for statement in ("XA START 'x'", "INSERT INTO numbers VALUES (1)", "XA END 'x'", "XA PREPARE 'x'"):
                    cursor.execute(statement)
            await stream.catch_up()
            assert kill_dumps(own) == 1
            own.execute("XA COMMIT 'x'")
            assert added(await stream.catch_up()) == [1]

    run(check())


def test_purged(own: MariaDatabase) -> None:
    """The log that the stream had not read is gone."""

    async def check() -> None:
        async with following(own, "numbers") as stream:
            await asyncio.to_thread(disconnect, own)
            own.execute("INSERT INTO numbers VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO numbers VALUES (2)")
            ((last, *_),) = own.query("SHOW MASTER STATUS")
            await asyncio.to_thread(until, lambda: _purged_to(own, last), LIMIT_S)
            problem = await lost(stream)
            assert problem.retryable
            assert "binary log" in problem.reason

    run(check())


def _purged_to(database: MariaDatabase, file: str) -> bool:
    """The server keeps a file that crash recovery would need, for a moment."""
    database.execute(f"PURGE BINARY LOGS TO '{file}'")
    return [row[0] for row in database.query("SHOW BINARY LOGS")] == [file]


def test_reset(own: MariaDatabase) -> None:
    """A log begun anew is another one, even where it is longer than the old one was."""

    async def check() -> None:
        async with following(own, "numbers") as stream:
            own.execute("INSERT INTO numbers VALUES (1)")
            await stream.catch_up()
            await asyncio.to_thread(disconnect, own)
            own.execute("RESET MASTER", *(f"INSERT INTO numbers VALUES ({n})" for n in range(2, 30)))
            problem = await lost(stream)
            assert problem.retryable
            assert "binary log" in problem.reason

    run(check())


def test_reset_under_a_stream(own: MariaDatabase) -> None:
    """The server reports the reset."""

    async def check() -> None:
        async with following(own, "numbers") as stream:
            own.execute("INSERT INTO numbers VALUES (1)")
            await stream.catch_up()
            own.execute("RESET MASTER", "INSERT INTO numbers VALUES (2)")
            problem = await lost(stream)
            assert problem.retryable

    run(check())


def test_another_server(own: MariaDatabase) -> None:
    """Behind the same address."""
    other = start_mariadb({"server_id": "2"})
    try:

        async def check() -> None:
            async with following(own, "numbers") as stream:
                stream.source._options = options_of(other)
                kill_dumps(own)
                assert "Another database server" in (await lost(stream)).reason

        run(check())
    finally:
        other.discard()


def test_a_server_that_is_gone(own: MariaDatabase) -> None:
    """After a while the stream gives up."""

    async def check() -> None:
        async with following(own, "numbers", reconnect_s=0.2) as stream:
            await asyncio.to_thread(own.server.kill)
            assert (await lost(stream)).retryable

    run(check())


def test_a_setting_that_is_refused(own: MariaDatabase) -> None:
    """With the statement that repairs it, which does."""
    fix = "SET GLOBAL binlog_format = 'ROW';"
    own.execute("SET GLOBAL binlog_format = 'MIXED'")
    assert fix in (problem := _refused(options_of(own.server))).reason + (problem.hint or "")
    assert not problem.retryable
    own.execute(fix)
    run(_starts(options_of(own.server)))


def test_no_log() -> None:
    """A server without a binary log."""
    server = start_mariadb({"skip_log_bin": "1"})
    try:
        problem = _refused(options_of(server))
        assert not problem.retryable
        assert "log_bin" in (problem.hint or "")
    finally:
        server.discard()


def test_privileges(own: MariaDatabase) -> None:
    """The missing privileges are listed, and suffice once granted. No text contains a password."""
    own.execute("CREATE USER reader IDENTIFIED BY 'secret'")
    options = {**options_of(own.server), "user": "reader", "password": "secret"}
    problem = _refused(options)
    assert not problem.retryable
    assert "GRANT REPLICATION SLAVE" in (problem.hint or "")
    own.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO reader")
    run(_starts(options))
    wrong = _refused({**options, "password": "wrong-secret"})
    assert not wrong.retryable
    assert "secret" not in str(wrong)


def test_tls(keys: Path) -> None:
    """The log comes encrypted, in records of its own size."""
    key, certificate = keys / "key.pem", keys / "certificate.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-keyout",
            key,
            "-out",
            certificate,
        ],
        check=True,
        capture_output=True,
    )
    key.chmod(0o644)
    server = start_mariadb({"ssl_cert": str(certificate), "ssl_key": str(key)})
    try:
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE own")
            cursor.execute("CREATE USER private REQUIRE SSL")
            cursor.execute("GRANT ALL ON *.* TO private")
        database = MariaDatabase("own", server.url("own"), server)
        database.execute("CREATE TABLE numbers (n int PRIMARY KEY)")

        async def check() -> None:
            async with following(database, "numbers") as stream:
                context = ssl.create_default_context(cafile=str(certificate))
                context.check_hostname = False
                stream.source = MySqlStream(
                    {**options_of(server), "user": "private", "ssl": context}, lambda: stream.layouts, TRANSACTION_ROWS
                )
                await stream.source.start()
                database.execute("INSERT INTO numbers SELECT seq FROM seq_0_to_99999")
                assert added(await stream.catch_up()) == list(range(100_000))
                stream.source.request_position()
                await stream.next()

        run(check())
    finally:
        server.discard()


@pytest.fixture
def keys() -> Iterator[Path]:
    """A directory that the server's account may read."""
    with tempfile.TemporaryDirectory(prefix="upquery-tls-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_nobody_answers() -> None:
    """A server that is not there may be, later."""
    assert _refused({"host": "127.0.0.1", "port": 1, "user": "root"}).retryable


def _refused(options: dict[str, Any]) -> StreamLost:
    with pytest.raises(StreamLost) as raised:
        run(_starts(options))
    return raised.value


async def _starts(options: dict[str, Any]) -> None:
    source = MySqlStream(options, dict, TRANSACTION_ROWS)
    await source.start()
    await source.close()


def test_cancelling_loses_nothing(own: MariaDatabase) -> None:
    """Whoever waits may stop to, also while a connection is being replaced."""

    async def check() -> None:
        async with following(own, "numbers") as stream:
            for n in range(20):
                waiting = asyncio.create_task(stream.next())
                if n % 3 == 0:
                    await asyncio.to_thread(kill_dumps, own)
                await asyncio.to_thread(own.execute, f"INSERT INTO numbers VALUES ({n})")
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            await stream.catch_up()
            assert added(stream.transactions) == list(range(20))

    run(check())
