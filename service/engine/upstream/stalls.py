"""Time limits of a server's replies.

A busy loop reads replies late. That is not the server's delay, and what follows from one (requests that run again, one
by one) would make the loop busier.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from select import POLLIN, poll
from time import monotonic


def has_input(socket: int) -> bool:
    """Returns whether a socket has data that was not read yet."""
    waiting = poll()
    waiting.register(socket, POLLIN)
    return bool(waiting.poll(0))


class StallTimer:
    """Notes in `has_stalled`, and calls `stalled`, each `limit_s` (None: never) after the last `restart`, or the
    construction, until `stop`, but not while data waits on a socket, or for the task that reads it."""

    def __init__(self, socket: int, limit_s: float | None, stalled: Callable[[], None] = lambda: None) -> None:
        self._socket = socket
        self._stalled = stalled
        self._began_s = monotonic()
        # One timer, however often it is restarted: that is once a statement.
        self._timer: asyncio.Handle | None = None
        self.has_stalled = False
        if limit_s is not None:
            self._look_in(limit_s, limit_s)

    def restart(self) -> None:
        """Begins the time anew."""
        self._began_s = monotonic()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look_in(self, left_s: float, limit_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(left_s, self._look, limit_s)

    def _look(self, limit_s: float, again: bool = False) -> None:
        left_s = self._began_s + limit_s - monotonic()
        if left_s > 0:
            self._look_in(left_s, limit_s)
            return
        if not has_input(self._socket):
            if not again:
                # A reader that ran earlier in this turn of the loop may have taken the data; its task runs next.
                self._timer = asyncio.get_running_loop().call_soon(self._look, limit_s, True)
                return
            self.has_stalled = True
            self._stalled()
        self.restart()
        self._look_in(limit_s, limit_s)


@asynccontextmanager
async def stall_limit(socket: int, limit_s: float | None, *, ends: bool) -> AsyncIterator[StallTimer]:
    """Runs a timer; with `ends`, the block ends by TimeoutError when the server stalls."""
    async with asyncio.timeout(None) as limit:
        loop = asyncio.get_running_loop()
        timer = StallTimer(socket, limit_s, lambda: limit.reschedule(loop.time()) if ends else None)
        try:
            yield timer
        finally:
            timer.stop()
