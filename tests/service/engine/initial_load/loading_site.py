"""Much to load, on either database: votes for stories, which writers change so that their sum stays the same."""

import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any

import orjson

from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.types import Position, Row, Snapshot
from service.engine.initial_load.way import OpenedWay, ProgressReport, Way
from service.engine.session.runtime import Runtime
from service.engine.views.registry import Status, ViewOptions
from service.ground.errors import ApiError
from service.protocol.reads import ReadItem

VOTES, STORIES = 30_000, 6_000
SUM = 3 * VOTES
#: All votes with their story's title. (What is kept whole has no parameters.)
JOINED = "SELECT v.id, v.value, s.title FROM votes v JOIN stories s ON s.id = v.story"


@dataclass(frozen=True, slots=True)
class Site:
    """`connect` makes a DB-API connection that does not commit by itself."""

    url: str
    connect: Callable[[], Any]

    def create(self, *extra: str) -> None:
        self.execute(
            "CREATE TABLE stories (id int PRIMARY KEY, title varchar(40) NOT NULL)",
            "CREATE TABLE votes (id int PRIMARY KEY, story int NOT NULL, value int NOT NULL)",
            "CREATE TABLE other (id int PRIMARY KEY, n int NOT NULL)",
            *extra,
        )
        self.many("INSERT INTO stories VALUES (%s, %s)", [(i, f"title {i}") for i in range(STORIES)])
        self.many("INSERT INTO votes VALUES (%s, %s, %s)", [(i, i % STORIES, 3) for i in range(VOTES)])
        self.execute("INSERT INTO other VALUES (1, 10)")

    def execute(self, *statements: str) -> None:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
                connection.commit()

    def many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with closing(self.connect()) as connection:
            connection.cursor().executemany(statement, rows)
            connection.commit()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(sql)
            return sorted(cursor.fetchall())


class Writer(threading.Thread):
    """Moves value from vote to vote, votes from story to story, and titles, until it is stopped."""

    def __init__(self, site: Site, seed: int) -> None:
        super().__init__(daemon=True)
        self._site = site
        self._chance = random.Random(seed)
        self._ended = threading.Event()
        self.commits = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with closing(self._site.connect()) as connection:
                while not self._ended.wait(0.002):
                    self._once(connection)
                    self.commits += 1
        except Exception as failure:
            self.failure = failure

    def _once(self, connection: Any) -> None:
        cursor, chance = connection.cursor(), self._chance
        # In the order of their ids, so that no two wait for each other.
        one, two = sorted(chance.sample(range(VOTES), 2))
        cursor.execute("UPDATE votes SET value = value - 1 WHERE id = %s", (one,))
        cursor.execute("UPDATE votes SET value = value + 1, story = %s WHERE id = %s", (chance.randrange(STORIES), two))
        if chance.random() < 0.2:
            story = chance.randrange(STORIES)
            cursor.execute("UPDATE stories SET title = %s WHERE id = %s", (f"new {chance.random():.6f}", story))
        connection.commit()

    def stop(self) -> None:
        self._ended.set()
        self.join()
        if self.failure is not None:
            raise self.failure


@dataclass(slots=True)
class Gated:
    """A way that gives a first batch, and then waits for `until`."""

    way: Way
    until: Callable[[], Awaitable[Any]]
    opened: int = 0

    @property
    def name(self) -> str:
        return self.way.name

    def takes(self, lookups: Sequence[Lookup], catalog: Catalog, rows: float) -> bool:
        return self.way.takes(lookups, catalog, rows)

    @asynccontextmanager
    async def open(self, lookups: Sequence[Lookup], catalog: Catalog, told: ProgressReport) -> AsyncIterator[OpenedWay]:
        async with self.way.open(lookups, catalog, told) as opened:
            self.opened += 1
            yield _GatedOpened(opened, self.until)


@dataclass(frozen=True, slots=True)
class _GatedOpened:
    opened: OpenedWay
    until: Callable[[], Awaitable[Any]]

    @property
    def snapshot(self) -> Snapshot:
        return self.opened.snapshot

    @property
    def bound(self) -> Position:
        return self.opened.bound

    async def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        async for rows in self.opened.batches(lookup):
            yield rows
            await self.until()


def gate(runtime: Runtime, until: Callable[[], Awaitable[Any]]) -> Gated:
    """From now on loads wait behind their first batches."""
    gated = Gated(runtime.loads.ways[-1], until)
    runtime.loads.ways = (gated,)
    return gated


async def put(runtime: Runtime, name: str, sql: str) -> None:
    await runtime.changes.put(name, sql, ViewOptions(), create_only=False)


def status(runtime: Runtime, name: str) -> Status:
    return runtime.registry.views[name].status


async def read(runtime: Runtime, name: str) -> list[dict[str, Any]]:
    reply = await runtime.read([ReadItem(name, ())])
    rows: list[dict[str, Any]] = orjson.loads(reply.answers[0].rows)
    return rows


async def problem_of(runtime: Runtime, name: str) -> ApiError | None:
    try:
        await read(runtime, name)
    except ApiError as error:
        return error
    return None


async def check_equal(runtime: Runtime, site: Site, name: str = "joined", sql: str = JOINED) -> None:
    """The view has the database's rows, now that nobody writes."""
    await runtime.reach(await runtime.checkpoint())
    found = sorted(tuple(row.values()) for row in await read(runtime, name))
    assert found == site.rows(sql)
