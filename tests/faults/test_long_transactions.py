"""A transaction that is left open while the engine is started again: the stream begins behind it, and hits go on."""

import os
import signal
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, alive, process_named, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {"story": "SELECT id, title FROM stories WHERE id = :id"}


@pytest.fixture(autouse=True)
def _stories(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text)",
        "CREATE TABLE other (id int)",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 9) i",
    )


def test_who_can_answer_is_ready_and_the_log_says_who_is_waited_for(database: Database, tmp_path: Path) -> None:
    with running_service(tmp_path, database.url, VIEWS, cdc={"set_replica_identity": True}) as service:
        until(lambda: service.hits("story", id=1))
        with psycopg.connect(database.url) as forgotten:
            forgotten.execute("INSERT INTO other VALUES (1)")
            pid = process_named("engine", service.pid)
            os.kill(pid, signal.SIGKILL)
            until(lambda: not alive(pid))
            until(lambda: HTTP.get(f"{service.admin}/readyz").json()["engine"])
            readiness = HTTP.get(f"{service.admin}/readyz")
            assert (readiness.status_code, readiness.json()["streaming"]) == (200, False)
            assert service.hits("story", id=1)
            database.execute("UPDATE stories SET title = 'new' WHERE id = 2")
            until(lambda: service.read("story", id=9).status_code == 200)
            answers_past_the_store(service, {2: "new", 3: "title 3"})
            backend = forgotten.info.backend_pid
            until(lambda: f"pg_terminate_backend({backend})" in service.log.read_text())
            held_up = HTTP.get(f"{service.admin}/readyz").json()["held_up"]
            assert "last statement: INSERT INTO other VALUES (1)" in held_up
            assert f"pg_terminate_backend({backend})" in held_up
            assert service.hits("story", id=1)
            forgotten.rollback()
        until(lambda: HTTP.get(f"{service.admin}/readyz").json()["held_up"] is None)
        until(lambda: service.hits("story", id=2))
        assert service.rows("story", id=2) == [{"id": 2, "title": "new"}]


def answers_past_the_store(service: RunningService, titles: dict[int, str]) -> None:
    """Expect the committed rows, without a version."""
    for number, title in titles.items():
        answer = service.read("story", id=number)
        assert (answer.status_code, answer.json()["rows"]) == (200, [{"id": number, "title": title}])
        assert (answer.json()["version"], answer.headers["cache-status"]) == (None, "upquery; fwd=stale")


def test_a_service_starts_beside_an_open_transaction(database: Database, tmp_path: Path) -> None:
    """All of its views are known, also the one that cannot be planned; what cannot start later ends the engine."""
    views = VIEWS | {"broken": "SELECT id FROM nowhere WHERE id = :id"}
    with psycopg.connect(database.url) as forgotten:
        forgotten.execute("INSERT INTO other VALUES (1)")
        with running_service(tmp_path, database.url, views, cdc={"set_replica_identity": True}) as service:
            answers_past_the_store(service, {4: "title 4", 5: "title 5"})
            assert service.read("broken", id=1).json()["code"] == "view_broken"
            assert service.read("story_", id=1).status_code == 404
            assert HTTP.get(f"{service.admin}/readyz").json()["streaming"] is False
            assert HTTP.get(f"{service.admin}/readyz?strict=1").status_code == 503
            database.execute("UPDATE stories SET title = 'new' WHERE id = 4")
            answers_past_the_store(service, {4: "new"})
            forgotten.rollback()
            until(lambda: service.hits("story", id=4))
            assert service.rows("story", id=4) == [{"id": 4, "title": "new"}]
            assert service.view("story")["status"] == "ready"


def test_while_the_stream_cannot_begin_the_database_answers_what_is_not_stored(
    database: Database, tmp_path: Path
) -> None:
    """Such an answer shows everything committed since, and has no version."""
    cdc = {"set_replica_identity": True, "slot": "temporary"}
    with running_service(tmp_path, database.url, VIEWS, cdc=cdc) as service:
        until(lambda: service.hits("story", id=1))
        with psycopg.connect(database.url) as forgotten:
            forgotten.execute("INSERT INTO other VALUES (1)")
            database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
            until(lambda: "change stream lost" in service.log.read_text())
            database.execute("UPDATE stories SET title = 'new' WHERE id = 2")
            before = service.stats()["counters"]["reads_forwarded"]
            answers_past_the_store(service, {2: "new"} | {number: f"title {number}" for number in range(3, 10)})
            assert service.hits("story", id=1)
            assert HTTP.get(f"{service.admin}/readyz").json()["streaming"] is False
            assert service.stats()["counters"]["reads_forwarded"] == before + 8
            forgotten.rollback()
        until(lambda: service.hits("story", id=2))
        assert service.rows("story", id=2) == [{"id": 2, "title": "new"}]
