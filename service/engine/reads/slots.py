"""Slots: limits on the concurrent upstream statements of reads, in total and for each table.

*Theory*: a locked or slow table blocks its statements until they time out. One table may use only a share of all slots,
so reads of other tables continue. A table that does not respond at all is not queried for a while (`breakers`).

*Maintains*: a statement waits only if it would exceed a limit; otherwise equal waiters are served first come, first
served.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Collection
from time import monotonic
from types import TracebackType

from service.engine.reads.breakers import ABANDONED, Breakers


def share_of(slots: int) -> int:
    """Returns the maximum number of statements of one table."""
    return max(1, slots * 2 // 3)


class Slots:
    """Limiter of statements: ``async with slots.slot(tables): …`` runs a statement that reads these tables."""

    def __init__(self, total: int, patience_s: float = 5.0) -> None:
        """`patience_s`: minimum time that a reader waits."""
        self.breakers = Breakers(patience_s=patience_s)
        #: Abandoned statements that were cancelled.
        self.abandoned = 0
        self._free = total
        #: Maximum statements of one table.
        self.share = share_of(total)
        self._running = Counter[str]()
        self._waiting: deque[tuple[Collection[str], asyncio.Future[None]]] = deque()

    def slot(self, tables: Collection[str]) -> "_Slot":
        """Returns a context manager for a statement; its tables may be unknown. Entering it raises `UpstreamError` if
        the breaker of a table is open."""
        return _Slot(self, tables)

    async def take(self, tables: Collection[str]) -> None:
        """Returns once a slot is free."""
        if self._fits(tables):
            self._count(tables, 1)
            return
        waiting = (tables, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        try:
            await waiting[1]
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:
                self.give(tables)
            raise

    def give(self, tables: Collection[str]) -> None:
        """Releases the slot of a finished statement."""
        self._count(tables, -1)
        for waiting in list(self._waiting):
            if not self._free:
                return
            # A cancelled waiter whose task has not run yet.
            if not waiting[1].done() and self._fits(waiting[0]):
                self._waiting.remove(waiting)
                self._count(waiting[0], 1)
                waiting[1].set_result(None)

    def _fits(self, tables: Collection[str]) -> bool:
        return self._free > 0 and all(self._running[table] < self.share for table in tables)

    def _count(self, tables: Collection[str], more: int) -> None:
        self._free -= more
        for table in tables:
            self._running[table] += more


class _Slot:
    def __init__(self, slots: Slots, tables: Collection[str]) -> None:
        self._slots = slots
        self._tables = tables
        self._begun_s = 0.0

    async def __aenter__(self) -> None:
        self._slots.breakers.check(self._tables)
        await self._slots.take(self._tables)
        try:
            self._slots.breakers.begin(self._tables)
        except BaseException:
            self._slots.give(self._tables)
            raise
        self._begun_s = monotonic()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots.abandoned += isinstance(error, ABANDONED)
        self._slots.breakers.end(self._tables, error, monotonic() - self._begun_s)
        self._slots.give(self._tables)
