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
    """Calls `stalled` each `limit_s` after the last `restart`, or the construction, until `stop`, but not while unread
    data waits on a socket."""

    def __init__(self, socket: int, limit_s: float, stalled: Callable[[], None]) -> None:
        self._socket = socket
        self._limit_s = limit_s
        self._stalled = stalled
        self._began_s = monotonic()
        # One timer, however often it is restarted: that is once a statement.
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._look)

    def restart(self) -> None:
        """Begins the time anew."""
        self._began_s = monotonic()

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left_s = self._began_s + self._limit_s - monotonic()
        if left_s <= 0:
            if not has_input(self._socket):
                self._stalled()
            self.restart()
            left_s = self._limit_s
        self._timer = asyncio.get_running_loop().call_later(left_s, self._look)


@asynccontextmanager
async def stall_limit(socket: int, limit_s: float | None) -> AsyncIterator[None]:
    """Ends the block by TimeoutError after `limit_s` (None: never), but not while unread data waits on a socket."""
    if limit_s is None:
        yield
        return
    async with asyncio.timeout(None) as limit:
        timer = StallTimer(socket, limit_s, lambda: limit.reschedule(asyncio.get_running_loop().time()))
        try:
            yield
        finally:
            timer.stop()
