"""Protection of the connections to the upstream, by its URLs: TLS, and verification of the server.

The defaults of libpq (``sslmode=prefer``) and of MySQL's clients (``ssl-mode=preferred``) use TLS if the server offers
it and verify no certificate, so that anyone who can intercept packets can answer in the server's place. They remain the
defaults here, since managed databases have authorities that systems do not trust; a URL without a choice causes a
warning.

Not here: connecting (`service.engine.databases`); TLS of Kafka (`service.engine.databases.topics`). The process that
starts all others imports this, so no driver is needed.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from service.settings.database_url import is_mysql, scheme_of
from service.settings.sections import CdcSettings, UpstreamSettings

UPSTREAM_URL = "[upstream] url"
_REMEDIES = {
    "sslmode": "sslmode=verify-full&sslrootcert=FILE (FILE: certificates of the server's authority, as PEM)",
    "ssl-mode": "ssl-ca=FILE (FILE: certificates of the server's authority, as PEM), or ssl-mode=verify-identity if "
    "that is one of the system's authorities,",
}


@dataclass(frozen=True, slots=True)
class Transport:
    """Protection of the connections that one URL makes."""

    #: Where the URL is set: ``[upstream] url`` or ``[cdc] url``.
    setting: str
    #: The first host that is neither loopback nor a Unix socket; "" if there is none.
    host: str
    #: The parameter that decides, ``sslmode`` or ``ssl-mode``, and its value in force.
    parameter: str
    mode: str
    #: Whether the user has set it.
    chosen: bool
    #: Whether the server has to prove its identity.
    verified: bool

    @property
    def undecided(self) -> bool:
        """True if other machines may intercept the connection, and nobody has decided that this is acceptable."""
        return bool(self.host) and not self.chosen and not self.verified

    @property
    def remedy(self) -> str:
        """Advice: the parameters with which the client verifies the server."""
        return f"Set {_REMEDIES[self.parameter]} in {self.setting}."


def transports(upstream: UpstreamSettings, cdc: CdcSettings) -> list[Transport]:
    """Protection of the lookups' connections, and of the change stream's if it has a URL of its own."""
    urls = {UPSTREAM_URL: upstream.url, "[cdc] url": cdc.url}
    return [transport(setting, url) for setting, url in urls.items() if url is not None]


def transport(setting: str, url: str) -> Transport:
    """Protection of the connections that a URL makes. One that cannot be read has no host."""
    try:
        parts = urlsplit(url)
        given = dict(options := parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        parts, given, options = SplitResult("", "", "", "", ""), {}, []
    if is_mysql(url):
        return _mysql(setting, parts, {name.replace("_", "-"): value for name, value in given.items()})
    if scheme_of(url)[1]:
        # Several hosts, with their ports.
        given["host"] = _authority_hosts(",".join(value for name, value in options if name == "host"))
    return _postgres(setting, parts, given)


def _mysql(setting: str, parts: SplitResult, given: Mapping[str, str]) -> Transport:
    """Defaults are those of `service.engine.databases.mysql.address`."""
    mode = given.get("ssl-mode", "verify-identity" if "ssl-ca" in given else "preferred").lower()
    hosts = [] if given.keys() & {"socket", "unix-socket"} else [parts.hostname or ""]
    return Transport(setting, _remote(hosts), "ssl-mode", mode, "ssl-mode" in given, mode.startswith("verify"))


def _postgres(setting: str, parts: SplitResult, given: Mapping[str, str]) -> Transport:
    """Defaults are libpq's: the environment counts, and ``require`` verifies if there is a file of authorities,
    and Kerberos always does. (Files of services are not read.)"""
    authorities = given.get("sslrootcert") or os.environ.get("PGSSLROOTCERT")
    required = "require" if given.get("ssl") == "true" else None
    chosen = given.get("sslmode") or required or os.environ.get("PGSSLMODE")
    mode = chosen or ("verify-full" if authorities == "system" else "prefer")
    file = Path(authorities or os.path.expanduser("~/.postgresql/root.crt"))
    by_tls = mode.startswith("verify") or (mode == "require" and file.is_file())
    verified = by_tls or given.get("gssencmode") == "require"
    # A host's name is what its certificate has; its address only saves looking it up.
    listed = (
        given.get("host") or _authority_hosts(parts.netloc) or given.get("hostaddr") or os.environ.get("PGHOST", "")
    )
    return Transport(setting, _remote(listed.split(",")), "sslmode", mode, chosen is not None, verified)


def _authority_hosts(netloc: str) -> str:
    """The hosts of ``user:password@host:port,host:port``, without ports."""
    hosts = netloc.rpartition("@")[2].split(",")
    return ",".join(host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0] for host in hosts)


def _remote(hosts: list[str]) -> str:
    return next((host for host in map(unquote, hosts) if not _is_local(host)), "")


def _is_local(host: str) -> bool:
    """Return whether it is a socket (also libpq's default, an empty host) or loopback. No name is looked up."""
    if not host or host[0] in "/@" or host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
