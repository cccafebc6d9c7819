"""Workers' subscriptions over a runtime of this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.engine.session.runtime import Runtime
from service.protocol.engine_client import EngineClient
from service.protocol.engine_server import EngineServer
from service.settings.sections import HttpSettings, SubscriptionSettings
from service.worker.reads.reads import Reads, WantedRead
from service.worker.subscriptions.topics import Subscription, Subscriptions
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, until
from tests.service.worker.subscriptions.rebuilding import Rebuilt

LIMIT_S = 30.0


class Listener:
    """A subscriber that takes whatever comes. `ended` once nothing follows."""

    def __init__(self, subscription: Subscription, had: list[Any]) -> None:
        self.rebuilt = Rebuilt()
        self.rebuilt.rows = list(had)
        self.ended = False
        self._subscription = subscription
        self._task = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        while entries := await self._subscription.next():
            self.rebuilt.take(entries)
        self.ended = True

    async def until(self, condition: Callable[[Rebuilt], Any]) -> Rebuilt:
        """Once what was heard is so."""
        await until(lambda: self._task.done() or condition(self.rebuilt), LIMIT_S)
        if self._task.done():
            self._task.result()
        assert condition(self.rebuilt), self.rebuilt.rows
        return self.rebuilt

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._subscription.close()


@dataclass
class Worker:
    """One worker's part in it."""

    reads: Reads
    client: EngineClient
    subscriptions: Subscriptions

    def wanted(self, view: str, *values: Any) -> WantedRead:
        self.reads.refresh()
        return WantedRead(self.reads.routes[view], values)

    async def subscribe(self, view: str, *values: Any, after: str | None = None) -> Subscription:
        async with asyncio.timeout(LIMIT_S):
            return await self.subscriptions.subscribe(self.wanted(view, *values), after)

    async def listen(self, view: str, *values: Any, after: str | None = None, had: Sequence[Any] = ()) -> Listener:
        """A subscriber, who has rows if it resumes."""
        return Listener(await self.subscribe(view, *values, after=after), list(had))

    async def close(self) -> None:
        await self.subscriptions.close()
        await self.client.close()


@dataclass
class Followed:
    """A runtime, its socket, and workers."""

    runtime: Runtime
    server: EngineServer
    workers: list[Worker]


@asynccontextmanager
async def following(
    database: Database,
    directory: Path,
    *workers: Mapping[str, Any],
    views: Mapping[str, str],
    **sections: Mapping[str, Any],
) -> AsyncIterator[Followed]:
    """Workers, with their settings of subscriptions, that follow what a runtime keeps."""
    async with running(database, directory, views=views, **sections) as runtime:
        server = EngineServer(directory / "e.sock", runtime)
        await server.start()
        made = [worker_of(runtime, directory / "e.sock", settings) for settings in workers]
        try:
            yield Followed(runtime, server, made)
        finally:
            for worker in made:
                await worker.close()
            await server.close()


def worker_of(runtime: Runtime, socket: Path, settings: Mapping[str, Any]) -> Worker:
    client = EngineClient(socket)
    reads = Reads(runtime.leaf.reader, client, HttpSettings())
    return Worker(reads, client, Subscriptions(reads, client, SubscriptionSettings(**settings)))
