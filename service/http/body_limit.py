"""Refuses request bodies that are too large, before anything collects them."""

from collections.abc import MutableMapping
from typing import Any

from service.errors import ApiError
from service.http.messages import App, Receive, Scope, Send, problem_reply, send_reply


class _TooLargeError(Exception):
    """The body went over the limit while it came in."""


class BodyLimit:
    """ASGI: `app`, for bodies of at most `max_bytes`."""

    def __init__(self, app: App, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or int(announced) > self._max_bytes:
            await self._refuse(scope, send)
            return
        seen = 0
        started = False

        async def limited() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_bytes:
                raise _TooLargeError
            return message

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, limited, watched)
        except _TooLargeError:
            if not started:
                await self._refuse(scope, send)

    async def _refuse(self, scope: Scope, send: Send) -> None:
        error = ApiError(
            "too_large",
            f"The request's body is larger than {self._max_bytes} bytes.",
            "Split it into several requests.",
        )
        await send_reply(send, problem_reply(error, scope["path"]))
