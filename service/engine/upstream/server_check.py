"""Server check: all connections and the change stream must use one database server.

After a fail-over, another server may respond at the same address, so each connection reports its server.

Not here: how a server identifies itself (`postgres.connect`, `mysql.connect`); the consequences
(`service.engine.session.session`).
"""

import asyncio

from service.engine.upstream.results import UpstreamError


class ServerWatch:
    """Identity of the current server.

    *State*: `server`, that of the first connection since `begin_anew`; "" until then, or if the server does not report
    one.
    """

    def __init__(self) -> None:
        self.server = ""
        self._other = ""
        self._answered = asyncio.Event()

    def begin_anew(self) -> None:
        """Accepts the next server that responds."""
        self.server = self._other = ""
        self._answered.clear()

    def check(self, server: str) -> None:
        """Checks a connection's server. Raises `UpstreamError` if it differs from the current one."""
        self.server = self.server or server
        if server and server != self.server:
            self._other = server
            self._answered.set()
            raise UpstreamError("unavailable", f"Another database server responds: {self._words()}.", retryable=True)

    async def replaced(self) -> str:
        """Waits until another server responds; returns a description of both."""
        await self._answered.wait()
        return self._words()

    def _words(self) -> str:
        return f"{self._other} instead of {self.server}"
