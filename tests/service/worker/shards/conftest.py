"""A worker's application over two shards in process: real leaf stores, real sockets, engines that fill from a
dictionary.

Views and rows are those of `tests.service.worker.conftest`; of the views of `WHOLE` each shard keeps one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from dataflow.engine.effects import LeafFillAll
from dataflow.types import ViewId
from service.leaf_store.catalog import ELSEWHERE
from service.leaf_store.writer import LeafWriter
from service.protocol.engine_client import EngineClient
from service.protocol.engine_server import EngineServer
from service.settings.sections import HttpSettings
from service.sharding.homes import Homes
from service.worker.shards.opened import sharded_app
from service.worker.shards.placement import key_part
from service.worker.shards.router import Router
from tests.service.leaf_store.sample_views import make_view
from tests.service.worker.conftest import ROWS, Engine, register_all

LIMITS = HttpSettings(read_timeout_s=2.0, max_body_bytes=1 << 14, max_keys=50)
HOMES = Homes(2)


def named_for(shard: int) -> str:
    """A name whose view lives there, if it is kept whole."""
    return next(name for n in range(100) if HOMES.of_view(name := f"whole{n}") == shard)


WHOLE = [named_for(0), named_for(1)]
WHOLE_IDS = [ViewId(101), ViewId(102)]


def id_at(shard: int, after: int = 0) -> int:
    """A story that lives there."""
    return next(n for n in range(after + 1, 1000) if HOMES.of_key("story", key_part((str(n),))) == shard)


@dataclass
class Two:
    """Two shards of a test."""

    http: httpx.AsyncClient
    app: Router
    engines: list[Engine]
    servers: list[EngineServer]


async def shard(number: int, directory: Path, closing: AsyncExitStack) -> tuple[Engine, EngineServer, EngineClient]:
    writer = LeafWriter(directory / str(number) / "leaf", map_bytes=1 << 22)
    closing.callback(writer.close)
    rows = dict(ROWS) | {("story", (str(n),)): [(str(n), f"Title {n}", "ann", "3")] for n in range(1, 1000)}
    engine = Engine(writer, rows)
    register_all(writer)
    for home, (name, view) in enumerate(zip(WHOLE, WHOLE_IDS, strict=True)):
        writer.register(view, make_view(name, {}), status="ready" if home == number else ELSEWHERE)
    engine.commit(*[LeafFillAll(view, {(): [("1", f"of {number}", "ann", "3")]}) for view in WHOLE_IDS[number:][:1]])
    path = directory / str(number) / "engine.sock"
    server, client = EngineServer(path, engine), EngineClient(path)
    await server.start()
    closing.push_async_callback(server.close)
    closing.push_async_callback(client.close)
    return engine, server, client


async def _run(directory: Path, test: Callable[[Two], Awaitable[None]]) -> None:
    async with AsyncExitStack() as closing:
        shards = [await shard(number, directory, closing) for number in (0, 1)]
        app = sharded_app([e.writer.reader for e, _, _ in shards], [c for _, _, c in shards], LIMITS)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            await test(Two(http, app, [e for e, _, _ in shards], [s for _, s, _ in shards]))


Run = Callable[[Callable[[Two], Awaitable[None]]], None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a coroutine function of `Two`."""
    return lambda test: asyncio.run(_run(tmp_path, test))
