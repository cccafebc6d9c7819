"""The settings of a gateway (docs/gateway.md): one TOML file and the environment, as for a stack.

Not here: changes while it runs (`service.settings.gateway_file`); a stack's settings (`service.settings.stack`).
"""

import re
from itertools import chain
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from service.settings.auth import AuthSettings
from service.settings.secrets import secret
from service.settings.sections import HttpSettings, LogSettings, Section
from service.settings.sources import Configuration, read, refuse_open_bind

_SHARD, _REPLICA = "{shard}", "{replica}"
_PLACE = re.compile(
    r"http://([a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?|\[[0-9a-f:.]+\])(:(?P<port>[0-9]+))?", re.ASCII | re.IGNORECASE
)
_MOST_PORT = 65_535
_MISSING = {
    "gateway": (
        "No shards are configured. Set [gateway] shards in the configuration file, "
        "or UPQUERY_GATEWAY__SHARDS=2 in the environment."
    )
}
#: Addresses of replicas, by shard.
Addresses = tuple[tuple[str, ...], ...]


def _base_url(address: str) -> str:
    parts = urlsplit(address.replace(_SHARD, "0").replace(_REPLICA, "0"))
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("it must be an http URL, such as http://upquery-{replica}-{shard}.upquery-headless:8080")
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("it must consist of scheme, host and port only")
    return address.rstrip("/")


def _check_place(address: str) -> None:
    """Validate the address of one pod, after replacement of the template's placeholders."""
    found = _PLACE.fullmatch(address)
    if found is None:
        raise ValueError(f"{address} must have a valid host and port")
    if found["port"] is not None and not 1 <= int(found["port"]) <= _MOST_PORT:
        raise ValueError(f"{address} must have a port from 1 to {_MOST_PORT}")


Address = Annotated[str, AfterValidator(_base_url)]


class GatewaySection(Section):
    """Addresses of the shards, and connections to them."""

    #: Number of shards: the pods' ``[shard] of``.
    shards: int = Field(ge=1, le=64)
    #: Number of replicas of each shard.
    replicas: int = Field(default=1, ge=1, le=16)
    #: Template of a pod's data port.
    address: Address = "http://upquery-{replica}-{shard}.upquery-headless:8080"
    #: Template of a pod's admin port.
    admin_address: Address = "http://upquery-{replica}-{shard}.upquery-headless:8081"
    #: All data ports by shard and replica, instead of `address`; shards may have different numbers of replicas.
    addresses: tuple[tuple[Address, ...], ...] | None = None
    #: All admin ports, likewise.
    admin_addresses: tuple[tuple[Address, ...], ...] | None = None
    #: Token with the right ``admin``, for the admin ports of pods with [auth].
    admin_token: SecretStr | None = None
    #: File with that token.
    admin_token_file: Path | None = None
    #: Seconds over which keys move to their new homes after a change of the number of shards; a longer time spreads
    #: the load of filling them.
    move_s: float = Field(default=60.0, ge=0, le=86_400)
    #: Maximum connections of each worker to each replica.
    connections: int = Field(default=64, ge=1, le=10_000)
    connect_timeout_s: float = Field(default=1.0, gt=0)
    #: Interval in seconds of probes of an unreachable replica.
    probe_s: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _names_them_all(self) -> Self:
        for key, addresses in (("addresses", self.addresses), ("admin_addresses", self.admin_addresses)):
            if addresses is not None and (len(addresses) != self.shards or not all(addresses)):
                raise ValueError(f"{key} must have at least one address for each of the {self.shards} shards")
        if (self.addresses is None) != (self.admin_addresses is None):
            raise ValueError("set both addresses and admin_addresses, or neither")
        if self.addresses is None or self.admin_addresses is None:
            self._check_templates()
        elif [len(each) for each in self.addresses] != [len(each) for each in self.admin_addresses]:
            raise ValueError("addresses and admin_addresses must have the same number of replicas")
        for address in chain(*self.pods, *self.admin_pods):
            _check_place(address)
        return self

    def _check_templates(self) -> None:
        for key, address in (("address", self.address), ("admin_address", self.admin_address)):
            if self.shards > 1 and _SHARD not in address:
                raise ValueError(f"{key} must contain {_SHARD}, to distinguish the {self.shards} shards")
            if self.replicas > 1 and _REPLICA not in address:
                raise ValueError(f"{key} must contain {_REPLICA}, to distinguish the {self.replicas} replicas")

    @property
    def pods(self) -> Addresses:
        return self._all(self.addresses, self.address)

    @property
    def admin_pods(self) -> Addresses:
        return self._all(self.admin_addresses, self.admin_address)

    def _all(self, given: Addresses | None, template: str) -> Addresses:
        if given is not None:
            return given
        return tuple(
            tuple(
                template.replace(_SHARD, str(shard)).replace(_REPLICA, str(replica)) for replica in range(self.replicas)
            )
            for shard in range(self.shards)
        )

    def token(self) -> str | None:
        """Return the token for the pods' admin ports. Raises `SettingsError`."""
        return secret(self.admin_token, self.admin_token_file, "[gateway] admin_token_file")


class GatewaySettings(Configuration):
    """All settings of a gateway. Build it with `load_gateway_settings`."""

    gateway: GatewaySection
    http: HttpSettings = HttpSettings()
    auth: AuthSettings | None = None
    log: LogSettings = LogSettings()


def load_gateway_settings(path: Path | None) -> GatewaySettings:
    """Load the settings from a TOML file (none: defaults) and the environment. Raises `SettingsError`."""
    settings = read(GatewaySettings, path, _MISSING)
    if settings.auth is None:
        refuse_open_bind(settings.http.host)
    return settings
