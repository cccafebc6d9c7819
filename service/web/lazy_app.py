"""An application that few processes are asked for, built when the first request for it comes.

*Theory*: its modules take longer to import than all else of a worker. A worker that is started again after a crash is
there earlier without them, and takes less memory for as long as nobody asks.
"""

import asyncio
from collections.abc import Callable

from service.web.messages import App, Receive, Scope, Send


class BuiltLater:
    """ASGI: what `build` returns. It runs in a thread, so that others are answered meanwhile."""

    def __init__(self, build: Callable[[], App]) -> None:
        self._build = build
        self._built: asyncio.Task[App] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._built is None:
            self._built = asyncio.create_task(asyncio.to_thread(self._build))
        # Whoever leaves meanwhile leaves the others who wait alone.
        app = await asyncio.shield(self._built)
        await app(scope, receive, send)
