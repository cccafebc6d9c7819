"""An audit of a running service: nothing differs under writes, and what was made wrong on purpose is found."""

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import psycopg
import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, until, upquery

LIMIT_S = 120.0
#: Of a writer, behind each of its transactions.
PAUSE_S = 0.005
STORIES = 300
VIEWS = {
    "story": "SELECT s.id, s.title, COUNT(v.id) AS votes FROM stories s LEFT JOIN votes v ON v.story = s.id"
    " WHERE s.id = :id GROUP BY s.id, s.title",
    "newest": "SELECT id, title FROM stories WHERE author = :author ORDER BY id DESC LIMIT 3",
    "pages": "SELECT id, story FROM votes WHERE story = :story ORDER BY id LIMIT :n",
    "some": "SELECT id, title FROM stories WHERE id IN (:ids)",
    "counts": "SELECT author, COUNT(*) AS n FROM stories GROUP BY author",
}
#: Kept whole, whatever is read.
WHOLE = "SELECT id, title FROM stories WHERE author = :author"
TABLES = (
    "CREATE TABLE stories (id int PRIMARY KEY, author int NOT NULL, title varchar(100) NOT NULL)",
    "CREATE TABLE votes (id int PRIMARY KEY, story int NOT NULL)",
    "CREATE INDEX votes_story ON votes (story)",
)


def read_all(service: RunningService) -> None:
    """Keys of all views, and a view that is kept whole."""
    service.call("PUT", "/v1/catalog/views/whole", json={"sql": WHOLE, "materialization": "full"}).raise_for_status()
    for n in range(1, 60):
        service.rows("story", id=n)
        service.rows("newest", author=n % 20)
        service.rows("pages", story=n, n=n % 4 + 1)
        service.rows("some", ids=[n, n + 1])
    until(lambda: service.view("counts")["status"] == service.view("whole")["status"] == "ready", LIMIT_S)


def write_one(execute: Callable[[str], Any], n: int) -> None:
    """Each of these touches keys that are cached."""
    story = n % 50 + 1
    execute(f"UPDATE stories SET title = 'was written {n}', author = {n % 20} WHERE id = {story}")
    execute(f"INSERT INTO votes VALUES ({10_000 + n}, {story})")
    if n % 3 == 0:
        execute(f"DELETE FROM votes WHERE id = {10_000 + n - 3}")


@contextmanager
def writing(connections: list[Callable[[str], Any]]) -> Iterator[None]:
    """Writers for the length of a block: not faster than the engine follows, whose lag an audit would wait for."""
    stop = threading.Event()
    numbers = itertools.count(1)
    lock = threading.Lock()

    def write(execute: Callable[[str], Any]) -> None:
        while not stop.wait(PAUSE_S):
            with lock:
                n = next(numbers)
            write_one(execute, n)

    threads = [threading.Thread(target=write, args=(execute,)) for execute in connections]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(LIMIT_S)


def audited(service: RunningService, **wanted: Any) -> dict[str, Any]:
    """The result of an audit."""
    started = service.call("POST", "/v1/audit", json=wanted)
    assert started.status_code == 202, started.text
    found: dict[str, Any] = until(lambda: finished_audit(service), LIMIT_S)
    assert found["status"] == "done", f"{found}\n{service.log.read_text()}"
    return found


def finished_audit(service: RunningService) -> dict[str, Any] | None:
    """The audit, once it does not run any more."""
    found: dict[str, Any] = service.call("GET", "/v1/audit").json()
    return None if found["status"] == "running" else found


