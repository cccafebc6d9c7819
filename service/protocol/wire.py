"""Frames between API workers and the engine process, over a Unix socket.

A request has an id, an operation and its arguments; its reply has the same id and either a result or a problem.
Replies may arrive in any order.

The engine process implements `EngineService` and runs a `WireServer`; a worker has an `EngineClient`.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import orjson
import structlog

from cdc.gtid import Gtids, parse_gtids
from dataflow.types import Key, Position, ViewId
from service.ground.errors import ApiError
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.request import Values
from service.protocol.adhoc import Match
from service.protocol.frames import error_fields, error_of, read_frame, write_frame


@dataclass(frozen=True, slots=True)
class ReadItem:
    """A read of a view, by the view's name, with the values of its parameters: normal forms, in the order of
    `ViewInfo.parameters`. `id`: the view that the values were read for; the name may mean another one by now."""

    view: str
    values: Values
    window: PageWindow | None = None
    id: ViewId | None = field(default=None, compare=False)


class AnswerSource(StrEnum):
    """How the engine came to answers: what it stored for the next read, what it did not store, what the upstream itself
    answered past the store."""

    STORED = "stored"
    UNSTORED = "unstored"
    FORWARDED = "forwarded"
    #: The same, because what is stored is older than the view allows; exact at no version that is known.
    CURRENT = "current"
    #: The upstream's answer to a query that no view means; exact at no version that is known.
    QUERY = "query"
    #: (Not of the engine.) What was answered before, while it is run again.
    STALE = "stale"

    @property
    def has_version(self) -> bool:
        """Whether answers are exact at the position that comes with them; else that only has all that they show."""
        return self not in (AnswerSource.CURRENT, AnswerSource.QUERY)


@dataclass(frozen=True, slots=True)
class ReadReply:
    """Answers to all items of a request, all exact at `position`, if their source has a version (see `LeafState` for
    `at_ms`)."""

    answers: list[StoredAnswer]
    position: Position
    at_ms: int
    source: AnswerSource = AnswerSource.STORED


#: A key that was read, and how many of the counted hits it had.
Touch = tuple[ViewId, Key, int]


class FollowedTopics(Protocol):
    """The topics that a worker follows: its numbers for keys of views."""

    def pin(self, topic: int, epoch: str, view: ViewId, keys: Sequence[Key]) -> None:
        """Keep these keys of a view of `epoch`, and tell when a commit has touched them. ApiError."""
        ...

    def unpin(self, topic: int) -> None:
        """Stops following a topic."""
        ...

    def close(self) -> None:
        """Ends it: the worker has disconnected."""
        ...


class EngineService(Protocol):
    """Services of the engine process for workers.

    Each call runs as its own task; it is cancelled when the worker has gone or no longer waits. An `ApiError` that a
    call raises reaches the worker's client as it is; any other exception is logged and becomes ``internal_error``.
    """

    async def read(self, items: Sequence[ReadItem]) -> ReadReply:
        """Fill what is missing and answer all items in one step, at one version."""
        ...

    async def forward(self, items: Sequence[ReadItem], minimum: Position | None) -> ReadReply:
        """Have the upstream answer all items, at one snapshot of now, whatever the stream has brought so far.

        `minimum`: the snapshot sees all that a leaf store at this position has; it is waited for. The reply's position
        is one that contains all that the answers show; they are not exact at any that is known.
        """
        ...

    async def stream(self, item: ReadItem, minimum: Position | None, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Have the upstream answer an item whose rows are too many to be held, as `forward` does: `send` gets some of
        them at a time, as JSON objects with commas between them."""
        ...

    async def query(self, sql: str, given: dict[str, Any], minimum: Position | None, *, run: bool) -> Match | ReadReply:
        """The view that a query means; if none does, or it is to `run` anyhow, the upstream's answer to it, with
        all of `minimum`."""
        ...

    async def reach(self, position: Position) -> None:
        """Return once a commit of the leaf store has at least `position`; push the stream if it is idle."""
        ...

    async def reach_gtids(self, gtids: Gtids) -> None:
        """Return once the leaf store has all of these transactions; push the stream if it is idle."""
        ...

    async def checkpoint(self) -> Position:
        """The upstream's position now; makes an idle stream get there."""
        ...

    def report(
        self,
        worker: int,
        counters: dict[str, dict[str, int]],
        touches: Sequence[Touch],
        subscriptions: dict[str, int],
        process: Mapping[str, Any],
    ) -> None:
        """A worker's counters since its start, by view: ``hits`` and ``misses``; a sample of the keys that were read
        since its last report; its subscriptions' counters; and what else its process counts
        (`service.worker.reports`). Once a second; must not block."""
        ...

    def subscriber(self, tell: Callable[[set[int], Position], None]) -> FollowedTopics:
        """The topics of a worker, none yet; `tell` gets the numbers of those that a commit has touched, after it."""
        ...


