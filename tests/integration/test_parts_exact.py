"""Parts of a batch are exact: their answers are the database's at every position that they name.

A writer notes, of each transaction, a position before and one after it and what the tables have then; every part that
was read meanwhile is compared with all the states that were there, for sure, somewhere between `since` and `position`.
"""

import random
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
import psycopg
import pytest

from cdc.postgres.position import parse_lsn
from dataflow.milestones import milestone_before
from service.demo.postgres_server import EmbeddedPostgres
from service.worker.reads.part import PART, PartHead, read_part
from tests.fixtures.postgres import Database, empty_database
from tests.fixtures.service import HTTP, RunningService, running_service, until

pytestmark = pytest.mark.postgres

IDS, AUTHORS = range(1, 31), ["ann", "bob", "cyd", "dan"]
VIEWS = {
    "item": "SELECT id, author, n FROM items WHERE id = :id",
    "of_author": "SELECT id, n FROM items WHERE author = :author ORDER BY n DESC, id",
    "total": "SELECT count(*) AS items, sum(n) AS total FROM items",
}
#: Run again when it may have changed.
RERUN = {"sql": "SELECT id, n FROM items WHERE author = :author ORDER BY id", "tier": "refresh"}
_HEADERS = {PART[0].decode(): PART[1].decode()}
#: By id: author and n.
State = dict[int, tuple[str, int]]


@dataclass
class Writer:
    """Writes until it is left. *State*: of each transaction in `before`, `after` and `states`; the first are those of
    none, the rows as they were."""

    database: Database
    before: list[int] = field(default_factory=list)
    after: list[int] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until(lambda: self.states)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self.failure is None, self.failure

    def _run(self) -> None:
        try:
            with psycopg.connect(self.database.url, autocommit=True) as connection:
                rows = connection.execute("SELECT id, author, n FROM items").fetchall()
                self._note(0, _position(connection), {key: (author, n) for key, author, n in rows})
                draw = random.Random(5)
                while not self._stop.is_set():
                    self._write(connection, draw)
                    # Others get a turn, and there is a while in which nothing changes.
                    self._stop.wait(draw.choice((0.0, 0.005, 0.05)))
        except BaseException as failure:
            self.failure = failure

    def _write(self, connection: psycopg.Connection[Any], draw: random.Random) -> None:
        before, state = _position(connection), dict(self.states[-1])
        with connection.transaction():
            for key in draw.sample(IDS, draw.randint(1, 3)):
                if key not in state:
                    state[key] = (draw.choice(AUTHORS), 0)
                    connection.execute("INSERT INTO items VALUES (%s, %s, %s)", (key, *state[key]))
                elif draw.random() < 0.1:
                    del state[key]
                    connection.execute("DELETE FROM items WHERE id = %s", (key,))
                else:
                    author, n = state[key]
                    state[key] = (draw.choice(AUTHORS) if draw.random() < 0.2 else author, n + 1)
                    connection.execute("UPDATE items SET author = %s, n = %s WHERE id = %s", (*state[key], key))
        self._note(before, _position(connection), state)

    def _note(self, before: int, after: int, state: State) -> None:
        self.before.append(before)
        self.after.append(after)
        self.states.append(state)

    def states_within(self, head: PartHead) -> list[State]:
        """Those that were there, for sure, at some position that a part names."""
        # One is there for sure from `after` it to `before` the next.
        first = bisect_left(self.before, head.since, lo=1) - 1
        last = bisect_right(self.after, head.position)
        return [self.states[n] for n in range(first, last) if self._is_named(n, head)]

    def _is_named(self, n: int, head: PartHead) -> bool:
        """Return whether a part names any position at which this state was there for sure."""
        begin = max(self.after[n], head.since)
        end = min(head.position, self.before[n + 1] if n + 1 < len(self.before) else head.position)
        return end >= begin and (end >= head.one_by_one or milestone_before(end) >= begin)


