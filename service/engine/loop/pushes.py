"""Moves an idle stream to awaited positions (ARCHITECTURE.md, "Versioned lookups").

The stream carries only flushed WAL, and on an idle database nothing flushes the changes that a lookup saw. A keepalive
request mostly suffices; a logical message always does. One task serves all waiters.
"""

import asyncio
from collections.abc import Awaitable, Callable

from dataflow.types import Position
from service.engine.upstream.results import UpstreamError
from service.protocol.counters import Counters

#: Maximum wait for a keepalive's reply before a logical message is written.
KEEPALIVE_S = 0.001
#: Maximum pause between keepalive requests while the server is decoding.
PATIENCE_S = 0.1
#: Time after which a message that has not arrived is written again.
REPEAT_S = 1.0


class Pushes:
    """Highest awaited position, and the task that moves the stream to it.

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
        """Requests the stream's position once."""
        self._request_position()

    def reach(self, position: Position) -> None:
        """Makes the stream reach `position`, which the server has already reached."""
        self._target = max(self._target, position)
        if self._target > self._applied and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    def advanced(self, position: Position) -> None:
        """Records the position applied by the engine."""
        self._applied = position
        if position >= self._waited_for:
            self._moved.set()

    def resumed(self) -> None:
        """Forgets the target: if the database has crashed, its log may end before that. The next heartbeat sets one."""
        self._target = self._applied

    async def close(self) -> None:
        """Cancels the task: the stream is lost."""
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
        """Writes a message, then requests the position until the stream is at `target` or the message should be
        repeated."""
        try:
            await self._push()
            self._counters.pushes += 1
        except UpstreamError:
            # Not permitted, or the upstream is unavailable: the WAL writer's flush, or the next stream, reaches the
            # position.
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
