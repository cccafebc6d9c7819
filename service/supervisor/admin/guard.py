"""In front of the admin port: everything there takes the right to administer, but the probes.

*Invariants*: what is open is a closed list of whole paths, as they are routed; whatever else there is, or will be, is
not.
"""

from service.ground.errors import ApiError
from service.supervisor.console.routes import CONSOLE_PATHS
from service.web.auth.authority import Authority
from service.web.auth.guard import admitted, refuse
from service.web.messages import App, Receive, Scope, Send
from service.web.principal import ANONYMOUS, SCOPE_KEY, Right

#: What an orchestrator asks, which has no token. Without one they say only yes or no.
_PROBES = frozenset({"/livez", "/readyz"})
_METRICS = "/metrics"
_READS = frozenset({"GET", "HEAD"})


class AdminGuard:
    """ASGI: `app`, for administrators."""

    def __init__(self, app: App, authority: Authority, *, open_metrics: bool) -> None:
        self._app = app
        self._authority = authority
        self._open = _PROBES | CONSOLE_PATHS | ({_METRICS} if open_metrics else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            try:
                scope[SCOPE_KEY] = await admitted(self._authority, scope, Right.ADMIN)
            except ApiError as error:
                if not self._is_open(scope):
                    await refuse(scope, send, error)
                    return
                scope[ANONYMOUS] = True
        await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        return scope["type"] == "http" and scope["method"] in _READS and scope["path"] in self._open
