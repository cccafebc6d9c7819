"""Which open transactions may have been committed: not those that wait for a client, a lock or a statement."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from cdc.source import Snapshot
from service.upstream.postgres.lookups import Lookups
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.service import until
from tests.fixtures.streams import run
from tests.service.upstream.postgres.test_lookups import looking

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """Commits wait for a standby that there is not, unless they are `LOCAL`."""
    server = start_server({"synchronous_standby_names": "nobody", "max_prepared_transactions": "5"})
    database = Database("postgres", f"{server.url}?options=-csynchronous_commit%3Dlocal", server)
    database.execute("CREATE TABLE items (id int)", "CREATE ROLE guest LOGIN")
    yield database
    discard_server(server)


Step = Callable[[Lookups, Snapshot], Awaitable[None]]


def looked(database: Database, step: Step, *, role: str = "postgres") -> None:
    """Runs a step with what is open now."""

    async def scenario() -> None:
        async with looking(database.url.replace("postgres@", f"{role}@")) as lookups:
            await step(lookups, (await lookups.snapshot()).snapshot)

    run(scenario())


async def is_settled(lookups: Lookups, since: Snapshot) -> None:
    now = (await lookups.snapshot()).snapshot
    assert not now.finished(since)
    assert await lookups.settled(since)


async def is_not(lookups: Lookups, since: Snapshot) -> None:
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
    async def step(lookups: Lookups, since: Snapshot) -> None:
        with running(database, "INSERT INTO items VALUES (1)", waits_for="SyncRep"):
            assert await asyncio.to_thread(database.query, "SELECT 1 FROM items LIMIT 0") == []
            await is_settled(lookups, since)

    with psycopg.connect(database.url) as idle:
        idle.execute("INSERT INTO items VALUES (2)")
        looked(database, step)
        idle.rollback()


def test_a_prepared_one_has_not_unless_somebody_commits_it(database: Database) -> None:
    database.execute("BEGIN; INSERT INTO items VALUES (1); PREPARE TRANSACTION 'forgotten'")
    looked(database, is_settled)
    with running(database, "COMMIT  PREPARED 'forgotten'", waits_for="SyncRep"):
        looked(database, is_not)


def test_who_may_not_see_what_backends_do_does_not_know(database: Database) -> None:
    with psycopg.connect(database.url) as idle:
        idle.execute("INSERT INTO items VALUES (1)")
        looked(database, is_not, role="guest")
        database.execute("GRANT pg_read_all_stats TO guest")
        looked(database, is_settled, role="guest")
        idle.rollback()
