"""Streamed answers of views with `large_answers`, too large for the store: rows as the database sends them, without
a known length.

*Invariants*: until the first rows have arrived, a problem is a response of its own; after that the connection is
aborted, so that no client takes a part for the whole. If the client disconnects, the database's query is cancelled.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

import structlog

from service.ground.errors import ApiError
from service.protocol.reads import AnswerSource
from service.web.disconnects import until_left
from service.web.messages import CACHE_STATUS, CONTENT_JSON, Headers, Receive, Send
from service.worker.reads.reads import ViewRoute

_log = structlog.get_logger(__name__)
_HEAD, _TAIL = b'{"rows":[', b'],"version":null,"next":null}'


class LargeAnswer(NamedTuple):
    """A streamed response whose first rows have arrived."""

    view: str
    headers: Headers
    first: bytes
    others: AsyncGenerator[bytes]


async def begun(route: ViewRoute, parts: AsyncGenerator[bytes], headers: Headers) -> LargeAnswer:
    """Wait for the first rows. Raises ApiError."""
    first = await anext(parts, b"")
    return LargeAnswer(route.info.name, [CONTENT_JSON, CACHE_STATUS[AnswerSource.CURRENT], *headers], first, parts)


async def send_large(receive: Receive, send: Send, answer: LargeAnswer, *, head: bool) -> None:
    """Send the whole answer; for HEAD only the headers."""
    async with aclosing(answer.others) as others:
        with until_left(receive):
            await send({"type": "http.response.start", "status": 200, "headers": answer.headers})
            if head:
                await send({"type": "http.response.body", "body": b""})
                return
            await send({"type": "http.response.body", "body": _HEAD + answer.first, "more_body": True})
            try:
                async for part in others:
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            except ApiError as error:
                # The server aborts the connection of an incomplete response.
                _log.warning("a large answer was aborted", view=answer.view, code=error.code, reason=error.detail)
                return
            await send({"type": "http.response.body", "body": _TAIL})
