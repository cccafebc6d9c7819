"""The runtime in this process, on a real PostgreSQL: sessions begin and end, engines fail, no answer is wrong."""

import asyncio
import weakref
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc.postgres.stream import PostgresStream
from cdc.stream import ChangeStream, UpstreamSnapshot
from dataflow.engine.events import InstallView
from dataflow.plan.nodes import Chain, View
from dataflow.types import ViewId
from service.engine.checkpoint.store import CheckpointStore
from service.engine.loop import garbage
from service.engine.session.runtime import Runtime
from service.engine.upstream.upstream import Layouts
from service.engine.views import changes
from service.engine.views.registry import ViewOptions
from service.ground.errors import ApiError
from service.leaf_store.reader import LeafReader
from service.leaf_store.writer import LeafWriter
from service.protocol.reads import AnswerSource, ReadItem
from service.settings.stack import Settings
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.service.engine.running import STORY, running, until

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def _stories(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 2000) i",
    )


def checking_often(database: Database, directory: Path, **sections: Any) -> AbstractAsyncContextManager[Runtime]:
    """A runtime that notices at once that a table is gone."""
    return running(database, directory, cdc={"schema_check_s": 0.2}, **sections)


async def title(runtime: Runtime, id_: int) -> bytes:
    """The rows of one story, asked again while there is no stream."""
    async with asyncio.timeout(20):
        while True:
            try:
                reply = await runtime.read([ReadItem("story", (str(id_),))])
            except ApiError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(0.02)
            else:
                return reply.answers[0].rows


