"""Authentication in front of a worker's application.

The views that a token may read are checked where a view's name is resolved (`HotRoute`, `Reads.listed`), so that no
spelling of a path bypasses the check; the guard only determines the principal.

*Invariants*: a request reaches the application only with its principal in the scope. A long-running request (a
subscription) ends when its token expires.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from service.ground.errors import ApiError
from service.web.auth.authority import Authority
from service.web.deferred import WATCH_S, DeferredReply, DirectApp
from service.web.messages import App, Receive, Reply, Scope, Send, problem_reply, send_reply
from service.web.principal import SCOPE_KEY, Principal, Right

_POLICY_VIOLATION = 1008


class Guard:
    """A `DirectApp`: `app`, for clients with the right to read."""

    def __init__(self, app: DirectApp, authority: Authority) -> None:
        self._app = app
        self._authority = authority

    def reads_body(self, scope: Scope) -> bool:
        """Return whether `answer` needs the request's body; False for unknown clients, whose bodies are not awaited."""
        return self._known(scope) is not None and self._app.reads_body(scope)

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:
        principal = self._known(scope)
        if principal is None:
            return None
        scope[SCOPE_KEY] = principal
        return self._app.answer(scope, body)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
    """Return the principal if it has the right. Raises ApiError(unauthenticated, forbidden, auth_unavailable)."""
    principal = await authority.principal(scope["headers"])
    if right not in principal.rights:
        raise ApiError("forbidden", f"The token does not have the right {right!s}.", "Use a token that has it.")
    return principal


async def refuse(scope: Scope, send: Send, error: ApiError) -> None:
    """Refuse an HTTP request or a WebSocket."""
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
    """Serve the request while its token is valid. Most requests end before the first check."""
    loop = asyncio.get_running_loop()
    watching: list[asyncio.Task[None]] = []
    started = False

    async def noted(message: MutableMapping[str, Any]) -> None:
        nonlocal started
        started = True
        await send(message)

    limit = asyncio.timeout(None)
    handle = loop.call_later(WATCH_S, lambda: watching.append(loop.create_task(_watch(authority, scope, limit))))
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
    """End the block of `limit` when the request would be refused or has another principal."""
    while True:
        try:
            valid = await authority.principal(scope["headers"]) == scope[SCOPE_KEY]
        except ApiError as error:
            # Keys that are temporarily unavailable do not invalidate the token.
            valid = error.retryable
        if not valid:
            limit.reschedule(asyncio.get_running_loop().time())
            return
        await asyncio.sleep(WATCH_S)


async def _end(scope: Scope, send: Send, started: bool) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
    elif started:
        await send({"type": "http.response.body", "body": b""})
    else:
        await refuse(scope, send, ApiError("unauthenticated", "The token has expired meanwhile.", "Request a new one."))
