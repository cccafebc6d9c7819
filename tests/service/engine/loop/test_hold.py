"""Stopping the engine where a snapshot is: what is applied when, for every way in which transactions may cross."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from cdc.change import Batch, CommittedTransaction, SchemaNotice, TableChange
from cdc.stream import UpstreamSnapshot
from service.engine.loop.hold import BatchFeed, Hold, HoldLost, seen_prefix

LIMIT_S = 60.0


@dataclass(frozen=True)
class Seen:
    """A snapshot that sees some transactions, and is unsure of others."""

    ids: frozenset[int]
    doubtful: frozenset[int] = frozenset()

    @property
    def exact(self) -> bool:
        return not self.doubtful

    def sees(self, transaction: int, end: int) -> bool:  # noqa: ARG002
        return transaction in self.ids

    def unsure(self, transaction: int, end: int) -> bool:  # noqa: ARG002
        return transaction in self.doubtful

    def covers(self, other: "Seen") -> bool:
        raise NotImplementedError

    def finished(self, other: "Seen") -> bool:
        raise NotImplementedError


def transaction(number: int) -> CommittedTransaction:
    return CommittedTransaction(number, number * 10, {"t": TableChange(added=[(str(number),)])})


def batch(*numbers: int, position: int | None = None, **more: Any) -> Batch:
    end = position if position is not None else numbers[-1] * 10
    return Batch([transaction(n) for n in numbers], end, **more)


def hold_of(
    applied: list[Batch], sees_applied: Callable[[UpstreamSnapshot], bool] = lambda _: True
) -> tuple[BatchFeed, Hold]:
    feed = BatchFeed(applied.append)
    return feed, Hold(feed, lambda: applied[-1].position if applied else 0, sees_applied)


def numbers_of(batches: list[Batch]) -> list[int]:
    return [t.id for b in batches for t in b.transactions]


def test_the_first_part_for_every_set_of_seen_transactions() -> None:
    transactions = [transaction(n) for n in range(1, 6)]
    for chosen in itertools.product((False, True), repeat=5):
        seen = frozenset(t.id for t, sees in zip(transactions, chosen, strict=True) if sees)
        found = seen_prefix(transactions, Seen(seen))
        is_prefix = seen == frozenset(range(1, len(seen) + 1))
        assert found == (len(seen) if is_prefix else None)
        assert seen_prefix(transactions, Seen(seen, frozenset({5}) - seen)) == (
            None if not is_prefix or 5 not in seen else 5
        )


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_exactly_what_is_seen_is_applied_however_it_comes(size: int) -> None:
    async def scenario(seen: int) -> None:
        applied: list[Batch] = []
        feed, hold = hold_of(applied)
        feed.apply(batch(1))
        async with hold.held(LIMIT_S):
            for first in range(2, 8, size):
                feed.apply(batch(*range(first, min(8, first + size)), passed=[first]))
            assert numbers_of(applied) == [1]
            assert await hold.cut(Seen(frozenset(range(1, seen + 1))), 70)
            assert numbers_of(applied) == list(range(1, seen + 1))
            assert applied[-1].position == seen * 10
            feed.apply(batch(8))
        assert numbers_of(applied) == list(range(1, 9))
        # Positions do not go back, and what has passed is told once, when all of it has.
        assert [b.position for b in applied] == sorted(b.position for b in applied)
        assert [n for b in applied for n in b.passed] == list(range(2, 8, size))
        feed.apply(batch(9))
        assert numbers_of(applied)[-1] == 9

    for seen in range(1, 8):
        asyncio.run(scenario(seen))


def test_it_waits_for_the_bound_and_gives_up_where_transactions_cross() -> None:
    async def scenario() -> None:
        applied: list[Batch] = []
        feed, hold = hold_of(applied, lambda snapshot: snapshot.sees(1, 10))
        feed.apply(batch(1))
        async with hold.held(LIMIT_S):
            cutting = asyncio.ensure_future(hold.cut(Seen(frozenset({1, 3})), 40))
            feed.apply(batch(2))
            await asyncio.sleep(0)
            feed.apply(batch(3))
            await asyncio.sleep(0)
            assert not cutting.done()
            feed.apply(Batch([], 40))
            # 3 is seen, and 2 before it is not.
            assert not await cutting
            assert numbers_of(applied) == [1]
            # What was applied before is not seen.
            assert not await hold.cut(Seen(frozenset({2, 3})), 40)
            # Notices come before the rows that they are about, once.
            feed.apply(batch(4, 5, schema=[SchemaNotice("t", "gone")]))
            assert await hold.cut(Seen(frozenset({1, 2, 3, 4})), 50)
        assert numbers_of(applied) == [1, 2, 3, 4, 5]
        assert [len(b.schema) for b in applied if b.transactions] == [0, 0, 0, 1, 0]

    asyncio.run(scenario())


def test_a_hold_ends_when_its_time_is_up_and_when_the_stream_does() -> None:
    async def scenario() -> None:
        applied: list[Batch] = []
        feed, hold = hold_of(applied)

        async def waits_too_long() -> None:
            async with hold.held(0.01):
                feed.apply(batch(1))
                await hold.cut(Seen(frozenset()), 1000)

        async def loses_the_stream() -> None:
            async with hold.held(LIMIT_S):
                asyncio.get_running_loop().call_soon(hold.close)
                await hold.cut(Seen(frozenset()), 1000)

        with pytest.raises(HoldLost, match="within"):
            await waits_too_long()
        assert numbers_of(applied) == [1]
        with pytest.raises(HoldLost, match="lost"):
            await loses_the_stream()

    asyncio.run(scenario())
