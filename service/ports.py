"""The two ports of a service: bound before any child runs, so that a port in use is told at once.

Not here: the admin routes (`admin`); what answers the other port (`worker`, `gateway`).
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import uvicorn

from service.auth.admin_guard import AdminGuard
from service.auth.authority import Authority, check_settings
from service.http.body_limit import BodyLimit
from service.http.direct_protocol import bounded
from service.http.messages import App
from service.keeping import StartError
from service.settings.auth import AuthSettings
from service.settings.errors import SettingsError
from service.settings.sections import HttpSettings
from service.worker import connection_limits_of

#: Connections waiting to be accepted.
BACKLOG = 2048
#: Of the admin port: this process has other things to do than to hold those of strangers.
ADMIN_CONNECTIONS = 200
#: Of each connection, in the kernel, as far as its client has not asked for them.
_UNSENT_BYTES = 1 << 17


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a started service listens, and its supervisor's process."""

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
        """What they are called."""
        return Endpoints(_url(self.api), _url(self.admin), pid)

    def close(self) -> None:
        """Both are free again."""
        self.api.close()
        self.admin.close()


class _AdminServer(uvicorn.Server):
    """uvicorn without its signal handlers: the supervisor has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AdminPort:
    """The admin port, answered by `app` in this process, for administrators only where there is ``[auth]``."""

    def __init__(self, app: App, http: HttpSettings, auth: AuthSettings | None, listener: socket.socket) -> None:
        limited: App = BodyLimit(app, http.max_body_bytes)
        guarded = limited if auth is None else AdminGuard(limited, Authority.of(auth), open_metrics=auth.open_metrics)
        config = uvicorn.Config(
            guarded,
            http=bounded(replace(connection_limits_of(http), max_connections=ADMIN_CONNECTIONS)),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = _AdminServer(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def close(self) -> None:
        """Stops answering."""
        self._server.should_exit = True
        await asyncio.gather(self._serving, return_exceptions=True)


def check_auth(auth: AuthSettings | None) -> None:
    """Raises `StartError` if nobody could be let in."""
    if auth is not None:
        try:
            check_settings(auth)
        except SettingsError as error:
            raise StartError(str(error), exit_code=2) from None


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
