"""Operations of the supervisor at an engine process, over a Unix socket: one connection, one request, one reply.

A gateway sends the same requests over HTTP (`service.supervisor.fleet.remote`).

Not here: reads of workers (`service.protocol.engine_client`), which share connections.
"""

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import orjson
import structlog

from service.ground.errors import ApiError
from service.protocol.admin_operations import (
    Control,
    GetHealth,
    GetStats,
    Operation,
    operation_of,
    reply_to,
    request_of,
    result_of,
)
from service.protocol.frames import error_fields, read_frame, write_frame

log = structlog.get_logger()
R = TypeVar("R")

#: Probes and scrapes get a reply soon, whether the engine answers or not.
_SOON_S = 1.0


class ControlServer:
    """The engine process's side."""

    def __init__(self, path: Path, control: Control) -> None:
        self._path = path
        self._control = control
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listens; a socket file left by a dead process is replaced."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            write_frame(writer, await self._reply(await read_frame(reader)))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The supervisor has closed the connection: there is nobody to reply to.
        finally:
            writer.close()

    async def _reply(self, request: bytes) -> bytes:
        operation: Operation[Any] | None = None
        try:
            operation = operation_of(request)
            return await reply_to(operation, self._control)
        except Exception:
            log.exception("control request failed", operation=type(operation).__name__)
            error = ApiError("internal_error", "The engine failed at this request; its log has the reason.")
            return orjson.dumps({"error": error_fields(error)})


class ControlClient:
    """The supervisor's side: a `Control`."""

    def __init__(self, path: Path, timeout_s: float = 60.0) -> None:
        self._path = path
        self._timeout_s = timeout_s

    async def call(self, operation: Operation[R]) -> R:
        """The operation's reply. Raises its ApiError, or ApiError(engine_unavailable)."""
        soon = isinstance(operation, GetHealth | GetStats)
        timeout_s = min(self._timeout_s, _SOON_S) if soon else self._timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                reply = await self._exchange(request_of(operation))
            return result_of(operation, orjson.loads(reply))
        except TimeoutError:
            raise ApiError("read_timeout", f"The engine did not answer within {timeout_s:g} s.") from None
        except (OSError, asyncio.IncompleteReadError):
            raise ApiError("engine_unavailable", "The engine process is starting or restarting.") from None

    async def _exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            write_frame(writer, request)
            return await read_frame(reader)
        finally:
            writer.close()
