"""A service whose stream is lost, or that is killed, fills the keys that were read most before anybody misses them.

It was ready before, and stays so; one that starts is ready when they are filled.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from service.engine.workload.hot_keys import read_list
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, process_named, running_service, until

VIEWS = {
    "story": "SELECT id, title FROM stories WHERE id = :id",
    "newest": "SELECT id, title FROM stories WHERE author = :id ORDER BY id DESC LIMIT 3",
}
KEYS = range(1, 31)
SETTINGS = {"state": {"hot_keys_s": 0.2}, "cdc": {"slot": "temporary"}}
SLOTS = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()"
Break = Callable[[RunningService, Database | MariaDatabase], object]


def kill_the_engine(service: RunningService, _: object) -> None:
    os.kill(service.stats()["pid"], signal.SIGKILL)


def kill_the_service(service: RunningService, _: object) -> None:
    service.stop(signal.SIGKILL)
    service.start()


def lose_the_stream(_: object, database: Database | MariaDatabase) -> None:
    assert isinstance(database, Database)
    with psycopg.connect(database.url, autocommit=True) as connection:
        assert connection.execute(SLOTS).rowcount == 1


@contextmanager
def filled(database: Database | MariaDatabase, directory: Path, shards: int = 1) -> Iterator[RunningService]:
    """A service whose keys have been read and listed."""
    rows = ", ".join(f"({key}, 'title {key}', {key % 10})" for key in KEYS)
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title varchar(40) NOT NULL, author int NOT NULL)",
        f"INSERT INTO stories VALUES {rows}",
    )
    with running_service(directory, database.url, VIEWS, engine={"shards": shards}, **SETTINGS) as service:

        def listed() -> bool:
            for view in VIEWS:
                for key in KEYS:
                    service.hits(view, id=key)
            lists = (directory / "state").glob("hot-keys*")
            return sum(len(read_list(path)) for path in lists) == len(VIEWS) * len(KEYS)

        until(listed)
        yield service


def check(service: RunningService, database: Database | MariaDatabase, break_: Break) -> None:
    """All keys are filled after the break, although nobody reads, and changes are seen."""
    before = service.stats()
    break_(service, database)
    database.execute("UPDATE stories SET title = 'new' WHERE id = 7")

    def back() -> bool:
        if break_ is not kill_the_service:
            assert HTTP.get(f"{service.admin}/readyz").status_code == 200
        reply = service.call("GET", "/v1/stats")
        if reply.status_code != 200:
            return False
        now = reply.json()
        began = now["pid"] != before["pid"] or now["counters"]["streams"] > before["counters"]["streams"]
        return began and sum(view["covered_keys"] for view in now["views"].values()) == len(VIEWS) * len(KEYS)

    until(back)
    assert all(service.hits(view, id=key) for view in VIEWS for key in KEYS)
    until(lambda: service.rows("story", id=7) == [{"id": 7, "title": "new"}])
    assert [row["id"] for row in service.rows("newest", id=7)] == [27, 17, 7]


@pytest.mark.postgres
@pytest.mark.parametrize("break_", [kill_the_engine, kill_the_service, lose_the_stream])
def test_hot_keys_are_filled_over_postgres(database: Database, tmp_path: Path, break_: Break) -> None:
    with filled(database, tmp_path / "service") as service:
        check(service, database, break_)


@pytest.mark.mariadb
@pytest.mark.parametrize("break_", [kill_the_engine, kill_the_service])
def test_hot_keys_are_filled_over_mariadb(mariadb: MariaDatabase, tmp_path: Path, break_: Break) -> None:
    with filled(mariadb, tmp_path / "service") as service:
        check(service, mariadb, break_)


def covered(service: RunningService) -> int:
    return sum(view["covered_keys"] for view in service.stats()["views"].values())


@pytest.mark.postgres
@pytest.mark.parametrize("shards", [1, 2])
def test_a_start_is_ready_when_they_are_filled(database: Database, tmp_path: Path, shards: int) -> None:
    with filled(database, tmp_path / "service", shards) as service:
        assert HTTP.get(f"{service.admin}/readyz").json()["warming_up"] is None
        service.stop(signal.SIGKILL)
        service.start()
        assert covered(service) == len(VIEWS) * len(KEYS)


@pytest.mark.postgres
def test_a_start_is_ready_after_a_while_if_they_cannot_be_filled(database: Database, tmp_path: Path) -> None:
    """An engine that is killed meanwhile changes nothing about that; reads are answered."""
    with filled(database, tmp_path / "service") as service, psycopg.connect(database.url) as connection:
        service.stop(signal.SIGKILL)
        service.config.write_text(service.config.read_text().replace("[state]", "[state]\nwarm_timeout_s = 4"))
        # The change stream waits for the transaction.
        connection.execute("CREATE TABLE other (id int)")
        service.launch()
        first = HTTP.get(f"{service.admin}/readyz")
        assert (first.status_code, first.json()["warming_up"]) == (503, {"keys": 60, "filled": 0})
        assert service.rows("story", id=7) == [{"id": 7, "title": "title 7"}]
        os.kill(process_named("engine", service.pid), signal.SIGKILL)
        until(lambda: not HTTP.get(f"{service.admin}/readyz").json()["engine"])
        assert HTTP.get(f"{service.admin}/readyz").status_code == 503
        until(lambda: HTTP.get(f"{service.admin}/readyz").json()["engine"])
        assert HTTP.get(f"{service.admin}/readyz").status_code == 503
        until(lambda: HTTP.get(f"{service.admin}/readyz").status_code == 200)
        assert "the service is ready although its cache is not warm" in service.log.read_text()
        assert covered(service) == 0
        connection.rollback()
        until(lambda: covered(service) == 60)
