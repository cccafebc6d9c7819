"""Compression of large responses for clients that accept it, as a wrapper of a `DirectApp`.

*Theory*: compression costs far more than a hit, so only responses long enough to save transfer time are considered, and
a request's headers are inspected only then. Bodies that take less than a turn of the event loop are compressed at once;
longer ones in a few threads (the codecs release the interpreter's lock); if these are busy, the response is sent
uncompressed. The threads give way to the event loop if cores are scarce: on Linux each thread has a priority of its own
(setpriority(2), C library/kernel differences).

*Invariants*: rows and tag are equal in every coding: tags are weak, so caches take all codings of an answer for one. A
response that may be compressed has a Vary header, compressed or not. A response without a known length is a stream and
is passed unchanged.
"""

import asyncio
import os
import zlib
from collections.abc import Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from service.web.deferred import DeferredReply, DirectApp
from service.web.messages import VARY, Headers, Receive, Reply, Scope, Send, send_reply

try:
    import zstandard
except ImportError:
    zstandard = None  # type: ignore[assignment]

#: Bodies up to this size are compressed at once; this takes about as long as a turn of the event loop may.
_AT_ONCE_BYTES = 64 << 10
#: Threads that compress longer bodies, maximum bodies that wait for them, and the threads' priority.
_THREADS, _MOST_WAITING, _NICE = 2, 16, 10
#: Scope key of an immediate response that is sent by a task only to have it compressed.
_REPLY = "upquery.reply"
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1
#: zlib's window bits for gzip's header and checksum.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_JSON = (b"application/json", b"application/problem+json")
Encode = Callable[[bytes], bytes]


def _gzip(body: bytes) -> bytes:
    compressor = zlib.compressobj(_GZIP_LEVEL, wbits=_GZIP_WINDOW)
    return compressor.compress(body) + compressor.flush()


def _zstd(body: bytes) -> bytes:
    # A compressor must not be shared between threads; a new one is cheap.
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)


#: The codings, best first.
_CODINGS: dict[str, Encode] = {"gzip": _gzip} if zstandard is None else {"zstd": _zstd, "gzip": _gzip}


class Compression:
    """A `DirectApp`: `app`, whose responses of at least `least_bytes` are compressed.

    *State*: `_waiting` is the number of bodies that threads compress.
    """

    def __init__(self, app: DirectApp, least_bytes: int) -> None:
        self._app = app
        self.reads_body = app.reads_body
        self._answer = app.answer
        self._least_bytes = least_bytes
        self._threads = ThreadPoolExecutor(_THREADS, "compress", os.nice, (_NICE,))
        self._waiting = 0

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:
        """Return the immediate or deferred response; None if it must be compressed in a task."""
        reply = self._answer(scope, body)
        if isinstance(reply, DeferredReply):
            return reply.mapped(lambda came: self._at_once(scope, came))
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
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reply: Reply | None = scope.pop(_REPLY, None)
        if reply is not None:
            await self.send(scope, reply, send)
            return
        await self._app(scope, receive, _Sending(self, scope, send))

    async def send(self, scope: Scope, reply: Reply, send: Send) -> None:
        """Send a response, compressed if the client accepts it."""
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
    """The `send` of an application: compresses a response in one piece, passes any other.

    *State*: `_start` is the start of a response that may be in one piece.
    """

    def __init__(self, compression: Compression, scope: Scope, send: Send) -> None:
        self._compression = compression
        self._scope = scope
        self._send = send
        self._start: MutableMapping[str, Any] | None = None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
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
    """Return the response in a coding; None: uncompressed, with a Vary header."""
    if coding is None:
        return reply._replace(headers=[*reply.headers, VARY])
    body = _CODINGS[coding](reply.body)
    headers = [header for header in reply.headers if header[0] != b"content-length"]
    headers += [VARY, (b"content-encoding", coding.encode()), (b"content-length", b"%d" % len(body))]
    return Reply(reply.status, headers, body)


def _has_length(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"content-length" for name, _ in headers)


def _is_plain(headers: Headers) -> bool:
    """Return whether it is uncompressed JSON."""
    names = dict(headers)
    return names.get(b"content-type", b"").partition(b";")[0] in _JSON and b"content-encoding" not in names


def coding_of(headers: Headers) -> str | None:
    """Return the best coding that a request accepts, if any."""
    accepted = [value for name, value in headers if name == b"accept-encoding"]
    return best_coding(b",".join(accepted)) if accepted else None


def best_coding(accept_encoding: bytes) -> str | None:
    """Return the coding with the largest weight above zero, ours first among equals (RFC 9110, 12.5.3)."""
    return (_remembered if len(accept_encoding) <= _MAX_REMEMBERED_BYTES else _best_coding)(accept_encoding)


def _best_coding(accept_encoding: bytes) -> str | None:
    weights = dict(map(_weighted, accept_encoding.decode("latin-1").lower().split(",")))
    others = weights.get("*", 0.0)
    best = max(_CODINGS, key=lambda coding: weights.get(coding, others))
    return best if weights.get(best, others) > 0 else None


#: Clients choose their headers: longer ones are parsed each time.
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
