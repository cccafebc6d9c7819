"""PyMySQL's connections, whose TLS costs nothing to prepare and which notice a peer that is gone. Blocking.

PyMySQL makes a context for each connection, also where TLS is only preferred and nobody's certificate is looked at, and
reads all of the system's authorities into it: some 15 ms of processor time. One context does for all of those.

Not here: which options there are (`service.engine.databases.mysql.address`).
"""

import socket
import ssl
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection

from cdc.keepalive import socket_options

if TYPE_CHECKING:
    _Connection = Connection[Any]
else:
    _Connection = Connection


class PreparedConnection(_Connection):
    """A connection that takes a context that is there."""

    def connect(self, sock: Any = None) -> None:
        """Connect, by `sock` if it is given, and have a peer that is gone noticed (`cdc.keepalive`)."""
        super().connect(sock)
        connected: socket.socket = self._sock  # type: ignore[attr-defined]
        if connected.family in (socket.AF_INET, socket.AF_INET6):
            for option in socket_options():
                connected.setsockopt(*option)

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        return _unverified() if sslp == {} else super()._create_ssl_ctx(sslp)  # type: ignore[misc]


def open_connection(**options: Any) -> PreparedConnection:
    """As ``pymysql.connect``; raises its errors and OSError."""
    return PreparedConnection(**options)


@lru_cache(maxsize=1)
def _unverified() -> ssl.SSLContext:
    """Encrypts, and believes whoever answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
