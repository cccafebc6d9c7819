"""Processes that hang: others are answered meanwhile, whoever looks is told, and it is ended and started again."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.sides import suspended
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, alive, process_named, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {"story": "SELECT id, title FROM stories WHERE id = :id"}
#: How long a probe may take here, on a busy machine; it was a minute.
PROBE_S = 10.0


@pytest.fixture(autouse=True)
def _stories(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 1000) i",
    )


@contextmanager
def stopped(service: RunningService, name: str) -> Iterator[int]:
    """One of the processes does not run; its id."""
    pid = process_named(name, service.pid)
    with suspended(pid):
        yield pid


def probed(service: RunningService, path: str) -> tuple[int, str]:
    """Return a probe's answer, which must arrive in time."""
    began = time.monotonic()
    response = HTTP.get(service.admin + path)
    assert time.monotonic() - began < PROBE_S
    return response.status_code, response.text


def test_an_engine_that_hangs(database: Database, tmp_path: Path) -> None:
    with running_service(tmp_path, database.url, VIEWS) as service:
        until(lambda: service.hits("story", id=1))
        with stopped(service, "engine") as pid:
            until(lambda: "engine" in HTTP.get(f"{service.admin}/readyz").json()["silent"])
            assert probed(service, "/livez")[0] == 200
            status, readiness = probed(service, "/readyz")
            assert (status, '"engine":false' in readiness) == (200, True)
            assert 'upquery_process_silent{process="engine"} 1.0' in probed(service, "/metrics")[1]
            assert service.hits("story", id=1)
            # From some seconds on nobody waits for it in vain.
            until(lambda: service.read("story", id=2).json().get("code") == "engine_unavailable")
            until(lambda: not alive(pid))
            assert service.hits("story", id=1) or service.rows("story", id=1)
        until(lambda: service.read("story", id=2).status_code == 200)
        metrics = service.call("GET", "/metrics").text
        assert re.search(r'upquery_process_hangs_total\{process="engine"\} 1\.0', metrics)
        assert "child hangs" in service.log.read_text()


def test_a_worker_that_hangs(database: Database, tmp_path: Path) -> None:
    with running_service(tmp_path, database.url, VIEWS, http={"workers": 1}) as service:
        until(lambda: service.hits("story", id=1))
        with stopped(service, "worker-0") as pid:
            until(lambda: '"worker-0"' in HTTP.get(f"{service.admin}/readyz").text)
            assert probed(service, "/readyz")[0] == 503
            until(lambda: not alive(pid))
        until(lambda: service.hits("story", id=1))
        assert service.view("story")["status"] == "ready"


def test_with_no_watchdog_whatever_stops_may_go_on(database: Database, tmp_path: Path) -> None:
    with running_service(tmp_path, database.url, VIEWS, engine={"watchdog_s": 0}) as service:
        until(lambda: service.hits("story", id=1))
        with stopped(service, "engine") as pid:
            until(lambda: "engine" in HTTP.get(f"{service.admin}/readyz").json()["silent"])
        until(lambda: service.read("story", id=2).status_code == 200)
        assert process_named("engine", service.pid) == pid


def test_a_shard_that_hangs_does_not_hold_the_others(database: Database, tmp_path: Path) -> None:
    """Also if more is written meanwhile than is held for it."""
    database.execute("ALTER TABLE stories ADD body text")
    keys = range(1, 41)
    with running_service(tmp_path, database.url, VIEWS, engine={"shards": 2}) as service:
        for key in keys:
            until(lambda key=key: service.hits("story", id=key))
        with stopped(service, "engine-1") as pid:
            for _ in range(60):
                database.execute("UPDATE stories SET body = repeat(md5(random()::text), 50)")
            database.execute("UPDATE stories SET title = 'new'")
            ((token,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
            headers = {"Upquery-Min-Version": str(token), "Prefer": "wait=1"}
            # Those of the other shard.
            until(lambda: any(service.read("story", headers, id=key).status_code == 200 for key in keys))
            until(lambda: not alive(pid))
        for key in keys:
            until(lambda key=key: service.read("story", headers, id=key).status_code == 200)
            assert service.rows("story", id=key) == [{"id": key, "title": "new"}]
        assert service.stats()["counters"]["streams_lost"] == 0
