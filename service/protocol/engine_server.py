"""The engine process's side of the workers' Unix socket: ``await server.start(); … await server.close()``."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import structlog

from dataflow.types import Position
from service.ground.errors import ApiError
from service.protocol.codec import codec_of
from service.protocol.engine_requests import (
    CancelRequest,
    Changed,
    EngineCall,
    EngineService,
    FillRequest,
    FollowedTopics,
    ForwardRequest,
    PinRequest,
    ReadRequest,
    ReplyKind,
    Report,
    StreamRequest,
    UnpinRequest,
    WorkerMessage,
    message_of,
    name_of,
    problem_frame,
    reply_frame,
    result_frame,
)
from service.protocol.frames import FrameWriter, read_frame, write_frame

#: Requests of one worker that are being worked on; more are refused, so that nothing queues without bound.
MAX_IN_FLIGHT = 4096

log = structlog.get_logger()

#: Context of a request that belongs to a trace: operation, ``traceparent``, names of views.
Within = Callable[[str, str, Sequence[str]], AbstractContextManager[None]]


class EngineServer:
    """A server of all workers."""

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
        connection = asyncio.ensure_future(_Worker(writer, self._service, self._within).serve(reader))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)


class _Worker:
    """A connection: its running requests, the topics that it follows."""

    def __init__(self, writer: asyncio.StreamWriter, service: EngineService, within: Within | None) -> None:
        self._writer = writer
        self._service = service
        self._within = within
        self._frames = FrameWriter(writer)
        self._running: dict[int, asyncio.Task[None]] = {}
        self._notices = _Notices(writer, self._frames)
        self._topics: FollowedTopics | None = None

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Serves until the worker goes away: whatever it still waits for is then cancelled."""
        try:
            while True:
                self._dispatch(*message_of(await read_frame(reader)))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            for task in list(self._running.values()):
                task.cancel()
            if self._topics is not None:
                self._topics.close()
            self._notices.close()
            self._writer.close()

    def _dispatch(self, message: WorkerMessage, number: int, trace: str) -> None:
        match message:
            case Report():
                self._service.report(message)
                self._frames.write(reply_frame(ReplyKind.REPORTED))
            case CancelRequest():
                if (task := self._running.get(number)) is not None:
                    task.cancel()
            case PinRequest():
                self._frames.write(self._pinned(message, number))
            case UnpinRequest():
                if self._topics is not None:
                    self._topics.unpin(message.topic)
            case EngineCall() | StreamRequest():
                self._start(message, number, trace)

    def _start(self, request: EngineCall[Any] | StreamRequest, number: int, trace: str) -> None:
        if len(self._running) >= MAX_IN_FLIGHT:
            busy = ApiError("engine_unavailable", "The engine has too many reads to fill.", "Try again in a moment.")
            self._frames.write(problem_frame(number, busy))
            return
        self._running[number] = task = asyncio.ensure_future(self._answer(request, number, trace))
        task.add_done_callback(lambda _: self._running.pop(number, None))

    async def _answer(self, request: EngineCall[Any] | StreamRequest, number: int, trace: str) -> None:
        try:
            if trace and self._within is not None:
                with self._within(name_of(request), trace, _views_of(request)):
                    result = await self._perform(request, number)
            else:
                result = await self._perform(request, number)
            frame = result_frame(request, number, result)
        except ApiError as error:
            frame = problem_frame(number, error)
        except Exception:
            log.exception("request_failed", operation=name_of(request))
            frame = problem_frame(number, ApiError("internal_error", "The engine failed."))
        self._frames.write(frame)
        # A worker that does not read holds only its own replies back.
        with suppress(ConnectionError):
            await self._writer.drain()

    async def _perform(self, request: EngineCall[Any] | StreamRequest, number: int) -> Any:
        if isinstance(request, EngineCall):
            return await request.perform(self._service)

        async def send(part: bytes) -> None:
            write_frame(self._writer, reply_frame(ReplyKind.PART, number, part))
            await self._writer.drain()

        return await self._service.stream(request.item, request.minimum, send)

    def _pinned(self, pin: PinRequest, number: int) -> bytes:
        """Pins at once, in the order of requests; the reply."""
        if self._topics is None:
            self._topics = self._service.subscriber(self._notices.tell)
        try:
            self._topics.pin(pin.topic, pin.epoch, pin.view, pin.keys)
        except ApiError as error:
            return problem_frame(number, error)
        return result_frame(pin, number, None)


def _views_of(request: EngineCall[Any] | StreamRequest) -> list[str]:
    if isinstance(request, FillRequest | ReadRequest | ForwardRequest):
        return sorted({item.view for item in request.items})
    return []


class _Notices:
    """Tells a worker which of its topics were touched: one frame for all that happened since it read the last one."""

    def __init__(self, writer: asyncio.StreamWriter, frames: FrameWriter) -> None:
        self._writer = writer
        self._frames = frames
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
                changed = codec_of(Changed).write(Changed(sorted(touched), self._position))
                self._frames.write(reply_frame(ReplyKind.CHANGED, body=changed))
                await self._writer.drain()

    def close(self) -> None:
        """Ends it: the worker has disconnected."""
        if self._telling is not None:
            self._telling.cancel()
