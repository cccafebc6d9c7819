"""Compresses large responses for clients that take it: around an application, with the same two faces (`Direct`).

*Theory*: compressing costs far more than a hit, so only responses are considered that are long enough for it to save
time on the way, and a request's headers are looked at only then. What takes less than a turn of the loop is done at
once; more is left to a thread (the codecs let go of the interpreter), of which there are few: where those are busy, the
response goes out as it is. Where cores are few, these threads give way to the loop: on Linux each has a priority of its
own (setpriority(2), C library/kernel differences).

*Invariants*: rows and tag are the same in every coding: tags are weak, so all codings of an answer are one to caches.
What may be compressed says that it varies, compressed or not. What has no known length is a stream, and passes as it
is.
"""

import asyncio
import os
import zlib
from collections.abc import Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from service.web.deferred import Coming, DirectApp
from service.web.messages import VARY, Headers, Receive, Reply, Scope, Send, send_reply

try:
    import zstandard
except ImportError:
    zstandard = None  # type: ignore[assignment]

#: Up to here a body is compressed at once: about as long as a turn may be.
_AT_ONCE_BYTES = 64 << 10
#: Longer ones are compressed by so many threads, and so many at a time wait for that.
_THREADS, _MOST_WAITING, _NICE = 2, 16, 10
#: The response that was given at once, of a request that goes the ordinary way only to have it compressed.
_REPLY = "upquery.reply"
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1
#: Of zlib, for gzip's header and checksum.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_JSON = (b"application/json", b"application/problem+json")
Encode = Callable[[bytes], bytes]


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW)
    return compressor.compress(body) + compressor.flush()


def _zstd(body: bytes) -> bytes:
    # A compressor belongs to one thread at a time, and costs little.
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)


#: The codings, the best first.
_CODINGS: dict[str, Encode] = {"gzip": _gzip} if zstandard is None else {"zstd": _zstd, "gzip": _gzip}


class Compression:
    """ASGI: `app`, whose responses of at least `least_bytes` are compressed. Also `Direct`, if `app` is.

    *State*: `_waiting` bodies are being compressed by threads.
    """

    def __init__(self, app: DirectApp, least_bytes: int) -> None:
        self._app = app
        #: Whether `answer` needs the request's body.
        self.reads_body = app.reads_body
        self._answer = app.answer
        self._least_bytes = least_bytes
        self._threads = ThreadPoolExecutor(_THREADS, "compress", os.nice, (_NICE,))
        self._waiting = 0

    def answer(self, scope: Scope, body: bytes | None) -> Reply | Coming | None:
        """The response, if it can be given at once, or without a task."""
        reply = self._answer(scope, body)
        if isinstance(reply, Coming):
            return reply.through(lambda came: self._at_once(scope, came))
        return self._at_once(scope, reply)

    def _at_once(self, scope: Scope, reply: Reply | None) -> Reply | None:
        if reply is None or len(reply.body) < self._least_bytes or not _is_plain(reply.headers):
            return reply
        coding = coding_of(scope["headers"])
        if coding is None or len(reply.body) <= _AT_ONCE_BYTES:
            return encoded(reply, coding)
        scope[_REPLY] = reply
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reply: Reply | None = scope.pop(_REPLY, None)
        if reply is not None:
            await self.send(scope, reply, send)
            return
        await self._app(scope, receive, _Sending(self, scope, send))

    async def send(self, scope: Scope, reply: Reply, send: Send) -> None:
        """Send a response as it is, or compressed."""
        if len(reply.body) >= self._least_bytes and _is_plain(reply.headers):
            coding = coding_of(scope["headers"])
            if coding is None or len(reply.body) <= _AT_ONCE_BYTES:
                reply = encoded(reply, coding)
            else:
                reply = await self._encoded_by_thread(reply, coding)
        await send_reply(send, reply)

    async def _encoded_by_thread(self, reply: Reply, coding: str) -> Reply:
        if self._waiting >= _MOST_WAITING:
            return encoded(reply, None)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, encoded, reply, coding)
        finally:
            self._waiting -= 1


class _Sending:
    """What an application sends with: a response in one piece is compressed, any other passes.

    *State*: `_start` is the start of a response that may be in one piece.
    """

    def __init__(self, compression: Compression, scope: Scope, send: Send) -> None:
        self._compression = compression
        self._scope = scope
        self._send = send
        self._start: MutableMapping[str, Any] | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Send it."""
        if message["type"] == "http.response.start" and _has_length(message.get("headers", ())):
            self._start = message
            return
        start, self._start = self._start, None
        if start is None:
            await self._send(message)
        elif message.get("more_body"):
            await self._send(start)
            await self._send(message)
        else:
            reply = Reply(start["status"], list(start["headers"]), message.get("body", b""))
            await self._compression.send(self._scope, reply, self._send)


def encoded(reply: Reply, coding: str | None) -> Reply:
    """The response in a coding; None: as it is, where it could have been compressed."""
    if coding is None:
        return reply._replace(headers=[*reply.headers, VARY])
    body = _CODINGS[coding](reply.body)
    headers = [header for header in reply.headers if header[0] != b"content-length"]
    headers += [VARY, (b"content-encoding", coding.encode()), (b"content-length", b"%d" % len(body))]
    return Reply(reply.status, headers, body)


def _has_length(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-length" for name, _ in headers)


def _is_plain(headers: Headers) -> bool:
    """Whether it is JSON that nobody has encoded."""
    names = dict(headers)
    return names.get(b"content-type", b"").partition(b";")[0] in _JSON and b"content-encoding" not in names


def coding_of(headers: Headers) -> str | None:
    """The best coding that a request takes, if any."""
    accepted = [value for name, value in headers if name == b"accept-encoding"]
    return best_coding(b",".join(accepted)) if accepted else None


def best_coding(accept_encoding: bytes) -> str | None:
    """RFC 9110, 12.5.3: the coding with the largest weight that is not zero; ours first among equals."""
    return (_remembered if len(accept_encoding) <= _MAX_REMEMBERED_BYTES else _best_coding)(accept_encoding)


def _best_coding(accept_encoding: bytes) -> str | None:
    weights = dict(map(_weighted, accept_encoding.decode("latin-1").lower().split(",")))
    others = weights.get("*", 0.0)
    best = max(_CODINGS, key=lambda coding: weights.get(coding, others))
    return best if weights.get(best, others) > 0 else None


#: Clients choose their headers: longer ones are read anew each time.
_MAX_REMEMBERED_BYTES = 200
_remembered = lru_cache(maxsize=256)(_best_coding)


def _weighted(element: str) -> tuple[str, float]:
    coding, _, parameter = element.partition(";")
    name, _, weight = parameter.partition("=")
    if name.strip() != "q":
        return coding.strip(), 1.0
    try:
        return coding.strip(), float(weight)
    except ValueError:
        return coding.strip(), 0.0
