"""uvicorn's connection, with immediate answers: hits are answered while their request is parsed.

*Theory*: more than half of uvicorn's cost of an empty response is the way to the application and back: a task, two
messages, checks of headers. A hit needs none of it: it waits for nothing, and its headers are ours. So before a request
becomes a task it is offered to the application (`DirectApp`). An immediate answer is written at once and a deferred one
(`DeferredReply`) when it completes; any other request is served by a task.

*Invariants*: answers are sent in the order of their requests: a request is offered only if no earlier one is
unanswered. A client that does not read gets no more immediate answers, and a client that sends many requests at once
does not delay others: both are served by tasks, which take turns. Beyond uvicorn's documented interface this class uses
and overrides (with `BoundedProtocol`) `_start_asgi_task`, `on_response_complete`, the keep-alive timer and the
attributes of a connection and of a cycle; with a uvicorn without that method, every request is served by a task.
"""

from asyncio import AbstractEventLoop
from time import perf_counter
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service.web.bounded_protocol import BoundedProtocol, ConnectionLimits, response_bytes
from service.web.deferred import DirectApp
from service.web.host_check import HostCheck
from service.web.messages import App, Reply, Scope
from service.web.stalled_clients import EndsStalled

#: Bodies up to this size are awaited before the application is called; of larger ones the server stops reading.
_MAX_AWAITED_BYTES = 1 << 15
#: Time for which requests that arrived together are answered without a turn for other connections.
_TURN_S = 0.005
_CLOSE = (b"connection", b"close")


class DirectProtocol(EndsStalled, BoundedProtocol):
    """uvicorn's protocol, with a short path for the requests that a `DirectApp` answers.

    *State*: `_awaited` is the request whose body is being received before the application is called.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._direct = self.app if isinstance(self.app, DirectApp) else None
        self._awaited: tuple[RequestResponseCycle, App] | None = None

    def _serve(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Set by the answer to a request that arrived together with this one.
        self._idle_since = None
        direct = self._direct
        if direct is None or app is not self.app or self.pipeline or not self._is_plain(cycle):
            super()._serve(cycle, app)
            return
        scope: Scope = cycle.scope  # type: ignore[assignment]
        body = None
        if direct.reads_body(scope):
            if cycle.more_body and _is_short(scope):
                self._awaited = cycle, app
                return
            if cycle.more_body:
                super()._serve(cycle, app)
                return
            body = bytes(cycle.body)
        try:
            reply = direct.answer(scope, body)
        except Exception:
            # Raised here, the error would be reported as the client's. The task meets it again and reports it.
            reply = None
        if isinstance(reply, Reply):
            self._send(cycle, reply)
        elif reply is None:
            super()._serve(cycle, app)
        else:
            reply.begin(lambda reply: self._came(cycle, app, reply))

    def _came(self, cycle: RequestResponseCycle, app: App, reply: Reply | None) -> None:
        """Send a deferred response, or start a task, even if only to find that the client has left."""
        if reply is None:
            super()._serve(cycle, app)
        elif not (cycle.disconnected or self.transport.is_closing()):
            self._send(cycle, reply)

    def on_message_complete(self) -> None:
        self._whole = True
        HttpToolsProtocol.on_message_complete(self)
        if self._awaited is not None:
            awaited, self._awaited = self._awaited, None
            self._serve(*awaited)

    def _is_plain(self, cycle: RequestResponseCycle) -> bool:
        waits = cycle.waiting_for_100_continue or self.flow.write_paused or perf_counter() - self._received_at > _TURN_S
        return cycle.keep_alive and not waits

    def _send(self, cycle: RequestResponseCycle, reply: Reply) -> None:
        if not cycle.keep_alive:
            # The server has begun to stop since the request began.
            reply.headers.append(_CLOSE)
        content = response_bytes(reply, self.server_state.default_headers, cycle.scope["method"] != "HEAD")
        cycle.response_started = cycle.response_complete = True
        self.transport.write(content)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def bounded(limits: ConnectionLimits) -> type[DirectProtocol]:
    """Return the protocol class with these limits."""
    hosts = HostCheck(loopback_only=limits.loopback_only)
    return type("BoundedDirectProtocol", (DirectProtocol,), {"limits": limits, "hosts": hosts})


def _is_short(scope: Scope) -> bool:
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return length.isdigit() and int(length) <= _MAX_AWAITED_BYTES