class ChangeListener(Protocol):
    """A worker's reactions to changes of its topics."""

    def changed(self, topics: Sequence[int], position: Position) -> None:
        """These were touched by commits of the leaf store, up to that of `position`."""
        ...

    def disconnected(self) -> None:
        """The engine, or the connection to it, is gone: no topic is followed any more."""
        ...


#: An engine that has not read so much of what it was sent gets no more reports for now.
MAX_UNREAD_BYTES = 1 << 20
#: One that has not read so much gets no more requests either.
_MAX_UNREAD_REQUESTS = 16 << 20
#: An engine that has not confirmed so many reports, of which there is one a second, seems to hang: nobody waits for
#: it any longer. (Of a worker that was stopped itself, the clock would say the same.)
UNCONFIRMED_REPORTS = 10
#: Requests of one worker that are being worked on; more are refused, so that nothing queues without bound.
MAX_IN_FLIGHT = 4096

_log = structlog.get_logger(__name__)


async def _receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    frame: dict[str, Any] = orjson.loads(await read_frame(reader))
    return frame


def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    write_frame(writer, orjson.dumps(message))


def _item_to_wire(item: ReadItem) -> list[Any]:
    window = None if item.window is None else [item.window.limit_rows, item.window.after]
    return [item.view, item.values, window, item.id]


def _item_from_wire(fields: list[Any]) -> ReadItem:
    view, given, window, id_ = fields
    values = tuple(tuple(value) if isinstance(value, list) else value for value in given)
    return ReadItem(view, values, None if window is None else PageWindow(*window), id_)


def _reply_to_wire(reply: ReadReply) -> dict[str, Any]:
    answers = [[answer.rows.decode(), answer.tag, answer.next] for answer in reply.answers]
    return {"answers": answers, "position": reply.position, "at_ms": reply.at_ms, "source": reply.source}


def _reply_from_wire(fields: dict[str, Any]) -> ReadReply:
    answers = [StoredAnswer(rows.encode(), tag, following) for rows, tag, following in fields["answers"]]
    return ReadReply(answers, fields["position"], fields["at_ms"], AnswerSource(fields["source"]))


