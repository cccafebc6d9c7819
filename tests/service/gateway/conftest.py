"""A gateway over pods, in process: real leaf stores, real servers and connections, engines that fill from a dictionary.

Views and rows are those of `tests.service.worker.shards.conftest`: of the views of `WHOLE` each of two shards keeps
one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from service.gateway.opening import Gateway
from service.gateway.worker import GatewayWorkerConfig
from service.protocol.engine_server import EngineServer
from service.settings.auth import AuthSettings
from service.settings.gateway import GatewaySection, GatewaySettings
from service.settings.sections import HttpSettings
from service.web.bounded_protocol import ConnectionLimits
from service.web.deferred import DirectApp
from service.web.direct_protocol import DirectProtocol
from service.worker.process import server_of, wrapped
from service.worker.routes.app import build_app
from tests.service.worker.conftest import Engine
from tests.service.worker.shards.conftest import LIMITS, shard

SERVER = "that server"
MOVE_S = 0.3
HTTP = HttpSettings(read_timeout_s=2.0, max_body_bytes=1 << 14, max_keys=50)


@dataclass
class Served:
    """A server of an application, as a worker is, without the process."""

    app: DirectApp
    http: HttpSettings = HTTP
    port: int = 0
    _connections: set[DirectProtocol] = field(default_factory=set)
    _listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; the second time, where it did before."""
        server = server_of(self.app, 1.0, ConnectionLimits(self.http))
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        self._connections = server.server_state.connections  # type: ignore[assignment]
        kind = server.config.http_protocol_class
        assert isinstance(kind, type)
        assert issubclass(kind, DirectProtocol)
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: kind(server.config, server.server_state, {}), "127.0.0.1", self.port
        )
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop it like a kill."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.transport.abort()

    @property
    def open_connections(self) -> int:
        """How many there are."""
        return len(self._connections)


@dataclass
class Pod:
    """One shard's pod; `server` is its engine's, for its worker."""

    engine: Engine
    server: EngineServer
    served: Served

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.served.port}"


@dataclass
class Site:
    """Gateway and pods of a test; `pods` by shard and replica."""

    http: httpx.AsyncClient
    gateway: Gateway
    served: Served
    pods: list[list[Pod]]
    directory: Path
    closing: AsyncExitStack

    async def add(self) -> Pod:
        """One shard more, which the gateway is not told of."""
        number = len(self.pods)
        self.pods.append([await pod(self.directory / f"{number}-0", number, self.closing)])
        return self.pods[-1][0]

    @property
    def engines(self) -> list[Engine]:
        """Those of the first replicas."""
        return [replicas[0].engine for replicas in self.pods]


async def pod(directory: Path, number: int, closing: AsyncExitStack) -> Pod:
    """A pod of a shard."""
    engine, server, client = await shard(number, directory, closing)
    engine.writer.set_epoch(f"continuity@{SERVER}")
    engine.commit()
    served = Served(build_app(engine.writer.reader, client, LIMITS))
    await served.start()
    closing.push_async_callback(served.stop)
    return Pod(engine, server, served)


def section_of(pods: list[list[Pod]]) -> GatewaySection:
    return section_at(tuple(tuple(each.address for each in replicas) for replicas in pods))


def section_at(
    addresses: tuple[tuple[str, ...], ...], admin: tuple[tuple[str, ...], ...] | None = None
) -> GatewaySection:
    """The settings of a gateway of pods at these addresses, by shard."""
    return GatewaySection(
        shards=len(addresses), addresses=addresses, admin_addresses=admin or addresses, probe_s=0.02, move_s=MOVE_S
    )


@asynccontextmanager
async def served_gateway(
    section: GatewaySection, auth: AuthSettings | None = None
) -> AsyncIterator[tuple[Gateway, Served, httpx.AsyncClient]]:
    """A gateway with a server, and a client of it."""
    settings = GatewaySettings(gateway=section, http=HTTP, auth=auth)
    gateway = Gateway.of(settings)
    served = Served(wrapped(gateway.app, GatewayWorkerConfig(0, settings)))
    await served.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{served.port}", timeout=20) as http:
            yield gateway, served, http
    finally:
        await served.stop()
        await gateway.topology.close()


@asynccontextmanager
async def site(directory: Path, shards: int, replicas: int) -> AsyncIterator[Site]:
    async with AsyncExitStack() as closing:
        pods = [
            [await pod(directory / f"{number}-{replica}", number, closing) for replica in range(replicas)]
            for number in range(shards)
        ]
        gateway, served, http = await closing.enter_async_context(served_gateway(section_of(pods)))
        yield Site(http, gateway, served, pods, directory, closing)


Run = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a coroutine function of a `Site`, of so many shards and replicas."""

    def running(test: Callable[[Site], Awaitable[None]], shards: int = 2, replicas: int = 1) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), site(tmp_path, shards, replicas) as found:
                await test(found)

        asyncio.run(main())

    return running
