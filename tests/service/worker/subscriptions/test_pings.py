"""Pings of a client that does not read: their answers are not kept without bound, and come when it does."""

import asyncio
import socket
from typing import Any

from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.uri import parse_uri

from service.web.messages import Receive, Scope, Send
from service.worker.process import server_of
from service.worker.subscriptions.socket_protocol import SocketProtocol

PING_BYTES, CHUNK_PINGS, CHUNKS = 120, 500, 60
#: What a transport may hold: its own bound, and the pongs of one read.
MOST_HELD = 1 << 20


async def accepts(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    while (message := await receive())["type"] != "websocket.disconnect":
        if message["type"] == "websocket.connect":
            await send({"type": "websocket.accept"})


def test_pings_of_who_does_not_read() -> None:
    async def main() -> None:
        server = server_of(accepts, 1.0)
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        kind: Any = server.config.http_protocol_class
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(
            lambda: kind(server.config, server.server_state, {}), "127.0.0.1", 0, backlog=1
        )
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            listener.sockets[0].setsockopt(socket.SOL_SOCKET, buffer, 1 << 14)
        client = socket.socket()
        # What the kernel takes at once, the server would not be sent before the client reads.
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            client.setsockopt(socket.SOL_SOCKET, buffer, 1 << 14)
        client.setblocking(False)
        address = listener.sockets[0].getsockname()
        await loop.sock_connect(client, address)
        said = ClientProtocol(parse_uri(f"ws://127.0.0.1:{address[1]}/"))
        said.send_request(said.connect())
        await loop.sock_sendall(client, b"".join(said.data_to_send()))
        said.receive_data(await loop.sock_recv(client, 1 << 12))
        (protocol,) = (each for each in server.server_state.connections if isinstance(each, SocketProtocol))
        for n in range(CHUNKS):
            for _ in range(CHUNK_PINGS):
                said.send_ping(b"%0*d" % (PING_BYTES, n))
            await loop.sock_sendall(client, b"".join(said.data_to_send()))
            assert protocol.transport.get_write_buffer_size() < MOST_HELD
        # Who reads again is told of the last one.
        said.send_ping(b"last")
        await loop.sock_sendall(client, b"".join(said.data_to_send()))
        list(said.events_received())
        answered: list[bytes] = []
        while b"last" not in answered:
            said.receive_data(await loop.sock_recv(client, 1 << 18))
            answered += [bytes(event.data) for event in said.events_received() if event.opcode is Opcode.PONG]  # type: ignore[union-attr]
        assert len(answered) < CHUNKS * CHUNK_PINGS
        client.close()
        listener.close()

    asyncio.run(asyncio.wait_for(main(), 60))
