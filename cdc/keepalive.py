"""TCP keepalive settings of all connections to databases and brokers.

A peer that disappears without closing the connection (power failure, a firewall that dropped its state) is detected
after about 30 seconds (tcp(7): TCP_KEEPIDLE, TCP_USER_TIMEOUT). The system's defaults are two hours for an idle
connection and 15 minutes for unacknowledged data.

Not here: a peer that is connected and silent (`service.engine`).
"""

import socket

IDLE_S, INTERVAL_S, COUNT, UNACKNOWLEDGED_MS = 10, 5, 4, 30_000

#: Options that the system lacks are left out.
_OPTIONS = {
    "TCP_KEEPIDLE": IDLE_S,
    "TCP_KEEPINTVL": INTERVAL_S,
    "TCP_KEEPCNT": COUNT,
    "TCP_USER_TIMEOUT": UNACKNOWLEDGED_MS,
}


def socket_options() -> list[tuple[int, int, int]]:
    """Return arguments of `setsockopt` for a TCP connection."""
    known = [(getattr(socket, name), value) for name, value in _OPTIONS.items() if hasattr(socket, name)]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *[(socket.IPPROTO_TCP, *each) for each in known]]
