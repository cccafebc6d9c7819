"""Which server answers: rows of one server and the change stream of another are no database at all.

Behind one address there may be another server after a fail-over. Each connection says which one it is to.

Not here: how a server says so (`postgres.connect`, `mysql.connect`); what is done about it
(`service.engine.session.session`).
"""

import asyncio

from service.engine.upstream.results import UpstreamError


class ServerWatch:
    """*State*: `server`, which the first connection since `begin_anew` was to; "" until then, or if it does not say."""

    def __init__(self) -> None:
        self.server = ""
        self._other = ""
        self._answered = asyncio.Event()

    def begin_anew(self) -> None:
        """Whichever server answers next is the one."""
        self.server = self._other = ""
        self._answered.clear()

    def check(self, server: str) -> None:
        """A connection is to `server`. UpstreamError if it is another one than before."""
        self.server = self.server or server
        if server and server != self.server:
            self._other = server
            self._answered.set()
            raise UpstreamError("unavailable", f"Another database server answers: {self._words()}.", retryable=True)

    async def replaced(self) -> str:
        """Wait until another server answers; which, and instead of which."""
        await self._answered.wait()
        return self._words()

    def _words(self) -> str:
        return f"{self._other} instead of {self.server}"
