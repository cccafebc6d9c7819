"""A table that somebody has locked: it holds who reads it, and nobody else."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {
    "votes": "SELECT id, story FROM votes WHERE story = :story",
    "story": "SELECT id, title FROM stories WHERE id = :id",
    # Run again whenever it is read.
    "drawn": "SELECT id, story, random() AS chance FROM votes WHERE story = :story",
}
READERS = 12
#: How long a miss may wait: those of the locked table do.
TIMEOUT_S = 8.0


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "CREATE TABLE votes (id int PRIMARY KEY, story int NOT NULL)",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 1000) i",
        "INSERT INTO votes SELECT i, i FROM generate_series(1, 1000) i",
    )
    cdc = {"set_replica_identity": True, "schema_check_s": 60}
    options = {"http": {"read_timeout_s": TIMEOUT_S}}
    with running_service(tmp_path, database.url, VIEWS, cdc=cdc, **options) as service:
        until(lambda: service.hits("story", id=1) and service.hits("votes", story=1))
        yield service


def asked(pool: ThreadPoolExecutor, service: RunningService, view: str) -> list["Future[int]"]:
    """Reads of many keys at once: their statuses."""
    numbers = range(100, 100 + READERS)
    return [pool.submit(lambda n=n: service.read(view, story=n).status_code) for n in numbers]  # type: ignore[misc]


@pytest.mark.parametrize("views", [("votes",), ("drawn",), ("votes", "drawn")], ids="+".join)
def test_others_are_answered_meanwhile(service: RunningService, database: Database, views: tuple[str, ...]) -> None:
    with (
        psycopg.connect(database.url) as locking,
        ThreadPoolExecutor(READERS * len(views)) as pool,
    ):
        locking.execute("LOCK TABLE votes")
        waiting = [each for view in views for each in asked(pool, service, view)]
        locks = "SELECT count(*) FROM pg_locks WHERE relation = 'votes'::regclass AND NOT granted"
        until(lambda: database.query(locks)[0][0] >= 2)
        for number in range(1, 41):
            assert service.rows("story", id=number) == [{"id": number, "title": f"title {number}"}]
        # Heartbeats go on.
        assert HTTP.get(f"{service.admin}/readyz").json()["age_ms"] < TIMEOUT_S * 1000
        assert {each.result() for each in waiting} == {504}
        locking.rollback()
        for view in views:
            until(lambda view=view: service.read(view, story=100).status_code == 200)  # type: ignore[misc]


def test_a_table_that_does_not_answer_rests(database: Database, tmp_path: Path) -> None:
    """Its misses are refused at once, and answered again soon after it is unlocked."""
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "CREATE TABLE votes (id int PRIMARY KEY, story int NOT NULL)",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 1000) i",
        "INSERT INTO votes SELECT i, i FROM generate_series(1, 1000) i",
    )
    options = {"upstream": {"statement_timeout_s": 0.5}, "cdc": {"set_replica_identity": True, "schema_check_s": 60}}
    with running_service(tmp_path, database.url, VIEWS, **options) as service, ThreadPoolExecutor(READERS) as pool:
        until(lambda: service.hits("votes", story=1) and service.hits("story", id=1))
        with psycopg.connect(database.url) as locking:
            locking.execute("LOCK TABLE votes")
            assert {each.result() for each in asked(pool, service, "votes")} == {503}
            refused = until(lambda: "is not queried" in (answer := service.read("votes", story=50)).text and answer)
            assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
            assert service.view("votes")["resting_tables"] == ["public.votes"]
            assert service.view("story")["resting_tables"] == []
            assert 'upquery_table_resting{table="public.votes"} 1.0' in service.call("GET", "/metrics").text
            assert service.hits("votes", story=1)
            assert service.rows("story", id=50) == [{"id": 50, "title": "title 50"}]
        until(lambda: service.read("votes", story=50).status_code == 200)
        assert service.view("votes")["resting_tables"] == []
        assert "table responds again" in service.log.read_text()
