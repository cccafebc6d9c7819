"""What goes on for as long as clients like: events and long polls, passed on as they come.

*Invariants*: when the worker is stopped, all of them end: events where one is whole, so that the client comes back with
the last id it has; a poll that has no answer yet is refused, and may be sent again.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from random import uniform
from typing import Any

from service.gateway.counting import GatewayCounters
from service.ground.errors import ApiError
from service.web.messages import Send
from service.worker.subscriptions.requests import EVENT_STREAM

#: Seconds within which clients come back, each when it likes.
_COME_BACK_S = (0.5, 3.0)


class Streams:
    """*State*: `_tasks` serve one each; once `_ending`, there are no more."""

    def __init__(self, counters: GatewayCounters) -> None:
        self._counters = counters
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = False

    async def serve(self, serve: Callable[[Send], Awaitable[None]], send: Send) -> None:
        """Serve one with `serve`, which is given what to send with. ApiError."""
        if self._ending:
            raise _ended()
        task = asyncio.current_task()
        assert task is not None
        sending = _Sending(send)
        self._tasks.add(task)
        self._counters.streams += 1
        try:
            await serve(sending)
        except asyncio.CancelledError:
            if not self._ending:
                raise
            task.uncancel()
            await sending.end()
        finally:
            self._counters.streams -= 1
            self._tasks.discard(task)

    async def end(self) -> None:
        """End all of them."""
        self._ending = True
        for task in list(self._tasks):
            task.cancel()


class _Sending:
    """What a response is sent with. *State*: `_last` is what was sent last, of events."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = self._is_events = False
        self._last = b""

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Send it."""
        if message["type"] == "http.response.start":
            self._started = True
            self._is_events = any(
                name == b"content-type" and value.startswith(EVENT_STREAM) for name, value in message["headers"]
            )
        else:
            self._last = message["body"] or self._last
        await self._send(message)

    async def end(self) -> None:
        """There is no more. ApiError if there was nothing."""
        if not self._started:
            raise _ended()
        if self._is_events:
            # Behind a piece of an event nothing may be said that would make it look whole.
            retry = b"retry: %d\n\n" % (uniform(*_COME_BACK_S) * 1000) if self._last.endswith(b"\n\n") else b""
            await self._send({"type": "http.response.body", "body": retry, "more_body": False})


def _ended() -> ApiError:
    return ApiError("engine_unavailable", "This gateway is stopping.", "Try again: another gateway answers.")
