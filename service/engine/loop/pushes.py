"""Makes the stream reach positions that somebody waits for (ARCHITECTURE.md, "Versioned lookups").

The stream only carries flushed WAL, and on an idle database nothing flushes what a lookup saw: asking the server how
far the stream is (a keepalive) suffices mostly, a logical message always. However many wait, one task asks.
"""

import asyncio
from collections.abc import Awaitable, Callable

from dataflow.types import Position
from service.engine.upstream.results import UpstreamError
from service.protocol.counters import Counters

#: How long a keepalive may take before the stream is pushed.
KEEPALIVE_S = 0.001
#: Between questions while the server is still decoding, at most.
PATIENCE_S = 0.1
#: A push whose message has not arrived by then is repeated.
REPEAT_S = 1.0


class Pushes:
    """The highest position anybody waits for, and the task that gets the stream there.

    Maintains: `_task` runs exactly while `_target` is above `_applied` and the stream is up.
    """

    def __init__(
        self, request_position: Callable[[], None], push: Callable[[], Awaitable[object]], counters: Counters
    ) -> None:
        self._request_position = request_position
        self._push = push
        self._target: Position = 0
        self._applied: Position = 0
        self._waited_for: Position = 0
        self._moved = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._counters = counters

    def ask(self) -> None:
        """Has the server say how far the stream is, once."""
        self._request_position()

    def reach(self, position: Position) -> None:
        """Somebody waits for `position`, which is one that the server has come to."""
        self._target = max(self._target, position)
        if self._target > self._applied and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    def advanced(self, position: Position) -> None:
        """The engine has applied everything up to `position`."""
        self._applied = position
        if position >= self._waited_for:
            self._moved.set()

    async def close(self) -> None:
        """The stream is gone; nobody's position will be reached."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._target > self._applied:
            target = self._target
            self._request_position()
            if not await self._reached(target, KEEPALIVE_S):
                await self._push_to(target)

    async def _push_to(self, target: Position) -> None:
        """Pushes, then asks until the stream is at `target` or a push should be repeated."""
        try:
            await self._push()
            self._counters.pushes += 1
        except UpstreamError:
            # Not allowed, or the upstream is away: the WAL writer's own flush, or the next stream, gets there.
            pass
        delay_s = KEEPALIVE_S
        waited_s = 0.0
        while waited_s < REPEAT_S:
            self._request_position()
            if await self._reached(target, delay_s):
                return
            waited_s += delay_s
            delay_s = min(2 * delay_s, PATIENCE_S)

    async def _reached(self, target: Position, limit_s: float) -> bool:
        if self._applied < target:
            self._waited_for = target
            self._moved.clear()
            try:
                await asyncio.wait_for(self._moved.wait(), limit_s)
            except TimeoutError:
                return self._applied >= target
        return True
