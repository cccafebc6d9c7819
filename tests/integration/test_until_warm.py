"""An engine that is killed, or whose stream is lost: no read of a hot key misses; ages and minimum versions hold."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from service.engine.workload.hot_keys import read_list
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, process_named, running_service, until
from tests.integration.test_away import KEY, STORY, Writer

pytestmark = pytest.mark.postgres

VIEWS = {
    "story": STORY,
    "of_author": "SELECT id, title FROM stories WHERE author = :author ORDER BY id DESC LIMIT 3",
    "authors": "SELECT author, count(*) AS stories FROM stories GROUP BY author ORDER BY author",
}
#: So many that filling them takes a while.
KEYS, AUTHORS = range(1, 4001), range(50)
SLOTS = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()"
STALE = "upquery; hit; detail=stale"


def kill(name: str, service: RunningService) -> None:
    os.kill(process_named(name, service.pid), signal.SIGKILL)


def lose_the_stream(database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        assert connection.execute(SLOTS).rowcount == 1


@contextmanager
def warm(database: Database, directory: Path, shards: int) -> Iterator[RunningService]:
    """A service whose keys have been read and listed."""
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL, author int NOT NULL)",
        f"INSERT INTO stories SELECT i, 0, i % {len(AUTHORS)} FROM generate_series(1, {len(KEYS)}) i",
    )
    sections = {"state": {"hot_keys_s": 0.2}, "cdc": {"slot": "temporary"}, "engine": {"shards": shards}}
    with running_service(directory, database.url, VIEWS, **sections) as service:

        def fill(view: str, reads: list[dict[str, int]]) -> None:
            for start in range(0, len(reads), 200):
                body = {"reads": [{"view": view, "params": each} for each in reads[start : start + 200]]}
                assert HTTP.post(f"{service.http}/v1/read", json=body).status_code == 200

        fill("story", [{"id": key} for key in KEYS])
        fill("of_author", [{"author": author} for author in AUTHORS])

        def listed() -> bool:
            # In all shards: without reads there is no new list.
            assert all(service.hits("story", id=key) for key in KEYS[:10])
            lists = (directory / "state").glob("hot-keys*")
            return sum(len(read_list(path)) for path in lists) == len(KEYS) + len(AUTHORS)

        until(listed)
        until(lambda: service.hits("authors"))
        yield service


def is_back(service: RunningService, streams: int) -> bool:
    """Return whether the next session has filled all keys, and deleted what was set aside."""
    return service.log.read_text().count("the answers of the session before are deleted") > streams


@pytest.mark.parametrize(("killed", "shards"), [("engine", 1), ("engine-1", 2), (None, 1)])
def test_no_read_of_a_hot_key_misses(database: Database, tmp_path: Path, killed: str | None, shards: int) -> None:
    """`killed`: the process; None: the stream is lost."""
    with warm(database, tmp_path / "service", shards) as service:
        writer = Writer(database)
        writer.start()
        chosen, seen = random.Random(7), Counter[str]()
        if killed is None:
            lose_the_stream(database)
        else:
            kill(killed, service)
        while not is_back(service, 0):
            reads = [("story", {"id": KEY}), ("story", {"id": chosen.choice(KEYS)})]
            reads += [("of_author", {"author": chosen.choice(AUTHORS)}), ("authors", {})]
            for view, params in reads:
                # Before it is asked: a commit after that need not be in the answer.
                done, asked_s = dict(writer.done_s), time.time()
                answer = service.read(view, **params)
                assert answer.status_code == 200, answer.text
                status = answer.headers["cache-status"]
                assert status in ("upquery; hit", STALE), (view, params, answer.text)
                seen[status] += 1
                if params == {"id": KEY}:
                    (row,) = answer.json()["rows"]
                    replaced_s = done.get(int(row["title"]) + 1, asked_s)
                    assert int(answer.headers["upquery-age-ms"]) + 1 >= (asked_s - replaced_s) * 1000
        writer.stop()
        assert seen[STALE] > 0
        last = str(max(writer.done_s))
        until(lambda: service.rows("story", id=KEY) == [{"id": KEY, "title": last}])


def test_a_minimum_version_is_never_answered_as_before(database: Database, tmp_path: Path) -> None:
    with warm(database, tmp_path / "service", 1) as service:
        kill("engine", service)
        titles = 0
        while not is_back(service, 0):
            titles += 1
            database.execute(f"UPDATE stories SET title = '{titles}' WHERE id = {KEY}")
            version = database.query("SELECT pg_current_wal_insert_lsn()")[0][0]
            url = f"{service.http}/v1/views/story?id={KEY}"
            answer = HTTP.get(url, headers={"Upquery-Min-Version": str(version)})
            if answer.status_code == 200:
                assert answer.json()["rows"][0]["title"] == str(titles)
            else:
                # The engine is not back.
                assert answer.json()["code"] in ("engine_unavailable", "version_timeout")
        assert titles > 1
