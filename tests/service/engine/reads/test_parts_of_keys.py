"""Ranges, pages, lists and LIMIT on a real PostgreSQL: what is asked is fetched, not the key, and it stays right."""

import asyncio
import json
import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import psycopg
import pytest

from dataflow.engine.limits import Limits as EngineLimits
from service.engine.session import session
from service.engine.session.runtime import Runtime
from service.engine.views.registry import Status
from service.leaf_store.reader import LeafReader
from service.protocol.engine_client import EngineClient
from service.protocol.reads import ReadItem, ReadReply, StoredReply
from service.settings.sections import HttpSettings
from service.worker.reads.reads import Reads, WantedRead
from tests.fixtures.postgres import Database
from tests.fixtures.seeds import day_seed
from tests.service.engine.running import running as running_runtime
from tests.service.engine.running import until

pytestmark = pytest.mark.postgres

VIEWS = {
    "page": "SELECT id, score FROM posts WHERE author = :a ORDER BY score DESC, id",
    "front": "SELECT id, score, author FROM posts ORDER BY score DESC NULLS LAST, id LIMIT 25",
    "second": "SELECT id FROM posts WHERE author = :a ORDER BY score, id LIMIT 10 OFFSET 10",
    "between": "SELECT id, score FROM posts WHERE author = :a AND score >= :lo AND score < :hi ORDER BY score, id",
    "titled": "SELECT title, score FROM posts WHERE author = :a AND score > :lo ORDER BY title, id DESC LIMIT 5",
    "several": "SELECT id, author FROM posts WHERE author = ANY(:as) ORDER BY id DESC LIMIT 7",
    "sized": "SELECT id, score FROM posts WHERE author = :a ORDER BY score NULLS FIRST, id LIMIT :n OFFSET :m",
    "since": "SELECT id, title FROM posts WHERE id > :lo ORDER BY id LIMIT 10",
    "pairs": "SELECT id, author, score FROM posts WHERE author = ANY(:as) AND score = ANY(:ss) ORDER BY id",
    "texts": "SELECT id, title FROM posts WHERE author = :a AND title >= :t ORDER BY title DESC, id LIMIT :n",
    "joined": "SELECT p.id, q.id AS other FROM posts p JOIN posts q ON q.score = p.score AND q.author = 'bob' "
    "WHERE p.author = :a AND p.id > :lo ORDER BY p.id, q.id LIMIT 9",
    "counted": "SELECT score, COUNT(*) AS n FROM posts WHERE score BETWEEN :lo AND :hi GROUP BY score ORDER BY score",
}
AUTHORS = ("ann", "bob", "cyd")


class Here:
    """An engine client in the engine's process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def fill(self, items: list[ReadItem], timeout_s: float) -> ReadReply | StoredReply:
        async with asyncio.timeout(timeout_s):
            return await self._runtime.fill(items)

    async def read(self, items: list[ReadItem], timeout_s: float) -> ReadReply:
        async with asyncio.timeout(timeout_s):
            return await self._runtime.read(items)


class Worker:
    """Reads as a worker does, with what each costs."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._reads = Reads(runtime.leaf.reader, cast(EngineClient, Here(runtime)), HttpSettings(read_timeout_s=20.0))

    async def read(self, name: str, query: str) -> tuple[list[dict[str, Any]], str | None, int]:
        """Rows, next page, and how many rows were looked up for it."""
        before = self.runtime.counters.lookup_rows
        route = self._reads.route(name, None)
        values, window = route.arguments.parse(query.encode())
        answer = (await self._reads.read([WantedRead(route, values, window)])).answers[0]
        return json.loads(answer.rows), answer.next, self.runtime.counters.lookup_rows - before

    async def caught_up(self) -> None:
        await self.runtime.reach(await self.runtime.checkpoint())


@asynccontextmanager
async def running(database: Database, directory: Path, names: Sequence[str] = tuple(VIEWS)) -> AsyncIterator[Worker]:
    async with running_runtime(database, directory, views={name: VIEWS[name] for name in names}) as runtime:
        worker = Worker(runtime)
        await worker.caught_up()
        # A view that is fully materialized is not answered before it is loaded.
        await until(lambda: all(view.status is Status.READY for view in runtime.registry.views.values()))
        yield worker


