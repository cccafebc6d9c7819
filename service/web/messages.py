"""ASGI types, and responses and problems as ASGI messages."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

import orjson

from service.ground.errors import ApiError
from service.protocol.reads import AnswerSource

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

CONTENT_JSON = (b"content-type", b"application/json")
#: Caches may store the answer but must revalidate it, which the weak ETag makes cheap. A view may override this.
CACHE_CONTROL = (b"cache-control", b"no-cache")
#: For answers that depend on the client.
PRIVATE = (b"cache-control", b"private, no-cache")
VARY_BY_TOKEN = (b"vary", b"Authorization")
#: RFC 9211. A miss that the upstream answers past the store bypasses the cache.
CACHE_HIT = (b"cache-status", b"upquery; hit")
CACHE_STATUS = {
    AnswerSource.STORED: (b"cache-status", b"upquery; fwd=miss; stored"),
    AnswerSource.UNSTORED: (b"cache-status", b"upquery; fwd=miss"),
    AnswerSource.FORWARDED: (b"cache-status", b"upquery; fwd=bypass"),
    AnswerSource.CURRENT: (b"cache-status", b"upquery; fwd=stale"),
    AnswerSource.QUERY: (b"cache-status", b"upquery; fwd=bypass"),
    AnswerSource.STALE: (b"cache-status", b"upquery; hit; detail=stale"),
}
#: For answers large enough to be compressed.
VARY = (b"vary", b"Accept-Encoding")


class Reply(NamedTuple):
    """A complete response."""

    status: int
    headers: Headers
    body: bytes


async def send_reply(send: Send, reply: Reply) -> None:
    """Send a response; HTTP servers omit the body for HEAD."""
    await send({"type": "http.response.start", "status": reply.status, "headers": reply.headers})
    await send({"type": "http.response.body", "body": reply.body})


def problem_reply(error: ApiError, instance: str) -> Reply:
    """Return RFC 9457 problem details."""
    body = orjson.dumps(error.problem(instance))
    headers = [(name.encode(), value.encode()) for name, value in error.headers.items()]
    return Reply(error.status, [*headers, (b"content-length", b"%d" % len(body))], body)
