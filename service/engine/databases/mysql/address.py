"""Address and login of a MariaDB or MySQL server: ``mariadb://user:password@host:3306/database?ssl-ca=…``.

``mysql://`` is equivalent: the server itself reports which of the two it is. So are ``mariadb+pymysql://`` and
``mysql+pymysql://``. Parameters: ``ssl-ca``, ``ssl-cert``, ``ssl-key`` (files), ``ssl-mode`` (``disabled``,
``preferred``, ``required``, ``verify-ca``, ``verify-identity``), ``socket`` or ``unix_socket``; ``charset`` is ignored,
since sessions use UTF-8. Without a mode, TLS is used if the server offers it, and ``ssl-ca`` enables verification of
the server.

*Invariants*: no text derived from an address contains a password.

Not here: connecting (`connect`).
"""

import ssl
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from service.settings.database_url import is_mysql, with_encoded_login

_MODES = ("disabled", "preferred", "required", "verify-ca", "verify-identity")
_PARAMETERS = frozenset({"ssl-ca", "ssl-cert", "ssl-key", "ssl-mode", "socket", "unix-socket", "charset"})
_PORT, _LARGEST_PORT = 3306, 65_535
_LOOKS_LIKE = (
    "Expected a URL like mariadb://user@host:3306/database; special characters in user and password are %-encoded."
)


@dataclass(frozen=True, slots=True)
class Address:
    """Server, user and database."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(default="", repr=False)
    #: Unix socket, instead of host and port.
    socket: str | None = None
    ssl_mode: str = "preferred"
    ssl_ca: str | None = None
    ssl_cert: str | None = None
    ssl_key: str | None = None

    @staticmethod
    def parse(url: str, password: str | None = None) -> "Address":
        """Parses a URL; `password` takes precedence over the URL's. The text of its `ValueError` contains no secret."""
        try:
            parts = make_url(with_encoded_login(url))
        except (ArgumentError, ValueError):
            raise ValueError(f"The upstream's URL cannot be read. {_LOOKS_LIKE}") from None
        given = {name.replace("_", "-"): values[-1] for name, values in parts.normalized_query.items()}
        port, database = parts.port or _PORT, parts.database or ""
        if not is_mysql(url) or not database or "/" in database or not parts.username or port > _LARGEST_PORT:
            raise ValueError(f"The upstream's URL is incomplete. {_LOOKS_LIKE}")
        if unknown := sorted(given.keys() - _PARAMETERS):
            raise ValueError(
                f"The upstream's URL has the parameter {unknown[0]}; known: {', '.join(sorted(_PARAMETERS))}."
            )
        mode = given.get("ssl-mode", "verify-identity" if "ssl-ca" in given else "preferred").lower()
        if mode not in _MODES:
            raise ValueError(f"ssl-mode must be one of {', '.join(_MODES)}.")
        return Address(
            parts.host or "localhost",
            port,
            parts.username,
            database,
            str(parts.password or "") if password is None else password,
            given.get("socket", given.get("unix-socket")),
            mode,
            given.get("ssl-ca"),
            given.get("ssl-cert"),
            given.get("ssl-key"),
        )

    def options(self) -> dict[str, Any]:
        """Arguments of PyMySQL's ``connect``. Raises `OSError` if a TLS file cannot be read."""
        options: dict[str, Any] = {"user": self.user, "password": self.password.encode(), "database": self.database}
        if self.socket is not None:
            return {**options, "unix_socket": self.socket}
        options |= {"host": self.host, "port": self.port}
        if self.ssl_mode == "disabled":
            options["ssl_disabled"] = True
        elif self.ssl_mode != "preferred" or self.ssl_cert is not None:
            options["ssl"] = self._tls()
        return options

    def _tls(self) -> ssl.SSLContext:
        files = tuple(path for path in (self.ssl_ca, self.ssl_cert, self.ssl_key) if path is not None)
        written = tuple(Path(path).stat().st_mtime_ns for path in files)
        return _context(self.ssl_mode, self.ssl_ca, self.ssl_cert, self.ssl_key, written)

    def without_password(self, text: str) -> str:
        """Returns `text` with any occurrence of the password masked."""
        return text.replace(self.password, "***") if self.password else text


@lru_cache(maxsize=8)
def _context(
    mode: str,
    ca: str | None,
    cert: str | None,
    key: str | None,
    written: tuple[int, ...],  # noqa: ARG001  (files that were renewed are read again)
) -> ssl.SSLContext:
    """One context for all connections: loading the system's certificate authorities takes longer than the rest of a
    connect."""
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = mode == "verify-identity"
    if not mode.startswith("verify"):
        context.verify_mode = ssl.CERT_NONE
    if cert is not None:
        context.load_cert_chain(cert, key)
    return context
