"""The settings of a gateway (docs/gateway.md): one TOML file, and the environment, as a stack's.

Not here: what of them may change while it runs (`service.settings.gateway_file`); a stack's (`service.settings.stack`).
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
#: By shard, the addresses of its replicas.
Addresses = tuple[tuple[str, ...], ...]


def _base_url(address: str) -> str:
    parts = urlsplit(address.replace(_SHARD, "0").replace(_REPLICA, "0"))
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("it must be a URL, as http://upquery-{replica}-{shard}.upquery-headless:8080")
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("it must be scheme, host and port, and nothing else")
    return address.rstrip("/")


def _check_place(address: str) -> None:
    """Of one pod: what a template became."""
    found = _PLACE.fullmatch(address)
    if found is None:
        raise ValueError(f"{address} has no host and port that there may be")
    if found["port"] is not None and not 1 <= int(found["port"]) <= _MOST_PORT:
        raise ValueError(f"{address} must have a port from 1 to {_MOST_PORT}")


Address = Annotated[str, AfterValidator(_base_url)]


class GatewaySection(Section):
    """Where the shards are, and how they are asked."""

    #: How many there are: the pods' ``[shard] of``.
    shards: int = Field(ge=1, le=64)
    #: Of each shard.
    replicas: int = Field(default=1, ge=1, le=16)
    #: The two ports of a pod, of any number of shards and replicas.
    address: Address = "http://upquery-{replica}-{shard}.upquery-headless:8080"
    admin_address: Address = "http://upquery-{replica}-{shard}.upquery-headless:8081"
    #: Instead, all of them, by shard and replica; shards may then have different numbers of replicas.
    addresses: tuple[tuple[Address, ...], ...] | None = None
    admin_addresses: tuple[tuple[Address, ...], ...] | None = None
    #: Where pods have [auth]: a token with the right ``admin``, for their admin ports.
    admin_token: SecretStr | None = None
    admin_token_file: Path | None = None
    #: With another number of shards, keys move to their new homes within this time: what they take to be filled there
    #: is spread over it.
    move_s: float = Field(default=60.0, ge=0, le=86_400)
    #: Connections to each replica, of each worker.
    connections: int = Field(default=64, ge=1, le=10_000)
    connect_timeout_s: float = Field(default=1.0, gt=0)
    #: How often a replica that is away is tried.
    probe_s: float = Field(default=1.0, gt=0)

    @model_validator(mode="after")
    def _names_them_all(self) -> Self:
        for key, addresses in (("addresses", self.addresses), ("admin_addresses", self.admin_addresses)):
            if addresses is not None and (len(addresses) != self.shards or not all(addresses)):
                raise ValueError(f"{key} must have, for each of the {self.shards} shards, one address at least")
        if (self.addresses is None) != (self.admin_addresses is None):
            raise ValueError("set both addresses and admin_addresses, or neither")
        if self.addresses is None or self.admin_addresses is None:
            self._check_templates()
        elif [len(each) for each in self.addresses] != [len(each) for each in self.admin_addresses]:
            raise ValueError("addresses and admin_addresses must be of the same replicas")
        for address in chain(*self.pods, *self.admin_pods):
            _check_place(address)
        return self

    def _check_templates(self) -> None:
        for key, address in (("address", self.address), ("admin_address", self.admin_address)):
            if self.shards > 1 and _SHARD not in address:
                raise ValueError(f"{key} must contain {_SHARD}, which tells the {self.shards} shards apart")
            if self.replicas > 1 and _REPLICA not in address:
                raise ValueError(f"{key} must contain {_REPLICA}, which tells the {self.replicas} replicas apart")

    @property
    def pods(self) -> Addresses:
        """Where views are read."""
        return self._all(self.addresses, self.address)

    @property
    def admin_pods(self) -> Addresses:
        """Their admin ports."""
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
        """For the pods' admin ports. Raises `SettingsError`."""
        return secret(self.admin_token, self.admin_token_file, "[gateway] admin_token_file")


class GatewaySettings(Configuration):
    """All settings of a gateway. Build it with `load_gateway_settings`."""

    gateway: GatewaySection
    http: HttpSettings = HttpSettings()
    auth: AuthSettings | None = None
    log: LogSettings = LogSettings()


def load_gateway_settings(path: Path | None) -> GatewaySettings:
    """The settings of a TOML file (none: defaults) and the environment. Raises `SettingsError`."""
    settings = read(GatewaySettings, path, _MISSING)
    if settings.auth is None:
        refuse_open_bind(settings.http.host)
    return settings
