"""A worker's side of the Unix socket to the engine process."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

from cdc.gtid import Gtids
from dataflow.types import Key, Position, ViewId
from service.ground.errors import ApiError
from service.protocol.adhoc import Match
from service.protocol.codec import Request, codec_of
from service.protocol.engine_requests import (
    CancelRequest,
    Changed,
    CheckpointRequest,
    FillRequest,
    ForwardRequest,
    PinRequest,
    QueryRequest,
    ReachGtidsRequest,
    ReachRequest,
    ReadRequest,
    ReplyKind,
    Report,
    StreamRequest,
    UnpinRequest,
    message_frame,
    name_of,
    reply_of,
    result_of,
)
from service.protocol.frames import FrameWriter, read_frame, write_frame
from service.protocol.reads import ReadItem, ReadReply, StoredReply

R = TypeVar("R")

#: An engine that has not read so much of what it was sent gets no more reports for now.
MAX_UNREAD_BYTES = 1 << 20
#: One that has not read so much gets no more requests either.
_MAX_UNREAD_REQUESTS = 16 << 20
#: An engine that has not confirmed so many reports, of which there is one a second, seems to hang: nobody waits for
#: it any longer. (Of a worker that was stopped itself, the clock would say the same.)
UNCONFIRMED_REPORTS = 10


class ChangeListener(Protocol):
    """A worker's reactions to changes of its topics."""

    def changed(self, topics: Sequence[int], position: Position) -> None:
        """These were touched by commits of the leaf store, up to that of `position`."""
        ...

    def disconnected(self) -> None:
        """The engine, or the connection to it, is gone: no topic is followed any more."""
        ...


class _Connection:
    """An open connection of a client, with the requests that wait for their replies."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: ChangeListener | None
    ) -> None:
        self._writer = writer
        self._frames = FrameWriter(writer)
        self._waiting: dict[int, asyncio.Future[tuple[ReplyKind, bytes]]] = {}
        self._numbers = count(1)
        self._unconfirmed_reports = 0
        self._listener = listener
        self._reading = asyncio.ensure_future(self._read(reader))

    @property
    def closed(self) -> bool:
        """True if nothing can be sent any more."""
        return self._writer.is_closing()

    def send(self, frame: bytes) -> None:
        """Send without waiting for a reply."""
        self._frames.write(frame)

    def report(self, report: Report) -> None:
        """Send a report, unless the other side does not read. Where it is silent, what waits for it fails."""
        if self.unread_bytes() <= MAX_UNREAD_BYTES:
            self.send(message_frame(report))
        self._unconfirmed_reports += 1
        if self._is_silent():
            self._fail()

    def available(self) -> bool:
        """Return whether a request would be read, as far as is known."""
        return not self._is_silent() and self.unread_bytes() <= _MAX_UNREAD_REQUESTS

    def _is_silent(self) -> bool:
        return self._unconfirmed_reports > UNCONFIRMED_REPORTS

    def unread_bytes(self) -> int:
        """Size of the write buffer, with the frames of this turn."""
        return self._writer.transport.get_write_buffer_size() + self._frames.unsent_bytes

    async def ask(self, request: Request[R], trace: str) -> R:
        """Send, and wait for the reply; a caller that stops waiting cancels the request."""
        number = next(self._numbers)
        future: asyncio.Future[tuple[ReplyKind, bytes]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self.send(message_frame(request, number, trace))
            return result_of(request, *await future)
        finally:
            del self._waiting[number]
            if future.cancelled() and not self.closed:
                self.send(message_frame(CancelRequest(), number))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                self._settle(*reply_of(await read_frame(reader)))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            self._writer.close()
            self._fail()
            if self._listener is not None:
                self._listener.disconnected()

    def _fail(self) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(_unavailable())

    def _settle(self, kind: ReplyKind, number: int, body: bytes) -> None:
        match kind:
            case ReplyKind.REPORTED:
                self._unconfirmed_reports = 0
            case ReplyKind.CHANGED:
                if self._listener is not None:
                    changed: Changed = codec_of(Changed).read(body)
                    self._listener.changed(changed.topics, changed.position)
            case ReplyKind.RESULT | ReplyKind.ROWS | ReplyKind.STORED | ReplyKind.PROBLEM | ReplyKind.PART:
                future = self._waiting.get(number)
                if future is not None and not future.done():
                    future.set_result((kind, body))

    async def close(self) -> None:
        """Close; what still waits fails."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


def _unavailable() -> ApiError:
    return ApiError(
        "engine_unavailable",
        "The engine process does not answer; cached keys are still answered.",
        "Try again in a moment: the engine restarts automatically.",
    )


def _not_reached(timeout_s: float) -> ApiError:
    return ApiError(
        "version_timeout",
        f"That version was not reached within {timeout_s:g} s.",
        "Wait longer (Prefer: wait=10). A version of a database server that was replaced may never be reached.",
    )


def _no_answer(timeout_s: float) -> ApiError:
    hint = "Try again in a second: the answer may be there by then. Or wait longer (Prefer: wait=20)."
    return ApiError("read_timeout", f"No answer within {timeout_s:g} s.", hint)


def _not_seen(timeout_s: float) -> ApiError:
    return ApiError(
        "version_timeout",
        f"The database gave no answer that includes that version within {timeout_s:g} s.",
        "Wait longer (Prefer: wait=10): a commit may be waiting for a standby.",
    )


