"""The pool of connections to MariaDB."""

import asyncio
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.lookups import MySqlLookups
from service.engine.databases.mysql.wire import ConnectionBroken
from service.engine.upstream.results import UpstreamError
from tests.fixtures.mariadb import MariaDatabase, start_mariadb
from tests.fixtures.service import LIMIT_S
from tests.fixtures.streams import run
from tests.service.engine.databases.mysql.upstreams import opened

pytestmark = pytest.mark.mariadb

SLEEPERS = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"


def code_of(url: str, statement: str = "SELECT 1") -> UpstreamError:
    """The error of a statement."""

    async def ask() -> UpstreamError:
        async with opened(url, statement_timeout_s=0.3, connect_timeout_s=2.0) as upstream:
            with pytest.raises(UpstreamError) as caught:
                async with upstream.pool.connection() as wire:
                    await wire.query(statement)
            return caught.value

    return run(ask())


@pytest.mark.parametrize(
    ("statement", "code", "retryable"),
    [
        ("SELEC 1", "invalid", False),
        ("SELECT nope", "missing", False),
        ("SELECT * FROM nope", "missing", False),
        ("SELECT SLEEP(10)", "timeout", True),
        ("SELECT 1; SELECT 2", "invalid", False),
        ("SELECT EXTRACTVALUE('<a>', 'a[')", "invalid", False),
        ("LOAD DATA LOCAL INFILE '/etc/hosts' INTO TABLE t", "", False),
    ],
)
def test_errors_are_classified(mariadb: MariaDatabase, statement: str, code: str, retryable: bool) -> None:
    mariadb.execute("CREATE TABLE t (a text)")
    error = code_of(mariadb.url, statement)
    assert (error.code if code else "", error.retryable) == (code, retryable)


def test_only_the_server_is_waited_for_with_a_limit(mariadb: MariaDatabase) -> None:
    """Computations on its replies, such as the weights of a collation, may take longer."""

    async def check() -> None:
        async with opened(mariadb.url, statement_timeout_s=0.2, connect_timeout_s=0.3) as upstream:
            async with upstream.pool.connection() as wire:
                until_s = time.monotonic() + 1.0
                while time.monotonic() < until_s:
                    await asyncio.sleep(0)
                assert (await wire.query("SELECT 1")).rows == [("1",)]
            with pytest.raises(UpstreamError) as caught:
                async with upstream.pool.connection() as wire:
                    await wire.query("SET STATEMENT max_statement_time = 0 FOR SELECT SLEEP(20)")
            assert (caught.value.code, caught.value.retryable) == ("timeout", True)

    run(check())


def test_who_cannot_connect(mariadb: MariaDatabase) -> None:
    """Errors contain no password, and clients see no details."""
    wrong = code_of(mariadb.url.replace("root@", "root:hunter2@"))
    assert (wrong.code, wrong.retryable, wrong.public_text) == (
        "credentials",
        False,
        "The database cannot be reached right now.",
    )
    assert "hunter2" not in str(wrong)
    assert code_of(f"{mariadb.url}_nope").code == "missing"
    nobody = code_of(mariadb.url.replace(f":{mariadb.server.port}/", ":1/"))
    assert (nobody.code, nobody.retryable) == ("unavailable", True)


def test_the_session_is_pinned(mariadb: MariaDatabase) -> None:
    """Whatever the server's settings are."""
    mariadb.execute("SET GLOBAL sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES', GLOBAL time_zone = '+05:00'")

    async def ask() -> tuple[object, ...]:
        async with opened(mariadb.url) as upstream, upstream.pool.connection() as wire:
            statement = 'SELECT @@sql_mode, @@time_zone, "a\\n", @@character_set_results, 1 || 0, @@tx_isolation'
            return (await wire.query(statement)).rows[0]

    try:
        found = run(ask())
    finally:
        mariadb.execute("SET GLOBAL sql_mode = DEFAULT, GLOBAL time_zone = DEFAULT")
    assert found == ("STRICT_ALL_TABLES", "+00:00", "a\n", "utf8mb4", "1", "REPEATABLE-READ")


def test_a_cancelled_statement_ends_upstream(mariadb: MariaDatabase) -> None:
    async def check() -> None:
        async with opened(mariadb.url, size=1) as upstream:

            async def hang() -> None:
                async with upstream.pool.connection() as wire:
                    await wire.query("SELECT SLEEP(20)")

            task = asyncio.create_task(hang())
            while not await asyncio.to_thread(lambda: mariadb.query(SLEEPERS)[0][0]):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while await asyncio.to_thread(lambda: mariadb.query(SLEEPERS)[0][0]):
                await asyncio.sleep(0)
            async with upstream.pool.connection() as wire:
                assert (await wire.query("SELECT 1")).rows == [("1",)]

    run(check())


