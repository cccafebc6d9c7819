"""Waits for the leaf store to reach a position."""

import asyncio
import heapq
import itertools

from dataflow.types import Position


class Positions:
    """Futures by the position that resolves them.

    Maintains: `_waiting` is a heap of positions above `applied`; at least half of its futures are still awaited.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[Position, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        #: Upper bound of the abandoned futures in the heap.
        self._left = 0
        self.applied: Position = 0

    def advanced(self, position: Position) -> None:
        """Resolves the waits up to `position`, the position of a commit."""
        self.applied = position
        while self._waiting and self._waiting[0][0] <= position:
            future = heapq.heappop(self._waiting)[2]
            if future.done():
                self._left -= 1
            else:
                future.set_result(None)

    async def wait(self, position: Position) -> None:
        """Returns once a commit has reached `position`."""
        if position <= self.applied:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (position, next(self._order), future))
        try:
            await future
        except asyncio.CancelledError:
            self._leave()
            raise

    def _leave(self) -> None:
        """Counts an abandoned wait; when they exceed half of the heap, removes all of them."""
        self._left += 1
        if 2 * self._left > len(self._waiting):
            self._waiting = [waiter for waiter in self._waiting if not waiter[2].done()]
            heapq.heapify(self._waiting)
            self._left = 0
