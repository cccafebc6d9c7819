"""Log lines of failed and slow requests, with an id that the client gets, too; a wrapper of a `DirectApp`.

*Invariants*: immediate answers are not logged: they are neither slow nor failed. The log never contains a query string,
a header (except the id) or a body, except a problem's code and detail.

Not here: limits on repeated lines (`service.ground.log_repeats`).
"""

import os
import re
import time
from collections.abc import MutableMapping
from typing import Any

import orjson
import structlog

from service.web.deferred import BEGAN_AT, DeferredReply, DirectApp
from service.web.messages import Headers, Receive, Reply, Scope, Send

_ID = re.compile(rb"[\w.:/+=-]{1,128}", re.ASCII)
_HEADER = b"x-request-id"
_log = structlog.get_logger(__name__)


class RequestLog:
    """A `DirectApp`: `app`, whose server errors and responses that begin after more than `slow_ms` are logged."""

    def __init__(self, app: DirectApp, slow_ms: float) -> None:
        self._app = app
        self._slow_s = slow_ms / 1000
        self.reads_body = app.reads_body
        self._answer = app.answer

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:
        """Return the immediate response, or the deferred one, which is logged when it comes."""
        reply = self._answer(scope, body)
        if not isinstance(reply, DeferredReply):
            return reply
        started = time.perf_counter()
        return reply.mapped(lambda came: None if came is None else self._logged(scope, came, started))

    def _logged(self, scope: Scope, reply: Reply, started: float) -> Reply:
        line = self._line(scope, reply.status, started)
        if line is None:
            return reply
        _write(line, reply.body)
        return reply._replace(headers=[*reply.headers, (_HEADER, line["request_id"].encode())])

    def _line(self, scope: Scope, status: int, started: float) -> dict[str, Any] | None:
        """Return the line of a response that failed or was slow; None for others."""
        took_s = time.perf_counter() - started
        if status >= 500 or (took_s > self._slow_s and not _waits(scope)):
            return _line(scope, status, took_s)
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = scope.get(BEGAN_AT) or time.perf_counter()
        line: dict[str, Any] | None = None

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal line
            if message["type"] == "http.response.start":
                line = self._line(scope, message["status"], started)
                if line is not None:
                    named = (_HEADER, line["request_id"].encode())
                    message = {**message, "headers": [*message.get("headers", ()), named]}
            elif line is not None:
                failed, line = line, None
                _write(failed, message.get("body", b""))
            await send(message)

        await self._app(scope, receive, sending)


def _write(line: dict[str, Any], body: bytes) -> None:
    if line["status"] < 500:
        _log.warning("request was slow", **line)
        return
    line |= _reason(body)
    write = _log.error if line["status"] == 500 else _log.warning
    write("request failed", **line)


def _line(scope: Scope, status: int, took_s: float) -> dict[str, Any]:
    line = {
        "request_id": _id_of(scope["headers"]),
        "method": scope["method"],
        # As sent: decoded, it may contain control characters.
        "path": scope["raw_path"][:200].decode("ascii", "backslashreplace"),
        "status": status,
        "duration_ms": round(took_s * 1000),
    }
    trace_id = scope.get("upquery.trace_id")
    return line if trace_id is None else {**line, "trace_id": trace_id}


def _id_of(headers: Headers) -> str:
    """Return the client's id if it has a valid form, else a new one."""
    given = next((value for name, value in headers if name == _HEADER), b"")
    return given.decode() if _ID.fullmatch(given) else os.urandom(8).hex()


def _waits(scope: Scope) -> bool:
    """Return whether the request is a long poll, which takes long by design."""
    return b"live=" in scope["query_string"]


def _reason(body: bytes) -> dict[str, Any]:
    try:
        problem = orjson.loads(body)
        return {"code": problem["code"], "reason": problem["detail"]}
    except (orjson.JSONDecodeError, KeyError, TypeError):
        # The body is compressed, or not a problem of this service.
        return {}