class EngineClient:
    """A worker's side. Connects when it is first needed, and again after the engine went away.

    Every method raises ApiError ``engine_unavailable`` when there is no engine, and what the service raised.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._listener: ChangeListener | None = None
        #: Requests so far, by operation.
        self.asked: Counter[str] = Counter()

    def listen(self, listener: ChangeListener) -> None:
        """`listener` is told of topics. Before the first call."""
        self._listener = listener

    async def pin(self, topic: int, epoch: str, view: ViewId, keys: Sequence[Key], timeout_s: float) -> None:
        """Follow a topic, from before the next commit on, as long as this connection lasts: keys of a view of `epoch`.

        ApiError also ``must_refetch`` if there is another one, ``read_timeout`` after `timeout_s`.
        """
        late = ApiError("read_timeout", f"The engine did not answer within {timeout_s:g} s.", "Try again in a moment.")
        await self._ask(PinRequest(topic, epoch, view, list(keys)), timeout_s, late)

    def unpin(self, topic: int) -> None:
        """Do not follow a topic any more."""
        if self._connection is not None and not self._connection.closed:
            self._connection.send(message_frame(UnpinRequest(topic)))

    async def fill(self, items: Sequence[ReadItem], timeout_s: float) -> ReadReply | StoredReply:
        """ApiError ``read_timeout`` after `timeout_s`."""
        return await self._ask(FillRequest(list(items)), timeout_s, _no_answer(timeout_s))

    async def read(self, items: Sequence[ReadItem], timeout_s: float) -> ReadReply:
        """ApiError ``read_timeout`` after `timeout_s`."""
        return await self._ask(ReadRequest(list(items)), timeout_s, _no_answer(timeout_s))

    async def forward(self, items: Sequence[ReadItem], timeout_s: float, minimum: Position | None = None) -> ReadReply:
        """ApiError ``read_timeout`` after `timeout_s`; ``version_timeout``, if there is a `minimum`."""
        late = _no_answer(timeout_s) if minimum is None else _not_seen(timeout_s)
        return await self._ask(ForwardRequest(list(items), minimum), timeout_s, late)

    async def query(
        self, sql: str, given: dict[str, Any], timeout_s: float, minimum: Position | None = None, *, run: bool
    ) -> Match | ReadReply:
        """ApiError ``read_timeout`` after `timeout_s`; ``version_timeout``, if there is a `minimum`."""
        late = ApiError("read_timeout", f"No answer within {timeout_s:g} s.", "Ask for less.")
        late = late if minimum is None else _not_seen(timeout_s)
        return await self._ask(QueryRequest(sql, given, minimum, run), timeout_s, late)

    async def reach(self, position: Position, timeout_s: float) -> None:
        """ApiError ``version_timeout`` after `timeout_s`."""
        await self._ask(ReachRequest(position), timeout_s, _not_reached(timeout_s))

    async def stream(self, item: ReadItem, timeout_s: float, minimum: Position | None = None) -> AsyncGenerator[bytes]:
        """The rows of an answer too large to be held, some at a time, over a connection of its own: what is not taken
        stays with the upstream. The first of them come within `timeout_s`, or it is ApiError ``read_timeout``; what
        goes wrong later is an ApiError, too. Left before its end, the upstream's query is ended."""
        request = StreamRequest(item, minimum)
        self.asked[name_of(request)] += 1
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path))
            write_frame(writer, message_frame(request, 1))
            async with asyncio.timeout(timeout_s):
                kind, _, body = reply_of(await read_frame(reader))
            while kind is ReplyKind.PART:
                yield body
                kind, _, body = reply_of(await read_frame(reader))
        except TimeoutError:
            raise _no_answer(timeout_s) from None
        except (OSError, asyncio.IncompleteReadError):
            raise _unavailable() from None
        finally:
            if writer is not None:
                writer.close()
        result_of(request, kind, body)

    async def reach_gtids(self, gtids: Gtids, timeout_s: float) -> None:
        """ApiError ``version_timeout`` after `timeout_s`, ``bad_request`` for ids of another kind of database."""
        await self._ask(ReachGtidsRequest(str(gtids)), timeout_s, _not_reached(timeout_s))

    async def checkpoint(self, timeout_s: float) -> Position:
        """ApiError ``read_timeout`` after `timeout_s`."""
        late = ApiError("read_timeout", f"The database did not return its position within {timeout_s:g} s.")
        return await self._ask(CheckpointRequest(), timeout_s, late)

    async def report(self, report: Report) -> None:
        """Sends and does not wait; nothing happens without an engine, or while it does not read."""
        with suppress(ApiError):
            (await self._connected()).report(report)

    async def close(self) -> None:
        """Close the connection; calls that still wait get ``engine_unavailable``."""
        if self._connection is not None:
            await self._connection.close()

    async def _ask(self, request: Request[R], timeout_s: float, late: ApiError, trace: str = "") -> R:
        self.asked[name_of(request)] += 1
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connected()
                if not connection.available():
                    raise _unavailable()
                return await connection.ask(request, trace)
        except TimeoutError:
            raise late from None

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None or self._connection.closed:
                try:
                    streams = await asyncio.open_unix_connection(str(self._path))
                except OSError:
                    raise _unavailable() from None
                self._connection = _Connection(*streams, self._listener)
            return self._connection
