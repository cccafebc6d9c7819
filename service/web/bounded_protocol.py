"""uvicorn's connection, with bounds on the size, number and duration of requests.

*Theory*: the parser has no limits of its own, and a client that sends a byte now and then would hold a connection
indefinitely. Most requests arrive complete in one piece and cost two comparisons here; only a request that is
incomplete after the received bytes is examined and gets a timer.

*Invariants*: a timer runs exactly while a request is incomplete. A refused request gets a problem and its connection is
closed; if an earlier request is still being answered, that answer is cut off. A client that waits for this server is
not timed.
"""

from asyncio import BaseTransport, Protocol, TimerHandle
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, ClassVar

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from service.ground.errors import ApiError
from service.settings.sections import HttpSettings
from service.web.body_limit import too_large
from service.web.host_check import SCOPE_KEY, HostCheck
from service.web.messages import Headers, Reply, Scope, problem_reply
from service.web.stop_problem import StopProblem

#: Bytes that a connection may send over a request's limits before the application has noticed: what the server receives
#: at once, and what it buffers before it pauses reading.
_AHEAD_BYTES = 512 << 10
#: Headers that are inspected while they arrive.
_LOOKED_AT = frozenset({b"host", b"expect", b"transfer-encoding"})
#: A refused client may send for so long and so much: closing a connection with unread bytes would discard the problem
#: that was sent last.
_LINGER_S, _LINGER_BYTES = 1.0, 1 << 20


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a port's connections: those of the settings, and two that depend on the port."""

    http: HttpSettings = field(default_factory=HttpSettings)
    #: Paths that are served on connections over `http.max_connections`, too.
    always_served: frozenset[str] = frozenset()
    #: Whether the Host of a request must be a name or an address of this machine.
    loopback_only: bool = False


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, bounded.

    *State*: `_whole` is whether the latest bytes (at `_received_at`) completed a request; if not, `_received` counts
    the bytes of the unfinished one, and `_late` is its timer. `_idle_since` is when the last answer was complete, None
    while a request is unanswered; the one timer `_idle` checks it: a timer for each answer would be a large part of the
    cost of a hit.
    """

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()
    hosts: ClassVar[HostCheck] = HostCheck(loopback_only=False)
    _received_at = 0.0
    _idle_since: float | None = None
    _idle: TimerHandle | None = None
    _whole = True
    _received = 0
    _late: TimerHandle | None = None
    _crowded = False

    def connection_made(self, transport: BaseTransport) -> None:
        """Accept the connection. One over the limit is refused at its first request."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self.timeout_keep_alive = self.limits.http.keep_alive_s  # type: ignore[assignment]
        if len(self.connections) > self.limits.http.max_connections:
            self._crowded = True
            self.timeout_keep_alive = min(self.timeout_keep_alive, _LINGER_S)  # type: ignore[assignment]
        self._idle_since = perf_counter()
        self._look_at_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_timers()
        super().connection_lost(exc)

    def _look_at_idle(self) -> None:
        idle_s = 0.0 if self._idle_since is None else perf_counter() - self._idle_since
        if idle_s >= self.timeout_keep_alive:
            self.timeout_keep_alive_handler()
        else:
            self._idle = self.loop.call_later(self.timeout_keep_alive - idle_s, self._look_at_idle)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def on_response_complete(self) -> None:
        """Count the answer and continue with the next pipelined request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = perf_counter()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes: a part of a request, or several requests."""
        self._received_at = perf_counter()
        self._whole = False
        self._received += len(data)
        self._feed(data)
        if not self._whole:
            self._unfinished()
        else:
            self._received = 0
            if self._late is not None:
                self._on_time()

    def _feed(self, data: bytes) -> None:
        """Parse `data`. An offer to upgrade is ignored (RFC 9110, 7.8), except to WebSocket."""
        while True:
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as offer:
                rest = data[offer.args[0] :]
                if self.scope["method"] == "CONNECT":
                    self._refuse(ApiError("bad_request", "This server is not a proxy."))
                    return
                if super()._should_upgrade():
                    self._upgrade(rest)
                    return
                data = self._head_without_offer() + rest
                self._whole = False
            except HttpParserError:
                self.send_400_response("")
                return
            else:
                return

    def _should_upgrade(self) -> bool:
        """Return True: the parser takes the bytes after an offer for another protocol, even if they are a body, so
        nothing may start before the offered protocol is known."""
        return True

    def _head_without_offer(self) -> bytes:
        head = [self.scope["method"].encode(), b" ", self.url, b" HTTP/", self.scope["http_version"].encode(), b"\r\n"]
        for name, value in self.headers:
            if name == b"connection":
                kept = [token for token in value.split(b",") if token.strip().lower() != b"upgrade"]
                head += [b"connection: ", b",".join(kept), b"\r\n"]
            elif name != b"upgrade":
                head += [name, b": ", value, b"\r\n"]
        return b"".join([*head, b"\r\n"])

    def _upgrade(self, rest: bytes) -> None:
        error = None if self.scope.get(SCOPE_KEY) in self.hosts.known else self.hosts.problem(self.scope)  # type: ignore[arg-type]
        if error is None and rest:
            error = ApiError("bad_request", "The WebSocket client sent data before the server's handshake.")
        if error is None:
            self.handle_websocket_upgrade()
        else:
            self._refuse(error)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Inspect a header; trailers are ignored."""
        name = name.lower()
        scope: Scope = self.scope  # type: ignore[assignment]
        if name in _LOOKED_AT and self.headers is scope["headers"]:
            if name == b"host":
                scope[SCOPE_KEY] = None if SCOPE_KEY in scope else value
            elif name == b"expect":
                self.expect_100_continue = value.lower() == b"100-continue"
            elif value.lower() != b"chunked" or name in dict(self.headers):
                # Other servers may accept the codings before it, or only the last one.
                scope[SCOPE_KEY] = None
        self.headers.append((name, value))

    def on_chunk_header(self) -> None:
        """Separate trailers from the headers, which the application has already checked."""
        self.headers = []

    def on_message_complete(self) -> None:
        self._whole = True
        HttpToolsProtocol.on_message_complete(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        scope: Scope = cycle.scope  # type: ignore[assignment]
        limits = self.limits
        if self._crowded and scope["path"] not in limits.always_served:
            self._refuse(_crowded(), cycle)
        elif scope.get(SCOPE_KEY) not in self.hosts.known and (error := self.hosts.problem(scope)) is not None:
            self._refuse(error, cycle)
        elif len(scope["headers"]) > limits.http.max_headers or _head_bytes(scope) > limits.http.max_head_bytes:
            self._refuse(self._too_large(), cycle)
        else:
            self._serve(cycle, app)

    def _serve(self, cycle: RequestResponseCycle, app: Any) -> None:
        super()._start_asgi_task(cycle, StopProblem(app))  # type: ignore[arg-type]

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002
        """Refuse bytes that are not HTTP."""
        self._refuse(ApiError("bad_request", "The bytes sent are not an HTTP/1.1 request."))

    def handle_websocket_upgrade(self) -> None:
        self._end_timers()
        super().handle_websocket_upgrade()

    def _should_upgrade_to_ws(self) -> bool:
        return not self._crowded and super()._should_upgrade_to_ws()

    def _unfinished(self) -> None:
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return
        if self._late is None:
            self._late = self.loop.call_later(self.limits.http.receive_timeout_s, self._too_late)
        limits, size = self.limits.http, self._received
        if len(self.headers or ()) > limits.max_headers or (not self._has_head() and size > limits.max_head_bytes):
            self._refuse(self._too_large())
        elif self._announces_too_much():
            # Before the application does: it cannot close the connection without losing its answer.
            self._refuse(too_large(limits.max_body_bytes))
        elif size > limits.max_head_bytes + limits.max_body_bytes + _AHEAD_BYTES:
            # The application has refused it already.
            self.transport.close()

    def _has_head(self) -> bool:
        """Return whether the request that is being received has begun to be served."""
        return self.cycle is not None and self.cycle.scope is self.scope

    def _announces_too_much(self) -> bool:
        """Return whether the announced body is too large, and no other request is being answered."""
        cycle = self.cycle
        if not self._has_head() or self.pipeline or cycle.response_started:
            return False
        announced = next((value for name, value in cycle.scope["headers"] if name == b"content-length"), b"")
        return announced.isdigit() and int(announced) > self.limits.http.max_body_bytes

    def _too_late(self) -> None:
        self._late = None
        answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if answering or self.flow.read_paused:
            self._late = self.loop.call_later(self.limits.http.receive_timeout_s, self._too_late)
            return
        limit_s = self.limits.http.receive_timeout_s
        self._refuse(ApiError("request_timeout", f"The request was incomplete after {limit_s:g} s."))

    def _end_timers(self) -> None:
        self._on_time()
        if self._idle is not None:
            self._idle.cancel()

    def _on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_large(self) -> ApiError:
        limits = self.limits.http
        return ApiError(
            "head_too_large",
            f"The request's head has more than {limits.max_head_bytes} bytes or {limits.max_headers} headers.",
            "Request long lists of keys with POST /v1/views/{view}/query.",
        )

    def _refuse(self, error: ApiError, answered: RequestResponseCycle | None = None) -> None:
        """Send the problem, unless another response is being sent, and close. `answered`: the request in turn."""
        transport, cycle = self.transport, self.cycle
        if (
            answered is not None
            or cycle is None
            or cycle.response_complete
            or (self._has_head() and not cycle.response_started and not self.pipeline)
        ):
            path = "" if self.scope is None else self.scope.get("path", "")
            reply = problem_reply(error, path)
            reply.headers.append((b"connection", b"close"))
            transport.write(response_bytes(reply, self.server_state.default_headers, True))
            if transport.can_write_eof():
                transport.write_eof()
            self._end_timers()
            self.flow.resume_reading()
            transport.set_protocol(_Refused(self))
        else:
            transport.close()
        for served in {id(c): c for c in (answered, cycle) if c is not None}.values():
            # To its application, this looks like a disconnect.
            served.disconnected = True
            served.message_event.set()


class _Refused(Protocol):
    """A connection after a refusal: reads and discards until the client closes it or the time is over."""

    def __init__(self, served: BoundedProtocol) -> None:
        self._served = served
        self._left = _LINGER_BYTES
        self._closing = served.loop.call_later(_LINGER_S, served.transport.close)

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._served.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing.cancel()
        self._served.connection_lost(exc)


def _crowded() -> ApiError:
    return ApiError("overloaded", "This worker has reached its maximum of connections.", "Try again in a moment.")


def _head_bytes(scope: Scope) -> int:
    line = len(scope["method"]) + len(scope["raw_path"]) + len(scope["query_string"]) + len("  HTTP/1.1?\r\n")
    return line + sum([len(name) + len(value) + len(": \r\n") for name, value in scope["headers"]])


def response_bytes(reply: Reply, default_headers: Headers, body: bool) -> bytes:
    """Serialize a response of HTTP/1.1."""
    content = [STATUS_LINE[reply.status]]
    for name, value in default_headers:
        content += (name, b": ", value, b"\r\n")
    for name, value in reply.headers:
        content += (name, b": ", value, b"\r\n")
    content.append(b"\r\n")
    if body:
        content.append(reply.body)
    return b"".join(content)
