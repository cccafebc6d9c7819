"""Recording of reads for the access log, as a wrapper of a `DirectApp`.

It is placed inside compression and limits: it sees the uncompressed rows, and only requests that read.
"""

import time
from collections.abc import MutableMapping
from typing import Any

from service.web.deferred import DirectApp
from service.web.messages import Receive, Reply, Scope, Send
from service.worker.access_log.log import AccessLog
from service.worker.reads.notes import NOTED, Noted

_BEFORE_ROWS = len(b'{"rows":')
_BEHIND_ROWS = b'],"version":"'
_HIT = b"upquery; hit"
_METHODS = frozenset({"GET", "HEAD", "POST"})
_now_ns = time.time_ns


class LoggedApp:
    """A `DirectApp`: `app`, with its reads recorded in `log`."""

    def __init__(self, app: DirectApp, log: AccessLog) -> None:
        self._app = app
        self._answer = app.answer
        self.reads_body = app.reads_body
        self.log = log

    def answer(self, scope: Scope, body: bytes | None) -> Reply | None:
        """Return the immediate response. Deferred ones are left to a task, in whose context their reads are noted."""
        started = _now_ns()
        if body is not None:
            return self._batch(scope, body, started)
        reply = self._answer(scope, None)
        if not isinstance(reply, Reply):
            return None
        rows_bytes = reply.body.rfind(_BEHIND_ROWS) + 1 - _BEFORE_ROWS if reply.status == 200 else None
        took = _now_ns() - started
        self.log.hit(started, took, scope["raw_path"], scope["query_string"], reply.status, rows_bytes)
        return reply

    def _batch(self, scope: Scope, body: bytes, started: int) -> Reply | None:
        noted = Noted()
        token = NOTED.set(noted)
        try:
            reply = self._answer(scope, body)
        finally:
            NOTED.reset(token)
        if not isinstance(reply, Reply):
            return None
        self.log.request(started, _now_ns() - started, reply.status, noted)
        return reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _METHODS:
            await self._app(scope, receive, send)
            return
        started = _now_ns()
        noted, sending = Noted(), _Sending(send)
        token = NOTED.set(noted)
        try:
            await self._app(scope, receive, sending)
        finally:
            NOTED.reset(token)
        took = _now_ns() - started
        if noted.reads or noted.names:
            if sending.whole:
                self.log.request(started, took, sending.status, noted)
        elif sending.is_hit and scope["method"] != "POST":
            self.log.hit(started, took, scope["raw_path"], scope["query_string"], sending.status, sending.rows_bytes)


class _Sending:
    """The `send` of an application. *State*: the known facts of the response: whether it is in one piece and a hit,
    its status, the bytes of its rows."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.whole = self.is_hit = False
        self.rows_bytes: int | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for name, value in message.get("headers", ()):
                if name == b"content-length":
                    self.whole = True
                elif name == b"cache-status":
                    self.is_hit = value == _HIT
            self.whole = self.whole or self.status == 304
        elif self.is_hit and self.status == 200:
            self.rows_bytes = message.get("body", b"").rfind(_BEHIND_ROWS) + 1 - _BEFORE_ROWS
        await self._send(message)
