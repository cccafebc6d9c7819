"""Workers' subscriptions over a runtime of this process."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.http.reads import Limits, Reads, Wanted
from service.runtime.runtime import Runtime
from service.settings.sections import SubscriptionSettings
from service.subscriptions.topics import Subscription, Subscriptions
from service.wire import EngineClient, WireServer
from tests.fixtures.postgres import Database
from tests.service.runtime.running import running

LIMIT_S = 30.0


@dataclass
class Worker:
    """One worker's part in it."""

    reads: Reads
    client: EngineClient
    subscriptions: Subscriptions

    def wanted(self, view: str, *values: Any) -> Wanted:
        self.reads.refresh()
        return Wanted(self.reads.routes[view], values)

    async def subscribe(self, view: str, *values: Any, after: str | None = None) -> Subscription:
        async with asyncio.timeout(LIMIT_S):
            return await self.subscriptions.subscribe(self.wanted(view, *values), after)

    async def close(self) -> None:
        await self.subscriptions.close()
        await self.client.close()


@dataclass
class Followed:
    """A runtime, its socket, and workers."""

    runtime: Runtime
    server: WireServer
    workers: list[Worker]


@asynccontextmanager
async def following(
    database: Database,
    directory: Path,
    *,
    views: Mapping[str, str],
    workers: int = 1,
    settings: Mapping[str, Any] | None = None,
    **sections: Mapping[str, Any],
) -> AsyncIterator[Followed]:
    """Workers that follow what a runtime keeps. `settings` of the subscriptions."""
    async with running(database, directory, views=views, **sections) as runtime:
        server = WireServer(directory / "e.sock", runtime)
        await server.start()
        made = [worker_of(runtime, directory / "e.sock", settings or {}) for _ in range(workers)]
        try:
            yield Followed(runtime, server, made)
        finally:
            for worker in made:
                await worker.close()
            await server.close()


def worker_of(runtime: Runtime, socket: Path, settings: Mapping[str, Any]) -> Worker:
    client = EngineClient(socket)
    reads = Reads(runtime.leaf.reader, client, Limits())
    return Worker(reads, client, Subscriptions(reads, client, SubscriptionSettings(**settings)))
