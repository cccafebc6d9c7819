"""Stops the engine for a moment exactly where an upstream snapshot is: all that it sees is applied, and nothing else.

*Theory*: while nothing is applied, the snapshot is taken, and the stream is read on to the snapshot's bound: all that
it sees is there by then. What was applied before must be seen; of what was read since, what is seen must come before
what is not. If so, the first part is applied, and the engine is at the snapshot: whoever looks into the leaf store now
sees what the snapshot sees. If not (PostgreSQL makes commits visible in another order than that of the log), or if the
snapshot is unsure of a transaction, nothing can be had at it: the next snapshot will do.

*Invariants*: batches are applied in their order, whole, and once, held or not; a hold ends when its time is up.

Not here: who takes the snapshot, and what is done at it (`service.audit`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from cdc.change import Batch, CommittedTransaction
from cdc.stream import UpstreamSnapshot
from dataflow.types import Position

#: Whether all that was applied, and may not be seen by every snapshot yet, is seen by this one for sure.
SeesApplied = Callable[[UpstreamSnapshot], bool]


class HoldLost(Exception):
    """There is nothing to hold any more, or the time is up; the text says which."""


class Hold:
    """Between a stream and what applies its batches.

    *State*: while `_holding`, batches that came are in `_held`; `_position` is how far they go.
    """

    def __init__(self, apply: Callable[[Batch], None], sees_applied: SeesApplied) -> None:
        self._apply = apply
        self._sees_applied = sees_applied
        self._holding = False
        self._closed = False
        self._held: deque[Batch] = deque()
        self._position: Position = 0
        self._moved = asyncio.Event()

    def offer(self, batch: Batch) -> None:
        """The stream has brought a batch: it is applied at once, or when the hold ends."""
        self._position = batch.position
        self._moved.set()
        if self._holding:
            self._held.append(batch)
        else:
            self._apply(batch)

    def close(self) -> None:
        """The stream is gone."""
        self._closed = True
        self._held.clear()
        self._moved.set()

    @asynccontextmanager
    async def held(self, limit_s: float) -> AsyncIterator[None]:
        """Nothing is applied inside the block but by `cut`. Raises `HoldLost` if it takes longer. One at a time."""
        assert not self._holding, "one hold at a time"
        self._holding = True
        try:
            async with asyncio.timeout(limit_s):
                yield
        except TimeoutError:
            raise HoldLost(f"the change stream did not get to the snapshot within {limit_s:g} s") from None
        finally:
            await self._release()

    async def _release(self) -> None:
        """Applies what was held, batch by batch; what comes meanwhile comes behind it."""
        try:
            while self._held:
                self._apply(self._held.popleft())
                await asyncio.sleep(0)
        finally:
            # Cancelled: the rest is applied with the next batch, which comes behind it.
            while self._held:
                self._apply(self._held.popleft())
            self._holding = False

    async def cut(self, snapshot: UpstreamSnapshot, bound: Position) -> bool:
        """Applies exactly what `snapshot` sees, all of which is in the stream by `bound`; whether that is possible.

        The snapshot was taken inside the hold. Raises `HoldLost`.
        """
        while self._position < bound and not self._closed:
            self._moved.clear()
            await self._moved.wait()
        if self._closed:
            raise HoldLost("the change stream was lost")
        transactions = [t for batch in self._held for t in batch.transactions]
        seen = seen_prefix(transactions, snapshot)
        if seen is None or not self._sees_applied(snapshot):
            return False
        while self._held:
            batch = self._held[0]
            if len(batch.transactions) <= seen:
                seen -= len(batch.transactions)
                self._apply(self._held.popleft())
                continue
            if seen:
                self._apply(self._split(seen))
            break
        return True

    def _split(self, seen: int) -> Batch:
        """The first transactions of the first batch, which loses them. Notices go before any of them; of what has
        passed nobody is told before all of it has."""
        batch = self._held[0]
        first, rest = batch.transactions[:seen], batch.transactions[seen:]
        self._held[0] = replace(batch, transactions=rest, schema=[], redefined=[])
        return Batch(first, first[-1].end, batch.schema, redefined=batch.redefined)


def seen_prefix(transactions: list[CommittedTransaction], snapshot: UpstreamSnapshot) -> int | None:
    """How many of the first ones `snapshot` sees, if it sees no later one, and is sure of all; else None."""
    sees = [snapshot.sees(t.id, t.end) for t in transactions]
    count = sum(sees)
    if not all(sees[:count]):
        return None
    if not snapshot.exact and any(snapshot.unsure(t.id, t.end) for t in transactions[count:]):
        return None
    return count
