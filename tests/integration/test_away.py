"""The engine, the stream process or the database is away for a while: hits and subscriptions go on, at an age that is
true, up to the bounds of their views.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from load.subscribers.rows import SubscriberRows
from load.subscribers.stream import EventParser
from service.demo.postgres_server import EmbeddedPostgres
from tests.faults.sides import suspended
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.service import HTTP, LIMIT_S, RunningService, alive, process_named, running_service, until

pytestmark = pytest.mark.postgres

STORY = "SELECT id, title FROM stories WHERE id = :id"
#: More than the second that an idle stream may be behind.
BOUND_MS = 3000
#: Views of the same keys, with what they do when answers are too old.
OPTIONS: dict[str, dict[str, Any]] = {
    "story": {},
    "served": {"max_lag_ms": BOUND_MS, "on_lag": "serve"},
    "waiting": {"max_lag_ms": BOUND_MS, "on_lag": "wait"},
    "forwarded": {"max_lag_ms": BOUND_MS, "on_lag": "forward"},
}
KEY = 1
#: How long the answers of views with a bound are watched beyond it.
WATCHED_MS = 1500


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """A server of these tests' own, which goes down."""
    server = start_server()
    yield server
    discard_server(server)


class Writer(threading.Thread):
    """Writes numbers as a story's title, also to a server that comes and goes. *State*: `done_s`, a time at which each
    number had been committed."""

    def __init__(self, database: Database) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._ended = threading.Event()
        self.done_s: dict[int, float] = {0: time.time()}

    def run(self) -> None:
        number = 0
        while not self._ended.wait(0.01):
            with suppress(psycopg.OperationalError), psycopg.connect(self._database.url, autocommit=True) as connection:
                while not self._ended.wait(0.01):
                    number += 1
                    connection.execute("UPDATE stories SET title = %s WHERE id = %s", [str(number), KEY])
                    self.done_s[number] = time.time()

    def stop(self) -> None:
        self._ended.set()
        self.join(LIMIT_S)

    def lag_ms(self, row: dict[str, Any], at_s: float) -> float:
        """How long a row had been replaced by then, at least."""
        return (at_s - self.done_s.get(int(row["title"]) + 1, at_s)) * 1000


class Subscriber(threading.Thread):
    """*State*: `rows`, as the events say; `comments`, how many were received; `over`, that the stream has ended."""

    def __init__(self, service: RunningService) -> None:
        super().__init__(daemon=True)
        self._url = f"{service.http}/v1/views/story/subscribe?id={KEY}"
        self.rows = SubscriberRows()
        self.comments = 0
        self.over = False
        self.start()

    def run(self) -> None:
        parser = EventParser()
        with httpx.stream("GET", self._url, timeout=LIMIT_S) as response:
            for data in response.iter_bytes():
                self.comments += data.startswith(b":")
                for event in parser.feed(data):
                    self.rows.hear(event)
        self.over = True


@dataclass(frozen=True, slots=True)
class Place:
    service: RunningService
    database: Database
    writer: Writer

    def read(self, view: str) -> httpx.Response:
        """An answer, whose age is checked: nothing that it lacks was committed longer ago."""
        asked_s = time.time()
        answer = self.service.read(view, id=KEY)
        if answer.status_code == 200:
            self._check_age(answer, answer.json()["rows"], asked_s)
        return answer

    def batch(self, *views: str) -> httpx.Response:
        reads = [{"view": view, "params": {"id": KEY}} for view in views]
        asked_s = time.time()
        answer = HTTP.post(f"{self.service.http}/v1/read", json={"reads": reads})
        if answer.status_code == 200:
            self._check_age(answer, [row for result in answer.json()["results"] for row in result["rows"]], asked_s)
        return answer

    def _check_age(self, answer: httpx.Response, rows: list[dict[str, Any]], asked_s: float) -> None:
        age_ms = int(answer.headers["upquery-age-ms"])
        # Ages are whole milliseconds.
        assert age_ms + 1 >= max(self.writer.lag_ms(row, asked_s) for row in rows)
        assert int(answer.headers["age"]) == age_ms // 1000

    def hit_ms(self, answer: httpx.Response) -> int:
        """The age of a hit."""
        assert (answer.status_code, answer.headers["cache-status"]) == (200, "upquery; hit")
        return int(answer.headers["upquery-age-ms"])

    def is_followed(self) -> bool:
        """Return whether all views are read from memory, and are new."""
        answers = [self.read(view) for view in OPTIONS]
        hits = all(each.headers.get("cache-status") == "upquery; hit" for each in answers)
        return hits and all(int(each.headers["upquery-age-ms"]) < BOUND_MS for each in answers)


