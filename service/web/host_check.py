"""Check of the Host header: exactly one (RFC 9112, 3.2), and without access control a name of this machine.

*Theory*: a page of any origin may have its name resolved to 127.0.0.1 and send requests to local services as if they
were its own server (DNS rebinding). Its browser sends the page's name as Host. The parser stores that value as headers
arrive (`SCOPE_KEY`), so a value seen before costs one lookup.

Not here: access control (`service.web.auth.guard`).
"""

import re

from service.ground.errors import ApiError
from service.web.messages import Scope

#: Scope key of the Host; its value is None if proxy and server might read the head differently.
SCOPE_KEY = "upquery.host"
_MOST_KNOWN = 1000
_VERSIONS = frozenset({"1.0", "1.1"})
_LOOPBACK = re.compile(rb"((?:[\w-]+\.)*localhost|127(?:\.\d{1,3}){3}|\[::1\])\.?(:\d{0,5})?", re.IGNORECASE)


class HostCheck:
    """*State*: `known` has values of Host that are accepted in requests of HTTP/1.1 and 1.0."""

    def __init__(self, *, loopback_only: bool) -> None:
        self._loopback_only = loopback_only
        self.known: set[bytes] = set()

    def problem(self, scope: Scope) -> ApiError | None:
        """Return the problem of a request, if any: ``bad_request``, ``host_refused``."""
        version = scope.get("http_version")
        if version not in _VERSIONS:
            return ApiError("bad_request", f"HTTP/{version} is not supported.", "Use HTTP/1.1.")
        host: bytes | None = scope.get(SCOPE_KEY, b"")
        if host is None:
            return ApiError(
                "bad_request", "The request's head is ambiguous.", "Send one Host, and a standard transfer coding."
            )
        if SCOPE_KEY not in scope:
            return ApiError("bad_request", "The request has no Host header.") if version == "1.1" else None
        if self._loopback_only and not _LOOPBACK.fullmatch(host):
            return ApiError(
                "host_refused",
                f"Without access control this service accepts only a Host of this machine, not {_shown(host)!r}.",
                "Use 127.0.0.1 or localhost, or set [auth] (docs/security.md).",
            )
        if len(self.known) >= _MOST_KNOWN:
            self.known.clear()
        self.known.add(host)
        return None


def _shown(host: bytes) -> str:
    return host[:80].decode("latin-1")
