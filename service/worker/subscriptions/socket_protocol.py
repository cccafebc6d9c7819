"""The server's side of a WebSocket: uvicorn's, which also lets go of clients that are there no more, and lets others
have their turn while one sends very much."""

import asyncio

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from service.web.stalled_clients import EndsStalled

#: Bytes of frames that are taken in one turn of the loop: the smallest frames take a millisecond.
_PIECE = 2048


class SocketProtocol(EndsStalled, WebSocketsSansIOProtocol):
    """One connection.

    *State*: `_unread`, bytes that have come and are not taken yet; while there are any, no more are read. `_pongs`,
    what answers the last pings of a client that does not read what it is sent. Earlier ones need no answer of their own
    (RFC 6455, 5.5.3).
    """

    _unread = b""
    _pongs = b""

    def data_received(self, data: bytes) -> None:
        """Taken piece by piece."""
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
        """Answered at once, unless the transport is full."""
        # Of all pings that came together, with the first of them.
        answer = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(answer)
        else:
            self._pongs = answer or self._pongs

    def handle_close(self, event: Frame) -> None:
        """The client ends it. What answers that may have been kept with the pongs of what came before."""
        self._send_pongs()
        super().handle_close(event)

    def resume_writing(self) -> None:
        """The transport takes more."""
        self._send_pongs()
        super().resume_writing()

    def _send_pongs(self) -> None:
        pongs, self._pongs = self._pongs, b""
        if pongs:
            self.transport.write(pongs)

    async def send(self, message: ASGISendEvent) -> None:
        """What the application says."""
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            # A refusal ends the handshake, too; uvicorn would call it an error of the application.
            self.handshake_complete = True

    def keepalive_timeout(self) -> None:
        """The client has not answered a ping. What was sent to it will not be read: closing would wait for that."""
        super().keepalive_timeout()
        self.transport.abort()
