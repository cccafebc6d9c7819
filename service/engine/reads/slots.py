"""How many statements run upstream at once on behalf of reads, and how many of them read one table.

*Theory*: a table that is locked, or slow, holds who asks for it until the statement times out. Of all statements that
may run, one table has a share only: others are read meanwhile. One that does not answer at all is not asked for a while
(`breakers`).

*Maintains*: whoever waits would be too many, by all or by a table; of equal ones who came first is first.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Collection
from time import monotonic
from types import TracebackType

from service.engine.reads.breakers import ABANDONED, Breakers


class Slots:
    """``async with slots.of(tables): …`` runs a statement that reads these tables."""

    def __init__(self, total: int, patience_s: float = 5.0) -> None:
        """`patience_s`: how long a reader waits at least."""
        self.breakers = Breakers(patience_s=patience_s)
        #: Statements that were ended since nobody waited for them any more.
        self.abandoned = 0
        self._free = total
        #: As of the engine's lookups (`dataflow.engine.limits`).
        self._share = max(1, total * 2 // 3)
        self._running = Counter[str]()
        self._waiting: deque[tuple[Collection[str], asyncio.Future[None]]] = deque()

    def of(self, tables: Collection[str]) -> "_Slot":
        """A slot for a statement; its tables may not be known. To enter it raises `UpstreamError` where one rests."""
        return _Slot(self, tables)

    async def take(self, tables: Collection[str]) -> None:
        """Returns once there is a slot."""
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
        """A statement has ended."""
        self._count(tables, -1)
        for waiting in list(self._waiting):
            if not self._free:
                return
            # Of one that was cancelled the task has yet to hear of it.
            if not waiting[1].done() and self._fits(waiting[0]):
                self._waiting.remove(waiting)
                self._count(waiting[0], 1)
                waiting[1].set_result(None)

    def _fits(self, tables: Collection[str]) -> bool:
        return self._free > 0 and all(self._running[table] < self._share for table in tables)

    def _count(self, tables: Collection[str], more: int) -> None:
        self._free -= more
        for table in tables:
            self._running[table] += more


class _Slot:
    """For one statement."""

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