def _position(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    return parse_lsn(row[0])


def expected(state: State, read: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a read."""
    params, limit = read.get("params", {}), read.get("limit")
    match read["view"]:
        case "item":
            key = params["id"]
            return [{"id": key, "author": state[key][0], "n": state[key][1]}] if key in state else []
        case "of_author":
            own = sorted((-n, key) for key, (author, n) in state.items() if author == params["author"])
            return [{"id": key, "n": -n} for n, key in own[:limit]]
        case "total":
            return [{"items": len(state), "total": sum(n for _, n in state.values())}]
        case _:
            return [{"id": key, "n": n} for key, (author, n) in sorted(state.items()) if author == params["author"]]


@pytest.fixture(scope="module")
def items(postgres_server: EmbeddedPostgres) -> Iterator[Database]:
    with empty_database(postgres_server) as database:
        database.execute(
            "CREATE TABLE items (id int PRIMARY KEY, author text NOT NULL, n int NOT NULL)",
            "ALTER TABLE items REPLICA IDENTITY FULL",
            "INSERT INTO items SELECT i, 'ann', 0 FROM generate_series(1, 30) i",
        )
        yield database


@pytest.fixture(scope="module")
def service(items: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    directory = tmp_path_factory.mktemp("parts")
    with running_service(directory / "service", items.url, VIEWS) as running:
        assert running.call("PUT", "/v1/catalog/views/rerun", json=RERUN).is_success
        until(lambda: all(running.view(name)["status"] == "ready" for name in (*VIEWS, "rerun")))
        yield running


def draw_reads(draw: random.Random) -> list[dict[str, Any]]:
    """Some reads: of one view, mostly."""
    n = draw.randint(1, 6)
    kinds: list[list[dict[str, Any]]] = [
        [{"view": "item", "params": {"id": key}} for key in draw.sample([*IDS, 99], n)],
        [{"view": "of_author", "params": {"author": author}} for author in draw.sample(AUTHORS, min(n, 4))],
        [{"view": "of_author", "params": {"author": draw.choice(AUTHORS)}, "limit": draw.randint(1, 5)}],
        [{"view": "rerun", "params": {"author": draw.choice(AUTHORS)}}],
        [{"view": "total"}],
    ]
    return draw.choice([*kinds, [draw.choice(kind) for kind in kinds]])


def ask(service: RunningService, reads: list[dict[str, Any]], draw: random.Random) -> tuple[PartHead, list[Any]]:
    """A part, by whichever way it can be asked for."""
    (view, *others) = {read["view"] for read in reads}
    if others or any("limit" in read for read in reads) or draw.random() < 0.5:
        answer = HTTP.post(f"{service.http}/v1/read", json={"reads": reads}, headers=_HEADERS)
    else:
        keys = {"keys": [read.get("params", {}) for read in reads]}
        answer = HTTP.post(f"{service.http}/v1/views/{view}/query", json=keys, headers=_HEADERS)
    assert answer.status_code == 200, answer.text
    head, results = read_part(answer.content)
    return head, [orjson.loads(result)["rows"] for result in results]


def test_parts_are_the_databases_at_all_the_positions_they_name(service: RunningService, items: Database) -> None:
    draw, asked = random.Random(11), []
    with Writer(items) as writer:
        for number in range(600):
            reads = draw_reads(draw)
            asked.append((reads, *ask(service, reads, draw)))
            if number % 40 == 39:
                service.call("POST", "/v1/evict", json={"state_bytes": 1 << 40}).raise_for_status()
    seen: Counter[str] = Counter()
    for reads, head, rows in asked:
        assert head.exact
        states = writer.states_within(head)
        for state in states:
            assert rows == [expected(state, read) for read in reads], (reads, head)
        seen["hits" if head.hit else "misses"] += 1
        seen["wide"] += head.since < head.position
        seen["of several states"] += len(states) > 1
        seen["compared"] += bool(states)
    assert all(seen[kind] > 20 for kind in ("hits", "misses", "wide", "of several states")), seen
    assert seen["compared"] > 300, seen