def test_all_statements_that_were_sent_together_end_upstream(mariadb: MariaDatabase) -> None:
    """Each of them would wait for the lock when the one before has ended."""
    mariadb.execute("CREATE TABLE t (a int)")
    which = f"db = '{mariadb.name}' AND state LIKE 'Waiting%'"
    waiting = f"SELECT COUNT(*) FROM information_schema.processlist WHERE {which}"

    async def check() -> None:
        async with opened(mariadb.url, size=1) as upstream:
            task = asyncio.ensure_future(upstream.lookups.forward([("SELECT a FROM t", [])] * 3))
            while not mariadb.query(waiting)[0][0]:
                await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            async with asyncio.timeout(LIMIT_S):
                while mariadb.query(waiting)[0][0]:
                    await asyncio.sleep(0.01)

    with closing(mariadb.connect()) as locking, locking.cursor() as cursor:
        cursor.execute("LOCK TABLES t WRITE")
        run(check())


def test_no_more_connections_than_there_may_be(mariadb: MariaDatabase) -> None:
    """Whoever waits too long for one is told; what comes back is lent again."""

    async def check() -> None:
        async with opened(mariadb.url, size=1, statement_timeout_s=0.2) as upstream:
            async with upstream.pool.connection() as first:
                thread = first.thread_id
                with pytest.raises(UpstreamError) as caught:
                    async with upstream.pool.connection():
                        pass
                assert (caught.value.code, caught.value.retryable) == ("overloaded", True)
            async with upstream.pool.connection() as again:
                assert again.thread_id == thread

    run(check())


def test_a_connection_in_a_transaction_is_not_lent_again(mariadb: MariaDatabase) -> None:
    async def check() -> None:
        async with opened(mariadb.url, size=1) as upstream:
            async with upstream.pool.connection() as wire:
                thread = wire.thread_id
                await wire.query("BEGIN")
            async with upstream.pool.connection() as other:
                assert other.thread_id != thread

    run(check())


def test_a_server_that_goes_and_comes_back() -> None:
    """Statements in between fail and may be retried; afterwards there are new connections."""
    server = start_mariadb()

    async def check() -> None:
        pool = MySqlPool(Address.parse(server.url("mysql")), 2)
        lookups = MySqlLookups(pool)
        before = (await lookups.snapshot()).bound
        async with pool.connection() as wire:
            asked = asyncio.create_task(wire.query("SELECT SLEEP(20)"))
            await asyncio.sleep(0)
            await asyncio.to_thread(server.stop, signal.SIGKILL)
            with pytest.raises(UpstreamError) as caught:
                async with pool.connection() as second:
                    await second.query("SELECT 1")
            assert (caught.value.code, caught.value.retryable) == ("unavailable", True)
            with pytest.raises(ConnectionBroken):
                await asked
        await asyncio.to_thread(server.start)
        assert (await lookups.snapshot()).bound > before
        await pool.close()

    try:
        run(check())
    finally:
        server.discard()


@pytest.fixture
def readable() -> Iterator[Path]:
    """A directory that the server's account may read."""
    directory = Path(tempfile.mkdtemp(prefix="upquery-tls-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_tls(readable: Path) -> None:
    """A server that proves who it is, one that does not, and one that need not."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    key, certificate = readable / "key.pem", readable / "cert.pem"
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
            "/CN=127.0.0.1",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
    )
    key.chmod(0o644)
    server = start_mariadb({"ssl_cert": str(certificate), "ssl_key": str(key)})

    async def cipher(query: str) -> str:
        async with opened(f"{server.url('mysql')}{query}") as upstream, upstream.pool.connection() as wire:
            large = await wire.query("SELECT REPEAT('x', 3000000)")
            assert len(str(large.rows[0][0])) == 3_000_000
            found = str((await wire.query("SHOW STATUS LIKE 'Ssl_cipher'")).rows[0][1])
            assert wire.secured == bool(found)
            return found

    try:
        assert run(cipher(f"?ssl-ca={certificate}"))
        assert run(cipher("?ssl-mode=required"))
        assert run(cipher(""))
        assert not run(cipher("?ssl-mode=disabled"))
        with pytest.raises(UpstreamError, match="certificate verify failed"):
            run(cipher("?ssl-mode=verify-identity"))
    finally:
        server.discard()
