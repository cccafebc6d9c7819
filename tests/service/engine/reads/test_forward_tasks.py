"""Forwarded statements: one serves all who asked before it, and ends when they have gone."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from service.engine.reads.breakers import MOST
from service.engine.reads.forward_tasks import ForwardTasks
from service.engine.reads.slots import Slots
from service.engine.upstream.results import AnswerSize, UpstreamError
from tests.fixtures.streams import run

QUERY = [("SELECT $1", ["1"])]


class Upstream:
    """Statements that end when the test says so. *State*: `running`, those that have not."""

    def __init__(self) -> None:
        self.begun = self.cancelled = 0
        self.running: list[asyncio.Future[str]] = []

    async def forward(self, queries: object, most: AnswerSize) -> str:  # noqa: ARG002
        self.begun += 1
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.running.append(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running.remove(answer)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


Scenario = Callable[[Upstream, Slots, ForwardTasks], Awaitable[None]]


def play(scenario: Scenario, patience_s: float = 5.0) -> None:
    async def check() -> None:
        upstream, slots = Upstream(), Slots(2, patience_s)
        await scenario(upstream, slots, ForwardTasks(upstream, slots, AnswerSize(10, 10)))  # type: ignore[arg-type]
        # All slots are free.
        for _ in range(2):
            await slots.take(())

    run(check())


def test_a_statement_ends_when_the_last_of_its_readers_has_gone() -> None:
    async def scenario(upstream: Upstream, slots: Slots, tasks: ForwardTasks) -> None:
        readers = [tasks.ask(QUERY, ["a"]) for _ in range(3)]
        await until(lambda: upstream.running)
        for reader in readers:
            assert upstream.cancelled == 0
            reader.cancel()
        await until(lambda: not upstream.running)
        assert (upstream.begun, upstream.cancelled, slots.abandoned) == (1, 1, 1)

    play(scenario)


def test_one_reader_who_stays_is_enough() -> None:
    async def scenario(upstream: Upstream, slots: Slots, tasks: ForwardTasks) -> None:
        left, stays, other = tasks.ask(QUERY, ["a"]), tasks.ask(QUERY, ["a"]), tasks.ask([("SELECT 2", [])], ["b"])
        await until(lambda: len(upstream.running) == 2)
        left.cancel()
        other.cancel()
        # The other one was left at the same time.
        await until(lambda: upstream.cancelled)
        (answer,) = upstream.running
        answer.set_result("rows")
        assert await stays == "rows"
        assert slots.abandoned == 1

    play(scenario)


def test_who_asks_after_it_began_gets_the_next_one() -> None:
    """The first answer may be of a snapshot from before the second request."""

    async def scenario(upstream: Upstream, slots: Slots, tasks: ForwardTasks) -> None:
        first = tasks.ask(QUERY, ["a"])
        await until(lambda: upstream.running)
        second = tasks.ask(QUERY, ["a"])
        first.cancel()
        await until(lambda: upstream.begun == 2)
        assert upstream.cancelled == 1
        upstream.running[0].set_result("rows")
        assert await second == "rows"
        del slots

    play(scenario)


@pytest.mark.parametrize("ends", ["rows", UpstreamError("failed", "it failed")])
def test_one_that_ends_in_time_is_not_cancelled(ends: str | UpstreamError) -> None:
    async def scenario(upstream: Upstream, slots: Slots, tasks: ForwardTasks) -> None:
        reader = tasks.ask(QUERY, ["a"])
        await until(lambda: upstream.running)
        reader.cancel()
        if isinstance(ends, str):
            upstream.running[0].set_result(ends)
        else:
            upstream.running[0].set_exception(ends)
        await until(lambda: not upstream.running)
        again = tasks.ask(QUERY, ["a"])
        await until(lambda: upstream.running)
        upstream.running[0].set_result("other rows")
        assert await again == "other rows"
        assert (upstream.cancelled, slots.abandoned) == (0, 0)

    play(scenario)


@pytest.mark.parametrize(("patience_s", "resting"), [(0.1, ["a"]), (60.0, [])])
def test_a_table_rests_whose_readers_go_unanswered(patience_s: float, resting: list[str]) -> None:
    """If they were as patient as readers are."""

    async def scenario(upstream: Upstream, slots: Slots, tasks: ForwardTasks) -> None:
        for number in range(MOST):
            reader = tasks.ask([("SELECT $1", [str(number)])], ["a"])
            await until(lambda: upstream.running)
            reader.cancel()
            await until(lambda: not upstream.running)
        assert slots.breakers.resting == resting

    play(scenario, patience_s)