def fill(database: Database, rows: int) -> None:
    database.execute(
        'CREATE TABLE posts (id int PRIMARY KEY, author text COLLATE "C", title text COLLATE "C", score int)',
        "ALTER TABLE posts REPLICA IDENTITY FULL",
        "INSERT INTO posts SELECT i, (ARRAY['ann','bob','cyd'])[1 + i % 3], 'title ' || i % 7, "
        f"nullif((i * 7919) % 501, 13) FROM generate_series(1, {rows}) i",
        "CREATE INDEX ON posts (author, score DESC, id)",
    )


def test_whole_keys_are_answered_without_their_rows(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine process need not find that all rows of a covered key are stored; the worker reads them."""
    fill(database, 3_000)
    of_authors = ("ann", "bob")
    items = [
        ReadItem("all", ("ann",)),
        ReadItem("scored", ("ann", ("3", "6"))),
        ReadItem("pairs", (of_authors, ("1", "2"))),
        ReadItem("any", (of_authors,)),
    ]
    parts = [ReadItem("several", (of_authors,)), ReadItem("second", ("ann",))]
    views = {
        "all": "SELECT id, score FROM posts WHERE author = :a ORDER BY score DESC, id",
        "scored": "SELECT id FROM posts WHERE author = :a AND score = ANY(:ss)",
        "any": "SELECT id, author FROM posts WHERE author = ANY(:as)",
        **{name: VIEWS[name] for name in ("pairs", "several", "second")},
    }

    async def scenario() -> None:
        async with running_runtime(database, tmp_path, views=views) as runtime:
            read = LeafReader.read
            with monkeypatch.context() as patched:
                patched.setattr(LeafReader, "read", None)
                assert isinstance(await runtime.fill(items), StoredReply)
            seen: list[object] = []
            monkeypatch.setattr(LeafReader, "read", lambda *given: seen.append(given) or read(*given))
            assert isinstance(await runtime.fill(parts), StoredReply)
            assert seen
            worker = Worker(runtime)
            for name, query in (("all", "a=ann"), ("scored", "a=ann&ss=3&ss=6"), ("any", "as=ann&as=bob")):
                rows, _, fetched = await worker.read(name, query)
                assert (bool(rows), fetched) == (True, 0)

    asyncio.run(scenario())


def test_a_page_fetches_a_page(database: Database, tmp_path: Path) -> None:
    fill(database, 30_000)

    async def scenario() -> None:
        async with running(database, tmp_path, ("page", "front", "between", "second")) as worker:
            token, seen = None, list[dict[str, Any]]()
            for _ in range(4):
                rows, token, fetched = await worker.read("page", f"a=ann&limit=20{f'&after={token}' if token else ''}")
                seen += rows
                assert 0 < fetched < 200
            want = database.query("SELECT id FROM posts WHERE author = 'ann' ORDER BY score DESC, id LIMIT 80")
            assert [row["id"] for row in seen] == [id_ for (id_,) in want]
            assert (await worker.read("page", "a=ann&limit=20"))[2] == 0
            _, _, fetched = await worker.read("front", "")
            assert fetched < 500
            _, _, fetched = await worker.read("between", "a=bob&lo=100&hi=103")
            assert fetched < 500
            # A token made elsewhere, of a place where nothing is covered.
            rows, _, fetched = await worker.read("second", "a=cyd")
            assert (len(rows), fetched < 300) == (10, True)

    asyncio.run(scenario())


@pytest.mark.parametrize("key_rows", [100_000, 30])
def test_parts_stay_right(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_rows: int) -> None:
    """With few rows a key, most reads are forwarded."""
    fill(database, 600)
    dice = random.Random(day_seed(f"parts of keys of {key_rows} rows"))
    monkeypatch.setattr(session, "limits_of", lambda _: EngineLimits(key_rows=key_rows))

    async def scenario() -> None:
        async with running(database, tmp_path) as worker:
            with psycopg.connect(database.url, autocommit=True) as connection:
                for _ in range(80):
                    for _ in range(dice.randrange(3)):
                        change(connection, dice)
                    await worker.caught_up()
                    for _ in range(6):
                        await compare(connection, worker, dice)
                assert worker.runtime.dispatcher.engine is not None
                worker.runtime.dispatcher.engine.check()
                forwarded, reads = worker.runtime.counters.reads_forwarded, worker.runtime.counters.reads
                assert (forwarded > reads / 4) == (key_rows == 30)

    asyncio.run(scenario())


def test_what_has_grown_is_cut_back(database: Database, tmp_path: Path) -> None:
    fill(database, 3000)

    async def scenario() -> None:
        async with running(database, tmp_path, ("front",)) as worker:
            await worker.read("front", "")
            for first in range(10_000, 11_000, 100):
                database.execute(
                    f"INSERT INTO posts SELECT i, 'ann', 't', i FROM generate_series({first}, {first} + 99) i"
                )
                await worker.caught_up()
            await asyncio.sleep(0)
            rows, _, fetched = await worker.read("front", "")
            assert [row["id"] for row in rows] == list(range(10_999, 10_974, -1))
            # It was a hole again, or has grown little since.
            held = worker.runtime.leaf.bytes_by_view()
            assert fetched < 500
            assert max(held.values()) < 100_000

    asyncio.run(scenario())


def change(connection: psycopg.Connection, dice: random.Random) -> None:
    id_, score, author = dice.randrange(1, 620), dice.choice([None, *range(0, 500, 9)]), dice.choice(AUTHORS)
    match dice.randrange(4):
        case 0:
            connection.execute("DELETE FROM posts WHERE id = %s OR score = %s", (id_, score))
        case 1:
            connection.execute("UPDATE posts SET score = %s WHERE id = %s", (score, id_))
        case 2:
            connection.execute("UPDATE posts SET author = %s, title = 't' WHERE id %% 40 = %s", (author, id_ % 40))
        case _:
            connection.execute(
                "INSERT INTO posts SELECT i, %s, 'new', %s FROM generate_series(%s::int, %s) i ON CONFLICT DO NOTHING",
                (author, score, id_, id_ + 12),
            )


async def compare(connection: psycopg.Connection, worker: Worker, dice: random.Random) -> None:
    name = dice.choice(list(VIEWS))
    given: dict[str, Any] = {
        "page": {"a": dice.choice(AUTHORS)},
        "front": {},
        "second": {"a": dice.choice(AUTHORS)},
        "between": {"a": dice.choice(AUTHORS), "lo": dice.randrange(500), "hi": dice.randrange(520)},
        "titled": {"a": dice.choice(AUTHORS), "lo": dice.randrange(500)},
        "several": {"as": dice.sample(AUTHORS, dice.randrange(1, 4))},
        "sized": {"a": dice.choice(AUTHORS), "n": dice.choice([None, 0, 1, 5, 30]), "m": dice.choice([None, 0, 3])},
        "since": {"lo": dice.randrange(600)},
        "pairs": {
            "as": dice.sample(AUTHORS, 2),
            "ss": [dice.randrange(0, 500, 9) for _ in range(dice.randrange(1, 5))],
        },
        "texts": {"a": dice.choice(AUTHORS), "t": dice.choice(["", "title 3", "z"]), "n": dice.choice([1, 20, 500])},
        "joined": {"a": dice.choice(AUTHORS), "lo": dice.randrange(600)},
        "counted": {"lo": dice.randrange(500), "hi": dice.randrange(500)},
    }[name]
    cursor = connection.execute(re.sub(r":(\w+)", r"%(\1)s", VIEWS[name]), given)
    names = [column.name for column in cursor.description or ()]
    want = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    query = "&".join(part for parameter, value in given.items() for part in arguments(parameter, value))
    rows, _, _ = await worker.read(name, query)
    assert rows == want, (name, query)
    if name in ("page", "between", "sized", "several", "since", "pairs", "texts", "counted"):
        limit = dice.randrange(1, 40)
        token: str | None = ""
        paged: list[Any] = []
        pages = 0
        while token is not None and pages < 3:
            page, token, _ = await worker.read(name, f"{query}&limit={limit}{f'&after={token}' if token else ''}")
            paged += page
            pages += 1
        assert paged == want[: len(paged)], (name, query, limit)
        assert token is not None or paged == want


def arguments(parameter: str, value: Any) -> list[str]:
    if value is None:
        return [f"{parameter}:null"]
    return [f"{parameter}={quote(str(v))}" for v in (value if isinstance(value, list) else [value])]
