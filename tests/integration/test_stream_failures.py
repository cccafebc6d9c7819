"""Failures of the stream: each is a sentence that names the remedy, without the password."""

import asyncio
from collections.abc import Callable, Iterator

import psycopg
import pytest

from cdc.change import StreamLost
from cdc.postgres.stream import PostgresStream
from service.demo.postgres_server import EmbeddedPostgres
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.publication import ensure_published
from service.engine.upstream.results import UpstreamError
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.streams import LIMIT_S, PUBLICATION, TRANSACTION_ROWS, Stream, run, streaming

pytestmark = pytest.mark.postgres

SECRET = "s3cr3t-w0rd"


async def _start(url: str, **options: float) -> StreamLost:
    source = PostgresStream(url, PUBLICATION, dict, TRANSACTION_ROWS, **options)  # type: ignore[arg-type]
    with pytest.raises(StreamLost) as lost:
        await source.start()
    await source.close()
    assert SECRET not in str(lost.value)
    return lost.value


async def _read_on(stream: Stream) -> None:
    """Until the stream is lost."""
    while True:
        await stream.next()


def _with_user(url: str, user: str) -> str:
    return url.replace("postgres@", f"{user}:{SECRET}@")


@pytest.fixture
def published(database: Database) -> Database:
    """A database with an empty publication."""
    database.execute(f"CREATE PUBLICATION {PUBLICATION}")
    return database


def test_no_publication(database: Database) -> None:
    """The statement is in the text."""
    lost = run(_start(database.url))
    assert not lost.retryable
    assert 'CREATE PUBLICATION "upquery";' in str(lost)


def test_no_server() -> None:
    """A refused connection may work later."""
    lost = run(_start(f"postgresql://someone:{SECRET}@127.0.0.1:1/app"))
    assert lost.retryable
    assert "runs and can be reached" in str(lost)


def test_no_connection_string() -> None:
    """An unreadable URL is not quoted."""
    lost = run(_start(f"postgresql://someone:{SECRET}%zz@host/app"))
    assert not lost.retryable
    assert "postgresql://user@host:5432/database" in str(lost)


def test_no_database(published: Database) -> None:
    """Its name is in the server's sentence."""
    lost = run(_start(published.server.database_url("nowhere")))
    assert not lost.retryable
    assert 'database "nowhere" does not exist' in str(lost)
    assert lost.hint == "Check the database's name in the upstream's URL."


def test_no_role(published: Database) -> None:
    """Its name is in the server's sentence."""
    lost = run(_start(_with_user(published.url, "nobody_known")))
    assert not lost.retryable
    assert 'role "nobody_known" does not exist' in str(lost)
    assert lost.hint == "Check the user in the upstream's URL."


def test_no_replication_right(published: Database) -> None:
    """The statement names the role."""
    published.execute("DROP ROLE IF EXISTS plain", "CREATE ROLE plain LOGIN")
    lost = run(_start(_with_user(published.url, "plain")))
    assert not lost.retryable
    assert 'ALTER ROLE "plain" REPLICATION;' in str(lost)


def test_a_slot_waits_for_a_transaction_that_does_not_end(
    published: Database, connect: Callable[..., psycopg.Connection]
) -> None:
    """The error names the blocking transaction, and the statement that ends it."""
    writer = connect(autocommit=False)
    writer.execute("CREATE TABLE t (id int4)")
    lost = run(_start(published.url, start_timeout_s=0.5))
    assert lost.retryable
    assert f"SELECT pg_terminate_backend({writer.info.backend_pid});" in str(lost)


def test_a_dropped_connection(published: Database) -> None:
    """Waiting and later calls of next_batch raise."""

    async def check() -> None:
        async with streaming(published) as stream:
            waiting = asyncio.ensure_future(_read_on(stream))
            published.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()"
            )
            with pytest.raises(StreamLost) as lost:
                await waiting
            assert lost.value.retryable
            stream.source.request_position()
            stream.source.acknowledge(stream.position + 1)

    run(check())


