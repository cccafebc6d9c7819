"""Keys filled before they are read, over a real PostgreSQL."""

import asyncio
from pathlib import Path

import pytest

from service.engine.session.runtime import Runtime
from service.ground.errors import ApiError
from service.protocol.reads import ReadItem
from tests.fixtures.postgres import Database
from tests.service.engine.running import STORY, running

pytestmark = pytest.mark.postgres

VIEWS = {
    "story": STORY,
    "some": "SELECT id, title FROM stories WHERE id IN (:ids)",
    "titled": "SELECT id FROM stories WHERE title IN (:titles)",
    "members": "SELECT id, title FROM stories WHERE id IN (:a, 3, :b)",
    "inverse": "SELECT 10 / id AS n, random() AS r FROM stories WHERE id = :id OR 10 / :id = id",
    "own": "SELECT title FROM stories WHERE title = :claims.sub",
}


@pytest.fixture(autouse=True)
def _stories(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, repeat('title ', 100) || i FROM generate_series(1, 12000) i",
    )


def covered(runtime: Runtime, view: str) -> int:
    engine, installed = runtime.dispatcher.engine, runtime.registry.views[view].installed
    assert engine is not None
    assert installed is not None
    leaf = engine.graph.leaves.get(installed.id) or engine.refreshes.leaves[installed.id]
    return len(leaf.coverage.keys)


def test_keys_are_filled_in_bulk_and_what_is_none_is_left_out(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path, views=VIEWS, auth={"tokens_file": tmp_path / "tokens"}) as runtime:
            before = runtime.lookups.statements
            keys = [[str(i)] for i in range(1, 501)] + [["no number"], ["1", "2"], ["007"]]
            done = await runtime.prewarm.fill("story", keys)
            assert (done.status, done.filled, done.refused) == ("done", 501, 2)
            assert covered(runtime, "story") == 500
            # A lookup for many keys, not one for each.
            assert runtime.lookups.statements - before < 50
            assert runtime.leaf.reader.state() is not None

            assert (await runtime.prewarm.fill("some", [['["1","2"]'], ['["3"]']])).filled == 2
            assert covered(runtime, "some") == 3

            # A text that is no JSON array is one value.
            titles = [["none"], ["7"], ['"quoted"'], ['["a","b"]'], ["[a]"]]
            done = await runtime.prewarm.fill("titled", titles)
            assert (done.filled, done.refused, covered(runtime, "titled")) == (5, 0, 6)

            # As in the access log, with the constant among them; more values than parameters are no read of the view.
            members = [['["1","2","3"]'], ['["3","4"]'], ["5"], ['["6","7","8"]']]
            done = await runtime.prewarm.fill("members", members)
            assert (done.filled, done.refused, covered(runtime, "members")) == (3, 1, 5)

            # The one key that the database refuses does not take the others with it.
            done = await runtime.prewarm.fill("inverse", [[str(i)] for i in range(5)])
            assert (done.status, done.filled, done.refused) == ("done", 4, 1)

            # Of claims, logs have hashes.
            assert (await runtime.prewarm.fill("own", [["claim:12"]])).refused == 1
            with pytest.raises(ApiError, match="does not exist"):
                await runtime.prewarm.fill("nothing", [["1"]])
            assert [filling["view"] for filling in runtime.prewarm.fillings()] == [
                "story",
                "some",
                "titled",
                "members",
                "inverse",
                "own",
            ]

    asyncio.run(scenario())


def test_it_leaves_memory_to_readers(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path, engine={"memory": 4 << 20}) as runtime:
            filling = runtime.prewarm.begin("story", [[str(i)] for i in range(1, 12001)])
            # Readers are answered meanwhile.
            (answer,) = (await runtime.read([ReadItem("story", ("11999",))])).answers
            assert b"title 11999" in answer.rows
            async with asyncio.timeout(60):
                while filling.status in ("waiting", "running"):
                    await asyncio.sleep(0.01)
            assert filling.status == "stopped"
            assert filling.reason is not None
            assert "memory" in filling.reason
            assert 0 < filling.filled < 12000
            assert runtime.budget.used_bytes <= runtime.budget.limit_bytes

    asyncio.run(scenario())
