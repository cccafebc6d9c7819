"""Options of a view and its reads: the runtime in this process, on a real PostgreSQL."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from service.engine.reads.forward_tasks import REFUSED_S, ForwardTasks
from service.engine.reads.slots import Slots
from service.engine.session.runtime import Runtime
from service.engine.upstream.results import UNLIMITED, AnswerSize, UpstreamError
from service.engine.upstream.upstream import Lookups
from service.engine.views.registry import ViewOptions
from service.ground.errors import ApiError
from service.protocol.reads import AnswerSource, ReadItem, ReadReply
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, until

pytestmark = pytest.mark.postgres

STORY = "SELECT id, title FROM stories WHERE id = :id"
COUNTED = (
    "SELECT s.id, s.title, count(v.person) AS votes FROM stories s LEFT JOIN votes v ON v.story = s.id"
    " WHERE s.author = :author GROUP BY s.id, s.title"
)
ALL = "SELECT author, count(*) AS n FROM stories GROUP BY author ORDER BY n DESC, author"


@pytest.fixture(autouse=True)
def _stories(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, author text NOT NULL, title text NOT NULL)",
        "CREATE TABLE votes (story int, person int, PRIMARY KEY (story, person))",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "ALTER TABLE votes REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'author ' || i % 10, 'title ' || i FROM generate_series(1, 100) i",
        "INSERT INTO votes SELECT i, j FROM generate_series(1, 100) i, generate_series(1, 3) j",
    )


async def put(runtime: Runtime, name: str, sql: str, **options: Any) -> None:
    await runtime.changes.put(name, sql, ViewOptions(**options), create_only=False)
    await until(lambda: runtime.registry.views[name].replacement is None)


def rows(reply: ReadReply) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(reply.answers[0].rows)
    return found


async def read(runtime: Runtime, view: str, *values: str) -> ReadReply:
    return await runtime.read([ReadItem(view, values)])


def stored(runtime: Runtime, author: str) -> bytes | None:
    """The rows of a key of `counted` that the leaf store has."""
    view = runtime.registry.views["counted"].installed
    assert view is not None
    (answer,), _ = runtime.leaf.reader.read([(view.id, (author,), None)])
    return None if answer is None else answer.rows


async def joined(runtime: Runtime) -> None:
    """Reads until what is read is stored: before that, all reads of a table that is new to the stream are forwarded."""
    async with asyncio.timeout(20):
        while not stored(runtime, "author 9"):
            await read(runtime, "counted", "author 9")
            await asyncio.sleep(0.02)


def test_a_miss_is_answered_by_the_database_and_filled_behind(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await put(runtime, "counted", COUNTED, on_miss="forward")
            await joined(runtime)
            forwarded = runtime.counters.reads_forwarded
            first = await read(runtime, "counted", "author 3")
            assert sum(row["votes"] for row in rows(first)) == 30
            assert runtime.counters.reads_forwarded == forwarded + 1
            await until(lambda: stored(runtime, "author 3"))
            # What was filled is kept up to date, as ever.
            database.execute("DELETE FROM votes WHERE story = 3")
            await runtime.reach(await runtime.checkpoint())
            kept = stored(runtime, "author 3")
            assert kept is not None
            assert sum(row["votes"] for row in json.loads(kept)) == 27
            state = runtime.leaf.reader.state()
            assert state is not None
            assert state.position > first.position

    asyncio.run(scenario())


def test_equal_misses_become_few_statements(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await put(runtime, "counted", COUNTED, on_miss="forward")
            await joined(runtime)
            forwarded, before = runtime.counters.reads_forwarded, runtime.lookups.statements
            replies = await asyncio.gather(*(read(runtime, "counted", "author 4") for _ in range(50)))
            assert all(rows(reply) == rows(replies[0]) for reply in replies)
            # A statement and its version for the first and for all others, and what fills.
            assert runtime.counters.reads_forwarded - forwarded == 50
            assert runtime.lookups.statements - before <= 10

    asyncio.run(scenario())


@pytest.mark.parametrize("now", [False, True], ids=["miss", "as it is now"])
@pytest.mark.parametrize("gone", [False, True], ids=["replaced", "dropped"])
def test_a_view_that_goes_while_its_read_is_forwarded(
    database: Database, tmp_path: Path, now: bool, gone: bool
) -> None:
    """The client gets a retryable error, and nothing else happens."""

    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            lookups = runtime.lookups
            asked, answered, forward = asyncio.Event(), asyncio.Event(), lookups.forward
            await put(runtime, "counted", COUNTED, on_miss="forward")
            await joined(runtime)

            async def slow(queries: Any, most: AnswerSize) -> Any:
                asked.set()
                await answered.wait()
                return await forward(queries, most)

            lookups.forward = slow  # type: ignore[method-assign]
            items = [ReadItem("counted", ("author 5",))]
            reading = asyncio.create_task(runtime.forward(items, None) if now else runtime.read(items))
            await asked.wait()
            (before,) = (
                view.id for view in runtime.registry.installations.values() if view.plan.view.name == "counted"
            )
            if gone:
                await runtime.changes.drop("counted")
            else:
                await put(runtime, "counted", COUNTED.replace("s.title, ", "s.title, s.author, "))
            await until(lambda: not runtime.leaf.has(before))
            answered.set()
            with pytest.raises(ApiError) as failed:
                await reading
            assert failed.value.code in ("view_building", "view_not_found")
            assert runtime.counters.engine_failures == 0

    asyncio.run(scenario())


def test_while_a_whole_view_is_loaded(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path, upstream={"lookups_in_flight": 1}) as runtime:
            lookups = runtime.lookups
            loaded, asked = asyncio.Event(), lookups.run

            async def slow(*given: Any) -> Any:
                await loaded.wait()
                return await asked(*given)

            lookups.run = slow  # type: ignore[method-assign]
            await put(runtime, "authors", ALL, on_miss="forward")
            assert len(rows(await read(runtime, "authors"))) == 10
            assert runtime.counters.reads_forwarded == 1
            loaded.set()
            await until(lambda: runtime.registry.views["authors"].status == "ready")
            assert len(rows(await read(runtime, "authors"))) == 10
            assert runtime.counters.reads_forwarded == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("limit", [{"limit_rows": 12}, {"limit_bytes": 3000}])
def test_a_key_above_its_limit_is_not_stored(database: Database, tmp_path: Path, limit: dict[str, int]) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await put(runtime, "of_author", "SELECT id, title FROM stories WHERE author = :author", **limit)
            assert len(rows(await read(runtime, "of_author", "author 1"))) == 10
            assert runtime.counters.reads_forwarded == 0
            # It grows beyond, is forgotten, and found to be too large by who reads it.
            database.execute("INSERT INTO stories SELECT i, 'author 1', 'more' FROM generate_series(201, 220) i")
            await runtime.reach(await runtime.checkpoint())
            for _ in range(2):
                assert len(rows(await read(runtime, "of_author", "author 1"))) == 30
            assert runtime.counters.reads_forwarded == 2
            assert runtime.dispatcher.engine is not None
            assert runtime.dispatcher.engine.counters["outgrown"] == 1
            assert len(rows(await read(runtime, "of_author", "author 2"))) == 10
            assert runtime.counters.reads_forwarded == 2

    asyncio.run(scenario())


def test_the_limits_of_a_block_and_of_a_refreshed_view(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            for tier, sql in ((None, COUNTED), ("refresh", COUNTED)):
                await put(runtime, "counted", sql, tier=tier, limit_rows=9)
                before = runtime.counters.reads_forwarded
                for _ in range(2):
                    assert len(rows(await read(runtime, "counted", "author 5"))) == 10
                assert runtime.counters.reads_forwarded == before + 2

    asyncio.run(scenario())


def test_bigints_are_strings_however_the_answer_comes(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await put(runtime, "counted", COUNTED, bigint="string")
            await joined(runtime)
            answers = [await read(runtime, "counted", "author 6")]
            for changed in ({"tier": "refresh"}, {"limit_rows": 1}):
                await put(runtime, "counted", COUNTED, bigint="string", **changed)
                answers.append(await read(runtime, "counted", "author 6"))
            assert rows(answers[0])[0]["votes"] == "3"
            by_id = [sorted(rows(answer), key=lambda row: int(row["id"])) for answer in answers]
            assert by_id[0] == by_id[1] == by_id[2]
            # What is forwarded is tagged as what is stored.
            assert answers[0].answers[0].tag == answers[2].answers[0].tag

    asyncio.run(scenario())


def test_the_database_answers_without_a_stream(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await put(runtime, "counted", COUNTED, max_lag_ms=1000, on_lag="forward")
            await joined(runtime)
            kept = await read(runtime, "counted", "author 9")
            runtime.dispatcher.stop()
            database.execute("DELETE FROM votes WHERE story = 9")
            ((position,),) = database.query("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
            reply = await runtime.forward([ReadItem("counted", ("author 9",)), ReadItem("counted", ("author 8",))])
            assert sum(row["votes"] for row in rows(kept)) - sum(row["votes"] for row in rows(reply)) == 3
            assert reply.source is AnswerSource.CURRENT
            assert reply.position >= position
            assert len(json.loads(reply.answers[1].rows)) == 10

    asyncio.run(scenario())


def test_a_minimum_version_without_a_stream_waits_for_nobody_who_has_not_committed(
    database: Database, tmp_path: Path
) -> None:
    """Which transactions an answer had is not known any more, but no one that waits for its client."""

    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await put(runtime, "counted", COUNTED, max_lag_ms=1000, on_lag="forward")
            await joined(runtime)
            position, item = runtime.dispatcher.position, ReadItem("counted", ("author 9",))
            runtime.dispatcher.stop()
            with psycopg.connect(database.url) as writer:
                writer.execute("DELETE FROM votes WHERE story = 9")
                before = sum(row["votes"] for row in rows(await runtime.forward([item], position)))
                writer.commit()
            assert sum(row["votes"] for row in rows(await runtime.forward([item], position))) == 27 < before

    asyncio.run(scenario())


class Held:
    """Lookups that answer when they are let."""

    def __init__(self) -> None:
        self.gate, self.asked = asyncio.Event(), 0

    async def forward(self, queries: Any, _: AnswerSize) -> Any:
        self.asked += 1
        await self.gate.wait()
        if queries[0][0] == "bad":
            raise UpstreamError("invalid", "bad")
        if queries[0][0] == "large":
            raise UpstreamError("too_large", "large")
        return self.asked


@pytest.mark.parametrize("sql", ["good", "bad"])
def test_a_statement_serves_all_who_asked_before_it_began(sql: str) -> None:
    async def scenario() -> None:
        held = Held()
        tasks = ForwardTasks(cast(Lookups, held), Slots(6), UNLIMITED)
        first = tasks.ask([(sql, ["1"])], ())
        await until(lambda: held.asked == 1)
        # It has begun: these come too late for it, and share the next.
        late = [tasks.ask([(sql, ["1"])], ()) for _ in range(5)]
        gone = tasks.ask([(sql, ["2"])], ())
        gone.cancel()
        late[0].cancel()
        held.gate.set()
        found = await asyncio.gather(first, *late, return_exceptions=True)
        assert isinstance(found[1], asyncio.CancelledError)
        if sql == "good":
            assert [found[0], *found[2:]] == [1, 2, 2, 2, 2]
        else:
            assert all(isinstance(each, UpstreamError) for each in [found[0], *found[2:]])
        assert held.asked == 2

    asyncio.run(scenario())


def test_an_answer_that_was_too_large_is_not_asked_for_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        held = Held()
        held.gate.set()
        tasks = ForwardTasks(cast(Lookups, held), Slots(6), UNLIMITED)

        async def ask(sql: str, parameter: str) -> str:
            with pytest.raises(UpstreamError) as refused:
                await tasks.ask([(sql, [parameter])], ())
            return refused.value.code

        assert [await ask("large", parameter) for parameter in "11212"] == ["too_large"] * 5
        assert held.asked == 2
        # Others are asked for.
        assert [await ask("bad", "1"), await ask("bad", "1")] == ["invalid"] * 2
        now_s = time.monotonic() + REFUSED_S
        monkeypatch.setattr("service.engine.reads.forward_tasks.monotonic", lambda: now_s)
        await ask("large", "1")
        assert held.asked == 5

    asyncio.run(scenario())
