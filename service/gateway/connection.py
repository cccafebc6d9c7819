"""One connection to a pod: one request at a time, one response.

*Invariants*: a response belongs to the request that was sent last. What comes while nothing was asked ends the
connection. A connection is given back to its owner once, when it may be used again, or when it is gone.

Not here: how many there are, and who may use them (`replica`).
"""

import asyncio
from typing import Protocol

from service.gateway.incoming import Incoming


class Owner(Protocol):
    """Who has connections."""

    def free(self, connection: "Connection") -> None:
        """It can be used again."""
        ...

    def lost(self, connection: "Connection") -> None:
        """It is gone."""
        ...

    def delayed(self, connection: "Connection") -> None:
        """Its answer comes faster than it is read."""
        ...

    def suspect(self) -> None:
        """A request has waited for a while without a byte of an answer."""
        ...


class Connection(asyncio.Protocol):
    """*State*: `_incoming` is the response that is awaited, None while there is none; `_heard_at` is when something
    came last, or was asked."""

    def __init__(self, owner: Owner, silent_s: float, suspect_s: float) -> None:
        self._owner = owner
        self._silent_s = silent_s
        self._suspect_s = suspect_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._incoming: Incoming | None = None
        self._late: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._paused = False
        #: Whether it has been used.
        self.used = False
        #: Whether it counts among those that are bounded.
        self.counted = False

    @property
    def is_mute(self) -> bool:
        """Whether a request waits for the first byte of its answer."""
        return self._incoming is not None and not self._incoming.began

    @property
    def is_open(self) -> bool:
        """Whether it may be used."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, request: bytes, *, is_head: bool, silent_s: float | None = None) -> Incoming:
        """Send a request. Only while it is free."""
        assert self._incoming is None
        assert self._transport is not None
        self._incoming = incoming = Incoming(self, is_head=is_head)
        self._heard_at = self._loop.time()
        self._watch(silent_s or self._silent_s)
        self._transport.write(request)
        return incoming

    def close(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.abort()

    # As the source of a response.

    def pause(self) -> None:
        """Nothing more for now."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()
        self._paused = True
        self._owner.delayed(self)

    def resume(self) -> None:
        """Go on."""
        self._paused = False
        self._heard_at = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abandon(self) -> None:
        """The rest is not wanted."""
        self.close()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Some of a response."""
        incoming = self._incoming
        if incoming is None:
            self.close()
            return
        self._heard_at = self._loop.time()
        incoming.feed(data)
        if incoming.complete:
            self._finished(incoming.reusable)
        elif incoming.failed is not None:
            self.close()

    def eof_received(self) -> None:
        """The pod closes it."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """It is gone."""
        self._end_watch()
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.end(stale=self.used)
        self._owner.lost(self)

    def _finished(self, reusable: bool) -> None:
        self._end_watch()
        self._incoming = None
        self.used = True
        if self._paused:
            self.resume()
        if reusable and self.is_open:
            self._owner.free(self)
        else:
            self.close()

    def _watch(self, silent_s: float) -> None:
        left_s = self._heard_at + silent_s - self._loop.time()
        self._late = self._loop.call_later(max(0.0, min(left_s, self._suspect_s)), self._look, silent_s)

    def _look(self, silent_s: float) -> None:
        """Whether it has said nothing for too long, while somebody waited for it."""
        incoming = self._incoming
        if incoming is None:
            return
        if self._paused or not incoming.is_awaited:
            self._heard_at = self._loop.time()
        if self._loop.time() - self._heard_at < silent_s:
            self._watch(silent_s)
            if not incoming.began:
                self._owner.suspect()
        else:
            incoming.fail(f"it said nothing for {silent_s:g} s")
            self.close()

    def _end_watch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
