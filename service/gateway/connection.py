"""One connection to a pod: one request and one response at a time.

*Invariants*: a response belongs to the latest request. Bytes received without a request end the connection. A
connection is returned to its owner once, when it is free or closed.

Not here: the number of connections and their use (`replica`).
"""

import asyncio
from typing import Protocol

from service.gateway.incoming import Incoming


class Owner(Protocol):
    """The owner of connections."""

    def free(self, connection: "Connection") -> None:
        """The connection is free."""
        ...

    def lost(self, connection: "Connection") -> None:
        """The connection is closed."""
        ...

    def delayed(self, connection: "Connection") -> None:
        """The client reads the answer more slowly than it arrives."""
        ...

    def suspect(self) -> None:
        """A request has waited for a while without a byte of an answer."""
        ...


class Connection(asyncio.Protocol):
    """*State*: `_incoming` is the awaited response, if any, for at most `_allowed_s` without a byte; `_heard_at` is
    the time of the latest byte or of the request. `_look_at` is the time of the next check, and `_late` the timer,
    which expires then or earlier: a timer for each request would be a large part of its cost."""

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
        #: Whether the request has not been sent yet.
        self._unsent = False
        self.used = False
        #: Whether it counts towards the limit.
        self.counted = False

    @property
    def is_mute(self) -> bool:
        """True if a request waits for the first byte of its answer."""
        return self._incoming is not None and not self._incoming.began

    @property
    def is_open(self) -> bool:
        """True if it can be used."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, request: bytes, *, is_head: bool, silent_s: float | None = None) -> Incoming:
        """Send a request. Only while the connection is free."""
        assert self._incoming is None
        self._incoming = incoming = Incoming(self, is_head=is_head)
        self._heard_at = now = self._loop.time()
        self._allowed_s = silent_s or self._silent_s
        self._watch(now)
        # Send after all received data is handled: a pod on this machine takes the core of the sender, for each request.
        self._unsent = True
        self._loop.call_soon(self._send, request)
        return incoming

    def _send(self, request: bytes) -> None:
        self._unsent = False
        if self._transport is not None and self.is_open:
            self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # Methods of a response's source

    def pause(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()
        self._paused = True
        self._owner.delayed(self)

    def resume(self) -> None:
        self._paused = False
        self._heard_at = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abandon(self) -> None:
        """Close the connection: the rest of the response is not needed."""
        self.close()

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Feed received bytes to the response."""
        incoming = self._incoming
        if incoming is None or self._unsent:
            # Bytes without a request.
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
        """Return None: the transport closes itself."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
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
        """Check whether the pod has been silent for too long during a request."""
        self._late = None
        incoming, now = self._incoming, self._loop.time()
        if incoming is None:
            return
        if now < self._look_at:
            # The timer belonged to an earlier request.
            self._look_in(self._look_at - now)
            return
        if self._paused or not incoming.is_awaited:
            self._heard_at = now
        if now - self._heard_at < self._allowed_s:
            self._watch(now)
            if not incoming.began:
                self._owner.suspect()
        else:
            incoming.fail(f"it sent nothing for {self._allowed_s:g} s")
            self.close()
