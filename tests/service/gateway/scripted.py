"""Servers that say what a test tells them to, byte by byte."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

LIMIT_S = 10.0


@dataclass
class Client:
    """A connection as the server has it: `ended` is whether the other side has closed it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: list[bytes] = field(default_factory=list)

    async def request(self) -> bytes:
        """The next request, its head only. IncompleteReadError once there is none."""
        self.requests.append(await self.reader.readuntil(b"\r\n\r\n"))
        return self.requests[-1]

    async def say(self, content: bytes) -> None:
        """Bytes, as they are."""
        self.writer.write(content)
        await self.writer.drain()

    async def ended(self) -> bool:
        """Wait until the other side has closed it."""
        async with asyncio.timeout(LIMIT_S):
            return not await self.reader.read(1)


@dataclass
class Scripted:
    """A server. Its `clients` are in the order in which they came."""

    address: str
    clients: list[Client]
    server: asyncio.Server

    @property
    def requests(self) -> list[bytes]:
        """The heads of all."""
        return [request for client in self.clients for request in client.requests]

    async def stop(self) -> None:
        """Close it, and what is connected."""
        self.server.close()
        for client in self.clients:
            # One that has been closed with something left to send cannot be aborted once that is sent.
            if not client.writer.transport.is_closing():
                client.writer.transport.abort()


Script = Callable[[Client], Awaitable[None]]


@asynccontextmanager
async def scripted(script: Script, port: int = 0) -> AsyncIterator[Scripted]:
    """A server that runs `script` with each connection, and closes it behind that."""
    clients: list[Client] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = Client(reader, writer)
        clients.append(client)
        try:
            await script(client)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    found = Scripted(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", clients, server)
    try:
        yield found
    finally:
        await found.stop()


def answering(*responses: bytes) -> Script:
    """One response for each request, on each connection; then it is closed."""

    async def script(client: Client) -> None:
        for response in responses:
            await client.request()
            await client.say(response)

    return script


def response(body: bytes, status: bytes = b"200 OK", *headers: bytes) -> bytes:
    """A response of a known length."""
    lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


async def until(condition: Callable[[], object]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0)
