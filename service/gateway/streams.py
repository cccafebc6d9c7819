"""Streams of unbounded duration: events and long polls, forwarded as they arrive.

*Invariants*: all streams end when the worker stops: events after a complete one, so that the client resumes from its
last id; a poll without an answer is refused, and may be repeated.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from random import uniform
from typing import Any

from service.gateway.counting import GatewayCounters
from service.ground.errors import ApiError
from service.web.messages import Send
from service.worker.subscriptions.requests import EVENT_STREAM

#: Range of seconds from which each client draws its time to reconnect.
_COME_BACK_S = (0.5, 3.0)


class Streams:
    """*State*: `_tasks` serve one stream each; while `_ending`, new ones are refused."""

    def __init__(self, counters: GatewayCounters) -> None:
        self._counters = counters
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = False

    async def serve(self, serve: Callable[[Send], Awaitable[None]], send: Send) -> None:
        """Serve one stream with `serve`, which gets its `send`. Raises ApiError."""
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
        self._ending = True
        for task in list(self._tasks):
            task.cancel()


class _Sending:
    """The `send` of a response. *State*: `_last` is the latest piece of an event stream."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = self._is_events = False
        self._last = b""

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            self._is_events = any(
                name == b"content-type" and value.startswith(EVENT_STREAM) for name, value in message["headers"]
            )
        else:
            self._last = message["body"] or self._last
        await self._send(message)

    async def end(self) -> None:
        """End the response. Raises ApiError if it has not begun."""
        if not self._started:
            raise _ended()
        if self._is_events:
            # A piece of an event must not be completed by the comment.
            retry = b"retry: %d\n\n" % (uniform(*_COME_BACK_S) * 1000) if self._last.endswith(b"\n\n") else b""
            await self._send({"type": "http.response.body", "body": retry, "more_body": False})


def _ended() -> ApiError:
    return ApiError("engine_unavailable", "This gateway is stopping.", "Try again: another gateway answers.")
