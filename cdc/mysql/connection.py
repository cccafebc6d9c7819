"""PyMySQL's connections with a shared TLS context and TCP keepalive. Blocking.

PyMySQL makes a TLS context for each connection, and loads the system's certificate authorities into it (15 ms of
processor time), even if certificates are not verified. One context serves all connections without verification.

Not here: options of connections (`service.engine.databases.mysql.address`).
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
    """A connection with the shared TLS context and keepalive."""

    def connect(self, sock: Any = None) -> None:
        """Connect, by `sock` if it is given, and enable TCP keepalive (`cdc.keepalive`)."""
        super().connect(sock)
        connected: socket.socket = self._sock  # type: ignore[attr-defined]
        if connected.family in (socket.AF_INET, socket.AF_INET6):
            for option in socket_options():
                connected.setsockopt(*option)

    def _create_ssl_ctx(self, sslp: Any) -> ssl.SSLContext:
        return _unverified() if sslp == {} else super()._create_ssl_ctx(sslp)  # type: ignore[misc]


def open_connection(**options: Any) -> PreparedConnection:
    """Connect with the options of ``pymysql.connect``. Raises pymysql's errors and OSError."""
    return PreparedConnection(**options)


@lru_cache(maxsize=1)
def _unverified() -> ssl.SSLContext:
    """Return the context that encrypts without verifying the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
