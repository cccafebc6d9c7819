"""Conversion of a client's request for a pod, and of a pod's response for the client.

*Invariants*: headers of a connection are removed (RFC 9110, 7.6.1). Requests for parts of batches, which are
reserved to gateways, are not forwarded. A response is streamed at the client's pace; if a pod does not complete it,
it is not completed here either, so that no client takes it for whole.
"""

import structlog

from service.gateway.incoming import Incoming, PodGone
from service.web.messages import Headers, Scope, Send
from service.worker.reads.part import PART

#: Headers of a connection, and headers that the gateway sets itself.
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
#: Response headers that are removed; this server sets its own date.
_OF_RESPONSE = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"date"})
#: Response headers that are removed from a response without a body.
_OF_BARE = _OF_RESPONSE | {b"content-length"}
_NONE: Headers = []
_WITHOUT_BODY = frozenset({204, 304})
_log = structlog.get_logger(__name__)


def request_bytes(
    scope: Scope, body: bytes | None, without: frozenset[bytes] = frozenset(), more: Headers = _NONE
) -> bytes:
    """Return the request with this body; None: without one. `more` headers are added, those in `without` removed."""
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
    """Return a response's headers for the client."""
    dropped = _OF_BARE if incoming.status in _WITHOUT_BODY else _OF_RESPONSE
    return [header for header in incoming.headers if header[0] not in dropped]


async def pass_on(incoming: Incoming, send: Send, path: str) -> None:
    """Forward a response to its end."""
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
        _log.warning("a pod did not complete a response", path=path, reason=str(gone))
    finally:
        incoming.leave()
