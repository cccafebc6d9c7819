"""In front of a worker's application: nobody gets in without a token.

What a token may read is decided where a view's name is resolved (`HotRoute`, `Reads.listed`), so that no spelling of a
path gets around it; this only says who asks.

*Invariants*: a request reaches the application only with its principal in the scope. What goes on for long (a
subscription) ends when its token does.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from service.ground.errors import ApiError
from service.web.auth.authority import Authority
from service.web.deferred import Coming, DirectApp
from service.web.messages import App, Receive, Reply, Scope, Send, problem_reply, send_reply
from service.web.principal import SCOPE_KEY, Principal, Right

#: How often a request that goes on is looked at again.
_WATCH_S = 5.0
_POLICY_VIOLATION = 1008


class Guard:
    """ASGI, and `Direct`: `app`, for those who may read."""

    def __init__(self, app: DirectApp, authority: Authority) -> None:
        self._app = app
        self._authority = authority

    def reads_body(self, scope: Scope) -> bool:
        """Whether `answer` needs the request's body. Of a stranger none is waited for."""
        return self._known(scope) is not None and self._app.reads_body(scope)

    def answer(self, scope: Scope, body: bytes | None) -> Reply | Coming | None:
        """The response, if it can be given at once, or without a task."""
        principal = self._known(scope)
        if principal is None:
            return None
        scope[SCOPE_KEY] = principal
        return self._app.answer(scope, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            scope[SCOPE_KEY] = await admitted(self._authority, scope, Right.READ)
        except ApiError as error:
            await refuse(scope, send, error)
            return
        await _while_valid(self._app, self._authority, scope, receive, send)

    def _known(self, scope: Scope) -> Principal | None:
        principal = self._authority.known(scope["headers"])
        return principal if principal is not None and Right.READ in principal.rights else None


async def admitted(authority: Authority, scope: Scope, right: Right) -> Principal:
    """Who asks, if they have the right. ApiError ``unauthenticated``, ``forbidden``, ``auth_unavailable``."""
    principal = await authority.principal(scope["headers"])
    if right not in principal.rights:
        raise ApiError("forbidden", f"This token does not have the right to {right}.", "Use one that has it.")
    return principal


async def refuse(scope: Scope, send: Send, error: ApiError) -> None:
    """Say no to a request of either kind."""
    reply = problem_reply(error, scope["path"])
    if scope["type"] == "http":
        await send_reply(send, reply)
    elif "websocket.http.response" in scope.get("extensions", {}):
        head = {"type": "websocket.http.response.start", "status": reply.status, "headers": reply.headers}
        await send(head)
        await send({"type": "websocket.http.response.body", "body": reply.body})
    else:
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})


async def _while_valid(app: App, authority: Authority, scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the request, as long as its token would be admitted. Most are over before that is looked at again."""
    loop = asyncio.get_running_loop()
    watching: list[asyncio.Task[None]] = []
    started = False

    async def noted(message: MutableMapping[str, Any]) -> None:
        nonlocal started
        started = True
        await send(message)

    limit = asyncio.timeout(None)
    handle = loop.call_later(_WATCH_S, lambda: watching.append(loop.create_task(_watch(authority, scope, limit))))
    try:
        async with limit:
            await app(scope, receive, noted)
    except TimeoutError:
        if not limit.expired():
            raise
        await _end(scope, send, started)
    finally:
        handle.cancel()
        for task in watching:
            task.cancel()


async def _watch(authority: Authority, scope: Scope, limit: asyncio.Timeout) -> None:
    """End what is in `limit` once the request would be refused, or be another's."""
    while True:
        try:
            valid = await authority.principal(scope["headers"]) == scope[SCOPE_KEY]
        except ApiError as error:
            # That keys cannot be had just now says nothing about the token.
            valid = error.retryable
        if not valid:
            limit.reschedule(asyncio.get_running_loop().time())
            return
        await asyncio.sleep(_WATCH_S)


async def _end(scope: Scope, send: Send, started: bool) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
    elif started:
        await send({"type": "http.response.body", "body": b""})
    else:
        await refuse(scope, send, ApiError("unauthenticated", "The token has expired meanwhile.", "Request a new one."))
