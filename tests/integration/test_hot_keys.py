"""A service whose stream is lost, or that is killed, fills the keys that were read most before anybody misses them."""

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
from tests.fixtures.service import RunningService, running_service, until

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
def filled(database: Database | MariaDatabase, directory: Path) -> Iterator[RunningService]:
    """A service whose keys have been read and listed."""
    rows = ", ".join(f"({key}, 'title {key}', {key % 10})" for key in KEYS)
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title varchar(40) NOT NULL, author int NOT NULL)",
        f"INSERT INTO stories VALUES {rows}",
    )
    with running_service(directory, database.url, VIEWS, **SETTINGS) as service:
        path = directory / "state" / "hot-keys"

        def listed() -> bool:
            for view in VIEWS:
                for key in KEYS:
                    service.hits(view, id=key)
            return len(read_list(path)) == len(VIEWS) * len(KEYS)

        until(listed)
        yield service


def check(service: RunningService, database: Database | MariaDatabase, break_: Break) -> None:
    """All keys are filled after the break, although nobody reads, and changes are seen."""
    before = service.stats()
    break_(service, database)
    database.execute("UPDATE stories SET title = 'new' WHERE id = 7")

    def back() -> bool:
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
