"""Problem of a request that is cancelled because the process stops and has waited for it long enough."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from service.ground.errors import ApiError
from service.web.messages import App, Receive, Scope, Send, problem_reply, send_reply


class StopProblem:
    """ASGI: `app`, for requests that nobody but the server cancels.

    Without it such a request would get a bare 500, as if it had met a mistake of ours.
    """

    __slots__ = ("_app",)

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = False

        async def noticed(message: MutableMapping[str, Any]) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._app(scope, receive, noticed)
        except asyncio.CancelledError:
            if began:
                raise
            stopping = ApiError("engine_unavailable", "The process stops; a change may be in effect, or not.")
            await send_reply(send, problem_reply(stopping, scope["path"]))
