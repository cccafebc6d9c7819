"""uvicorn's server, which ends what would not end by itself when it is stopped."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvicorn


class DrainingServer(uvicorn.Server):
    """`drain` is called when the server is told to stop, and has stopped to accept connections."""

    drain: Callable[[], Awaitable[None]] | None = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: no more connections, streams end, requests have some time to."""
        # It runs at the first wait of what follows, which is behind the end of listening.
        draining = None if self.drain is None else asyncio.ensure_future(self.drain())
        await super().shutdown(sockets)
        if draining is not None:
            draining.cancel()
            with suppress(asyncio.CancelledError):
                await draining
