"""Stories and votes in a PostgreSQL whose connections, processes or server break, and a service over them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, until

KEYS = range(1, 31)
VIEWS = {
    "story": "SELECT id, title FROM stories WHERE id = :id",
    "votes": "SELECT story, count(*) AS votes FROM votes WHERE story = :story GROUP BY story",
}
TABLES = (
    "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
    "CREATE TABLE votes (id serial PRIMARY KEY, story int NOT NULL)",
    "ALTER TABLE stories REPLICA IDENTITY FULL",
    "ALTER TABLE votes REPLICA IDENTITY FULL",
    f"INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, {KEYS[-1]}) i",
    f"INSERT INTO votes (story) SELECT 1 + i % {KEYS[-1]} FROM generate_series(1, 200) i",
)
#: Settings of a server that writes its log to disk only when a commit demands it.
FLUSHES_SELDOM = {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "bgwriter_lru_maxpages": "0"}


@contextmanager
def writing(database: Database, *, synchronous: bool) -> Iterator[Callable[[], int]]:
    """Writes without end, whether the server is there or not; yields a counter of commits."""
    ended, commits = threading.Event(), [0]

    def write() -> None:
        while not ended.is_set():
            try:
                with psycopg.connect(database.url, autocommit=True) as connection:
                    connection.execute(f"SET synchronous_commit = {'on' if synchronous else 'off'}")
                    while not ended.is_set():
                        key = 1 + commits[0] % len(KEYS)
                        connection.execute("UPDATE stories SET title = title || '.' WHERE id = %s", [key])
                        connection.execute("INSERT INTO votes (story) VALUES (%s)", [key])
                        commits[0] += 1
            except psycopg.Error:
                continue

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield lambda: commits[0]
    finally:
        ended.set()
        thread.join()


def warm(service: RunningService) -> None:
    for key in KEYS:
        until(lambda key=key: service.hits("story", id=key) and service.hits("votes", story=key))


def compare(service: RunningService, database: Database) -> None:
    """Every key is a hit, and has the database's rows at a version that has all that is committed."""
    database.execute("INSERT INTO votes (story) VALUES (0)")
    ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": position, "Prefer": "wait=30"}
    titles = dict(database.query("SELECT id, title FROM stories"))
    votes = dict(database.query("SELECT story, count(*) FROM votes GROUP BY story"))
    until(lambda: service.read("story", headers, id=1).status_code == 200)
    for key in KEYS:
        assert service.hits("story", id=key)
        assert service.hits("votes", story=key)
        assert service.read("story", headers, id=key).json()["rows"] == [{"id": key, "title": titles[key]}]
        assert service.read("votes", headers, story=key).json()["rows"] == [{"story": key, "votes": votes[key]}]


def resumptions(service: RunningService) -> int:
    return int(service.stats()["counters"]["streams_resumed"])


def crash(database: Database) -> None:
    database.server.stop("immediate")
    database.server.start()


def restart(database: Database) -> None:
    database.server.stop("fast")
    database.server.start()
