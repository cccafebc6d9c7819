"""Routes of subscriptions."""

from urllib.parse import urlsplit

import structlog

from service.ground.errors import ApiError
from service.settings.sections import SubscriptionSettings
from service.web.messages import Receive, Reply, Scope, Send, problem_reply, send_reply
from service.web.principal import principal_of
from service.worker.reads.known_views import KnownViews
from service.worker.reads.reads import Reads
from service.worker.reads.view_reads import VIEWS_PATH, conditions_of
from service.worker.subscriptions.long_poll import poll
from service.worker.subscriptions.messages import PATH, no_socket_at
from service.worker.subscriptions.requests import SubscriptionRequest, asked_of, has_own_live, is_live, wants_events
from service.worker.subscriptions.sse import EventStream
from service.worker.subscriptions.topics import Subscribes, Subscriptions
from service.worker.subscriptions.websocket import SocketSession

_SUBSCRIBE = "/subscribe"
_log = structlog.get_logger(__name__)


class SubscribeRoute:
    """ASGI: server-sent events, long polls and WebSockets; `is_for` recognizes their requests."""

    def __init__(self, subscriptions: Subscriptions, reads: Reads, settings: SubscriptionSettings) -> None:
        self.subscriptions = subscriptions
        self._reads = reads
        self._settings = settings

    def is_for(self, scope: Scope) -> bool:
        """Return whether a request is a subscription. A read of a view with only ``limit`` or ``after`` is not."""
        if scope["type"] != "http":
            return bool(scope["type"] == "websocket")
        path: str = scope["path"]
        if path == PATH:
            return True
        if not path.startswith(VIEWS_PATH):
            return False
        name = path.removeprefix(VIEWS_PATH)
        if "/" in name:
            return "/" not in name.removesuffix(_SUBSCRIBE)
        if scope["method"] != "GET":
            return False
        return wants_events(scope["headers"]) or (is_live(scope["query_string"]) and not self._is_parameter(name))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await serve_socket(scope, receive, send, self.subscriptions, self._reads, self._settings)
            return
        try:
            reply = await self._serve(scope, receive, send)
        except ApiError as error:
            reply = problem_reply(error, scope["path"])
            if error.code == "method_not_allowed":
                reply.headers.append((b"allow", b"GET"))
        except Exception:
            _log.exception("subscription_failed", path=scope["path"])
            failed = ApiError("internal_error", "The subscription failed; the log has the reason.")
            reply = problem_reply(failed, scope["path"])
        if reply is not None:
            await send_reply(send, reply)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> Reply | None:
        """Return the response, unless it was a stream. Raises ApiError."""
        if scope["method"] != "GET":
            raise ApiError("method_not_allowed", f"{scope['path']} does not support {scope['method']}.", "Use GET.")
        if scope["path"] == PATH:
            raise ApiError(
                "bad_request", f"{PATH} takes WebSockets only.", "Subscribe to one view at /v1/views/{view}/subscribe."
            )
        asked = await self._asked(scope)
        subscription = await self.subscriptions.subscribe(asked.wanted, asked.after, principal_of(scope))
        if asked.polls:
            return await poll(subscription, asked.after, self._poll_s(scope), receive)
        await EventStream(subscription, send, self._settings.keep_alive_s).run(receive)
        return None

    async def _asked(self, scope: Scope) -> SubscriptionRequest:
        """Return the requested subscription, after waiting for its version. Raises ApiError."""
        name = scope["path"].removeprefix(VIEWS_PATH).removesuffix(_SUBSCRIBE)
        principal = principal_of(scope)
        asked = asked_of(self._reads.route(name, principal), scope["query_string"], scope["headers"], principal)
        conditions = conditions_of(scope["headers"])
        if conditions.minimum is not None:
            await self._reads.wait_for(conditions.minimum, conditions.wait_s)
        return asked

    def _poll_s(self, scope: Scope) -> float:
        wait_s, most_s = conditions_of(scope["headers"]).wait_s, self._settings.poll_s
        return most_s if wait_s is None else min(wait_s, most_s)

    def _is_parameter(self, name: str) -> bool:
        self._reads.refresh()
        route = self._reads.routes.get(name)
        return route is not None and has_own_live(route)


async def serve_socket(
    scope: Scope,
    receive: Receive,
    send: Send,
    subscriptions: Subscribes,
    views: KnownViews,
    settings: SubscriptionSettings,
) -> None:
    """Serve a WebSocket from its opening to its end."""
    try:
        _check_socket(scope, settings)
    except ApiError as error:
        reply = problem_reply(error, scope["path"])
        await send({"type": "websocket.http.response.start", "status": reply.status, "headers": reply.headers})
        await send({"type": "websocket.http.response.body", "body": reply.body})
        return
    await SocketSession(subscriptions, views, send, settings.per_connection, principal_of(scope)).run(receive)


def _check_socket(scope: Scope, settings: SubscriptionSettings) -> None:
    """Check path and origin. Browsers let any page open a WebSocket to any server, so pages of other origins get the
    rights that they have for HTTP answers. Raises ApiError."""
    if scope["path"] != PATH:
        raise no_socket_at(scope["path"])
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    origin = headers.get(b"origin")
    if origin is None or origin in settings.origins:
        return
    if urlsplit(origin).netloc != headers.get(b"host"):
        raise ApiError(
            "forbidden",
            f"Pages of {origin[:80]!r} may not subscribe.",
            "To allow them, add the origin to [subscriptions] origins.",
        )
