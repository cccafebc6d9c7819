"""Views whose keys have the current day: a read and a subscription when another day begins."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import pytest

from dataflow.engine.events import Event, ReadBatch
from service.leaf_store import request
from service.leaf_store.clock import now_us
from tests.fixtures.postgres import Database
from tests.service.engine.running import until
from tests.service.worker.subscriptions.workers import LIMIT_S, Followed, Worker, following

pytestmark = pytest.mark.postgres

VIEWS = {"due": "SELECT count(*) AS n FROM tasks WHERE who = :who AND due <= CURRENT_DATE"}
_DAY_US = 86_400_000_000


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The days from today to the clock's day, as the one member of a list."""
    found = [0]
    monkeypatch.setattr(request, "now_us", lambda: now_us() + found[0] * _DAY_US)
    return found


@pytest.fixture
def run(database: Database, tmp_path: Path) -> Callable[[Callable[[Followed, Worker], Awaitable[None]]], None]:
    """Runs a scenario over a task of each of 20 days."""
    database.execute(
        "CREATE TABLE tasks (id int PRIMARY KEY, who int, due date)",
        "INSERT INTO tasks SELECT n, abs(n) % 2, (now() AT TIME ZONE 'UTC')::date + n FROM generate_series(-9, 10) n",
    )

    def run(scenario: Callable[[Followed, Worker], Awaitable[None]]) -> None:
        async def main() -> None:
            async with following(database, tmp_path, {}, views=VIEWS) as followed:
                await scenario(followed, followed.workers[0])

        asyncio.run(main())

    return run


async def number_of(worker: Worker, who: str) -> int:
    answers = await worker.reads.read([worker.wanted("due", who)])
    return int(orjson.loads(answers.answers[0].rows)[0]["n"])


def keys_of(followed: Followed) -> Any:
    engine = followed.runtime.dispatcher.engine
    assert engine is not None
    (leaf,) = engine.graph.leaves.values()
    return leaf


def test_a_day_that_begins_while_a_read_is_filled(run: Callable[..., None], days: list[int]) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        assert await number_of(worker, "0") == 5
        days[:] = [2]
        assert await number_of(worker, "0") == 6
        days[:] = [0]
        assert await number_of(worker, "0") == 5
        assert len(keys_of(followed).coverage.keys) == 2
        dispatcher, step = followed.runtime.dispatcher, followed.runtime.dispatcher.step

        def stepping(event: Event) -> None:
            days[:] = [2] if isinstance(event, ReadBatch) else days
            step(event)

        with patch.object(dispatcher, "step", stepping):
            assert await number_of(worker, "1") == 6
        assert {who for _, who in keys_of(followed).coverage.keys} == {"0", "1"}

    run(scenario)


def test_subscribers_of_a_day(run: Callable[..., None], days: list[int], database: Database) -> None:
    async def scenario(followed: Followed, worker: Worker) -> None:
        listener = await worker.listen("due", "0")
        await listener.until(lambda rebuilt: rebuilt.rows == [{"n": 5}])
        before = set(keys_of(followed).pins)
        days[:] = [2]
        await listener.until(lambda rebuilt: rebuilt.rows == [{"n": 6}])
        await until(lambda: set(keys_of(followed).pins) not in (before, set()), LIMIT_S)
        assert len(keys_of(followed).pins) == 1
        database.execute("UPDATE tasks SET due = due + 300 WHERE id = 2")
        await listener.until(lambda rebuilt: rebuilt.rows == [{"n": 5}])
        await listener.close()

    run(scenario)
