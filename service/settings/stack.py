"""The settings of a stack: one TOML file, every key also as ``UPQUERY_SECTION__KEY`` in the environment.

Not here: reading a file and the environment (`service.settings.sources`); the keys (`service.settings.sections`);
the effect of a setting (its reader); command line options (`service.command.cli`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.settings.adhoc import AdhocSettings
from service.settings.auth import AuthSettings
from service.settings.database_url import check_scheme, scheme_of
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

_MISSING = {
    "upstream": (
        "No upstream database is configured. Set [upstream] url in the configuration file, "
        "or UPQUERY_UPSTREAM__URL=postgresql://user@host/database in the environment."
    )
}


class Settings(Configuration):
    """All settings of a stack. Build it with `load_settings`, which reports errors as one message."""

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
    """Load the settings from a TOML file (none: defaults) and the environment. Raises `SettingsError`.

    `overrides` ({section: {key: value}}) are command line options and win over the file, not over the environment.
    """
    settings = read(Settings, path, _MISSING, overrides)
    if settings.auth is None:
        refuse_open_bind(settings.http.host)
    check_scheme("[upstream] url", settings.upstream.url)
    if settings.cdc.url and any(scheme_of(settings.cdc.url)):
        check_scheme("[cdc] url", settings.cdc.url)
    _require_kafka(settings.cdc)
    _refuse_repeated_views(settings.views)
    _refuse_shards_of_a_shard(settings)
    return settings


def _require_kafka(cdc: CdcSettings) -> None:
    if cdc.source == "kafka" and cdc.kafka is None:
        raise SettingsError(
            "[cdc] source is 'kafka', but [cdc.kafka] is missing: set its bootstrap_servers and topic_prefix."
        )
    if cdc.source != "kafka" and cdc.kafka is not None:
        raise SettingsError("[cdc.kafka] is set, but [cdc] source is 'direct': set source = \"kafka\".")


def _refuse_repeated_views(views: tuple[ViewSettings, ...]) -> None:
    names = [view.name for view in views]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"[[views]] has two views named {name!r}. Rename one of them.")


def _refuse_shards_of_a_shard(settings: Settings) -> None:
    if settings.shard.of > 1 and settings.engine.shards > 1:
        raise SettingsError(
            f"[engine] shards must be 1, since [shard] makes this service shard {settings.shard.number} of "
            f"{settings.shard.of}. Raise [shard] of (UPQUERY_SHARD__OF) instead."
        )
