"""The memory budget over a real PostgreSQL: kept to under load, told when it cannot be, and what is not let in."""

import asyncio
import gc
from contextlib import AbstractAsyncContextManager
from mmap import mmap
from pathlib import Path

import pytest

from service.engine.loop import memory_budget
from service.engine.reads.pending_read import PendingRead
from service.engine.session.runtime import Runtime
from service.engine.views.registry import Status, ViewOptions
from service.ground.errors import ApiError
from service.protocol.reads import ReadItem, ReadReply
from tests.fixtures.postgres import Database
from tests.service.engine.running import STORY, running, until

pytestmark = pytest.mark.postgres

ALL = "SELECT title, count(*) AS n FROM stories GROUP BY title ORDER BY n DESC"
#: Some stories beside a small row, all of which is numbered and therefore kept whole.
PAIR = (
    "SELECT s.r, s.title, m.n FROM (SELECT title, row_number() OVER (ORDER BY id) AS r FROM stories WHERE id < 50) s "
    "CROSS JOIN (SELECT row_number() OVER (ORDER BY id) AS n FROM stories WHERE id <= 1500) m WHERE m.n = :n"
)
BUDGET = 4 << 20


@pytest.fixture(autouse=True)
def _stories(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, repeat('title ', 100) || i FROM generate_series(1, 12000) i",
        "CREATE TABLE small (id int PRIMARY KEY, body text)",
        "ALTER TABLE small REPLICA IDENTITY FULL",
        "INSERT INTO small SELECT i, 'body' FROM generate_series(1, 10) i",
        "ANALYZE",
    )


@pytest.fixture
def _looks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it depends on the machine's speed how much is filled between two looks at so small a budget."""
    monkeypatch.setattr(memory_budget, "_LOOK_S", 0.0)
    monkeypatch.setattr(memory_budget, "_FAR_LOOK_S", 0.0)


def short_of_memory(
    database: Database, directory: Path, views: dict[str, str] | None = None
) -> AbstractAsyncContextManager[Runtime]:
    """A runtime with a small budget."""
    return running(database, directory, views=views, engine={"memory": BUDGET})