def test_an_engine_that_fails_is_built_anew(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            assert b"title 7" in await title(runtime, 7)
            garbage.collect()
            assert runtime.dispatcher.engine is not None
            first = weakref.ref(runtime.dispatcher.engine)
            # No event of the engine's: its step raises, as a bug would.
            runtime.dispatcher.step("not an event")  # type: ignore[arg-type]
            assert not runtime.dispatcher.running
            assert (await runtime.read([ReadItem("story", ("7",))])).source is AnswerSource.CURRENT
            database.execute("UPDATE stories SET title = 'new' WHERE id = 7")
            await until(lambda: runtime.counters.streams == 2)
            # It does not stay in memory, though it was there when what stays was set apart.
            assert first() is None
            assert b"new" in await title(runtime, 7)
            assert runtime.counters.engine_failures == 1

    asyncio.run(scenario())


def test_it_is_not_ready_until_a_checkpoint_is_read(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runtime(leaf: str) -> Runtime:
        state = {"directory": tmp_path / "state", "persistent": True, "hot_keys_s": 0}
        views = [{"name": "story", "sql": STORY}]
        return Runtime(Settings(upstream={"url": database.url}, state=state, views=views), tmp_path / leaf)

    async def stopped(first: Runtime) -> None:
        await first.start()
        running = asyncio.ensure_future(first.run())
        assert b"title 7" in await title(first, 7)
        await first.mark_place()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await first.write_checkpoint()
        await first.close()

    def hold(owner: type, name: str) -> tuple[asyncio.Event, asyncio.Event]:
        """Have a method wait. Returns when it has begun, and what it waits for."""
        method, begun, goes_on = getattr(owner, name), asyncio.Event(), asyncio.Event()

        async def held(*arguments: Any) -> Any:
            begun.set()
            await goes_on.wait()
            return await method(*arguments)

        monkeypatch.setattr(owner, name, held)
        return begun, goes_on

    async def restarted(second: Runtime) -> None:
        held = [hold(PostgresStream, "start_at"), hold(CheckpointStore, "restore")]

        def is_ready() -> bool:
            return second.ready and second.warm_up.over

        starting = asyncio.ensure_future(second.start())
        for begun, goes_on in held:
            await asyncio.wait_for(begun.wait(), 20)
            second.wait_no_longer()
            assert not is_ready()
            goes_on.set()
        await starting
        assert is_ready()
        assert second.dispatcher.engine is not None
        assert second.dispatcher.engine.counters["restored_keys"]
        await second.close()

    asyncio.run(stopped(runtime("first")))
    asyncio.run(restarted(runtime("second")))


def test_readers_see_all_views_of_a_session_or_none(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every commit, also one that readers do not see."""
    views = {f"story_{n}": STORY for n in range(3)} | {"broken": "SELECT nothing FROM stories WHERE id = :id"}
    seen: list[tuple[bool, set[str]]] = []
    commit = LeafWriter.commit

    def observed(writer: LeafWriter, *arguments: Any, **named: Any) -> dict[ViewId, Exception]:
        failed = commit(writer, *arguments, **named)
        catalog = LeafReader(writer.reader.environment).catalog()
        seen.append((catalog.known, set(catalog.by_name)))
        return failed

    monkeypatch.setattr(LeafWriter, "commit", observed)

    async def scenario() -> None:
        async with checking_often(database, tmp_path, views=views) as runtime:
            # At first before the stream has begun, when the upstream alone can answer.
            assert all(each == (True, set(views)) for each in seen)
            runtime.dispatcher.step("not an event")  # type: ignore[arg-type]
            seen.clear()
            await until(lambda: runtime.counters.streams == 2)
            assert seen
            assert all(each == (True, set(views)) for each in seen)

    asyncio.run(scenario())


def test_a_first_stream_that_nobody_waits_for_is_begun_again_and_again(database: Database, tmp_path: Path) -> None:
    """Starts fail while a transaction is open; meanwhile the upstream answers."""

    async def scenario() -> None:
        settings = Settings(
            upstream={"url": database.url},
            state={"directory": tmp_path / "state"},
            views=[{"name": "story", "sql": STORY}],
        )
        runtime = Runtime(settings, tmp_path / "leaf")
        make, tried = runtime._parts.make_stream, 0

        def impatient(layouts: Layouts) -> ChangeStream:
            nonlocal tried
            tried += 1
            source = make(layouts)
            assert isinstance(source, PostgresStream)
            source._start_timeout_s = 0.2
            return source

        async def unknown(since: UpstreamSnapshot) -> bool:
            raise AssertionError(f"nothing was shown that an answer could go back behind, and {since} is asked about")

        runtime._parts.make_stream = impatient
        runtime.upstream.lookups.settled = unknown  # type: ignore[method-assign]
        with psycopg.connect(database.url) as forgotten:
            forgotten.execute("SELECT pg_current_xact_id()")
            starting = asyncio.ensure_future(runtime.start())
            await until(runtime.answering.is_set)
            runtime.wait_no_longer()
            await until(lambda: tried >= 3)
            assert not starting.done()
            reply = await runtime.read([ReadItem("story", ("7",))])
            assert (reply.answers[0].rows, reply.source) == (b'[{"id":7,"title":"title 7"}]', AnswerSource.CURRENT)
            forgotten.rollback()
        await starting
        sessions = asyncio.ensure_future(runtime.run())
        assert (await runtime.read([ReadItem("story", ("7",))])).source is AnswerSource.STORED
        sessions.cancel()
        await asyncio.gather(sessions, return_exceptions=True)
        await runtime.close()

    asyncio.run(scenario())


def test_the_next_engine_uses_no_id_of_the_last_one(database: Database, tmp_path: Path) -> None:
    """However soon it begins: readers may still hold them."""
    views = {f"story_{n}": STORY for n in range(9)}

    async def scenario() -> None:
        async with running(database, tmp_path, views=views) as first:
            used = set(first.leaf.reader.catalog().by_id)
        async with running(database, tmp_path, views=views) as second:
            assert len(used) == 9
            assert min(second.leaf.reader.catalog().by_id) > max(used)

    asyncio.run(scenario())


def test_a_read_of_nothing_is_answered_without_a_stream_too(database: Database, tmp_path: Path) -> None:
    """A worker knows the answers of reads with NULL itself, and asks for the others only."""

    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            assert (await runtime.read([])).answers == (await runtime.forward([])).answers == []
            runtime.dispatcher.stop()
            assert (await runtime.read([])).answers == []

    asyncio.run(scenario())


def test_a_change_that_a_stream_holds_up_is_refused_and_not_made_later(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_PATIENCE_S", 0.1)

    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            runtime.dispatcher.stop()
            async with runtime.changes.lock:
                for change in (
                    runtime.changes.put("more", STORY, ViewOptions(), create_only=True),
                    runtime.changes.drop("story"),
                    runtime.changes.settle("story", None, ViewOptions(), 1),
                ):
                    with pytest.raises(ApiError, match="upstream_unavailable"):
                        await change
            assert set(runtime.registry.views) == {"story"}

    asyncio.run(scenario())


def test_a_large_answer_has_what_hits_show(tmp_path: Path) -> None:
    """Also while the commit of that waits for a standby."""
    server = start_server({"synchronous_standby_names": "nobody"})
    database = Database("postgres", f"{server.url}?options=-csynchronous_commit%3Dlocal", server)
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories VALUES (7, 'old')",
    )
    parts: list[bytes] = []

    async def send(part: bytes) -> None:
        parts.append(part)

    async def scenario() -> None:
        item = ReadItem("story", ("7",))
        async with running(database, tmp_path) as runtime:
            await runtime.read([item])
            async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as writer:
                waiting = asyncio.ensure_future(writer.execute("UPDATE stories SET title = 'new' WHERE id = 7"))
                installed = runtime.registry.views["story"].installed
                assert installed is not None
                hit = (installed.id, ("7",), None)

                def shown() -> bool:
                    answers, _ = runtime.leaf.reader.read([hit])
                    return answers[0] is not None and b"new" in answers[0].rows

                await until(shown)
                asked = asyncio.ensure_future(runtime.stream(item, None, send))
                before = runtime.upstream.lookups.statements
                await until(lambda: runtime.upstream.lookups.statements > before + 6)
                assert not parts
                # The standby is waited for no longer.
                database.execute("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
                await waiting
                await asked
                assert b"".join(parts) == b'{"id":7,"title":"new"}'

    try:
        asyncio.run(scenario())
    finally:
        discard_server(server)


def test_a_read_that_waits_while_the_engine_fails_is_told(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            waiting = asyncio.ensure_future(runtime.read([ReadItem("story", ("8",))]))
            await asyncio.sleep(0)
            runtime.dispatcher.step("not an event")  # type: ignore[arg-type]
            with pytest.raises(ApiError, match="upstream_unavailable"):
                await waiting

    asyncio.run(scenario())


def test_a_view_that_makes_the_engine_fail_is_not_tried_again(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            nonsense = View("story", STORY, Chain("public.stories", None, ()), (), ())
            object.__setattr__(nonsense, "relation", None)
            runtime.dispatcher.step(InstallView(ViewId(1), nonsense))
            await until(lambda: runtime.counters.streams == 2)
            with pytest.raises(ApiError, match="view_broken"):
                await runtime.read([ReadItem("story", ("7",))])

    asyncio.run(scenario())


def test_equal_misses_share_one_lookup(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            replies = await asyncio.gather(*(runtime.read([ReadItem("story", ("9",))]) for _ in range(50)))
            assert len({reply.answers[0].rows for reply in replies}) == 1
            assert runtime.counters.lookups == 1

    asyncio.run(scenario())


def test_many_misses_with_few_connections(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path, upstream={"pool_size": 3}) as runtime:
            replies = await asyncio.gather(
                *(runtime.read([ReadItem("story", (str(i),))]) for i in range(1, 1001)),
            )
            assert all(f"title {i}".encode() in r.answers[0].rows for i, r in enumerate(replies, start=1))

    asyncio.run(scenario())


def test_several_keys_are_of_one_version(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            reply = await runtime.read([ReadItem("story", (str(i),)) for i in (1, 2, 3)])
            assert [b"title %d" % i in a.rows for i, a in enumerate(reply.answers, start=1)] == [True] * 3
            assert reply.position > 0

    asyncio.run(scenario())


def test_an_idle_stream_reaches_now(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            database.execute(
                "CREATE TABLE unpublished (x int)", "INSERT INTO unpublished SELECT generate_series(1, 1000)"
            )
            position = await runtime.checkpoint()
            async with asyncio.timeout(10):
                await runtime.reach(position)
            state = runtime.leaf.reader.state()
            assert state is not None
            assert state.position >= position

    asyncio.run(scenario())


def test_a_cancelled_read_leaves_nothing(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            waiting = asyncio.ensure_future(runtime.read([ReadItem("story", ("11",))]))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert runtime.reads.pending == 0
            await until(lambda: runtime.lookup_tasks.in_flight == 0)
            assert runtime.dispatcher.engine is not None
            runtime.dispatcher.engine.check()

    asyncio.run(scenario())


def test_replaced_while_it_was_read(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            with pytest.raises(ApiError, match="replaced"):
                await runtime.read([ReadItem("story", ("1", "2"))])
            # Its values may be of other parameters, even where they look the same.
            with pytest.raises(ApiError, match="replaced"):
                await runtime.read([ReadItem("story", ("1",), id=ViewId(1))])
            with pytest.raises(ApiError, match="view_not_found"):
                await runtime.read([ReadItem("nothing", ("1",))])

    asyncio.run(scenario())


def test_reads_are_answered_while_the_stream_is_behind(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with checking_often(database, tmp_path) as runtime:
            await title(runtime, 1)
            database.execute(*(f"UPDATE stories SET title = 'round {n}'" for n in range(10)))
            order = []

            async def caught_up() -> None:
                await runtime.reach(await runtime.checkpoint())
                order.append("stream")

            async def reads() -> None:
                await asyncio.gather(*(asyncio.wait_for(title(runtime, i), 20) for i in range(2, 30)))
                order.append("reads")

            await asyncio.gather(caught_up(), reads())
            assert b"round 9" in await title(runtime, 1)
            assert runtime.counters.rows >= 20_000

    asyncio.run(scenario())


def test_a_version_from_the_future_is_refused_and_pushes_nothing(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await title(runtime, 7)
            future = (0xFFFFFF << 32) + 1
            pushes = runtime.counters.pushes
            refused = await asyncio.gather(*[runtime.reach(future) for _ in range(50)], return_exceptions=True)
            assert {(type(error), getattr(error, "code", "")) for error in refused} == {(ApiError, "bad_request")}
            # Nobody waits for it, in the stream or in memory.
            await runtime.reach(await runtime.checkpoint())
            session = runtime._session
            assert session is not None
            assert session.pushes is not None
            assert session.pushes._target < future
            assert runtime.counters.pushes <= pushes + 1
            assert len(runtime.positions._waiting) <= 1

    asyncio.run(scenario())


def test_pushes_are_counted_while_the_stream_lives(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await title(runtime, 7)
            # A commit that is not flushed only gets into the stream by a push, or by the WAL writer.
            async with asyncio.timeout(30):
                while not runtime.counters.pushes:
                    database.execute(
                        "BEGIN",
                        "SET LOCAL synchronous_commit = off",
                        "UPDATE stories SET title = title WHERE id = 7",
                        "COMMIT",
                    )
                    await runtime.reach(await runtime.checkpoint())

    asyncio.run(scenario())


def test_a_new_table_comes_before_the_registered_view_of_its_name(database: Database, tmp_path: Path) -> None:
    views = {
        "titles": "SELECT id, title FROM stories",
        "titled": "SELECT count(*) AS n FROM titles WHERE title = :title",
    }

    async def scenario() -> None:
        async def count() -> bytes:
            try:
                return (await runtime.read([ReadItem("titled", ("title 7",))])).answers[0].rows
            except ApiError as error:
                if not error.retryable:
                    raise
                return b""

        async with running(database, tmp_path, views=views, cdc={"schema_check_s": 0.2}) as runtime:
            assert await count() == b'[{"n":1}]'
            database.execute(
                "CREATE TABLE titles (id int PRIMARY KEY, title text)",
                "ALTER TABLE titles REPLICA IDENTITY FULL",
                "INSERT INTO titles SELECT i, 'title 7' FROM generate_series(1, 5) i",
            )
            async with asyncio.timeout(20):
                while await count() != b'[{"n":5}]':
                    await asyncio.sleep(0.02)

    asyncio.run(scenario())
