"""Subscribers of a running service, for tests: many at once, each rebuilding its rows from events."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import psycopg

from load.subscribers import boards
from load.subscribers.rows import LostTrack, SubscriberRows
from load.subscribers.stream import EventSource, StreamEvent
from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.postgres import Database
from tests.fixtures.service import LIMIT_S, RunningService, running_service

BOARDS = 6
#: Each view with the columns of its rows; what it must answer, of one board, the database says.
VIEWS = {
    "board": boards.SQL,
    "first": "SELECT id, rank, text FROM notes WHERE board = :board ORDER BY rank, id LIMIT 5",
    "counted": "SELECT board, COUNT(*) AS notes, SUM(rank) AS ranks FROM notes WHERE board = :board GROUP BY board",
    "refreshed": "SELECT id, rank, row_number() OVER (ORDER BY rank, id) AS place FROM notes WHERE board = :board"
    " ORDER BY rank, id",
    # Its parameters have names that mean something else otherwise.
    "named": "SELECT id, rank FROM notes WHERE board = :after AND rank >= :live ORDER BY rank, id",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A service over the boards."""

    service: RunningService
    database: Database

    def url(self, view: str, path: str = "", **parameters: object) -> str:
        """URL of a view's subscription."""
        return f"{self.service.http}/v1/views/{view}{path}?{urlencode(parameters)}"

    def expected(self, view: str, board: int) -> list[dict[str, Any]]:
        """Return the database's present answer, as JSON has it."""
        with psycopg.connect(self.database.url) as connection, connection.cursor() as cursor:
            cursor.execute(VIEWS[view].replace(":board", "%s").encode(), [board])
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor]


@contextlib.contextmanager
def place_of(server: EmbeddedPostgres, name: str, directory: Path, **sections: Any) -> Iterator[Place]:
    """A database with the boards, and a service over it."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
    database = Database(name, server.database_url(name), server)
    database.execute(boards.SCHEMA)
    boards.load(BOARDS)(database.url)
    with running_service(directory, database.url, VIEWS, cdc={"set_replica_identity": True}, **sections) as service:
        yield Place(service, database)


class Follower:
    """One subscriber. *State*: `events` are all that it has heard; `failure`, what did not fit."""

    def __init__(self, place: Place, view: str, board: int) -> None:
        self.view, self.board = view, board
        self.place = place
        self.rows = SubscriberRows()
        self.events: list[StreamEvent] = []
        self.failure: LostTrack | None = None
        self.source: EventSource | None = None

    async def open(self, *, resume: bool = False, small: bool = False) -> EventSource:
        """Subscribes; `resume`: behind the last event that was heard."""
        last_id = self.source.events.last_id if resume and self.source is not None else ""
        url = self.place.url(self.view, "/subscribe", board=self.board)
        self.rows.over = False
        self.source = await EventSource.open(url, self._hear, last_id, small=small)
        return self.source

    def _hear(self, event: StreamEvent) -> None:
        self.events.append(event)
        try:
            self.rows.hear(event)
        except LostTrack as lost:
            self.failure = self.failure or lost

    def is_right(self) -> bool:
        """Return whether it has what the database has; LostTrack if it never will."""
        if self.failure is not None:
            raise self.failure
        if self.rows.over:
            raise LostTrack(f"the subscription is over: {self.events[-1].data}")
        # Sums of integers are numbers without a point; elsewhere nothing is converted.
        return comparable(self.rows.rows) == comparable(self.place.expected(self.view, self.board))

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


def comparable(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Rows by the text of their values."""
    return [tuple(str(value) for value in row.values()) for row in rows]


async def until(condition: Callable[[], Any], limit_s: float = LIMIT_S, what: str = "") -> None:
    """Returns once it holds, while the streams are read. AssertionError after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what or condition}"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def following(followers: list[Follower]) -> AsyncIterator[None]:
    """All of them subscribed, until the end of the block."""
    try:
        await asyncio.gather(*(follower.open() for follower in followers))
        await until(lambda: all(f.rows.snapshots for f in followers), what="everybody has a snapshot")
        yield
    finally:
        for follower in followers:
            if follower.source is not None:
                follower.source.close()


def make_changes(place: Place, changes: int, seed: int, *, evict: bool = False) -> None:
    """Random changes, with keys forgotten in between; blocks."""
    with psycopg.connect(place.database.url, autocommit=True) as connection:
        changer = boards.Changer(connection, BOARDS, seed)
        for number in range(changes):
            changer.change()
            if evict and number % 10 == 0:
                view = ("board", "first", "counted")[number // 10 % 3]
                body = {"view": view, "keys": [{"board": str(1 + number % BOARDS)}]}
                httpx.post(f"{place.service.admin}/v1/evict", json=body, timeout=LIMIT_S).raise_for_status()


def change_heavy(place: Place, changes: int) -> None:
    """Large changes, some 40 kB each as an event; blocks."""
    with psycopg.connect(place.database.url, autocommit=True) as connection:
        changer = boards.Changer(connection, BOARDS)
        for _ in range(changes):
            changer.change_heavy()


def worker_bytes(place: Place) -> int:
    """Resident memory of the worker's own."""
    assert place.service.process is not None
    found = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if int(lines["PPid"]) == place.service.process.pid:
            found += int(lines.get("RssAnon", "0 kB").split()[0]) << 10
    return found
