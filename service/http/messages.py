"""Answers and problems as ASGI responses."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import orjson

from service.errors import ApiError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

CONTENT_JSON = (b"content-type", b"application/json")
#: Kept by whoever likes, but asked again each time: the weak ETag makes that cheap.
CACHE_CONTROL = (b"cache-control", b"no-cache")
CACHE_HIT = (b"cache-status", b"upquery; hit")
CACHE_MISS = (b"cache-status", b"upquery; fwd=miss; stored")


class Reply(NamedTuple):
    """A whole response."""

    status: int
    headers: Headers
    body: bytes


async def send_reply(send: Send, reply: Reply) -> None:
    """Send it; HTTP servers leave the body of a HEAD out by themselves."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": reply.body})


def problem_reply(error: ApiError, instance: str) -> Reply:
    """RFC 9457 problem details."""
    body = orjson.dumps(error.problem(instance))
    headers = [(name.encode(), value.encode()) for name, value in error.headers.items()]
    return Reply(error.status, [*headers, (b"content-length", b"%d" % len(body))], body)
