"""Traces of sampled requests, as a wrapper of a `DirectApp`.

*Theory*: a request is sampled or not before a span is made, so that one that is not costs a scan of its headers. A
``traceparent`` header decides; of the other requests a share is sampled.
"""

import re
import time
from collections.abc import MutableMapping
from random import Random
from typing import Any

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, use_span

from service.ground.tracing import Tracing, context_of
from service.web.deferred import DeferredReply, DirectApp
from service.web.messages import Headers, Receive, Reply, Scope, Send
from service.worker.reads.view_reads import VIEWS_PATH

#: Scope key of a decision that was made before the request was given to a task.
_DECIDED = "upquery.trace"
#: Scope key of the trace's id, for logs.
TRACE_ID = "upquery.trace_id"
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})")
_PATHS = frozenset({"/v1/read", "/v1/query", "/v1/checkpoint", "/openapi.json"})
_MAX_NAME = 63
_Begun = tuple[Context, int]


class TracedApp:
    """A `DirectApp`: `app`, whose sampled requests are traced."""

    def __init__(self, app: DirectApp, tracing: Tracing, sample_rate: float, random: Random | None = None) -> None:
        self._app = app
        self._answer = app.answer
        #: Whether `answer` needs the request's body.
        self.reads_body = app.reads_body
        self._tracer = tracing.tracer
        self._sample_rate = sample_rate
        self._random = (random or Random()).random

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:
        begun = self._begun(scope["headers"])
        reply = self._answer(scope, body)
        if not isinstance(reply, Reply):
            scope[_DECIDED] = begun
            # A span of a response that comes later is made by a task.
            reply = reply if begun is None else None
        elif begun is not None:
            span = self._span(scope, begun)
            _answered(span, reply.status, reply.headers)
            span.end()
        return reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = None
        if scope["type"] == "http":
            begun = scope.pop(_DECIDED) if _DECIDED in scope else self._begun(scope["headers"])
        if begun is None:
            await self._app(scope, receive, send)
            return
        span = self._span(scope, begun)
        scope[TRACE_ID] = f"{span.get_span_context().trace_id:032x}"

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = message.get("headers", [])
                _answered(span, message["status"], headers)
                if message["status"] == 200 and not any(name == b"content-length" for name, _ in headers):
                    # A stream, which may run for a long time.
                    span.end()
            await send(message)

        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                await self._app(scope, receive, sending)
        finally:
            if span.is_recording():
                span.end()

    def _begun(self, headers: Headers) -> _Begun | None:
        """Return the parent and the begin of the request's span; None if it is not sampled."""
        parent = state = None
        for name, value in headers:
            if name == b"traceparent":
                parent = value
            elif name == b"tracestate":
                state = value
        found = None if parent is None else _TRACEPARENT.fullmatch(parent)
        if parent is None or found is None:
            return (Context(), time.time_ns()) if self._random() < self._sample_rate else None
        if not int(found[1], 16) & 1:
            return None
        return context_of(parent.decode(), None if state is None else state.decode("latin-1")), time.time_ns()

    def _span(self, scope: Scope, begun: _Begun) -> Span:
        context, at_ns = begun
        method, path = scope["method"], scope["path"]
        attributes = {"http.request.method": method}
        route = path if path in _PATHS else None
        if path.startswith(VIEWS_PATH):
            view, _, rest = path.removeprefix(VIEWS_PATH).partition("/")
            attributes["upquery.view"] = view[:_MAX_NAME]
            route = f"{VIEWS_PATH}{{view}}" + (f"/{rest}" if rest in ("query", "subscribe") else "")
        if route is not None:
            attributes["http.route"] = route
        name = method if route is None else f"{method} {route}"
        return self._tracer.start_span(name, context, SpanKind.SERVER, attributes, start_time=at_ns)


def _answered(span: Span, status: int, headers: Headers) -> None:
    span.set_attribute("http.response.status_code", status)
    for name, value in headers:
        if name == b"cache-status":
            span.set_attribute("upquery.cache_status", value.decode("latin-1"))
    if status >= 500:
        span.set_status(StatusCode.ERROR)
