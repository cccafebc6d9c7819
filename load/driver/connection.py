"""Persistent HTTP/1.1 connections with little cost for the generator: bytes out, `HttpReply` in, no task for each
request.

*Invariants*: a connection carries one request at a time, so an answer always belongs to the request before it. The
sender of a request is notified of its answer or of an error, once; a request without an answer in time breaks its
connection.

*Not here*: requests (`visit`), their times (`arrivals`).
"""

import asyncio
import socket
from collections import deque
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Protocol, Self, cast
from urllib.parse import urlsplit

import httptools

from load.driver.visit import HttpCall, HttpReply, Visit

#: Servers close connections that were idle for some time (uvicorn: 5 s); a request must not meet that.
_REUSED_WITHIN_S = 4.0
_CHUNK = 1 << 18


class Waiter(Protocol):
    """Receiver of a reply. `index` is the number that it gave with the request."""

    def replied(self, index: int, reply: HttpReply) -> None: ...

    def broke(self, index: int, reason: str) -> None: ...


class Broken(Exception):
    """A connection ended, or said what is not HTTP, before the answer was there."""


class ReplyParser:
    """The bytes of one connection as replies."""

    __slots__ = ("_body", "_hit", "_parser", "keeps", "reply")

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._hit: bool | None = None
        #: The answer, once it is whole.
        self.reply: HttpReply | None = None
        #: Whether the connection may be used again.
        self.keeps = True

    def feed(self, data: bytes) -> HttpReply | None:
        """The reply that these bytes completed. Raises `Broken` for what is not HTTP."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise Broken(f"not HTTP: {error}") from error
        reply, self.reply = self.reply, None
        return reply

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) == len(b"cache-status") and name.lower() == b"cache-status":
            self._hit = b"hit" in value

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self.keeps = self._parser.should_keep_alive()
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self.reply = HttpReply(self._parser.get_status_code(), body, self._hit)
        self._body = []
        self._hit = None


class HttpConnection(asyncio.Protocol):
    __slots__ = ("_index", "_parser", "_pool", "_transport", "_waiter", "used")

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._parser = ReplyParser()
        self._transport: asyncio.Transport | None = None
        self._waiter: Waiter | None = None
        self._index = 0
        #: When the last request was sent.
        self.used = 0.0

    def send(self, request: bytes, waiter: Waiter, index: int) -> None:
        """Send a request; nothing is under way."""
        assert self._transport is not None
        self._waiter, self._index = waiter, index
        self.used = monotonic()
        self._transport.write(request)

    def abort(self, reason: str) -> None:
        """Close it; waits for replies fail."""
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    def _end(self, reason: str) -> None:
        waiter, self._waiter = self._waiter, None
        self._pool.lost(self)
        if waiter is not None:
            waiter.broke(self._index, reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"connection lost: {exc or 'closed by the server'}")

    def data_received(self, data: bytes) -> None:
        try:
            reply = self._parser.feed(data)
        except Broken as broken:
            self.abort(str(broken))
            return
        if reply is None:
            return
        # The pool may send the next request at once, which has another index.
        waiter, index = self._waiter, self._index
        self._waiter = None
        if waiter is None or not self._parser.keeps:
            self.abort("")
        else:
            self._pool.idle(self)
        if waiter is not None:
            waiter.replied(index, reply)


class Pool:
    """The connections to one server: at most `limit`; what is beyond waits in order."""

    def __init__(self, url: str, limit: int, timeout_s: float) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._limit = limit
        self._timeout_s = timeout_s
        #: The one that was used last is used next, so that few are used where few are needed.
        self._idle: list[HttpConnection] = []
        self._busy: set[HttpConnection] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[bytes, Waiter, int]] = deque()
        self._closed = False

    def send(self, request: bytes, waiter: Waiter, index: int) -> None:
        """Send it on a connection of ours, now or once there is one."""
        while self._idle:
            connection = self._idle.pop()
            if monotonic() - connection.used < _REUSED_WITHIN_S:
                self._busy.add(connection)
                connection.send(request, waiter, index)
                return
            connection.abort("")
        self._waiting.append((request, waiter, index))
        self._connect()

    def _connect(self) -> None:
        if len(self._busy) + len(self._connecting) < self._limit:
            task = asyncio.ensure_future(self._open())
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                _, connection = await loop.create_connection(lambda: HttpConnection(self), self._host, self._port)
        except OSError as error:
            if self._waiting:
                _, waiter, index = self._waiting.popleft()
                waiter.broke(index, f"cannot connect: {error}")
            return
        self._busy.add(connection)
        self.idle(connection)

    def idle(self, connection: HttpConnection) -> None:
        """Called by a connection without a request under way: the next request goes on it."""
        if self._waiting:
            connection.send(*self._waiting.popleft())
            return
        self._busy.discard(connection)
        connection.used = monotonic()
        self._idle.append(connection)

    def lost(self, connection: HttpConnection) -> None:
        self._busy.discard(connection)
        with suppress(ValueError):
            self._idle.remove(connection)
        if self._waiting and not self._closed:
            self._connect()

    def sweep(self) -> None:
        """Break what has waited too long; to be called now and then."""
        late = monotonic() - self._timeout_s
        for connection in [connection for connection in self._busy if connection.used < late]:
            connection.abort(f"no answer within {self._timeout_s:g} s")

    def close(self) -> None:
        self._closed = True
        for task in self._connecting:
            task.cancel()
        for connection in [*self._busy, *self._idle]:
            connection.abort("stopped")


class SingleConnection:
    """Requests one after another on one connection a server, waiting for each: a closed loop of one."""

    def __init__(self, reads_url: str, writes_url: str, timeout_s: float = 30.0) -> None:
        self._urls = (reads_url, writes_url)
        self._timeout_s = timeout_s
        self._sockets: dict[int, tuple[socket.socket, ReplyParser]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in list(self._sockets):
            self._close(server)

    def ask(self, call: HttpCall) -> HttpReply:
        """One request. Raises `Broken`, and `OSError` (a `TimeoutError` too)."""
        connection, parser = self._sockets.get(call.server) or self._open(call.server)
        try:
            connection.sendall(call.request)
            while (reply := parser.feed(self._receive(connection))) is None:
                pass
        except (OSError, Broken):
            self._close(call.server)
            raise
        if not parser.keeps:
            self._close(call.server)
        return reply

    def make(self, visit: Visit) -> list[HttpReply]:
        """A whole visit, its calls one after another; all replies."""
        replies: list[HttpReply] = []
        with suppress(StopIteration):
            calls = next(visit)
            while True:
                answers = [self.ask(call) for call in calls]
                replies += answers
                calls = visit.send(answers)
        return replies

    def _open(self, server: int) -> tuple[socket.socket, ReplyParser]:
        parts = urlsplit(self._urls[server])
        connection = socket.create_connection((parts.hostname or "", parts.port or 80), self._timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._sockets.setdefault(server, (connection, ReplyParser()))

    def _close(self, server: int) -> None:
        self._sockets.pop(server)[0].close()

    @staticmethod
    def _receive(connection: socket.socket) -> bytes:
        data = connection.recv(_CHUNK)
        if not data:
            raise Broken("connection closed by the server")
        return data
