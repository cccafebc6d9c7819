"""uvicorn's WebSocket connection, which also ends stalled clients and gives other clients their turn while one sends
much."""

import asyncio

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from service.web.stalled_clients import EndsStalled

#: Bytes of frames processed in one turn of the event loop: the smallest frames take a millisecond.
_PIECE = 2048


class SocketProtocol(EndsStalled, WebSocketsSansIOProtocol):
    """One connection.

    *State*: `_unread`, received bytes that are not processed yet; while there are any, reading is paused. `_pongs`,
    the answers to the last pings of a client that does not read; earlier ones need no answer of their own (RFC 6455,
    5.5.3).
    """

    _unread = b""
    _pongs = b""

    def data_received(self, data: bytes) -> None:
        """Process the bytes in pieces."""
        if self._unread:
            self._unread += data
            return
        super().data_received(data[:_PIECE])
        self._unread = data[_PIECE:]
        if self._unread:
            self.transport.pause_reading()
            self._go_on()

    def _go_on(self) -> None:
        if self.transport.is_closing():
            self._unread = b""
        elif self._unread:
            asyncio.get_running_loop().call_soon(self._take)
        elif not self.read_paused:
            self.transport.resume_reading()

    def _take(self) -> None:
        piece, self._unread = self._unread[:_PIECE], self._unread[_PIECE:]
        super().data_received(piece)
        self._go_on()

    def handle_ping(self) -> None:
        """Answer at once, unless the transport is full."""
        # It contains the answers to all pings that arrived together.
        answer = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(answer)
        else:
            self._pongs = answer or self._pongs

    def handle_close(self, event: Frame) -> None:
        """Answer the client's close, after the pongs that were held back."""
        self._send_pongs()
        super().handle_close(event)

    def resume_writing(self) -> None:
        self._send_pongs()
        super().resume_writing()

    def _send_pongs(self) -> None:
        pongs, self._pongs = self._pongs, b""
        if pongs:
            self.transport.write(pongs)

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # A refusal ends the handshake, too; uvicorn would report an error of the application.
            self.handshake_complete = True

    def keepalive_timeout(self) -> None:
        """Abort the connection: the client has not answered a ping, and closing would wait for it to read."""
        super().keepalive_timeout()
        self.transport.abort()
