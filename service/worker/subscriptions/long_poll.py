"""Long polling: the changes since a token, as soon as there are any; for clients that cannot keep a stream open.

A request without a token is answered at once, with all rows.
"""

import asyncio

import orjson

from service.ground.errors import ApiError
from service.web.disconnects import until_left
from service.web.messages import CONTENT_JSON, Receive, Reply
from service.worker.subscriptions.topics import Entry, EventKind, Subscription


async def poll(subscription: Subscription, after: str | None, wait_s: float, receive: Receive) -> Reply | None:
    """Return the answer to a request that resumes after `after`; None if the client has left. Raises
    ApiError(must_refetch)."""
    answer = None
    try:
        with until_left(receive):
            entries: list[Entry] = []
            try:
                async with asyncio.timeout(wait_s):
                    await _collect(subscription, entries)
            except TimeoutError:
                pass
            answer = _reply(entries, after)
    finally:
        subscription.close()
    return answer


async def _collect(subscription: Subscription, entries: list[Entry]) -> None:
    """Collect entries until there is a change."""
    while found := await subscription.next():
        entries += found
        if any(entry.kind is not EventKind.UP_TO_DATE for entry in found):
            return


def _reply(entries: list[Entry], after: str | None) -> Reply:
    if any(entry.kind is EventKind.MUST_REFETCH for entry in entries):
        raise ApiError(
            "must_refetch", "The changes since that token are no longer logged.", "Start again without 'after'."
        )
    token = entries[-1].token if entries else after or ""
    rows = next((entry.json for entry in entries if entry.kind is EventKind.SNAPSHOT), b"null")
    changes = b",".join([entry.json for entry in entries if entry.kind is EventKind.CHANGE])
    members = (rows, changes, orjson.dumps(token.partition("~")[0]), orjson.dumps(token))
    body = b'{"snapshot":%b,"changes":[%b],"version":%b,"token":%b}' % members
    headers = [CONTENT_JSON, (b"cache-control", b"no-store"), (b"content-length", b"%d" % len(body))]
    return Reply(200, headers, body)
