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
    """*State*: `_incoming` is the response that is awaited, None while there is none, for at most `_allowed_s` without
    a byte; `_heard_at` is when something came last, or was asked. `_look_at` is when that is looked at, and `_late` the
    timer, which goes off then or earlier: one for each request would cost more than most else about it."""

    def __init__(self, owner: Owner, silent_s: float, suspect_s: float) -> None:
        self._owner = owner
        self._silent_s = silent_s
        self._suspect_s = suspect_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._incoming: Incoming | None = None
        self._late: asyncio.TimerHandle | None = None
        self._late_at = self._look_at = self._heard_at = 0.0
        self._allowed_s = silent_s
        self._paused = False
        #: Whether the request has not gone out yet.
        self._unsent = False
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
        self._incoming = incoming = Incoming(self, is_head=is_head)
        self._heard_at = now = self._loop.time()
        self._allowed_s = silent_s or self._silent_s
        self._watch(now)
        # Behind all that has come: a pod on this machine takes the core of whoever wakes it, for each request anew.
        self._unsent = True
        self._loop.call_soon(self._send, request)
        return incoming

    def _send(self, request: bytes) -> None:
        self._unsent = False
        if self._transport is not None and self.is_open:
            self._transport.write(request)

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
        if incoming is None or self._unsent:
            # Nobody has asked for that.
            self.close()
            return
        self._heard_at = self._loop.time()
        incoming.feed(data)
        if incoming.complete:
            self._finished(incoming.reusable)
        elif incoming.failed is not None:
            self.close()
        incoming.wake()

    def eof_received(self) -> None:
        """The pod closes it."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """It is gone."""
        if self._late is not None:
            self._late.cancel()
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            incoming.end(stale=self.used)
        self._owner.lost(self)

    def _finished(self, reusable: bool) -> None:
        self._incoming = None
        self.used = True
        if self._paused:
            self.resume()
        if reusable and self.is_open:
            self._owner.free(self)
        else:
            self.close()

    def _watch(self, now: float) -> None:
        self._look_at = now + max(0.0, min(self._heard_at + self._allowed_s - now, self._suspect_s))
        if self._late is None or self._look_at < self._late_at:
            self._look_in(self._look_at - now)

    def _look_in(self, after_s: float) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late_at = self._look_at
        self._late = self._loop.call_later(after_s, self._look)

    def _look(self) -> None:
        """Whether it has said nothing for too long, while somebody waited for it."""
        self._late = None
        incoming, now = self._incoming, self._loop.time()
        if incoming is None:
            return
        if now < self._look_at:
            # That was an earlier request's.
            self._look_in(self._look_at - now)
            return
        if self._paused or not incoming.is_awaited:
            self._heard_at = now
        if now - self._heard_at < self._allowed_s:
            self._watch(now)
            if not incoming.began:
                self._owner.suspect()
        else:
            incoming.fail(f"it said nothing for {self._allowed_s:g} s")
            self.close()
