"""The server's side of a connection: hits are answered while their request is parsed.

*Theory*: of what an empty response costs uvicorn, more than half is the way to the application and back: a task, two
messages, checks of headers that another author may have written. A hit needs none of it: it waits for nothing, and its
headers are ours. So where a request would become a task it is first offered to the application's fast routes
(`Direct`); what they answer goes out at once, or when it comes (`Coming`), anything else takes the ordinary way.

*Invariants*: answers go out in the order of their requests: only a request that nothing before it waits for is answered
so. A client that does not read what it is sent gets no more of it, and one that sends many requests at once does not
keep others waiting: both are left to the ordinary way, where all take turns. What this class overrides and uses of
uvicorn beyond its documented interface is (with `BoundedProtocol`) `_start_asgi_task`, `on_response_complete`, the
keep-alive timer and the attributes of a connection and of a cycle; a uvicorn without that method serves as if this
class were not there.
"""

from asyncio import AbstractEventLoop
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from service.web.bounded_protocol import BoundedProtocol, ConnectionLimits, response_bytes
from service.web.deferred import Coming
from service.web.host_check import HostCheck
from service.web.messages import App, Reply, Scope
from service.web.stalled_clients import EndsStalled

#: Bodies up to here are waited for before the application is asked; of larger ones the server reads no more by itself.
_MAX_AWAITED_BYTES = 1 << 15
#: How long requests that came together are answered without a turn for other connections.
_TURN_S = 0.005
_CLOSE = (b"connection", b"close")


@runtime_checkable
class Direct(Protocol):
    """An application that can answer some requests at once."""

    def reads_body(self, scope: Scope) -> bool:
        """Whether `answer` needs the request's body."""
        ...

    def answer(self, scope: Scope, body: bytes | None) -> Reply | Coming | None:
        """The response; what brings it soon; or None: the request has to go the ordinary way. Must not wait for
        anything. `body` is there if `reads_body` said so."""
        ...


class DirectProtocol(EndsStalled, BoundedProtocol):
    """uvicorn's protocol, with a shorter way for what a `Direct` application can answer.

    *State*: `_awaited` is the request whose body is being received before the application is asked.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._direct = self.app if isinstance(self.app, Direct) else None
        self._awaited: tuple[RequestResponseCycle, App] | None = None

    def _serve(self, cycle: RequestResponseCycle, app: Any) -> None:
        # Set by the answer to a request that came together with this one.
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
            # Out of here it would be taken for a mistake of the client's. The ordinary way meets it again, and says so.
            reply = None
        if isinstance(reply, Reply):
            self._send(cycle, reply)
        elif reply is None:
            super()._serve(cycle, app)
        else:
            reply.begin(lambda reply: self._came(cycle, app, reply))

    def _came(self, cycle: RequestResponseCycle, app: App, reply: Reply | None) -> None:
        """What was begun has come, or has to go on the ordinary way, even if only to find that the client has gone."""
        if reply is None:
            super()._serve(cycle, app)
        elif not (cycle.disconnected or self.transport.is_closing()):
            self._send(cycle, reply)

    def on_message_complete(self) -> None:
        """The request is whole."""
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
            # The server is being stopped, since the request was begun.
            reply.headers.append(_CLOSE)
        content = response_bytes(reply, self.server_state.default_headers, cycle.scope["method"] != "HEAD")
        cycle.response_started = cycle.response_complete = True
        self.transport.write(content)
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()


def bounded(limits: ConnectionLimits) -> type[DirectProtocol]:
    """The protocol with these bounds."""
    hosts = HostCheck(loopback_only=limits.loopback_only)
    return type("BoundedDirectProtocol", (DirectProtocol,), {"limits": limits, "hosts": hosts})


def _is_short(scope: Scope) -> bool:
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return length.isdigit() and int(length) <= _MAX_AWAITED_BYTES
