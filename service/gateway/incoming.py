"""A response as it arrives from a pod, and its states.

*Theory*: the reader is woken once for each received packet, so a response in one piece costs one turn of the event
loop. Unread bytes are bounded: at the limit the connection stops reading.

*Invariants*: a response ends either `complete` or `failed`, never both. `began` is whether a byte of it has arrived;
before that, the request may be repeated.

Not here: the connection (`connection`); use of responses (`finding`, `forwarding`).
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import httptools

from service.web.messages import Headers

_MOST_UNREAD_BYTES = 1 << 16
_NO_BODY = frozenset({204, 304})
_CONTINUE = 200


class PodGone(Exception):
    """A pod did not answer, or not completely. `began`: a part of the answer arrived. `stale`: the connection had
    been open for a while, and may have been closed before the request arrived."""

    def __init__(self, reason: str, *, began: bool = False, stale: bool = False) -> None:
        super().__init__(reason)
        self.began = began
        self.stale = stale


class PodSource(Protocol):
    """The source of a response."""

    def pause(self) -> None:
        """Pause reading."""
        ...

    def resume(self) -> None:
        """Resume reading."""
        ...

    def abandon(self) -> None:
        """Discard the rest of the response."""
        ...


class Incoming:
    """One response. *State*: `_pieces` are received and unread parts of its body, of `_unread` bytes; `_woken` is
    the future of a waiting reader, or `_told` the callback used instead."""

    __slots__ = (
        "_final",
        "_is_head",
        "_length",
        "_parser",
        "_paused",
        "_pieces",
        "_source",
        "_told",
        "_unread",
        "_woken",
        "began",
        "complete",
        "failed",
        "headers",
        "reusable",
        "sized",
        "status",
    )

    def __init__(self, source: PodSource, *, is_head: bool) -> None:
        self.status = 0
        self.headers: Headers = []
        self.complete = self.began = self.reusable = False
        #: Whether it has a Content-Length.
        self.sized = False
        self.failed: PodGone | None = None
        self._source = source
        self._is_head = is_head
        #: Until it ends: parser and response refer to each other.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._unread = 0
        self._paused = False
        #: Whether the final head has arrived, not only an informational one.
        self._final = False
        #: Whether the body's length is determined.
        self._length = False
        self._woken: asyncio.Future[None] | None = None
        self._told: Callable[[], None] | None = None

    # Called by the connection

    def feed(self, data: bytes) -> None:
        """Parse received bytes. The reader is woken by `wake`, once the connection knows whether it is reusable."""
        self.began = True
        assert self._parser is not None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self.complete:
                self.failed = PodGone("it did not answer in HTTP", began=True)
            self.reusable = False
        if self.complete:
            self._parser = None
        elif self._unread > _MOST_UNREAD_BYTES and not self._paused:
            self._paused = True
            self._source.pause()

    def end(self, *, stale: bool) -> None:
        """End the response: the connection is closed."""
        if self.complete or self.failed is not None:
            return
        if self._final and not self._length:
            # Without a length, the end of the connection ends the body.
            self.complete = True
        else:
            self.failed = PodGone("it closed the connection", began=self.began, stale=stale)
        self.wake()

    def fail(self, reason: str) -> None:
        """End the response with an error."""
        if not self.complete and self.failed is None:
            self.failed = PodGone(reason, began=self.began)
            self.wake()

    def wake(self) -> None:
        """Wake the reader: bytes have arrived, or the end."""
        if self._told is not None:
            self._told()
        elif self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    @property
    def is_awaited(self) -> bool:
        """True if a reader is waiting."""
        return self._woken is not None or self._told is not None

    @property
    def is_read(self) -> bool:
        """True if everything has been read."""
        return self.complete and not self._pieces

    # Called by the parser

    def on_message_begin(self) -> None:
        """Refuse another response after this one: without a request, it would be taken for the next one's."""
        if self.complete:
            raise ValueError("bytes after the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers are ignored."""
        if not self._final:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < _CONTINUE:
            self.headers = []
            return
        self.status, self._final = status, True
        names = [name for name, _ in self.headers]
        self.sized = b"content-length" in names
        self._length = self.sized or b"transfer-encoding" in names
        if self._is_head:
            self._completed()
        elif status in _NO_BODY:
            self._length = True

    def on_body(self, body: bytes) -> None:
        if not self._is_head:
            self._pieces.append(body)
            self._unread += len(body)
        else:
            # The connection cannot be reused.
            self.reusable = False

    def on_message_complete(self) -> None:
        if self._final and not self._is_head:
            self._completed()

    def _completed(self) -> None:
        assert self._parser is not None
        self.complete, self.reusable = True, self._parser.should_keep_alive()

    # Called by the reader

    def tell(self, told: Callable[[], None] | None) -> None:
        """Set a callback for new bytes, instead of a waiting reader; None removes it."""
        self._told = told

    @property
    def will_be_whole(self) -> bool:
        """True if the response is unfinished and, as far as known, small enough to be collected."""
        if self.complete or self._paused or self.failed is not None:
            return False
        return self.sized or not self._final

    async def head(self) -> None:
        """Wait for status and headers. Raises PodGone."""
        while not self._final:
            await self._more()

    async def read(self) -> bytes:
        """Return at least one byte of the body; empty at its end. Raises PodGone."""
        while not self._pieces:
            if self.complete:
                return b""
            await self._more()
        body = self.taken()
        if self._paused and not self.complete:
            self._paused = False
            self._source.resume()
        return body

    def taken(self) -> bytes:
        """Return the received part of the body."""
        pieces, self._pieces, self._unread = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def whole(self) -> bytes:
        """Return the whole body, which remains readable. Raises PodGone."""
        pieces = []
        try:
            while piece := await self.read():
                pieces.append(piece)
        except asyncio.CancelledError:
            self.leave()
            raise
        self._pieces = [body] if (body := b"".join(pieces)) else []
        return body

    def leave(self) -> None:
        """Discard the rest, if there is any."""
        if not self.complete and self.failed is None:
            self.failed = PodGone("the rest is not needed", began=self.began)
            self._source.abandon()

    async def _more(self) -> None:
        if self.failed is not None:
            raise self.failed
        self._woken = asyncio.get_running_loop().create_future()
        try:
            await self._woken
        finally:
            self._woken = None
