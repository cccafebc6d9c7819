"""Server-sent events: one subscription as one unbounded response.

*Theory*: an event is bytes that all subscribers of a key share. Each connection gets it in pieces, the next one when
the transport has room: unread events stay in the shared log, in which a subscription holds only its place.

*Invariants*: the pieces of an event are contiguous. A connection holds at most its transport's buffer and one piece.
"""

import asyncio
from collections.abc import Sequence
from random import uniform

from service.web.disconnects import until_left
from service.web.messages import Headers, Receive, Send
from service.worker.subscriptions.topics import Entry, EventKind, Subscription

_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    # Proxies that buffer responses (nginx) would delay events.
    (b"x-accel-buffering", b"no"),
]
_PIECE_BYTES = 1 << 16
_COMMENT = b": keep-alive\n\n"
#: Range of seconds from which each client draws its time to reconnect when the worker stops.
_COME_BACK_S = (0.5, 3.0)


class EventStream:
    """One response.

    *State*: `_comment` is the task that sends a keep-alive, if any; while `_quiet`, the stream has nothing to send.
    `_sent` counts sent pieces, and was `_seen` when the clock last ticked.
    """

    def __init__(self, subscription: Subscription, send: Send, keep_alive_s: float) -> None:
        self._subscription = subscription
        self._send = send
        self._tick_s = keep_alive_s / 2
        self._quiet = False
        self._sent = self._seen = 0
        self._comment: asyncio.Future[None] | None = None
        self._ticking: asyncio.TimerHandle | None = None

    async def run(self, receive: Receive) -> None:
        """Send events until the client leaves, must refetch, or the worker stops."""
        self._tick()
        try:
            with until_left(receive):
                await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                await self._write(b": upquery\n\n")
                await self._write_entries()
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._subscription.close()
            if self._ticking is not None:
                self._ticking.cancel()
            if self._comment is not None:
                self._comment.cancel()

    async def _write_entries(self) -> None:
        while entries := await self._next():
            for entry in entries:
                await self._write(entry.sse)
                if entry.kind is EventKind.MUST_REFETCH:
                    return
        # The worker is stopping: its clients should not all reconnect at once.
        await self._write(b"retry: %d\n\n" % (uniform(*_COME_BACK_S) * 1000))

    async def _next(self) -> Sequence[Entry]:
        self._quiet = True
        entries = await self._subscription.next()
        self._quiet = False
        if self._comment is not None:
            await self._comment
            self._comment = None
        return entries

    async def _write(self, event: bytes) -> None:
        self._sent += 1
        for start in range(0, len(event), _PIECE_BYTES):
            piece = event if len(event) <= _PIECE_BYTES else event[start : start + _PIECE_BYTES]
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    def _tick(self) -> None:
        """Tick twice within the keep-alive interval."""
        self._ticking = asyncio.get_running_loop().call_later(self._tick_s, self._tick)
        if self._quiet and self._sent == self._seen and (self._comment is None or self._comment.done()):
            self._comment = asyncio.ensure_future(self._write(_COMMENT))
        self._seen = self._sent
