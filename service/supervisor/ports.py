"""The two ports of a service: bound before any child runs, so that a port in use is reported at once.

Not here: what answers them (`service.supervisor.admin.port`; `service.worker.process`,
`service.supervisor.fleet.gateway_metrics`).
"""

import socket
from dataclasses import dataclass

from service.settings.sections import HttpSettings
from service.supervisor.children import StartError

#: Connections waiting to be accepted.
BACKLOG = 2048
#: Of each connection, in the kernel, as far as its client has not asked for them.
_UNSENT_BYTES = 1 << 17


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of a started service, and its supervisor's process id."""

    http: str
    admin: str
    pid: int


class Ports:
    """Both ports, bound. Raises `StartError`, after which neither is."""

    def __init__(self, http: HttpSettings) -> None:
        self.api = _bind(http.host, http.port, "port")
        try:
            self.admin = _bind(http.host, http.admin_port, "admin_port")
        except StartError:
            self.api.close()
            raise

    def endpoints(self, pid: int) -> Endpoints:
        return Endpoints(_url(self.api), _url(self.admin), pid)

    def refuse(self) -> None:
        """Refuses connections to the data plane's port as soon as no worker listens."""
        self.api.close()

    def close(self) -> None:
        """Both are free again."""
        self.api.close()
        self.admin.close()


def _bind(host: str, port: int, key: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, so that asyncio switches Nagle's algorithm off: bodies would wait 40 ms for the head's acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # What a client does not read waits here, in the log that it shares with others, and not in the kernel.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        raise StartError(
            f"Port {port} on {host} cannot be used: {(error.strerror or str(error)).lower()}. "
            f"Stop the program that has it, or set [http] {key} (UPQUERY_HTTP__{key.upper()}) to another one."
        ) from None
    bound.setblocking(False)
    return bound


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
