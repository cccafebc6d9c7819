"""Client of a stream of server-sent events with little cost of its own: bytes in, `StreamEvent` out.

*Invariants*: an event is delivered once it is complete; comments are not. The end of a connection is reported once.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self, cast
from urllib.parse import urlsplit

import httptools
import orjson

Heard = Callable[["StreamEvent"], None]
#: Of the socket, of a client that is to be stalled soon.
SMALL_BUFFER = 1 << 12


@dataclass(frozen=True, slots=True)
class StreamEvent:
    kind: str
    data: dict[str, Any]


class EventParser:
    """The bytes of one stream as events.

    *State*: `last_id` is what a client resumes with; `retry_ms`, after how long.
    """

    def __init__(self) -> None:
        self._rest = b""
        self.last_id = ""
        self.retry_ms: int | None = None

    def feed(self, data: bytes) -> list[StreamEvent]:
        """The events that these bytes completed."""
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        events = []
        for block in map(_read, blocks):
            if block.id is not None:
                self.last_id = block.id
            if block.retry_ms is not None:
                self.retry_ms = block.retry_ms
            if block.event is not None:
                events.append(block.event)
        return events


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines between two empty lines."""

    event: StreamEvent | None
    id: str | None
    retry_ms: int | None


@lru_cache(maxsize=1024)
def _read(block: bytes) -> _Block:
    """All subscribers of an answer get the same bytes: one of them reads them. Nobody changes what they say."""
    kind, lines, last_id, retry_ms = "message", [], None, None
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            kind = value.decode()
        elif name == b"id":
            last_id = value.decode()
        elif name == b"data":
            lines.append(value)
        elif name == b"retry":
            retry_ms = int(value)
    return _Block(StreamEvent(kind, orjson.loads(b"\n".join(lines))) if lines else None, last_id, retry_ms)


class EventSource(asyncio.Protocol):
    """One subscription: ``await EventSource.open(url, heard)``. `ended` is done when the connection has gone."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._parser = httptools.HttpResponseParser(self)
        self._problem = b""
        self._transport: asyncio.Transport | None = None
        self.events = EventParser()
        self.status = 0
        #: Whether the response was ended properly.
        self.complete = False
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(cls, url: str, heard: Heard, last_id: str = "", *, small: bool = False) -> Self:
        """Connect and wait for the response's head. `small`: with a small buffer, to be stalled. OSError."""
        parts = urlsplit(url)
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if small:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connection.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(connection, (parts.hostname, parts.port))
        _, source = await loop.create_connection(lambda: cls(heard), sock=connection)
        resume = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
        head = f"GET {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n{resume}"
        assert source._transport is not None
        source._transport.write(f"{head}Accept: text/event-stream\r\n\r\n".encode())
        await source.begun
        return source

    @property
    def problem(self) -> dict[str, Any]:
        """The body of a response that is no stream, once it has `ended`."""
        found: dict[str, Any] = orjson.loads(self._problem)
        return found

    def stall(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()

    def go_on(self) -> None:
        assert self._transport is not None
        self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        for waited in (self.begun, self.ended):
            if not waited.done():
                waited.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    # httptools

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.begun.set_result(None)

    def on_body(self, body: bytes) -> None:
        if self.status != 200:
            self._problem += body
            return
        for event in self.events.feed(body):
            self._heard(event)

    def on_message_complete(self) -> None:
        self.complete = True
        self.close()