def test_reads_of_far_more_than_fits(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with short_of_memory(database, tmp_path) as runtime:
            most = 0
            for first in range(1, 12001, 200):
                items = [[ReadItem("story", (str(i),))] for i in range(first, first + 200)]
                replies = await asyncio.gather(*map(runtime.read, items))
                assert all(f"title {first + i}".encode() in reply.answers[0].rows for i, reply in enumerate(replies))
                most = max(most, runtime.budget.used_bytes)
            assert most < 1.3 * BUDGET
            await until(lambda: runtime.budget.used_bytes <= BUDGET)
            assert runtime.budget.used_bytes > 0.8 * BUDGET
            assert runtime.counters.leaf_evictions > 4000
            assert not runtime.budget.exhausted

    asyncio.run(scenario())


def test_so_many_bytes_are_freed(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with short_of_memory(database, tmp_path) as runtime:
            await asyncio.gather(*(runtime.read([ReadItem("story", (str(i),))]) for i in range(1, 1001)))
            used = runtime.budget.used_bytes
            evicted = await runtime.budget.free(used // 2)
            assert 300 < evicted < 900
            assert runtime.budget.used_bytes <= used - used // 2
            await runtime.budget.free(1 << 40)
            assert runtime.counters.leaf_evictions == 1000

    asyncio.run(scenario())


def test_where_the_process_outgrows_the_budget_less_is_used(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with short_of_memory(database, tmp_path) as runtime:
            budget, ballast = runtime.budget, list[mmap]()

            def is_outgrown() -> bool:
                # What earlier tests left in this process may go meanwhile.
                if budget.grown_bytes < budget.allowed_bytes + BUDGET:
                    # Pages of its own: an allocator might not give back what lies below something else.
                    ballast.append(mmap(-1, 1 << 20))
                    ballast[-1].write(b"x" * (1 << 20))
                return budget.limit_bytes < 0.8 * BUDGET

            await until(is_outgrown)
            # A few at a time: what thousands of waiting reads take is growth, too, and does not all go back.
            for first in range(1, 3001, 100):
                reads = (runtime.read([ReadItem("story", (str(i),))]) for i in range(first, first + 100))
                await asyncio.gather(*reads)
            await until(lambda: runtime.budget.used_bytes < 0.8 * BUDGET)
            for pages in ballast:
                pages.close()
            await until(lambda: runtime.budget.limit_bytes == BUDGET)

    asyncio.run(scenario())


@pytest.mark.usefixtures("_looks_always")
def test_with_much_that_is_kept_whole_a_round_leaves_most_keys(database: Database, tmp_path: Path) -> None:
    """Then a twentieth of the budget is more than all keys take."""
    whole = "SELECT title, count(*) AS n FROM stories WHERE id <= 2200 GROUP BY title ORDER BY n DESC"
    # Each takes pages of its own, which are free when it has gone.
    story = f"SELECT id, {' || '.join(['title'] * 8)} AS body FROM stories WHERE id = :id"

    async def scenario() -> None:
        async with short_of_memory(database, tmp_path, views={"whole": whole, "story": story}) as runtime:
            await until(lambda: runtime.registry.views["whole"].status is Status.READY)
            await runtime.read([ReadItem("whole", ())])
            engine = runtime.dispatcher.engine
            assert engine is not None
            # What is kept whole takes nearly everything.
            budget = runtime.budget
            budget.budget_bytes = budget.limit_bytes = int(budget.used_bytes / 0.97)
            await until(lambda: not budget.exhausted)
            fewest, filled = None, 0
            for n in range(3001, 3801):
                await runtime.read([ReadItem("story", (str(n),))])
                if runtime.counters.leaf_evictions and fewest is None:
                    filled = engine.evictable
                    fewest = filled
                if fewest is not None:
                    fewest = min(fewest, engine.evictable)
            assert fewest is not None
            assert fewest > 0.6 * filled > 5
            await until(lambda: budget.used_bytes <= budget.limit_bytes)

    asyncio.run(scenario())


@pytest.mark.usefixtures("_looks_always")
def test_what_reads_fill_without_asking_the_database_is_kept_to_the_budget(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with short_of_memory(database, tmp_path, views={"pair": PAIR}) as runtime:
            await runtime.read([ReadItem("pair", ("1",))])
            lookups, most = runtime.counters.lookups, 0

            async def read(n: int) -> None:
                nonlocal most
                await runtime.read([ReadItem("pair", (str(n),))])
                most = max(most, runtime.budget.used_bytes)

            # Each is answered with 30 kB out of what is kept whole.
            await asyncio.gather(*(read(n) for n in range(1, 1501)))
            assert runtime.counters.lookups == lookups
            assert most < 2 * BUDGET

    asyncio.run(scenario())


def test_what_reads_bring_back_is_not_freed_for_ever(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with short_of_memory(database, tmp_path, views={"pair": PAIR}) as runtime:
            stop = asyncio.Event()

            async def keep_reading(n: int) -> None:
                while not stop.is_set():
                    await runtime.read([ReadItem("pair", (str(n % 1500 + 1),))])
                    await asyncio.sleep(0)
                    n += 7

            readers = [asyncio.ensure_future(keep_reading(n)) for n in range(50)]
            await until(lambda: runtime.counters.reads > 500)
            assert await asyncio.wait_for(runtime.budget.free(1 << 40), 20) > 0
            stop.set()
            await asyncio.gather(*readers)

    asyncio.run(scenario())


def test_a_session_that_ends_leaves_nobody_waiting_for_room(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with short_of_memory(database, tmp_path, views={"pair": PAIR}) as runtime:
            await runtime.read([ReadItem("pair", ("1",))])
            reads = [asyncio.ensure_future(runtime.read([ReadItem("pair", (str(n),))])) for n in range(1, 1501)]
            await until(lambda: runtime.counters.budget_slices > 0)
        replies = await asyncio.wait_for(asyncio.gather(*reads, return_exceptions=True), 10)
        assert all(isinstance(reply, ReadReply | ApiError) for reply in replies)

    asyncio.run(scenario())


def test_reads_that_fail_leave_no_garbage(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        views = {"ratio": "SELECT id, title, 1 / (id - 7) AS ratio FROM stories WHERE id = :id"}
        async with short_of_memory(database, tmp_path, views=views) as runtime:
            gc.collect()
            gc.disable()
            try:
                for _ in range(20):
                    with pytest.raises(ApiError, match="division by zero"):
                        await runtime.read([ReadItem("ratio", ("7",))])
                assert not [found for found in gc.get_objects() if isinstance(found, PendingRead)]
            finally:
                gc.enable()

    asyncio.run(scenario())


def test_a_view_that_cannot_fit_is_refused_with_its_estimate(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with short_of_memory(database, tmp_path) as runtime:
            with pytest.raises(ApiError, match="needs about") as refused:
                await runtime.changes.put("all_stories", ALL, ViewOptions(), create_only=False)
            assert refused.value.code == "too_large"
            members = refused.value.members
            assert members["budget_bytes"] == BUDGET
            assert 7_000_000 < members["estimated_bytes"] < 20_000_000
            assert "all_stories" not in runtime.registry.views
            # Of the same table, but few rows: the upstream's planner knows.
            few = "SELECT title, count(*) AS n FROM stories WHERE id < 100 GROUP BY title ORDER BY n DESC"
            await runtime.changes.put("few_stories", few, ViewOptions(), create_only=False)
            await until(lambda: runtime.registry.views["few_stories"].status is Status.READY)
            reply = await runtime.read([ReadItem("few_stories", ())])
            assert reply.answers[0].rows.count(b'"n"') == 99

    asyncio.run(scenario())


def test_at_start_a_view_that_cannot_fit_is_broken_and_others_go_on(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with short_of_memory(database, tmp_path, views={"all_stories": ALL, "story": STORY}) as runtime:
            broken = runtime.registry.views["all_stories"]
            assert broken.status is Status.BROKEN
            assert broken.status_reason is not None
            assert "The memory budget is 4.2 MB" in broken.status_reason
            assert b"title 7" in (await runtime.read([ReadItem("story", ("7",))])).answers[0].rows
            with pytest.raises(ApiError, match="view_broken"):
                await runtime.read([ReadItem("all_stories", ())])
            # It is tried again with the others that are broken, and is still too large.
            await runtime.changes.repair.check()
            assert broken.status is Status.BROKEN

    asyncio.run(scenario())


def test_what_views_share_is_counted_once(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        # Of each, the stories are kept whole: 3 MB.
        one = "SELECT s.title, m.body FROM stories s CROSS JOIN small m WHERE m.id = :id AND s.id < 3500"
        two = one.replace("m.body", "m.body, m.id")
        async with short_of_memory(database, tmp_path, views={"one": one, "two": two}) as runtime:
            assert [view.status for view in runtime.registry.views.values()] == [Status.READY, Status.READY]
            with pytest.raises(ApiError, match="needs about"):
                await runtime.changes.put("more", one.replace("3500", "4500"), ViewOptions(), create_only=False)

    asyncio.run(scenario())


def test_what_grows_and_cannot_be_evicted_is_told(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        views = {"all_small": "SELECT body, count(*) AS n FROM small GROUP BY body ORDER BY n", "story": STORY}
        async with short_of_memory(database, tmp_path, views=views) as runtime:
            await until(lambda: runtime.registry.views["all_small"].status is Status.READY)
            database.execute("INSERT INTO small SELECT i, repeat('body', 200) || i FROM generate_series(11, 9000) i")
            await until(lambda: runtime.budget.exhausted)
            # Misses are answered all the same; what they fill does not stay.
            assert b"title 7" in (await runtime.read([ReadItem("story", ("7",))])).answers[0].rows
            database.execute("DELETE FROM small WHERE id > 10")
            await until(lambda: not runtime.budget.exhausted)

    asyncio.run(scenario())
