"""The cheapest answer there can be: a fixed ASGI response. Its headers and body come as JSON in ``PEER_ANSWER``."""

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

_ANSWER = json.loads(os.environ["PEER_ANSWER"])
_START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(name.encode(), value.encode()) for name, value in _ANSWER["headers"]],
}
_BODY = {"type": "http.response.body", "body": _ANSWER["body"].encode()}


async def app(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[Any]],  # noqa: ARG001
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Say the same to everybody."""
    if scope["type"] == "http":
        await send(_START)
        await send(_BODY)
