"""Connections from which nobody reads are ended; those that are read slowly are not."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from service.web import stalled_clients

LIMIT_S = 20.0
PERIOD_S = 0.1
BYTES = 1 << 23


class Server(asyncio.Protocol):
    """Sends a lot to whoever connects."""

    def __init__(self, connected: "asyncio.Future[Server]") -> None:
        self.connected = connected
        self.lost: asyncio.Future[None] = connected.get_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.connected.set_result(self)
        transport.write(b"x" * BYTES)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.lost.set_result(None)


class Ending(stalled_clients.EndsStalled, Server):
    """Application that also ends."""


async def served(work: Callable[[Server, socket.socket], Awaitable[None]]) -> None:
    loop = asyncio.get_running_loop()
    connected: asyncio.Future[Server] = loop.create_future()
    server = await loop.create_server(lambda: Ending(connected), "127.0.0.1", 0)
    # As the service's own: what is held back is held here, and not in the kernel.
    server.sockets[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 1 << 14)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    client.setblocking(False)
    try:
        await loop.sock_connect(client, server.sockets[0].getsockname())
        await work(await connected, client)
    finally:
        client.close()
        server.close()


@pytest.fixture(autouse=True)
def _short_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalled_clients, "STALLED_S", PERIOD_S)


def test_who_never_reads_is_let_go() -> None:
    async def never_read(server: Server, client: socket.socket) -> None:  # noqa: ARG001
        await asyncio.wait_for(server.lost, LIMIT_S)

    asyncio.run(served(never_read))


def test_who_reads_slowly_gets_all_of_it() -> None:
    async def read_slowly(server: Server, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        left, begun = BYTES, loop.time()
        # For several periods it is not done, and never idle for one.
        while left:
            slowly = loop.time() < begun + 6 * PERIOD_S
            received = len(await loop.sock_recv(client, 1 << (16 if slowly else 20)))
            assert received
            left -= received
            await asyncio.sleep(PERIOD_S / 20 if slowly else 0)
        assert not server.lost.done()

    asyncio.run(asyncio.wait_for(served(read_slowly), LIMIT_S))