@contextmanager
def place(database: Database, directory: Path, shards: int) -> Iterator[Place]:
    """A service that has the key of all views, beside a writer."""
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)", "INSERT INTO stories VALUES (1, 0)"
    )
    sections = {
        # Whatever was stopped is not ended.
        "engine": {"shards": shards, "watchdog_s": 0},
        "http": {"read_timeout_s": 1},
        "subscriptions": {"keep_alive_s": 0.2, "up_to_date_s": 60},
    }
    with running_service(directory, database.url, **sections) as service:
        for view, options in OPTIONS.items():
            body = {"sql": STORY, **options}
            assert service.call("PUT", f"/v1/catalog/views/{view}", json=body).status_code == 201
        writer = Writer(database)
        writer.start()
        try:
            found = Place(service, database, writer)
            until(found.is_followed)
            yield found
        finally:
            writer.stop()


def killed(name: str) -> Callable[[Place], AbstractContextManager[None]]:
    """A process is gone, and its supervisor does not start another one."""

    @contextmanager
    def away(at: Place) -> Iterator[None]:
        with suspended(at.service.pid):
            pid = process_named(name, at.service.pid)
            os.kill(pid, signal.SIGKILL)
            until(lambda: not alive(pid))
            yield

    return away


@contextmanager
def stopped_engine(at: Place) -> Iterator[None]:
    with suspended(process_named("engine", at.service.pid)):
        yield


@contextmanager
def stopped_database(at: Place) -> Iterator[None]:
    at.database.server.stop("immediate")
    try:
        yield
    finally:
        at.database.server.start()


@dataclass(frozen=True, slots=True)
class Away:
    """`codes`: problems of reads beyond the bound; `database`: whether it answers fallbacks; `continues`: whether
    nothing is lost afterwards."""

    away: Callable[[Place], AbstractContextManager[None]]
    codes: set[str]
    shards: int = 1
    database: bool = False
    continues: bool = False


AWAY = {
    "engine-killed": Away(killed("engine"), {"engine_unavailable"}),
    "engine-stopped": Away(stopped_engine, {"engine_unavailable", "read_timeout"}, continues=True),
    "stream-killed": Away(killed("stream"), {"version_timeout", "upstream_unavailable"}, shards=2, database=True),
    "database-down": Away(stopped_database, {"upstream_unavailable", "read_timeout"}, continues=True),
}


@pytest.mark.parametrize("case", AWAY)
def test_hits_and_subscriptions_go_on(database: Database, tmp_path: Path, case: str) -> None:
    with place(database, tmp_path / "service", AWAY[case].shards) as at:
        subscriber = Subscriber(at.service)
        until(lambda: subscriber.rows.changes)
        with AWAY[case].away(at):
            check_up_to_the_bound(at, AWAY[case])
            before = subscriber.comments
            check_beyond_the_bound(at, AWAY[case])
            until(lambda: subscriber.comments > before + 2)
            assert (subscriber.over, subscriber.rows.over) == (False, False)
        until(at.is_followed)
        at.writer.stop()
        last = [{"id": KEY, "title": str(max(at.writer.done_s))}]
        if AWAY[case].continues:
            until(lambda: subscriber.rows.rows == last)
            assert subscriber.rows.snapshots == 1
        else:
            until(lambda: subscriber.over)
            assert subscriber.rows.over
            again = Subscriber(at.service)
            until(lambda: again.rows.rows == last)


def check_up_to_the_bound(at: Place, case: Away) -> None:
    """All views are hits until the bound, and those where it counts not a moment longer. Ages are of a shard."""
    age_ms, hits = 0, 1
    while age_ms < BOUND_MS or hits:
        answers = [at.read("waiting"), at.read("forwarded")]
        if case.shards == 1:
            answers.append(at.batch(*OPTIONS))
        found = [each for each in answers if each.headers.get("cache-status") == "upquery; hit"]
        # It is looked at when the request arrives.
        assert all(at.hit_ms(each) <= BOUND_MS + 1 + each.elapsed.total_seconds() * 1000 for each in found)
        age_ms, hits = at.hit_ms(at.read("story")), len(found)
        if case.shards == 1:
            assert hits == len(answers) or age_ms >= BOUND_MS


def check_beyond_the_bound(at: Place, case: Away) -> None:
    """Views without a bound that counts are hits; of the others none is too old."""
    while at.hit_ms(at.read("story")) < BOUND_MS + WATCHED_MS:
        at.hit_ms(at.read("served"))
        answers, fallbacks = [at.read("waiting")], [at.read("forwarded")]
        # Of several shards, one answers a batch alone if they have no common version.
        if case.shards == 1:
            at.hit_ms(at.batch("story", "served"))
            answers += [at.batch("story", "waiting"), at.batch("waiting", "forwarded")]
            fallbacks.append(at.batch("story", "forwarded"))
        if case.database:
            for answer in fallbacks:
                assert (answer.status_code, answer.headers["cache-status"]) == (200, "upquery; fwd=stale")
                assert int(answer.headers["upquery-age-ms"]) < BOUND_MS
        else:
            answers += fallbacks
        for answer in answers:
            problem = answer.json()
            assert problem["code"] in case.codes
            assert f"allows {BOUND_MS} (max_lag_ms)" in problem["detail"]
            assert answer.headers["retry-after"]
