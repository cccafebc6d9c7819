"""A transaction that is left open while the engine is started again: the stream begins behind it, and hits go on."""

import os
import signal
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, alive, process_named, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {"story": "SELECT id, title FROM stories WHERE id = :id"}


def test_who_can_answer_is_ready_and_the_log_says_who_is_waited_for(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text)", "CREATE TABLE other (id int)",
        "INSERT INTO stories VALUES (1, 'one'), (2, 'two')",
    )  # fmt: skip
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
            backend = forgotten.info.backend_pid
            until(lambda: f"pg_terminate_backend({backend})" in service.log.read_text())
            forgotten.rollback()
        until(lambda: service.read("story", id=2).status_code == 200)
