"""uvicorn's server, which ends what would not end by itself when it is stopped."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn

from service.web.stalled_clients import EndsStalled


class DrainingServer(uvicorn.Server):
    """`drain` is called when the server is told to stop, and has stopped to accept connections.

    When half of the time that a stop may take has passed, `give_up` is called: what still waits for the engine is
    refused, as a client can understand it. Who does not read by then is let go: what waits for such a client would have
    to be cut off at the end.
    """

    drain: Callable[[], Awaitable[None]] | None = None
    give_up: Callable[[], Awaitable[None]] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, but the signal that stopped the server is not raised anew behind it.

        That would end the process before the access log and the traces have written what they have.
        """
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: no more connections, streams end, requests have some time to."""
        # It runs at the first wait of what follows, which is behind the end of listening.
        ending = asyncio.ensure_future(self._end_streams())
        await super().shutdown(sockets)
        ending.cancel()
        with suppress(asyncio.CancelledError):
            await ending

    async def _end_streams(self) -> None:
        if self.drain is not None:
            await self.drain()
        await asyncio.sleep((self.config.timeout_graceful_shutdown or 0) / 2)
        if self.give_up is not None:
            await self.give_up()
        for connection in list(self.server_state.connections):
            if isinstance(connection, EndsStalled):
                connection.let_go()
