"""Limit on the size of request bodies, applied while they are received."""

from collections.abc import MutableMapping
from typing import Any

from starlette.exceptions import HTTPException

from service.ground.errors import ApiError
from service.web.messages import App, Receive, Scope, Send, problem_reply, send_reply


class BodyLimit:
    """ASGI: `app`, for bodies of at most `max_bytes`."""

    def __init__(self, app: App, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or int(announced) > self._max_bytes:
            await send_reply(send, problem_reply(too_large(self._max_bytes), scope["path"]))
            return
        seen = 0

        async def limited() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_bytes:
                # FastAPI lets only this exception through while it reads a body.
                raise HTTPException(413, too_large(self._max_bytes).detail)
            return message

        await self._app(scope, limited, send)


def too_large(max_bytes: int) -> ApiError:
    """Return the problem of a body over the limit."""
    return ApiError(
        "too_large", f"The request's body is larger than {max_bytes} bytes.", "Split it into several requests."
    )
