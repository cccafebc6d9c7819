"""The service's settings: one TOML file, every key also as ``UPQUERY_SECTION__KEY`` in the environment.

The environment wins over the file. A key nobody knows is an error that names the nearest known one: a misspelt setting
must not silently be a default.

Not here: the keys (`service.settings.sections`); what a setting does (its section's reader); command line options
(`service.cli`).
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from service.settings.adhoc import AdhocSettings
from service.settings.auth import AuthSettings
from service.settings.errors import SettingsError
from service.settings.sections import (
    CdcSettings,
    EngineSettings,
    HttpSettings,
    LogSettings,
    StateSettings,
    SubscriptionSettings,
    UpstreamSettings,
    ViewSettings,
)
from service.settings.spark import SparkSettings
from service.settings.telemetry import AccessLogSettings, TraceSettings

ENVIRONMENT_PREFIX = "UPQUERY_"
#: Databases by the scheme of their URL; which of MariaDB and MySQL it is, the server says.
POSTGRES_SCHEMES = ("postgresql", "postgres")
MYSQL_SCHEMES = ("mariadb", "mysql")
#: Names in the environment that are about the process, not about settings.
RESERVED_VARIABLES = frozenset({"UPQUERY_CONFIG", "UPQUERY_URL", "UPQUERY_ADMIN_URL", "UPQUERY_TOKEN"})


class Settings(BaseSettings):
    """All settings. Build it with `load_settings`, which turns mistakes into one clear message."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    upstream: UpstreamSettings
    cdc: CdcSettings = CdcSettings()
    http: HttpSettings = HttpSettings()
    auth: AuthSettings | None = None
    engine: EngineSettings = EngineSettings()
    adhoc: AdhocSettings = AdhocSettings()
    subscriptions: SubscriptionSettings = SubscriptionSettings()
    state: StateSettings = StateSettings()
    log: LogSettings = LogSettings()
    access_log: AccessLogSettings | None = None
    traces: TraceSettings | None = None
    spark: SparkSettings | None = None
    views: tuple[ViewSettings, ...] = ()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment wins over the file's values, which are the constructor's."""
        return (env_settings, init_settings)


def load_settings(path: Path | None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings of a TOML file (none: defaults) and the environment. Raises `SettingsError`.

    `overrides` ({section: {key: value}}) are command line options and win over the file, not over the environment.
    """
    values = _read_file(path) if path is not None else {}
    for section, keys in (overrides or {}).items():
        values[section] = {**values.get(section, {}), **keys} if isinstance(keys, Mapping) else keys
    _refuse_unknown_variables(os.environ)
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise SettingsError(_describe(error, path)) from None
    if settings.auth is None:
        _refuse_open_bind(settings.http.host)
    _refuse_other_upstreams(settings.upstream.url)
    _require_kafka(settings.cdc)
    _refuse_repeated_views(settings.views)
    return settings


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"There is no configuration file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The configuration file {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The configuration file {path} is not valid TOML: {error}.") from None


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    """pydantic-settings ignores variables of unknown sections; we do not."""
    sections = set(Settings.model_fields)
    for name in environment:
        if not name.upper().startswith(ENVIRONMENT_PREFIX) or name in RESERVED_VARIABLES:
            continue
        section = name[len(ENVIRONMENT_PREFIX) :].lower().split("__")[0]
        if section not in sections:
            raise SettingsError(f"Unknown setting {name} in the environment.{_suggest(section, sections, name)}")


def _suggest(given: str, known: Iterable[str], shown: str | None = None) -> str:
    nearest = difflib.get_close_matches(given, list(known), n=1, cutoff=0.5)
    if not nearest:
        return f" Known here: {', '.join(sorted(known))}."
    if shown is None:
        return f" Did you mean {nearest[0]!r}?"
    at = shown.lower().index(given)
    return f" Did you mean {shown[:at]}{nearest[0].upper()}{shown[at + len(given) :]}?"


def _describe(error: ValidationError, path: Path | None) -> str:
    lines = [_describe_one(e["loc"], e["type"], e["msg"]) for e in error.errors()]
    where = f"{path}: " if path is not None else ""
    return "\n".join(where + line for line in lines)


def _describe_one(location: tuple[int | str, ...], kind: str, message: str) -> str:
    dotted = ".".join(str(part) for part in location)
    if kind == "extra_forbidden":
        return f"Unknown setting {dotted!r}.{_suggest(str(location[-1]), _known_at(location))}"
    if kind == "missing" and location[0] == "upstream":
        return (
            "No upstream database is configured. Set [upstream] url in the configuration file, "
            "or UPQUERY_UPSTREAM__URL=postgresql://user@host/database in the environment."
        )
    return f"Setting {dotted!r}: {message[0].lower()}{message[1:]}."


def _known_at(location: tuple[int | str, ...]) -> list[str]:
    """The keys known beside the last part of `location`."""
    model: type[BaseModel] = Settings
    for part in location[:-1]:
        if part == "views":
            model = ViewSettings
        elif isinstance(part, str):
            annotation = model.model_fields[part].annotation
            for kind in (annotation, *get_args(annotation)):
                if isinstance(kind, type) and issubclass(kind, BaseModel):
                    model = kind
    return list(model.model_fields)


def _refuse_open_bind(host: str) -> None:
    if host not in ("127.0.0.1", "::1", "localhost"):
        raise SettingsError(
            f"[http] host = {host!r} is reachable from other machines, and reads are not authenticated. "
            "Set [auth] tokens_file or [auth.jwt] (docs/security.md), or bind to 127.0.0.1."
        )


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
