"""A response as it comes from a pod, and the states it can be in.

*Theory*: whoever waits is woken once for what one packet brought, so a response that comes in one piece costs one turn
of the loop. What nobody has read yet is bounded: the connection reads no more then.

*Invariants*: a response ends whole (`complete`), or `failed` says why it does not; never both. `began` says whether a
byte of it came: before that, a request may be sent again.

Not here: the connection (`connection`); what is done with a response (`finding`, `forwarding`).
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
    """A pod did not answer, or not to the end. `began`: some of its answer came. `stale`: the connection had been open
    for long, and may have been closed before the request came."""

    def __init__(self, reason: str, *, began: bool = False, stale: bool = False) -> None:
        super().__init__(reason)
        self.began = began
        self.stale = stale


class PodSource(Protocol):
    """Where a response comes from."""

    def pause(self) -> None:
        """Nothing more for now."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...

    def abandon(self) -> None:
        """The rest is not wanted."""
        ...


class Incoming:
    """One response. *State*: `_pieces` are what came of its body and was not read, of `_unread` bytes; `_woken` is who
    waits for more, or `_told` who is called instead."""

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
        #: Whether it says how many bytes its body has.
        self.sized = False
        self.failed: PodGone | None = None
        self._source = source
        self._is_head = is_head
        #: Until it ends: each holds the other.
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._pieces: list[bytes] = []
        self._unread = 0
        self._paused = False
        #: Whether the head of the response itself has come, not only one that says that it will.
        self._final = False
        #: Whether how long the body is, is known.
        self._length = False
        self._woken: asyncio.Future[None] | None = None
        self._told: Callable[[], None] | None = None

    # What the connection calls.

    def feed(self, data: bytes) -> None:
        """Some of it, or all. Who waits is woken by `wake`, once the connection knows whether it can be used again."""
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
        """The connection is closed."""
        if self.complete or self.failed is not None:
            return
        if self._final and not self._length:
            # That is how it says that this is all.
            self.complete = True
        else:
            self.failed = PodGone("it closed the connection", began=self.began, stale=stale)
        self.wake()

    def fail(self, reason: str) -> None:
        """Nothing more will come."""
        if not self.complete and self.failed is None:
            self.failed = PodGone(reason, began=self.began)
            self.wake()

    def wake(self) -> None:
        """Something has come of it, or its end."""
        if self._told is not None:
            self._told()
        elif self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for more of it."""
        return self._woken is not None or self._told is not None

    @property
    def is_read(self) -> bool:
        """Whether nothing more is to be read."""
        return self.complete and not self._pieces

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Another one behind the end of this would be taken for the next request's: nobody has asked for it."""
        if self.complete:
            raise ValueError("more than was asked for")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer."""
        if not self._final:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is there."""
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
        """A piece of the body."""
        if not self._is_head:
            self._pieces.append(body)
            self._unread += len(body)
        else:
            # Nothing may follow.
            self.reusable = False

    def on_message_complete(self) -> None:
        """That was all."""
        if self._final and not self._is_head:
            self._completed()

    def _completed(self) -> None:
        assert self._parser is not None
        self.complete, self.reusable = True, self._parser.should_keep_alive()

    # What its reader calls.

    def tell(self, told: Callable[[], None] | None) -> None:
        """Call it whenever something has come, instead of somebody's waiting. None: somebody waits from now on."""
        self._told = told

    @property
    def will_be_whole(self) -> bool:
        """Whether it goes on, and can be kept until it is whole, as far as is known."""
        if self.complete or self._paused or self.failed is not None:
            return False
        return self.sized or not self._final

    async def head(self) -> None:
        """Wait for status and headers. PodGone."""
        while not self._final:
            await self._more()

    async def read(self) -> bytes:
        """What has come of the body meanwhile, at least a byte; empty at its end. PodGone."""
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
        """As `read`, what there is."""
        pieces, self._pieces, self._unread = self._pieces, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def whole(self) -> bytes:
        """All of the body, which can still be read after that. PodGone."""
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
        """Nobody reads the rest, if there is one."""
        if not self.complete and self.failed is None:
            self.failed = PodGone("the rest is not wanted", began=self.began)
            self._source.abandon()

    async def _more(self) -> None:
        if self.failed is not None:
            raise self.failed
        self._woken = asyncio.get_running_loop().create_future()
        try:
            await self._woken
        finally:
            self._woken = None
