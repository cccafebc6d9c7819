"""uvicorn's server, with an orderly end of streams and waiting requests."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn

from service.web.stalled_clients import EndsStalled


class DrainingServer(uvicorn.Server):
    """A server that calls `drain` when it has been signalled to stop and no longer accepts connections.

    After half of the time for a stop it calls `give_up`: requests that still wait for the engine get a problem.
    Connections whose client does not read are then aborted: their tasks would be cancelled at the end anyway.
    """

    drain: Callable[[], Awaitable[None]] | None = None
    give_up: Callable[[], Awaitable[None]] | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, but do not raise the captured signal again after the stop.

        Raising it would end the process before the access log and the traces are written.
        """
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, end streams, and give requests time to finish."""
        # It starts at the first await of `super().shutdown`, after listening has ended.
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
