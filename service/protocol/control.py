"""Requests of the supervisor to the engine process, over a Unix socket: one connection, one request, one reply.

A gateway sends the same requests to the admin port (`replied`), and gets the same replies (`remote`).

Not here: reads and their frames (`service.protocol.wire`), which are many and fast; these are few.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson
import structlog

from service.ground.errors import ApiError

log = structlog.get_logger()

#: The largest request or reply.
LIMIT_BYTES = 64 << 20
#: Probes and scrapes are answered soon, whether the engine answers or not.
_SOON_S = 1.0
_SOON = frozenset({"health", "stats"})
Operation = Callable[..., Awaitable[Any]]


class Control(Protocol):
    """What performs the operations: one engine process, or several that act as one (`engines`)."""

    async def call(self, operation: str, **arguments: Any) -> Any:
        """The operation's result. Raises its `ApiError`, or ``engine_unavailable``."""
        ...


class ControlServer:
    """The engine process's side: `operations` by name, called with the request's arguments."""

    def __init__(self, path: Path, operations: Mapping[str, Operation]) -> None:
        self._path = path
        self._operations = operations
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listens; a socket file left by a dead process is replaced."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=LIMIT_BYTES)

    async def close(self) -> None:
        """Stops listening."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = orjson.loads(await reader.read())
            reply = orjson.dumps(await self._reply(request["operation"], request["arguments"]))
            # uvloop raises RuntimeError where the other side has gone.
            if not writer.is_closing():
                writer.write(reply)
                await writer.drain()
        except (ConnectionError, ValueError, KeyError):
            pass  # The supervisor went away in the middle; nobody is left to tell.
        finally:
            writer.close()

    async def _reply(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": await self._operations[operation](**arguments)}
        except ApiError as error:
            return {"error": _packed(error)}
        except Exception:
            log.exception("control request failed", operation=operation)
            return {
                "error": _packed(
                    ApiError("internal_error", "The engine failed at this request; its log has the reason.")
                )
            }


async def replied(control: Control, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request that somebody else performs."""
    try:
        return {"result": await control.call(operation, **arguments)}
    except ApiError as error:
        return {"error": _packed(error)}


def _packed(error: ApiError) -> dict[str, Any]:
    return {
        "code": error.code,
        "detail": error.detail,
        "hint": error.hint,
        "retryable": error.retryable,
        "members": error.members,
    }


def result_of(reply: dict[str, Any]) -> Any:
    """What a reply says. Raises the `ApiError` that it says."""
    if "error" in reply:
        error = reply["error"]
        raise ApiError(
            error["code"], error["detail"], error["hint"], retryable=error["retryable"], members=error["members"]
        )
    return reply["result"]


class ControlClient:
    """The supervisor's side."""

    def __init__(self, path: Path, timeout_s: float = 60.0) -> None:
        self._path = path
        self._timeout_s = timeout_s

    async def call(self, operation: str, **arguments: Any) -> Any:
        """The operation's result. Raises its `ApiError`, or ``engine_unavailable``."""
        timeout_s = min(self._timeout_s, _SOON_S) if operation in _SOON else self._timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                body = await self._exchange(orjson.dumps({"operation": operation, "arguments": arguments}))
            reply = orjson.loads(body)
        except TimeoutError:
            raise ApiError("read_timeout", f"The engine did not answer within {timeout_s:g} s.") from None
        except (OSError, ValueError):
            raise ApiError("engine_unavailable", "The engine process is starting or restarting.") from None
        return result_of(reply)

    async def _exchange(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._path, limit=LIMIT_BYTES)
        try:
            writer.write(request)
            writer.write_eof()
            return await reader.read()
        finally:
            writer.close()