def by_view(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {view["view"]: view for view in found["views"]}


def tamper(service: RunningService, old: bytes, new: bytes) -> int:
    """Writes into the leaf store behind the engine's back; how many records that changed."""
    assert len(old) == len(new)
    (data,) = Path(service.run).rglob("data.mdb")
    store = lmdb.open(str(data.parent), map_size=1 << 30, sync=False, metasync=False, writemap=True)
    changed = 0
    with store.begin(write=True) as txn:
        for key, value in list(txn.cursor()):
            if key[:1] == b"v" and old in value:
                txn.put(key, value.replace(old, new))
                changed += 1
    store.close()
    return changed


@pytest.fixture(scope="module")
def service(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    module_database.execute(
        *TABLES,
        f"INSERT INTO stories SELECT i, i % 20, 'story ' || i FROM generate_series(1, {STORIES}) i",
        f"INSERT INTO votes SELECT i, i % {STORIES} + 1 FROM generate_series(1, 900) i",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "ALTER TABLE votes REPLICA IDENTITY FULL",
    )
    views = {**VIEWS, "lucky": "SELECT random() AS r, id FROM stories WHERE id = :id"}
    with running_service(tmp_path_factory.mktemp("audit"), module_database.url, views) as running:
        read_all(running)
        running.rows("lucky", id=1)
        yield running


@pytest.mark.postgres
def test_nothing_differs_under_writes(service: RunningService, module_database: Database) -> None:
    connections = [psycopg.connect(module_database.url, autocommit=True) for _ in range(3)]
    with writing([connection.execute for connection in connections]):
        found = audited(service)
        again = audited(service, views=["story", "counts"], sample=7)
    for connection in connections:
        connection.close()
    assert found["differences"] == [], found
    views = by_view(found)
    assert views["lucky"]["skipped"] == {"its answers expire": 0}
    assert {name: view["skipped"] for name, view in views.items() if view["skipped"]}.keys() == {"lucky"}
    assert {name: view["compared"] for name, view in views.items() if name in ("story", "newest", "some")} == {
        "story": 59,
        "newest": 20,
        "some": 60,
    }
    assert views["counts"]["compared"] == 1
    assert views["whole"]["compared"] == 20
    assert again["differences"] == []
    assert by_view(again)["story"] == {
        "view": "story",
        "tier": "incremental",
        "keys": 59,
        "compared": 7,
        "differences": 0,
        "skipped": {"not in the sample": 52},
    }


@pytest.mark.postgres
def test_what_is_wrong_is_found(service: RunningService) -> None:
    assert tamper(service, b'"story 57"', b'"story 75"') >= 2
    done = upquery("audit", "--admin", service.admin, "--json", "--view", "story", "--view", "some")
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert sorted((d["view"], d["key"]) for d in found["differences"]) == [("some", ["57"]), ("story", ["57"])]
    (story,) = [d for d in found["differences"] if d["view"] == "story"]
    assert "story 57" in story["missing"][0]
    assert "story 75" in story["extra"][0]
    said = upquery("audit", "--admin", service.admin, "--view", "story")
    assert said.returncode == 1
    assert "story 75" in said.stdout
    service.call("POST", "/v1/evict", json={"view": "story"}).raise_for_status()
    assert audited(service, views=["story"])["differences"] == []


@pytest.mark.postgres
def test_what_cannot_be_audited_is_refused(service: RunningService) -> None:
    assert service.call("POST", "/v1/audit", json={"views": ["nothing"]}).status_code == 404
    assert service.call("POST", "/v1/audit", json={"way": "sideways"}).status_code == 422
    done = upquery("audit", "--admin", service.admin, "--sample", "0")
    assert done.returncode == 2


@pytest.mark.mariadb
def test_mariadb(mariadb: MariaDatabase, tmp_path: Path) -> None:
    mariadb.execute(
        *TABLES,
        f"INSERT INTO stories SELECT seq, seq % 20, CONCAT('story ', seq) FROM seq_1_to_{STORIES}",
        f"INSERT INTO votes SELECT seq, seq % {STORIES} + 1 FROM seq_1_to_900",
    )
    with running_service(tmp_path, mariadb.url, VIEWS) as running:
        read_all(running)
        with writing([mariadb.execute]):
            found = audited(running)
        assert found["differences"] == [], found
        assert by_view(found)["story"]["compared"] == 59
        assert tamper(running, b'"story 57"', b'"story 75"') >= 2
        assert [d["key"] for d in audited(running, views=["story"])["differences"]] == [["57"]]
        # Its snapshots belong to one connection.
        running.call("POST", "/v1/audit", json={"way": "spark"}).raise_for_status()
        found = until(lambda: finished_audit(running), LIMIT_S)
        assert found["status"] == "failed"
        assert "MariaDB" in found["reason"]
