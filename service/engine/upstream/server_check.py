"""Server check: all connections and the change stream must use one database server.

After a fail-over, another server may respond at the same address, so each connection reports its server.

Not here: how a server identifies itself (`postgres.connect`, `mysql.connect`); the consequences
(`service.engine.session.session`).
"""

import asyncio
from collections.abc import Callable

from service.engine.upstream.results import UpstreamError

#: Maximum time until the change stream continues on a promoted standby, once that has answered.
PROMOTION_S = 15.0


class ServerWatch:
    """Identity of the current server.

    *State*: `server`, that of the first connection since `begin_anew`, or the one that was accepted since; "" until
    then, or if the server does not report one.
    """

    def __init__(self) -> None:
        self.server = ""
        self._other = ""
        self._answered, self._accepted = asyncio.Event(), asyncio.Event()

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

    def accept(self, server: str) -> None:
        """Takes another server for the current one: the change stream continues on it."""
        self.server, self._other = server, ""
        self._answered.clear()
        self._accepted.set()

    async def replaced(self, promoted: Callable[[], None]) -> str:
        """Waits until another server responds which is not accepted; returns a description of both. Calls `promoted` if
        it is one of the same system, such as a promoted standby: the stream may continue on that."""
        while True:
            await self._answered.wait()
            if not self._other:
                # It was accepted before this task had its turn.
                continue
            words, patience_s = self._words(), 0.0
            self._accepted.clear()
            if self._other.partition(",")[0] == self.server.partition(",")[0]:
                patience_s = PROMOTION_S
                promoted()
            try:
                await asyncio.wait_for(self._accepted.wait(), patience_s)
            except TimeoutError:
                return words

    def _words(self) -> str:
        return f"{self._other} instead of {self.server}"
