"""Connection pool of any driver.

*Invariants*: at most `size` connections are open, idle or lent; none is lent again that was opened before `begin_anew`,
or that its driver reports as unusable.

Not here: session settings, errors, cancellation (`service.engine.databases`, whose README.md compares SQLAlchemy's
pool).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, Protocol, TypeVar

from service.engine.upstream.results import UpstreamError

C = TypeVar("C")


class Driver(Protocol[C]):
    """Operations on the connections of one database."""

    async def open(self) -> C:
        """Opens a connection with pinned session settings. Raises UpstreamError."""
        ...

    def is_open(self, connection: C) -> bool:
        """True unless the server has closed an idle connection."""
        ...

    async def end(self, connection: C) -> None:
        """Closes a connection, and cancels its request if one is running."""
        ...


class ConnectionPool(Generic[C]):
    """Connections are opened on demand, and reused most recently used first.

    *State*: `_free`, how many more may be lent; `_generation`, incremented when open connections become outdated.
    """

    def __init__(self, driver: Driver[C], size: int, wait_s: float) -> None:
        """`wait_s`: maximum wait for a free connection."""
        self._driver = driver
        self._free = asyncio.Semaphore(size)
        self._wait_s = wait_s
        self._idle: list[C] = []
        self._generation = 0
        self._closed = False

    @asynccontextmanager
    async def lend(self, is_reusable: Callable[[C], Awaitable[bool]]) -> AsyncIterator[C]:
        """Lends a connection. `is_reusable` decides at the end whether it is lent again, and may reset it. Raises
        UpstreamError."""
        await self._wait_for_free()
        try:
            generation = self._generation
            connection = await self._take()
            try:
                yield connection
            finally:
                await self._give_back(connection, generation, is_reusable)
        finally:
            self._free.release()

    async def begin_anew(self) -> None:
        """Closes all connections, lent ones when they are returned."""
        self._generation += 1
        while self._idle:
            await self._driver.end(self._idle.pop())

    async def close(self) -> None:
        """Closes all connections, lent ones when they are returned; no more are lent."""
        self._closed = True
        await self.begin_anew()

    async def _wait_for_free(self) -> None:
        if self._closed:
            raise UpstreamError("unavailable", "The upstream's connections are closed.")
        if not self._free.locked():
            await self._free.acquire()  # Does not wait, and costs no timer.
            return
        try:
            await asyncio.wait_for(self._free.acquire(), self._wait_s)
        except TimeoutError:
            raise UpstreamError("overloaded", "No upstream connection became free in time.", retryable=True) from None

    async def _take(self) -> C:
        while self._idle:
            connection = self._idle.pop()
            if self._driver.is_open(connection):
                return connection
            await self._driver.end(connection)
        return await self._driver.open()

    async def _give_back(self, connection: C, generation: int, is_reusable: Callable[[C], Awaitable[bool]]) -> None:
        reusable = generation == self._generation and await is_reusable(connection)
        # A reset takes time.
        if reusable and generation == self._generation:
            self._idle.append(connection)
        else:
            await self._driver.end(connection)
