"""Failures around a running service: it serves nothing wrong, and stays up."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, alive, processes_of, running_service, until

pytestmark = pytest.mark.postgres

STORY = "SELECT id, title FROM stories WHERE id = :id"
SLOTS = "SELECT slot_name, active, temporary FROM pg_replication_slots WHERE database = current_database()"
NOTE = "SELECT id, body FROM notes WHERE id = :id"


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL, unused text)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 30) i",
        "CREATE TABLE notes (id int PRIMARY KEY, body text)",
        "ALTER TABLE notes REPLICA IDENTITY FULL",
        "INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 30) i",
    )
    with running_service(tmp_path / "service", database.url, {"story": STORY, "note": NOTE}) as running:
        yield running


def current(service: RunningService, database: Database, view: str, **parameters: object) -> list[dict[str, object]]:
    """The rows at a version that has all that is committed now; asked again while the stream is away."""
    ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": position, "Prefer": "wait=5"}

    def answer() -> list[dict[str, object]] | None:
        response = service.read(view, headers=headers, **parameters)
        assert response.status_code in (200, 503, 504), response.text
        return response.json()["rows"] if response.status_code == 200 else None

    (rows,) = until(lambda: None if (found := answer()) is None else (found,))
    assert isinstance(rows, list)
    return rows


def kill_backends(database: Database, where: str) -> int:
    """Ends the service's connections; how many."""
    killed = database.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND {where}"
    )
    return len(killed)


