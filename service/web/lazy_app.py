"""Application that is built at its first request.

*Theory*: its modules take longer to import than all others of a worker. Without them a worker starts earlier after a
crash, and takes less memory until the first such request.
"""

import asyncio
from collections.abc import Callable

from service.web.messages import App, Receive, Scope, Send


class LazyApp:
    """ASGI: the application that `build` returns. It is built in a thread, so that other requests are answered
    meanwhile."""

    def __init__(self, build: Callable[[], App]) -> None:
        self._build = build
        self._built: asyncio.Task[App] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._built is None:
            self._built = asyncio.create_task(asyncio.to_thread(self._build))
        # A client that disconnects must not cancel the build, for which others wait.
        app = await asyncio.shield(self._built)
        await app(scope, receive, send)
