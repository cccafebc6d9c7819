"""End of connections whose client no longer reads.

*Theory*: the transport's flow control bounds the memory of such a connection, but TCP keeps a connection whose client
does not read indefinitely. So while the transport is full, it is checked periodically; if nothing was sent in a whole
period, the connection is aborted. A client that reads slowly is not affected.
"""

import asyncio
from typing import cast

#: Period without sent bytes after which a client counts as stalled.
STALLED_S = 60.0


class EndsStalled(asyncio.Protocol):
    """Mixin of a server's protocol, placed before it in the bases.

    *State*: while the transport is full, `_look` is the timer of the next check, and `_unsent` the buffer's size at the
    last one.
    """

    _served: asyncio.Transport | None = None
    _look: asyncio.TimerHandle | None = None
    _unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._served = cast(asyncio.Transport, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_looking()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the checks: the transport is full."""
        super().pause_writing()
        if self._served is not None and self._look is None:
            self._look_again(self._served)

    def resume_writing(self) -> None:
        self._stop_looking()
        super().resume_writing()

    def let_go(self) -> None:
        """Abort the connection if its client is stalled; used when the server stops."""
        if self._look is not None and self._served is not None:
            self._served.abort()

    def _look_again(self, transport: asyncio.Transport) -> None:
        self._unsent = transport.get_write_buffer_size()
        self._look = asyncio.get_running_loop().call_later(STALLED_S, self._look_at, transport)

    def _look_at(self, transport: asyncio.Transport) -> None:
        self._look = None
        if transport.get_write_buffer_size() < self._unsent:
            self._look_again(transport)
        else:
            transport.abort()

    def _stop_looking(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None
