"""Hold: pauses the stream until the engine state equals an upstream snapshot exactly.

*Theory*: while batches are held, the snapshot is taken and the stream is read up to the snapshot's bound, so every
transaction that the snapshot sees has arrived. The snapshot must see everything applied before; of the held
transactions, those seen must precede those not seen. If so, the seen prefix is applied, and the leaf store equals the
snapshot. If not (PostgreSQL may make commits visible in another order than that of its log), or if the visibility of a
transaction is uncertain, the attempt fails and a new snapshot is needed.

*Invariants*: batches are applied in order, whole and exactly once, held or not; a hold ends when its time limit
expires.

Not here: the snapshot and its use (`service.engine.audit`).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from cdc.change import Batch, CommittedTransaction
from cdc.stream import UpstreamSnapshot
from dataflow.types import Position

#: True if the snapshot certainly sees every applied transaction that some snapshots may not see yet.
SeesApplied = Callable[[UpstreamSnapshot], bool]


class HoldLost(Exception):
    """Stream lost or time limit expired during a hold; the text says which."""


class BatchFeed:
    """Entry point of the stream's batches. *State*: `apply` is replaced during a `Hold`."""

    __slots__ = ("apply",)

    def __init__(self, apply: Callable[[Batch], None]) -> None:
        self.apply = apply


class Hold:
    """Queue of batches, installed in a feed for the duration of a hold only.

    *State*: `_held`, the batches that arrived during the hold and are not applied yet.
    """

    def __init__(self, feed: BatchFeed, applied: Callable[[], Position], sees_applied: SeesApplied) -> None:
        self._feed = feed
        self._apply = feed.apply
        #: Returns the position of the last batch applied.
        self._applied = applied
        self._sees_applied = sees_applied
        self._closed = False
        self._held: deque[Batch] = deque()
        self._moved = asyncio.Event()

    def _queue(self, batch: Batch) -> None:
        self._held.append(batch)
        self._moved.set()

    def close(self) -> None:
        """Ends all waits: the stream is lost."""
        self._closed = True
        self._held.clear()
        self._moved.set()

    @asynccontextmanager
    async def held(self, limit_s: float) -> AsyncIterator[None]:
        """Queues batches inside the block; only `cut` applies any. Raises `HoldLost` at the time limit. One hold at a
        time."""
        assert self._feed.apply == self._apply, "one hold at a time"
        self._feed.apply = self._queue
        try:
            async with asyncio.timeout(limit_s):
                yield
        except TimeoutError:
            raise HoldLost(f"the change stream did not reach the snapshot within {limit_s:g} s") from None
        finally:
            await self._release()

    async def _release(self) -> None:
        """Applies the queued batches one by one; batches that arrive meanwhile are queued behind them."""
        try:
            while self._held:
                self._apply(self._held.popleft())
                await asyncio.sleep(0)
        finally:
            # Cancelled: apply the rest now, to keep the order.
            while self._held:
                self._apply(self._held.popleft())
            self._feed.apply = self._apply

    async def cut(self, snapshot: UpstreamSnapshot, bound: Position) -> bool:
        """Applies exactly the transactions that `snapshot` sees, all of which are in the stream by `bound`. Returns
        False if that is impossible.

        The snapshot was taken inside the hold. Raises `HoldLost`.
        """
        while self._position < bound and not self._closed:
            self._moved.clear()
            await self._moved.wait()
        if self._closed:
            raise HoldLost("the change stream was lost")
        if any(batch.resumed for batch in self._held):
            # The database may have crashed, and lost what the snapshot sees.
            return False
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

    @property
    def _position(self) -> Position:
        return self._held[-1].position if self._held else self._applied()

    def _split(self, seen: int) -> Batch:
        """Splits the first transactions off the first batch. Schema notices stay with the first part; `passed` ids stay
        with the rest, since all of the batch has to be applied before they are reported."""
        batch = self._held[0]
        first, rest = batch.transactions[:seen], batch.transactions[seen:]
        self._held[0] = replace(batch, transactions=rest, schema=[], redefined=[])
        return Batch(first, first[-1].end, batch.schema, redefined=batch.redefined)


def seen_prefix(transactions: list[CommittedTransaction], snapshot: UpstreamSnapshot) -> int | None:
    """Returns the number of leading transactions that `snapshot` sees, if it sees no later one and none is uncertain;
    else None."""
    sees = [snapshot.sees(t.id, t.end) for t in transactions]
    count = sum(sees)
    if not all(sees[:count]):
        return None
    if not snapshot.exact and any(snapshot.unsure(t.id, t.end) for t in transactions[count:]):
        return None
    return count
