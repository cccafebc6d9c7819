"""How soon a peer is noticed that is gone without a word: a machine that lost power, a firewall that has forgotten us.

The system's own settings are for connections that may be idle for hours: two of them, and a quarter of one for what was
sent and not acknowledged. These are noticed after some 30 seconds (tcp(7): TCP_KEEPIDLE, TCP_USER_TIMEOUT).

Not here: a peer that is there and says nothing (`service.runtime`).
"""

import socket

IDLE_S, INTERVAL_S, COUNT, UNACKNOWLEDGED_MS = 10, 5, 4, 30_000

#: What `socket` has of these depends on the system.
_OPTIONS = {
    "TCP_KEEPIDLE": IDLE_S,
    "TCP_KEEPINTVL": INTERVAL_S,
    "TCP_KEEPCNT": COUNT,
    "TCP_USER_TIMEOUT": UNACKNOWLEDGED_MS,
}


def socket_options() -> list[tuple[int, int, int]]:
    """Arguments of `setsockopt` for a TCP connection."""
    known = [(getattr(socket, name), value) for name, value in _OPTIONS.items() if hasattr(socket, name)]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *[(socket.IPPROTO_TCP, *each) for each in known]]
