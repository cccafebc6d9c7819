"""Which open transactions may have been committed: not those that wait for a client, a lock or a statement."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from cdc.stream import UpstreamSnapshot
from service.engine.databases.postgres.lookups import PostgresLookups
from service.engine.databases.postgres.open_transactions import UNDECIDED
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.service import until
from tests.fixtures.streams import run
from tests.service.engine.databases.postgres.test_lookups import looking

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Commits wait for a standby that there is not, unless they are `LOCAL`."""
    server = start_server({"synchronous_standby_names": "nobody", "max_prepared_transactions": "5"})
    database = Database("postgres", f"{server.url}?options=-csynchronous_commit%3Dlocal", server)
    database.execute("CREATE TABLE items (id int)", "CREATE TABLE locked (id int)", "CREATE ROLE guest LOGIN")
    yield database
    discard_server(server)


Step = Callable[[PostgresLookups, UpstreamSnapshot], Awaitable[None]]


def looked(database: Database, step: Step, *, role: str = "postgres") -> None:
    """Runs a step with what is open now."""

    async def scenario() -> None:
        async with looking(database.url.replace("postgres@", f"{role}@")) as lookups:
            await step(lookups, (await lookups.snapshot()).snapshot)

    run(scenario())


async def is_settled(lookups: PostgresLookups, since: UpstreamSnapshot) -> None:
    now = (await lookups.snapshot()).snapshot
    assert not now.finished(since)
    assert await lookups.settled(since)


async def is_not(lookups: PostgresLookups, since: UpstreamSnapshot) -> None:
    assert not await lookups.settled(since)


@contextmanager
def running(database: Database, *statements: str, waits_for: str) -> Iterator[None]:
    """A client whose last statement is not answered before the end of the block."""
    client = psycopg.connect(database.server.url, autocommit=True)

    def work() -> None:
        try:
            for statement in statements:
                client.execute(statement)
        except psycopg.Error:
            pass

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: database.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = %s", waits_for))
        yield
    finally:
        database.query("SELECT pg_terminate_backend(%s, 10000)", client.info.backend_pid)
        thread.join(30)
        client.close()


def test_one_that_waits_for_its_client_has_not_been_committed(database: Database) -> None:
    with psycopg.connect(database.url) as idle:
        idle.execute("INSERT INTO items VALUES (1)")
        idle.execute("SAVEPOINT deeper")
        idle.execute("INSERT INTO items VALUES (2)")
        looked(database, is_settled)
        idle.rollback()


def test_nor_one_within_a_statement(database: Database) -> None:
    with running(database, "BEGIN", "INSERT INTO items VALUES (1)", "SELECT pg_sleep(60)", waits_for="PgSleep"):
        looked(database, is_settled)
    with psycopg.connect(database.url) as holder:
        holder.execute("LOCK TABLE items")
        insert = "WITH one AS (SELECT pg_current_xact_id()) INSERT INTO items SELECT 1 FROM one"
        with running(database, "BEGIN", "SELECT pg_current_xact_id()", insert, waits_for="relation"):
            looked(database, is_settled)


def test_one_that_waits_for_a_standby_has(database: Database) -> None:
    """Also beside one that has not."""
    with psycopg.connect(database.url) as idle, running(database, "INSERT INTO items VALUES (1)", waits_for="SyncRep"):
        looked(database, is_not)
        idle.execute("INSERT INTO items VALUES (2)")
        looked(database, is_not)
        idle.rollback()


def test_one_that_began_later_does_not_matter(database: Database) -> None:
    async def step(lookups: PostgresLookups, since: UpstreamSnapshot) -> None:
        with running(database, "INSERT INTO items VALUES (1)", waits_for="SyncRep"):
            assert await asyncio.to_thread(database.query, "SELECT 1 FROM items LIMIT 0") == []
            await is_settled(lookups, since)

    with psycopg.connect(database.url) as idle:
        idle.execute("INSERT INTO items VALUES (2)")
        looked(database, step)
        idle.rollback()


@pytest.mark.parametrize(
    "commit",
    [
        pytest.param("COMMIT  PREPARED 'forgotten'", id="plain"),
        pytest.param("COMMIT /* at last */ PREPARED 'forgotten'", id="with a comment"),
        pytest.param(f"/* {'x' * 1100} */ COMMIT PREPARED 'forgotten'", id="shown in part only"),
    ],
)
def test_a_prepared_one_has_not_unless_somebody_commits_it(database: Database, commit: str) -> None:
    database.execute("BEGIN; INSERT INTO items VALUES (1); PREPARE TRANSACTION 'forgotten'")
    looked(database, is_settled)
    with running(database, commit, waits_for="SyncRep"):
        looked(database, is_not)


def test_those_who_ask_at_the_same_time_are_not_taken_for_it(database: Database) -> None:
    database.execute("BEGIN; INSERT INTO items VALUES (1); PREPARE TRANSACTION 'forgotten'")
    with psycopg.connect(database.url) as holder:
        holder.execute("LOCK TABLE locked")
        asking = UNDECIDED.rstrip() + " UNION ALL SELECT count(*)::text FROM locked"
        with running(database, asking, waits_for="relation"):
            looked(database, is_settled)
    database.execute("ROLLBACK PREPARED 'forgotten'")


def test_a_worker_of_logical_replication_may_commit_while_it_is_idle(database: Database) -> None:
    """Such a worker is "idle in transaction" between the pieces of a transaction that it applies."""
    database.require(17, "the setting by which any transaction is streamed")
    streaming = {"logical_decoding_work_mem": "64kB", "debug_logical_replication_streaming": "immediate"}
    publisher = start_server(streaming)
    subscriber = start_server({"synchronous_standby_names": "nobody"})
    try:
        source = Database("postgres", publisher.url, publisher)
        source.require(16, "transactions that are applied in parallel")
        target = Database("postgres", f"{subscriber.url}?options=-csynchronous_commit%3Dlocal", subscriber)
        for each in (source, target):
            each.execute("CREATE TABLE items (id int PRIMARY KEY)")
        source.execute("CREATE PUBLICATION items FOR TABLE items")
        target.execute(
            f"CREATE SUBSCRIPTION items CONNECTION '{publisher.url}' PUBLICATION items"
            " WITH (streaming = parallel, copy_data = false, synchronous_commit = 'on')"
        )
        until(lambda: source.query("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"))
        until(lambda: target.query("SELECT 1 FROM pg_subscription_rel WHERE srsubstate = 'r'"))
        source.execute("INSERT INTO items SELECT generate_series(1, 5000)")
        until(lambda: target.query("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
        looked(target, is_not)
    finally:
        discard_server(subscriber)
        discard_server(publisher)


def test_who_may_not_see_what_backends_do_does_not_know(database: Database) -> None:
    with psycopg.connect(database.url) as idle:
        idle.execute("INSERT INTO items VALUES (1)")
        looked(database, is_not, role="guest")
        database.execute("GRANT pg_read_all_stats TO guest")
        looked(database, is_settled, role="guest")
        idle.rollback()
