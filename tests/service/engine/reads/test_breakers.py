"""Tables that do not answer are asked seldom, until they do."""

import asyncio

import pytest

from service.engine.reads.breakers import FIRST_S, FORGOTTEN_S, LONGEST_S, MOST, Breakers
from service.engine.reads.forward_tasks import ForwardTasks
from service.engine.reads.slots import Slots
from service.engine.upstream.results import AnswerSize, UpstreamError

LATE = UpstreamError("timeout", "late", retryable=True)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def opened(clock: Clock, *tables: str) -> Breakers:
    """Breakers of tables that have just begun to rest."""
    breakers = Breakers(clock)
    for _ in range(MOST):
        breakers.begin(tables)
        breakers.end(tables, LATE)
    assert breakers.resting == sorted(tables)
    return breakers


def test_only_what_fails_in_a_row_and_in_time_counts() -> None:
    breakers = Breakers(Clock())
    for _ in range(3):
        for error in [LATE] * (MOST - 1) + [None]:
            breakers.begin(["a"])
            breakers.end(["a"], error)
    for other in (UpstreamError("invalid", "wrong"), UpstreamError("unavailable", "away"), asyncio.CancelledError()):
        for _ in range(MOST):
            breakers.end(["a"], other)
    assert breakers.resting == []
    breakers.check(["a"])


def test_one_statement_at_a_time_tries_after_pauses_that_double() -> None:
    clock = Clock()
    breakers = opened(clock, "a")
    pause_s = FIRST_S
    for _ in range(8):
        clock.now_s += pause_s - 0.01
        with pytest.raises(UpstreamError, match=r"Table a is not queried") as refused:
            breakers.begin(["b", "a"])
        assert refused.value.retryable
        breakers.begin(["b"])
        clock.now_s += 0.02
        breakers.begin(["a"])
        with pytest.raises(UpstreamError):
            breakers.begin(["a"])
        breakers.end(["a"], LATE)
        pause_s = min(2 * pause_s, LONGEST_S)
    clock.now_s += pause_s
    breakers.begin(["a"])
    breakers.end(["a"], None)
    assert breakers.resting == []
    breakers.begin(["a"])


def test_a_table_that_nobody_asks_any_more_does_not_rest_for_ever() -> None:
    """Alerts are about tables that are waited for."""
    clock = Clock()
    breakers = opened(clock, "a")
    clock.now_s += FORGOTTEN_S
    assert breakers.resting == ["a"]
    clock.now_s += FIRST_S
    assert breakers.resting == []
    breakers.begin(["a"])
    assert breakers.resting == ["a"]


def test_an_answer_closes_those_of_all_its_tables() -> None:
    """One of them is slow; the others are told by their own statements."""
    clock = Clock()
    breakers = opened(clock, "a", "b")
    clock.now_s += FIRST_S
    breakers.end(["b"], None)
    assert breakers.resting == ["a"]
    breakers.begin(["b"])


def test_who_waits_for_a_slot_is_refused_when_its_turn_comes() -> None:
    async def scenario() -> None:
        slots, ended = Slots(1), asyncio.Event()

        async def statement() -> None:
            async with slots.slot(["a"]):
                await ended.wait()
                raise LATE

        running = [asyncio.create_task(statement()) for _ in range(MOST + 10)]
        await asyncio.sleep(0)
        ended.set()
        found = await asyncio.gather(*running, return_exceptions=True)
        assert [str(error) for error in found[:MOST]] == ["late"] * MOST
        assert all("is not queried" in str(error) for error in found[MOST:])
        # The slot is free again, for others.
        async with slots.slot(["b"]):
            pass

    asyncio.run(scenario())


def test_forwarded_reads_are_told() -> None:
    class Lookups:
        asked = 0

        async def forward(self, queries: object, most: AnswerSize) -> None:  # noqa: ARG002
            self.asked += 1
            raise LATE

    async def scenario() -> None:
        lookups = Lookups()
        tasks = ForwardTasks(lookups, Slots(3), AnswerSize(10, 10))  # type: ignore[arg-type]
        said = []
        for number in range(MOST + 3):
            with pytest.raises(UpstreamError) as caught:
                await tasks.ask([("SELECT $1", [str(number)])], ["a"])
            said.append(str(caught.value)[:4])
        assert said == ["late"] * MOST + ["Tabl"] * 3
        assert lookups.asked == MOST

    asyncio.run(scenario())