class _Subscriber:
    """Tells a worker which of its topics were touched: one frame for all that happened since it read the last one."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._touched: set[int] = set()
        self._position: Position = 0
        self._telling: asyncio.Task[None] | None = None

    def tell(self, topics: set[int], position: Position) -> None:
        """Adds topics that a commit has touched."""
        self._touched |= topics
        self._position = position
        if self._touched and (self._telling is None or self._telling.done()):
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        with suppress(ConnectionError):
            while self._touched:
                touched, self._touched = self._touched, set()
                _send(self._writer, {"changed": sorted(touched), "position": self._position})
                await self._writer.drain()

    def close(self) -> None:
        """Ends it: the worker has disconnected."""
        if self._telling is not None:
            self._telling.cancel()


@dataclass(slots=True)
class _Worker:
    """A connection of a server: where it is written to, what runs for it, what it follows."""

    writer: asyncio.StreamWriter
    running: dict[int, asyncio.Task[None]]
    subscriber: _Subscriber
    topics: FollowedTopics | None = None


#: What a request is performed in that belongs to a trace: operation, ``traceparent``, request.
Within = Callable[[str, str, Mapping[str, Any]], AbstractContextManager[None]]


class WireServer:
    """The engine process's side: ``await server.start(); … await server.close()``."""

    def __init__(self, path: Path, service: EngineService, within: Within | None = None) -> None:
        self._path = path
        self._service = service
        self._within = within
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; a socket file left by a dead process is replaced."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._accept, str(self._path))
        self._path.chmod(0o600)

    async def close(self) -> None:
        """Stop listening, cancel what runs, close the connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One worker, until it goes away: whatever it still waits for is then cancelled."""
        subscriber = _Subscriber(writer)
        worker = _Worker(writer, {}, subscriber)
        try:
            while True:
                self._dispatch(await _receive(reader), worker)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            for task in list(worker.running.values()):
                task.cancel()
            if worker.topics is not None:
                worker.topics.close()
            subscriber.close()
            writer.close()

    def _dispatch(self, request: dict[str, Any], worker: _Worker) -> None:
        operation, number, running = request["op"], request["id"], worker.running
        if operation == "report":
            touches = [(ViewId(view), tuple(key), times) for view, key, times in request["touches"]]
            followed, process = request["subscriptions"], request["process"]
            self._service.report(request["worker"], request["counters"], touches, followed, process)
            _send(worker.writer, {"reported": True})
        elif operation == "cancel":
            if (task := running.get(number)) is not None:
                task.cancel()
        elif operation == "pin":
            if worker.topics is None:
                worker.topics = self._service.subscriber(worker.subscriber.tell)
            _send(worker.writer, _pinned(number, request, worker.topics))
        elif operation == "unpin":
            if worker.topics is not None:
                worker.topics.unpin(request["topic"])
        elif len(running) >= MAX_IN_FLIGHT:
            busy = ApiError("engine_unavailable", "The engine has too many reads to fill.", "Try again in a moment.")
            _send(worker.writer, {"id": number, "problem": error_fields(busy)})
        else:
            running[number] = task = asyncio.ensure_future(self._answer(number, operation, request, worker.writer))
            task.add_done_callback(lambda _: running.pop(number, None))

    async def _answer(self, number: int, operation: str, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        try:
            if self._within is None or (trace := request.get("trace")) is None:
                result = await self._perform(operation, request, writer)
            else:
                with self._within(operation, trace, request):
                    result = await self._perform(operation, request, writer)
            reply = {"id": number, "result": result}
        except ApiError as error:
            reply = {"id": number, "problem": error_fields(error)}
        except Exception:
            _log.exception("request_failed", operation=operation)
            reply = {"id": number, "problem": error_fields(ApiError("internal_error", "The engine failed."))}
        _send(writer, reply)
        # A worker that does not read holds only its own replies back.
        with suppress(ConnectionError):
            await writer.drain()

    async def _perform(self, operation: str, request: dict[str, Any], writer: asyncio.StreamWriter) -> Any:
        if operation == "read":
            return _reply_to_wire(await self._service.read([_item_from_wire(fields) for fields in request["items"]]))
        if operation == "forward":
            items = [_item_from_wire(fields) for fields in request["items"]]
            return _reply_to_wire(await self._service.forward(items, request["minimum"]))
        if operation == "query":
            sql, given, minimum = request["sql"], request["given"], request["minimum"]
            found = await self._service.query(sql, given, minimum, run=request["run"])
            return {"match": found.to_wire()} if isinstance(found, Match) else {"reply": _reply_to_wire(found)}
        if operation == "stream":

            async def send(part: bytes) -> None:
                _send(writer, {"id": request["id"], "part": part.decode()})
                await writer.drain()

            return await self._service.stream(_item_from_wire(request["item"]), request["minimum"], send)
        if operation == "reach":
            return await self._service.reach(request["position"])
        if operation == "reach_gtids":
            return await self._service.reach_gtids(parse_gtids(request["gtids"]))
        if operation == "checkpoint":
            return await self._service.checkpoint()
        raise ApiError("internal_error", f"The engine does not know the operation {operation!r}.")


def _pinned(number: int, request: dict[str, Any], topics: FollowedTopics) -> dict[str, Any]:
    """Pins at once, in the order of requests; the reply."""
    try:
        keys = [tuple(key) for key in request["keys"]]
        topics.pin(request["topic"], request["epoch"], ViewId(request["view"]), keys)
    except ApiError as error:
        return {"id": number, "problem": error_fields(error)}
    return {"id": number, "result": None}


class _Connection:
    """An open connection of a client, with the requests that wait for their replies."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listener: ChangeListener | None
    ) -> None:
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = count(1)
        self._unconfirmed_reports = 0
        self._listener = listener
        self._reading = asyncio.ensure_future(self._read(reader))

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._writer.is_closing()

    def send(self, message: dict[str, Any]) -> None:
        """Send without waiting for a reply."""
        _send(self._writer, message)

    def report(self, message: dict[str, Any]) -> None:
        """Send a report, unless the other side does not read. Where it is silent, what waits for it fails."""
        if self.unread_bytes() <= MAX_UNREAD_BYTES:
            self.send(message)
        self._unconfirmed_reports += 1
        if self._is_silent():
            self._fail()

    def available(self) -> bool:
        """Whether a request would be read, as far as is known."""
        return not self._is_silent() and self.unread_bytes() <= _MAX_UNREAD_REQUESTS

    def _is_silent(self) -> bool:
        return self._unconfirmed_reports > UNCONFIRMED_REPORTS

    def unread_bytes(self) -> int:
        """Size of the write buffer."""
        return self._writer.transport.get_write_buffer_size()

    async def ask(self, request: dict[str, Any]) -> Any:
        """Send, and wait for the reply; a caller that stops waiting cancels the request."""
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self.send({"id": number, **request})
        try:
            return await future
        finally:
            del self._waiting[number]
            if future.cancelled() and not self.closed:
                self.send({"id": number, "op": "cancel"})

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                self._settle(await _receive(reader))
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

    def _settle(self, reply: dict[str, Any]) -> None:
        if "reported" in reply:
            self._unconfirmed_reports = 0
            return
        if (changed := reply.get("changed")) is not None:
            if self._listener is not None:
                self._listener.changed(changed, reply["position"])
            return
        future = self._waiting.get(reply["id"])
        if future is None or future.done():
            return
        if (problem := reply.get("problem")) is not None:
            future.set_exception(error_of(problem))
        else:
            future.set_result(reply["result"])

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
        await self._ask({"op": "pin", "topic": topic, "epoch": epoch, "view": view, "keys": keys}, timeout_s, late)

    def unpin(self, topic: int) -> None:
        """Do not follow a topic any more."""
        if self._connection is not None and not self._connection.closed:
            self._connection.send({"op": "unpin", "id": 0, "topic": topic})

    async def read(self, items: Sequence[ReadItem], timeout_s: float) -> ReadReply:
        """ApiError ``read_timeout`` after `timeout_s`."""
        request = {"op": "read", "items": [_item_to_wire(item) for item in items]}
        return _reply_from_wire(await self._ask(request, timeout_s, _no_answer(timeout_s)))

    async def forward(self, items: Sequence[ReadItem], timeout_s: float, minimum: Position | None = None) -> ReadReply:
        """ApiError ``read_timeout`` after `timeout_s`; ``version_timeout``, if there is a `minimum`."""
        request = {"op": "forward", "items": [_item_to_wire(item) for item in items], "minimum": minimum}
        late = _no_answer(timeout_s) if minimum is None else _not_seen(timeout_s)
        return _reply_from_wire(await self._ask(request, timeout_s, late))

    async def query(
        self, sql: str, given: dict[str, Any], timeout_s: float, minimum: Position | None = None, *, run: bool
    ) -> Match | ReadReply:
        """ApiError ``read_timeout`` after `timeout_s`; ``version_timeout``, if there is a `minimum`."""
        late = ApiError("read_timeout", f"No answer within {timeout_s:g} s.", "Ask for less.")
        late = late if minimum is None else _not_seen(timeout_s)
        request = {"op": "query", "sql": sql, "given": given, "minimum": minimum, "run": run}
        found = await self._ask(request, timeout_s, late)
        return Match.of(found["match"]) if "match" in found else _reply_from_wire(found["reply"])

    async def reach(self, position: Position, timeout_s: float) -> None:
        """ApiError ``version_timeout`` after `timeout_s`."""
        await self._ask({"op": "reach", "position": position}, timeout_s, _not_reached(timeout_s))

    async def stream(self, item: ReadItem, timeout_s: float, minimum: Position | None = None) -> AsyncGenerator[bytes]:
        """The rows of an answer too large to be held, some at a time, over a connection of its own: what is not taken
        stays with the upstream. The first of them come within `timeout_s`, or it is ApiError ``read_timeout``; what
        goes wrong later is an ApiError, too. Left before its end, the upstream's query is ended."""
        self.asked["stream"] += 1
        writer: asyncio.StreamWriter | None = None
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._path))
            _send(writer, {"id": 1, "op": "stream", "item": _item_to_wire(item), "minimum": minimum})
            async with asyncio.timeout(timeout_s):
                reply = await _receive(reader)
            while "part" in reply:
                yield reply["part"].encode()
                reply = await _receive(reader)
        except TimeoutError:
            raise _no_answer(timeout_s) from None
        except (OSError, asyncio.IncompleteReadError):
            raise _unavailable() from None
        finally:
            if writer is not None:
                writer.close()
        if (problem := reply.get("problem")) is not None:
            raise error_of(problem)

    async def reach_gtids(self, gtids: Gtids, timeout_s: float) -> None:
        """ApiError ``version_timeout`` after `timeout_s`, ``bad_request`` for ids of another kind of database."""
        await self._ask({"op": "reach_gtids", "gtids": str(gtids)}, timeout_s, _not_reached(timeout_s))

    async def checkpoint(self, timeout_s: float) -> Position:
        """ApiError ``read_timeout`` after `timeout_s`."""
        late = ApiError("read_timeout", f"The database did not return its position within {timeout_s:g} s.")
        return int(await self._ask({"op": "checkpoint"}, timeout_s, late))

    async def report(
        self,
        worker: int,
        counters: dict[str, dict[str, int]],
        touches: Sequence[Touch],
        subscriptions: dict[str, int] | None = None,
        process: Mapping[str, Any] | None = None,
    ) -> None:
        """Sends and does not wait; nothing happens without an engine, or while it does not read."""
        message = {
            "op": "report",
            "id": 0,
            "worker": worker,
            "counters": counters,
            "touches": touches,
            "subscriptions": subscriptions or {},
            "process": process or {},
        }
        with suppress(ApiError):
            (await self._connected()).report(message)

    async def close(self) -> None:
        """Close the connection; calls that still wait get ``engine_unavailable``."""
        if self._connection is not None:
            await self._connection.close()

    async def _ask(self, request: dict[str, Any], timeout_s: float, late: ApiError) -> Any:
        self.asked[request["op"]] += 1
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connected()
                if not connection.available():
                    raise _unavailable()
                return await connection.ask(request)
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
