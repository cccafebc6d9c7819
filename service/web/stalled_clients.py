"""Connections whose client no longer reads what it is sent are ended.

*Theory*: what such a connection holds is bounded by the transport's flow control, but it would hold it for ever: a
client that is there and does not read keeps its connection open by TCP's own rules. So while the transport says that
it is full, it is looked at now and then; one from which nothing has left for a whole period is aborted. A client that
reads slowly is left alone.
"""

import asyncio
from typing import cast

#: Nothing has left for so long: nobody reads.
STALLED_S = 60.0


class EndsStalled(asyncio.Protocol):
    """To be mixed into a server's protocol, in front of it.

    *State*: while the transport is full, `_look` looks at it next, and `_unsent` is what it held when it was last
    looked at.
    """

    _served: asyncio.Transport | None = None
    _look: asyncio.TimerHandle | None = None
    _unsent = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """There is a client."""
        self._served = cast(asyncio.Transport, transport)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._stop_looking()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The transport is full."""
        super().pause_writing()
        if self._served is not None and self._look is None:
            self._look_again(self._served)

    def resume_writing(self) -> None:
        """It takes more."""
        self._stop_looking()
        super().resume_writing()

    def let_go(self) -> None:
        """Abort the connection if its client does not take what it is sent: there is no more time for it."""
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
