"""A service whose stream's connection breaks under writes: nothing is evicted, and every key is right afterwards."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.service import PATIENT, running_service, until
from tests.integration.breaking_postgres import (
    FLUSHES_SELDOM,
    KEYS,
    TABLES,
    VIEWS,
    compare,
    crash,
    restart,
    resumptions,
    warm,
    writing,
)

pytestmark = pytest.mark.postgres


@pytest.fixture
def own() -> Iterator[Database]:
    """A server that can be crashed. It loses what it has not flushed, which it does seldom."""
    server = start_server(FLUSHES_SELDOM)
    try:
        database = Database("postgres", server.url, server)
        database.execute(*TABLES)
        yield database
    finally:
        discard_server(server)


def walsender(database: Database) -> int | None:
    """Process of the slot, once there is one."""
    try:
        found = database.query("SELECT active_pid FROM pg_replication_slots WHERE active")
    except psycopg.OperationalError:
        return None
    return int(found[0][0]) if found else None


def terminate(database: Database) -> None:
    database.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots")


def kill(database: Database) -> None:
    """Kill a process of the server, which ends all others and recovers."""
    os.kill(until(lambda: walsender(database)), signal.SIGKILL)


@pytest.mark.parametrize("synchronous", [True, False])
@pytest.mark.parametrize("fail", [terminate, kill, crash, restart])
def test_nothing_is_evicted(own: Database, tmp_path: Path, fail: Callable[[Database], None], synchronous: bool) -> None:
    with running_service(tmp_path / "service", own.url, VIEWS) as service:
        warm(service)
        before = service.stats()["counters"]["leaf_evictions"]
        with writing(own, synchronous=synchronous) as commits:
            for round_ in range(1, 4):
                seen = commits()
                until(lambda seen=seen: commits() > seen + 20)
                fail(own)
                until(lambda round_=round_: resumptions(service) >= round_)
        until(lambda: walsender(own))
        compare(service, own)
        counters = service.stats()["counters"]
        assert (counters["streams"], counters["streams_lost"]) == (1, 0)
        assert counters["leaf_evictions"] == before


def test_misses_around_crashes(own: Database, tmp_path: Path) -> None:
    """Keys are filled while the server crashes again and again, by lookups that see what is not flushed."""
    with running_service(tmp_path / "service", own.url, VIEWS) as service:
        with writing(own, synchronous=False) as commits:
            for round_ in range(3):
                seen = commits()
                until(lambda seen=seen: commits() > seen + 5)
                for key in KEYS[10 * round_ : 10 * round_ + 10]:
                    service.read("story", {"Prefer": "wait=0"}, id=key)
                    service.read("votes", {"Prefer": "wait=0"}, story=key)
                kill(own)
                until(lambda round_=round_: resumptions(service) > round_)
        until(lambda: walsender(own))
        warm(service)
        compare(service, own)
        assert service.stats()["counters"]["streams"] == 1


def test_rows_that_a_crash_undoes_are_not_stored(own: Database, tmp_path: Path) -> None:
    """A read waits for the position of a commit that is never flushed. Other commits pass that position."""
    own.execute(
        "CREATE ROLE app LOGIN REPLICATION",
        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO app",
        "CREATE PUBLICATION upquery FOR TABLE stories, votes",
        # A message of the service would flush the commit.
        "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text, boolean) FROM PUBLIC"
        if own.version >= 17
        else "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM PUBLIC",
    )
    url = own.url.replace("postgres@", "app@")
    with running_service(tmp_path / "service", url, VIEWS) as service, ThreadPoolExecutor(1) as reader:
        until(lambda: [own.execute("INSERT INTO votes (story) VALUES (0)"), service.hits("story", id=1)][1])
        ((writer,),) = own.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")
        os.kill(writer, signal.SIGSTOP)
        own.execute("SET synchronous_commit = off; UPDATE stories SET title = 'undone' WHERE id = 2")
        before = service.stats()["counters"]["lookups"]
        answer = reader.submit(service.read, "story", PATIENT, id=2)
        until(lambda: service.stats()["counters"]["lookups"] > before)
        os.kill(writer, signal.SIGKILL)
        until(lambda: resumptions(service) == 1)
        assert own.query("SELECT title FROM stories WHERE id = 2") == [("title 2",)]
        own.execute("SELECT pg_logical_emit_message(true, 'test', repeat('x', 100000))")
        assert answer.result().json()["rows"] == [{"id": 2, "title": "title 2"}]
        until(lambda: [own.execute("INSERT INTO votes (story) VALUES (0)"), service.hits("story", id=2)][1])
        assert service.rows("story", id=2) == [{"id": 2, "title": "title 2"}]


def test_a_dropped_slot_begins_anew(own: Database, tmp_path: Path) -> None:
    with running_service(tmp_path / "service", own.url, VIEWS) as service:
        warm(service)
        with writing(own, synchronous=True):
            own.drop_slots()
            until(lambda: service.stats()["counters"]["streams"] == 2)
        until(lambda: walsender(own))
        warm(service)
        compare(service, own)
        assert "was dropped. The stream begins anew" in service.log.read_text()


def test_tables_that_are_altered_meanwhile(own: Database, tmp_path: Path) -> None:
    """One gets a column, the other one is rewritten with another type."""
    with running_service(tmp_path / "service", own.url, VIEWS) as service:
        warm(service)
        own.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots",
            "ALTER TABLE stories ADD COLUMN score int DEFAULT 7",
            "ALTER TABLE votes ALTER COLUMN story TYPE bigint",
            "UPDATE stories SET title = 'altered' WHERE id = 1",
            "INSERT INTO votes (story) VALUES (1)",
        )
        until(lambda: resumptions(service) == 1)
        until(lambda: service.view("votes")["status"] == "ready" and service.hits("votes", story=1))
        warm(service)
        compare(service, own)
        assert service.stats()["counters"]["streams"] == 1


def test_several_engines_share_the_slot(own: Database, tmp_path: Path) -> None:
    """The stream process resumes, and all engines hear of it."""
    with running_service(tmp_path / "service", own.url, VIEWS, engine={"shards": 2}) as service:
        warm(service)
        with writing(own, synchronous=False) as commits:
            seen = commits()
            until(lambda: commits() > seen + 20)
            kill(own)
            until(lambda: "the change stream continues from the slot" in service.log.read_text())
        until(lambda: walsender(own))
        compare(service, own)
        assert "change stream lost" not in service.log.read_text()
