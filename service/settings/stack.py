"""The settings of a stack: one TOML file, every key also as ``UPQUERY_SECTION__KEY`` in the environment.

Not here: how a file and the environment are read (`service.settings.sources`); the keys (`service.settings.sections`);
what a setting does (its section's reader); command line options (`service.command.cli`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from service.settings.adhoc import AdhocSettings
from service.settings.auth import AuthSettings
from service.settings.errors import SettingsError
from service.settings.sections import (
    CdcSettings,
    EngineSettings,
    HttpSettings,
    LogSettings,
    ShardSettings,
    StateSettings,
    SubscriptionSettings,
    UpstreamSettings,
    ViewSettings,
)
from service.settings.sources import Configuration, read, refuse_open_bind
from service.settings.spark import SparkSettings
from service.settings.telemetry import AccessLogSettings, TraceSettings

#: Databases by the scheme of their URL; which of MariaDB and MySQL it is, the server says.
POSTGRES_SCHEMES = ("postgresql", "postgres")
MYSQL_SCHEMES = ("mariadb", "mysql")
_MISSING = {
    "upstream": (
        "No upstream database is configured. Set [upstream] url in the configuration file, "
        "or UPQUERY_UPSTREAM__URL=postgresql://user@host/database in the environment."
    )
}


class Settings(Configuration):
    """All settings. Build it with `load_settings`, which turns mistakes into one clear message."""

    upstream: UpstreamSettings
    cdc: CdcSettings = CdcSettings()
    http: HttpSettings = HttpSettings()
    auth: AuthSettings | None = None
    engine: EngineSettings = EngineSettings()
    shard: ShardSettings = ShardSettings()
    adhoc: AdhocSettings = AdhocSettings()
    subscriptions: SubscriptionSettings = SubscriptionSettings()
    state: StateSettings = StateSettings()
    log: LogSettings = LogSettings()
    access_log: AccessLogSettings | None = None
    traces: TraceSettings | None = None
    spark: SparkSettings | None = None
    views: tuple[ViewSettings, ...] = ()


def load_settings(path: Path | None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a TOML file (none: defaults) and the environment. Raises `SettingsError`.

    `overrides` ({section: {key: value}}) are command line options and win over the file, not over the environment.
    """
    settings = read(Settings, path, _MISSING, overrides)
    if settings.auth is None:
        refuse_open_bind(settings.http.host)
    _refuse_other_upstreams(settings.upstream.url)
    _require_kafka(settings.cdc)
    _refuse_repeated_views(settings.views)
    _refuse_shards_of_a_shard(settings)
    return settings


def _refuse_other_upstreams(url: str) -> None:
    scheme = urlsplit(url).scheme
    if scheme not in (*POSTGRES_SCHEMES, *MYSQL_SCHEMES):
        raise SettingsError(
            f"[upstream] url has the scheme {scheme!r}; what is supported is postgresql://user@host/database, "
            "mariadb://user@host/database and mysql://user@host/database."
        )


def _require_kafka(cdc: CdcSettings) -> None:
    if cdc.source == "kafka" and cdc.kafka is None:
        raise SettingsError(
            "[cdc] source is 'kafka', but [cdc.kafka] does not say where: set bootstrap_servers and topic_prefix."
        )
    if cdc.source != "kafka" and cdc.kafka is not None:
        raise SettingsError("[cdc.kafka] is set, but [cdc] source is 'direct': set source = \"kafka\".")


def _refuse_repeated_views(views: tuple[ViewSettings, ...]) -> None:
    names = [view.name for view in views]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"The configuration has two views named {name!r}.")


def _refuse_shards_of_a_shard(settings: Settings) -> None:
    if settings.shard.of > 1 and settings.engine.shards > 1:
        raise SettingsError(
            f"[shard] makes this service shard {settings.shard.number} of {settings.shard.of}, which has one engine: "
            "leave [engine] shards at 1, and raise [shard] of (UPQUERY_SHARD__OF) instead."
        )
