"""Limit on the waiting requests of one client at a worker, as a wrapper of a `DirectApp`.

*Invariants*: requests that are answered at once are not counted, since they do not wait; nor are responses that have
begun (event streams), which have their own bounds. A client is identified by the name of its token if tokens are used,
else by its address.
"""

from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from service.ground.errors import ApiError
from service.web.deferred import DeferredReply, DirectApp
from service.web.messages import Receive, Reply, Scope, Send, problem_reply, send_reply
from service.web.principal import principal_of


class ClientLimit:
    """A `DirectApp`: `app`, for at most `most` waiting requests of a client.

    *Maintains*: `waiting` has the number of waiting requests of each client that has any.
    """

    def __init__(self, app: DirectApp, most: int) -> None:
        self._app = app
        self._most = most
        self.reads_body = app.reads_body
        self._answer = app.answer
        self.waiting: Counter[str] = Counter()

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:
        """Return the immediate or deferred response; a deferred one is counted, and None is returned at the limit."""
        reply = self._answer(scope, body)
        if not isinstance(reply, DeferredReply):
            return reply
        client = _client_of(scope)
        if self.waiting[client] >= self._most:
            return None
        self.waiting[client] += 1

        def came(reply: Reply | None) -> Reply | None:
            self._leave(client)
            return reply

        return reply.mapped(came)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = _client_of(scope)
        if self.waiting[client] >= self._most:
            error = ApiError(
                "rate_limited",
                f"{self._most} requests of this client are already waiting.",
                "Send further requests when these are answered.",
            )
            await send_reply(send, problem_reply(error, scope["path"]))
            return
        self.waiting[client] += 1
        counted = True

        def leave() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._leave(client)

        async def sending(message: MutableMapping[str, Any]) -> None:
            leave()
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            leave()

    def _leave(self, client: str) -> None:
        self.waiting[client] -= 1
        if not self.waiting[client]:
            del self.waiting[client]


def _client_of(scope: Scope) -> str:
    principal = principal_of(scope)
    if principal is not None:
        return f"token {principal.name}"
    client = scope.get("client")
    return "" if client is None else str(client[0])
