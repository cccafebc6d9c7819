"""The cheapest possible answer: the same bytes for every request, from a plain ASGI application."""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any


class FixedApplication:
    def __init__(self, headers: Sequence[tuple[str, str]], body: str) -> None:
        encoded = [(name.encode(), value.encode()) for name, value in headers]
        length = (b"content-length", b"%d" % len(body.encode()))
        self._start = {"type": "http.response.start", "status": 200, "headers": [*encoded, length]}
        self._body = {"type": "http.response.body", "body": body.encode()}

    async def __call__(
        self,
        scope: MutableMapping[str, Any],  # noqa: ARG002
        receive: Callable[[], Awaitable[Any]],  # noqa: ARG002
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Say the same to everybody."""
        await send(self._start)
        await send(self._body)