def test_the_stream_is_killed(service: RunningService, database: Database) -> None:
    assert service.rows("story", id=7) == [{"id": 7, "title": "title 7"}]
    assert kill_backends(database, "backend_type = 'walsender'") == 1
    database.execute("UPDATE stories SET title = 'written meanwhile' WHERE id = 7")
    assert current(service, database, "story", id=7) == [{"id": 7, "title": "written meanwhile"}]
    counters = service.stats()["counters"]
    assert (counters["streams"], counters["streams_lost"], counters["streams_resumed"]) == (1, 0, 1)
    slots = database.query("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
    assert slots == [(1,)]


def test_the_stream_of_a_temporary_slot_is_killed(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories VALUES (7, 'title 7')",
    )
    with running_service(tmp_path / "s", database.url, {"story": STORY}, cdc={"slot": "temporary"}) as service:
        assert service.rows("story", id=7) == [{"id": 7, "title": "title 7"}]
        assert kill_backends(database, "backend_type = 'walsender'") == 1
        database.execute("UPDATE stories SET title = 'written meanwhile' WHERE id = 7")
        assert current(service, database, "story", id=7) == [{"id": 7, "title": "written meanwhile"}]
        until(lambda: service.stats()["counters"]["streams"] == 2)
        assert service.stats()["counters"]["streams_lost"] == 1


def test_lookup_connections_are_killed(service: RunningService, database: Database) -> None:
    service.rows("story", id=1)
    assert kill_backends(database, "backend_type = 'client backend'") >= 1
    database.execute("UPDATE stories SET title = 'new' WHERE id = 2")
    assert current(service, database, "story", id=2) == [{"id": 2, "title": "new"}]
    assert current(service, database, "story", id=1) == [{"id": 1, "title": "title 1"}]


def test_a_dropped_table_breaks_its_views_only(service: RunningService, database: Database) -> None:
    service.rows("story", id=1)
    service.rows("note", id=1)
    database.execute("DROP TABLE notes")
    until(lambda: service.view("note")["status"] == "broken")
    gone = service.read("note", id=1)
    assert gone.status_code == 503
    assert gone.json()["code"] == "view_broken"
    assert "notes" in gone.json()["detail"]
    assert "hit" in service.read("story", id=1).headers["cache-status"]
    assert service.ready()
    database.execute("UPDATE stories SET title = 'new' WHERE id = 1")
    assert current(service, database, "story", id=1) == [{"id": 1, "title": "new"}]


def test_a_table_that_comes_back_mends_its_views(service: RunningService, database: Database) -> None:
    service.rows("note", id=1)
    database.execute("DROP TABLE notes")
    until(lambda: service.view("note")["status"] == "broken")
    database.execute(
        "CREATE TABLE notes (id int PRIMARY KEY, body text)",
        "ALTER TABLE notes REPLICA IDENTITY FULL",
        "INSERT INTO notes VALUES (1, 'another')",
    )
    until(lambda: service.view("note")["status"] == "ready")
    assert current(service, database, "note", id=1) == [{"id": 1, "body": "another"}]
    database.execute("UPDATE notes SET body = 'newer' WHERE id = 1")
    assert current(service, database, "note", id=1) == [{"id": 1, "body": "newer"}]


def test_an_unused_column_may_change(service: RunningService, database: Database) -> None:
    service.rows("story", id=1)
    database.execute("ALTER TABLE stories DROP COLUMN unused", "UPDATE stories SET title = 'new' WHERE id = 1")
    assert current(service, database, "story", id=1) == [{"id": 1, "title": "new"}]
    database.execute(
        "ALTER TABLE stories ADD COLUMN score int", "UPDATE stories SET score = 5, title = 'x' WHERE id = 1"
    )
    assert current(service, database, "story", id=1) == [{"id": 1, "title": "x"}]
    assert service.put("score", "SELECT id, score FROM stories WHERE id = :id").status_code == 201
    assert current(service, database, "score", id=1) == [{"id": 1, "score": 5}]
    database.execute("UPDATE stories SET score = 6 WHERE id = 1")
    assert current(service, database, "score", id=1) == [{"id": 1, "score": 6}]
    assert current(service, database, "story", id=1) == [{"id": 1, "title": "x"}]


def test_a_used_column_goes(service: RunningService, database: Database) -> None:
    service.rows("note", id=1)
    database.execute("ALTER TABLE notes RENAME COLUMN body TO words", "UPDATE notes SET words = 'x' WHERE id = 1")
    until(lambda: service.view("note")["status"] == "broken")
    assert "body" in service.view("note")["reason"]
    assert service.rows("story", id=1) == [{"id": 1, "title": "title 1"}]


def test_the_engine_process_is_killed(service: RunningService, database: Database) -> None:
    assert service.rows("story", id=7) == [{"id": 7, "title": "title 7"}]
    before = database.query(SLOTS)
    os.kill(service.stats()["pid"], signal.SIGKILL)
    assert "hit" in service.read("story", id=7).headers["cache-status"]
    database.execute("UPDATE stories SET title = 'new' WHERE id = 7")
    assert current(service, database, "story", id=7) == [{"id": 7, "title": "new"}]
    metrics = service.call("GET", "/metrics").text
    assert 'upquery_process_restarts_total{process="engine"} 1.0' in metrics
    # The killed process has left its slot, which the new one replaces.
    assert database.query(SLOTS) == before
    assert service.stop() == 0
    assert database.query(SLOTS) == []


def test_the_log_has_the_stacks_of_all_processes(service: RunningService) -> None:
    running = len(processes_of(service.pid)) + 1
    assert service.stacks().count("Current thread") == running
    assert service.ready()


def test_nothing_is_left_after_a_stop(service: RunningService) -> None:
    children = processes_of(service.pid)
    assert len(children) == 2
    assert service.stop() == 0
    assert not any(map(alive, children))
    assert list(service.run.iterdir()) == []


def test_nothing_is_left_after_a_kill(service: RunningService, database: Database) -> None:
    children = processes_of(service.pid)
    service.stop(signal.SIGKILL)
    until(lambda: not any(map(alive, children)))
    assert list(service.run.iterdir()) == []
    until(lambda: database.query(SLOTS) == [])


def test_interrupt_stops_all(service: RunningService) -> None:
    children = processes_of(service.pid)
    assert service.stop(signal.SIGINT) == 0
    assert not any(map(alive, children))


def test_a_large_transaction_evicts_and_goes_on(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 500) i",
    )
    with running_service(tmp_path / "s", database.url, {"story": STORY}, cdc={"transaction_rows": 100}) as service:
        service.rows("story", id=7)
        database.execute("UPDATE stories SET title = 'all at once'")
        assert current(service, database, "story", id=7) == [{"id": 7, "title": "all at once"}]
        with psycopg.connect(database.url, autocommit=True) as connection:
            connection.execute("TRUNCATE stories")
        assert current(service, database, "story", id=7) == []
