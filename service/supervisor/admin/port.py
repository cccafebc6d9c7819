"""The server of the admin port, in the supervisor's process.

Not here: the routes (`app`).
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from service.settings.auth import AuthSettings
from service.settings.sections import HttpSettings
from service.supervisor.admin.guard import AdminGuard
from service.web.auth.authority import Authority
from service.web.body_limit import BodyLimit
from service.web.bounded_protocol import ConnectionLimits
from service.web.direct_protocol import bounded
from service.web.messages import App

#: Of the admin port: this process has other things to do than to hold those of strangers.
ADMIN_CONNECTIONS = 200
#: However many connections strangers hold: probes must not take the service for dead.
_ALWAYS_SERVED = frozenset({"/livez", "/readyz", "/metrics"})


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
        limits = ConnectionLimits(
            http.model_copy(update={"max_connections": ADMIN_CONNECTIONS}), _ALWAYS_SERVED, loopback_only=auth is None
        )
        config = uvicorn.Config(
            guarded,
            http=bounded(limits),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._server = _AdminServer(config)
        self._listener = listener
        self._serving: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begins to answer. Called on the loop."""
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))

    async def close(self) -> None:
        """Stop serving and wait until its connections are closed."""
        self._server.should_exit = True
        await asyncio.gather(*([] if self._serving is None else [self._serving]), return_exceptions=True)
