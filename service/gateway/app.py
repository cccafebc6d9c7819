"""A gateway's application: the choice of a request's path through the gateway.

*Invariants*: a request is forwarded unchanged, or refused with the same problem as by pods. A token with rights to
some views reads no others here, whatever pods check themselves.

Not here: authentication (`service.web.auth.guard`).
"""

import structlog

from service.gateway.asked import is_batch
from service.gateway.batches import GatewayBatches
from service.gateway.incoming import PodGone
from service.gateway.reading import GatewayReads
from service.gateway.relaying import Relays
from service.gateway.sockets import Sockets
from service.gateway.streams import Streams
from service.ground.errors import ApiError
from service.web.body_limit import too_large
from service.web.deferred import DeferredReply
from service.web.messages import Receive, Scope, Send, problem_reply, send_reply
from service.web.principal import Right, principal_of, require_read
from service.web.request_body import RequestBody
from service.worker.reads.view_reads import VIEWS_PATH
from service.worker.subscriptions.requests import is_live, wants_events

_READS = frozenset({"GET", "HEAD"})
_SUBSCRIBE = "/subscribe"
_AD_HOC = "/v1/query"
_log = structlog.get_logger(__name__)


class GatewayApp:
    """A `DirectApp`: plain reads are answered without a task."""

    def __init__(
        self,
        reads: GatewayReads,
        relays: Relays,
        batches: GatewayBatches,
        streams: Streams,
        sockets: Sockets,
        *,
        max_body_bytes: int,
    ) -> None:
        self._reads = reads
        self._relays = relays
        self._batches = batches
        self._streams = streams
        self._sockets = sockets
        self._max_bytes = max_body_bytes

    def reads_body(self, scope: Scope) -> bool:  # noqa: ARG002
        return False

    def answer(self, scope: Scope, body: bytes | None) -> DeferredReply | None:  # noqa: ARG002
        """Return the deferred response to a GET of a view's key, if the client may read the view."""
        view = _view_of(scope["path"]) if scope["method"] == "GET" else None
        if view is None or self._is_stream(scope):
            return None
        principal = principal_of(scope)
        return self._relays.of(scope, view) if principal is None or principal.may_read(view) else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets.serve(scope, receive, send)
            return
        try:
            await self._serve(scope, receive, send)
        except ApiError as error:
            await send_reply(send, problem_reply(error, scope["path"]))
        except PodGone as gone:
            unfinished = ApiError("engine_unavailable", f"A pod did not complete its answer: {gone}.", "Try again.")
            await send_reply(send, problem_reply(unfinished, scope["path"]))
        except Exception:
            _log.exception("request_failed", path=scope["path"])
            failed = ApiError("internal_error", "The request failed; the log has the reason.")
            await send_reply(send, problem_reply(failed, scope["path"]))

    async def drain(self) -> None:
        await self._streams.end()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].endswith("\n"):
            # Pods take it for the path before it.
            raise ApiError("not_found", f"Path {scope['path']} does not exist.", "See /openapi.json.")
        principal = principal_of(scope)
        if scope["path"] == _AD_HOC and principal is not None and Right.QUERY not in principal.rights:
            raise ApiError(
                "forbidden", f"The token does not have the right {Right.QUERY!s}.", "Use a token that has it."
            )
        is_read = scope["method"] in _READS
        view = _view_of(scope["path"]) if is_read else None
        if view is not None:
            require_read(principal, view)
            if not self._is_stream(scope):
                await self._reads.serve_view(scope, receive, send, view)
                return
            await self._streams.serve(
                lambda sending: self._reads.serve_view(scope, receive, sending, view, streams=True), send
            )
            return
        body = b"" if is_read else await self._body(scope, receive)
        if body is None:
            # The client has disconnected.
            return
        if is_batch(scope):
            await self._batches.serve(scope, receive, send, body)
        else:
            await self._reads.serve_first(scope, receive, send, None if is_read else body)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the body; None if it is incomplete. Raises ApiError(too_large)."""
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or int(announced) > self._max_bytes:
            raise too_large(self._max_bytes)
        body = await RequestBody.read(receive, self._max_bytes)
        if body.content is None and body.messages[-1]["type"] == "http.request":
            raise too_large(self._max_bytes)
        return body.content

    def _is_stream(self, scope: Scope) -> bool:
        """Return whether the answer is a stream of unbounded duration."""
        if scope["method"] != "GET":
            return False
        is_followed = scope["path"].endswith(_SUBSCRIBE) or is_live(scope["query_string"])
        return is_followed or wants_events(scope["headers"])


def _view_of(path: str) -> str | None:
    """Return the view of a path for one key; None for other paths."""
    if not path.startswith(VIEWS_PATH):
        return None
    name = path.removeprefix(VIEWS_PATH).removesuffix(_SUBSCRIBE)
    return name if name and "/" not in name and not name.endswith("\n") else None
