"""A WebSocket's connection to a pod, whose handshake calls the pod what the client calls the gateway.

*Theory*: pods compare that name with the page that the client comes from. It is no part of the address: a client may
write anything there, and only what cannot be connected to is away.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.http11 import Request

_HOST = "Host"


class _Protocol(ClientProtocol):
    """As `pod`, with another Host."""

    def __init__(self, pod: ClientProtocol, host: str) -> None:
        super().__init__(pod.uri, origin=pod.origin, max_size=None, logger=pod.logger)
        self._host = host

    def connect(self) -> Request:
        """The handshake's request."""
        request = super().connect()
        del request.headers[_HOST]
        request.headers[_HOST] = self._host
        return request


class PodConnection(ClientConnection):
    """Calls `connected` when there is a connection, before anything is said."""

    def __init__(self, protocol: ClientProtocol, *, host: str, connected: Callable[[], None], **options: Any) -> None:
        super().__init__(_Protocol(protocol, host), **options)
        self._connected = connected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pod has been reached."""
        super().connection_made(transport)
        self._connected()
