"""A client's request as a pod is sent it, and a pod's response as the client gets it.

*Invariants*: what is about a connection ends here (RFC 9110, 7.6.1). What clients may not ask pods for (parts of
batches) is not passed on. A response goes on as it comes, and no faster than the client reads it; one that a pod does
not finish is not finished here either, so that nobody takes it for whole.
"""

import structlog

from service.gateway.incoming import Incoming, PodGone
from service.web.messages import Headers, Scope, Send
from service.worker.reads.part import PART

#: Headers about a connection, and those of which a request gets its own.
_OF_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"expect",
        b"content-length",
        b"x-forwarded-for",
        PART[0],
    }
)
#: Of a response; this server says what time it is.
_OF_RESPONSE = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"date"})
#: Of one that has no body.
_OF_BARE = _OF_RESPONSE | {b"content-length"}
_NONE: Headers = []
_WITHOUT_BODY = frozenset({204, 304})
_log = structlog.get_logger(__name__)


def request_bytes(
    scope: Scope, body: bytes | None, without: frozenset[bytes] = frozenset(), more: Headers = _NONE
) -> bytes:
    """The request with this body; None: without one. It has `more` headers, and not those of the names `without`."""
    path, query = scope["raw_path"], scope["query_string"]
    target = b"%b?%b" % (path, query) if query else path
    content = [b"%b %b HTTP/1.1\r\n" % (scope["method"].encode(), target)]
    content += [b"%b: %b\r\n" % header for header in _passed_on(scope, without)]
    content += [b"%b: %b\r\n" % header for header in more]
    content.append(b"\r\n" if body is None else b"content-length: %d\r\n\r\n%b" % (len(body), body))
    return b"".join(content)


def _passed_on(scope: Scope, without: frozenset[bytes]) -> Headers:
    headers: Headers = scope["headers"]
    dropped = _OF_CONNECTION | without if without else _OF_CONNECTION
    passed = [header for header in headers if header[0] not in dropped]
    forwarded = []
    if len(passed) < len(headers):
        named = {each.strip().lower() for name, value in headers if name == b"connection" for each in value.split(b",")}
        passed = [header for header in passed if header[0] not in named]
        forwarded = [value for name, value in headers if name == b"x-forwarded-for"]
    client = scope.get("client")
    if client is not None:
        forwarded.append(str(client[0]).encode())
        passed.append((b"x-forwarded-for", b", ".join(forwarded)))
    return passed


def passed_back(incoming: Incoming) -> Headers:
    """The headers of a response, as the client gets them."""
    dropped = _OF_BARE if incoming.status in _WITHOUT_BODY else _OF_RESPONSE
    return [header for header in incoming.headers if header[0] not in dropped]


async def pass_on(incoming: Incoming, send: Send, path: str) -> None:
    """The response, to its end."""
    headers = passed_back(incoming)
    await send({"type": "http.response.start", "status": incoming.status, "headers": headers})
    try:
        more = True
        while more:
            piece = await incoming.read()
            more = bool(piece) and not incoming.is_read
            await send({"type": "http.response.body", "body": piece, "more_body": more})
    except PodGone as gone:
        # The server closes the connection to the client.
        _log.warning("a pod did not finish a response", path=path, reason=str(gone))
    finally:
        incoming.leave()
