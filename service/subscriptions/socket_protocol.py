"""The server's side of a WebSocket: uvicorn's, which also lets go of clients that are there no more."""

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from service.subscriptions.stalled import EndsStalled


class SocketProtocol(EndsStalled, WebSocketsSansIOProtocol):
    """One connection."""

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