@pytest.fixture
def other_server() -> Iterator[Callable[..., EmbeddedPostgres]]:
    """Servers with other settings."""
    started: list[EmbeddedPostgres] = []

    def start(**settings: str) -> EmbeddedPostgres:
        started.append(start_server(settings))
        return started[-1]

    yield start
    for server in started:
        discard_server(server)


def test_a_slot_waits_for_a_prepared_transaction(other_server: Callable[..., EmbeddedPostgres]) -> None:
    server = other_server(max_prepared_transactions="1")
    database = Database("postgres", server.url, server)
    database.execute(f"CREATE PUBLICATION {PUBLICATION}", "CREATE TABLE t (id int4)")
    database.execute("BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'it''s forgotten'")
    lost = run(_start(server.url, start_timeout_s=0.5))
    assert lost.retryable
    assert "ROLLBACK PREPARED 'it''s forgotten';" in str(lost)


def test_no_logical_log(other_server: Callable[..., EmbeddedPostgres]) -> None:
    """The setting and the restart are named."""
    server = other_server(wal_level="replica")
    Database("postgres", server.url, server).execute(f"CREATE PUBLICATION {PUBLICATION}")
    lost = run(_start(server.url))
    assert not lost.retryable
    assert "ALTER SYSTEM SET wal_level = 'logical';" in str(lost)


def test_slots_and_senders_used_up(other_server: Callable[..., EmbeddedPostgres]) -> None:
    """Both limits are told apart."""
    server = other_server(max_replication_slots="1", max_wal_senders="1")
    database = Database("postgres", server.url, server)
    database.execute(f"CREATE PUBLICATION {PUBLICATION}")
    database.execute("SELECT pg_create_logical_replication_slot('mine', 'pgoutput')")
    lost = run(_start(server.url))
    assert "max_replication_slots" in str(lost)
    database.execute("SELECT pg_drop_replication_slot('mine')")

    async def check() -> None:
        async with streaming(database):
            lost = await _start(server.url)
            assert lost.retryable
            assert "max_wal_senders" in str(lost)

    run(check())


def test_wrong_password_and_a_server_that_stops(other_server: Callable[..., EmbeddedPostgres]) -> None:
    """A wrong password does not get right by trying again; a server that went away may come back."""
    server = other_server()
    database = Database("postgres", server.url, server)
    database.execute("CREATE ROLE careful LOGIN REPLICATION PASSWORD 'other'", f"CREATE PUBLICATION {PUBLICATION}")
    hba = database.query("SHOW hba_file")[0][0]
    with open(hba, "w", encoding="utf-8") as file:
        file.write("host all careful 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n")
    database.execute("SELECT pg_reload_conf()")
    lost = run(_start(_with_user(server.url, "careful")))
    assert not lost.retryable
    assert "Check the user and the password." in str(lost)

    async def check() -> None:
        async with streaming(database) as stream:
            server.stop("immediate")
            with pytest.raises(StreamLost) as lost:
                await _read_on(stream)
            assert lost.value.retryable

    run(check())


def test_a_publication_that_may_not_be_changed(database: Database) -> None:
    """Whoever may gets the statement."""
    database.execute("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN", "CREATE TABLE items (id int4)")

    async def check() -> str:
        pool = PostgresPool(_with_user(database.url, "reader"))
        async with asyncio.timeout(LIMIT_S), pool.connection() as connection:
            try:
                await ensure_published(connection, PUBLICATION, ["public.items"])
            except UpstreamError as error:
                return str(error)
        return ""

    told = run(check())
    assert "CREATE PUBLICATION upquery FOR TABLE ONLY public.items" in told
    database.execute(f"CREATE PUBLICATION {PUBLICATION}")
    assert "ALTER PUBLICATION upquery ADD TABLE ONLY public.items;" in run(check())
