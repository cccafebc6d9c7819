"""A WebSocket connection to a pod, whose handshake has the Host of the client's request.

*Theory*: pods compare that name with the Origin of the client's page. It is not the address: a client may write
anything there, and only a failed connection means that the pod is away.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.http11 import Request

_HOST = "Host"


class _Protocol(ClientProtocol):
    """A client protocol with another Host."""

    def __init__(self, pod: ClientProtocol, host: str) -> None:
        super().__init__(pod.uri, origin=pod.origin, max_size=None, logger=pod.logger)
        self._host = host

    def connect(self) -> Request:
        request = super().connect()
        del request.headers[_HOST]
        request.headers[_HOST] = self._host
        return request


class PodConnection(ClientConnection):
    """A connection that calls `connected` once established, before the handshake."""

    def __init__(self, protocol: ClientProtocol, *, host: str, connected: Callable[[], None], **options: Any) -> None:
        super().__init__(_Protocol(protocol, host), **options)
        self._connected = connected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connected()
