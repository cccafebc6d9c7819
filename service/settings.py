"""The service's settings: one TOML file, every key also as ``UPQUERY_SECTION__KEY`` in the environment.

The environment wins over the file. A key nobody knows is an error that names the nearest known one: a misspelt setting
must not silently be a default.

Not here: what a setting does (its section's reader); command line options (`service.cli`).
"""

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ByteSize, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

ENVIRONMENT_PREFIX = "UPQUERY_"
#: What a Unix socket's path (107 bytes) leaves of a directory for the run's own below it.
LONGEST_DIRECTORY = 70
#: Of the upstream's connections, those that lookups leave alone.
RESERVED_CONNECTIONS = 2
#: Databases by the scheme of their URL; which of MariaDB and MySQL it is, the server says.
POSTGRES_SCHEMES = ("postgresql", "postgres")
MYSQL_SCHEMES = ("mariadb", "mysql")
#: Names in the environment that are about the process, not about settings.
RESERVED_VARIABLES = frozenset({"UPQUERY_CONFIG"})


class SettingsError(Exception):
    """The settings cannot be used; the text says which key and what to do."""


class Section(BaseModel):
    """A table of the TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class UpstreamSettings(Section):
    """The database that the views are about, and how hard it may be asked."""

    url: str
    #: Instead of a password in `url`.
    password: SecretStr | None = None
    password_file: Path | None = None
    #: Connections. Two of them are for heartbeats and pushes, without which no lookup's result would ever be current.
    pool_size: int = Field(default=8, ge=3, le=200)
    statement_timeout_s: float = Field(default=30.0, gt=0)
    connect_timeout_s: float = Field(default=10.0, gt=0)
    #: Lookups in flight at once (and never more than connections are there), and keys of one lookup: a cold start must
    #: not flatten the upstream.
    lookups_in_flight: int = Field(default=16, ge=1)
    lookup_keys: int = Field(default=256, ge=1)

    @property
    def concurrent_lookups(self) -> int:
        """How many lookups run at once."""
        return min(self.lookups_in_flight, self.pool_size - RESERVED_CONNECTIONS)


class KafkaSettings(Section):
    """Where Debezium publishes the changes (docs/kafka.md). Names as kafka-python and Debezium have them."""

    #: ``host:port``, several with commas.
    bootstrap_servers: str = Field(min_length=1)
    #: Debezium's ``topic.prefix``.
    topic_prefix: str = Field(min_length=1)
    #: Default: ``<topic_prefix>.transaction``.
    transaction_topic: str | None = None
    #: One topic with everything, if the connector routes it there.
    routed_topic: str | None = None
    #: A table that is written to, so that the stream gets to where a lookup was (MariaDB, MySQL): ``database.table``.
    watermark_table: str | None = None
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    #: The connector's settings of these names. Needed where events come without schemas and a value alone does not show
    #: which was in use; an answer that depends on one that is not stated is refused, naming it.
    decimal_handling_mode: Literal["precise", "string", "double"] | None = None
    time_precision_mode: (
        Literal["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"] | None
    ) = None
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] | None = None
    unavailable_value_placeholder: str | None = None
    #: How long an event may be missing, of a transaction that has ended, before continuity is lost.
    gap_timeout_s: float = Field(default=30.0, gt=0)


class CdcSettings(Section):
    """Where the change stream comes from."""

    #: ``direct``: PostgreSQL's slot, the binary log of MariaDB or MySQL. ``kafka``: Debezium's topics.
    source: Literal["direct", "kafka"] = "direct"
    kafka: KafkaSettings | None = None
    #: A replication login apart from the lookups' (poolers, rights). Default: the upstream's.
    url: str | None = None
    slot: Literal["temporary"] = "temporary"
    publication: str = Field(default="upquery", min_length=1, max_length=63)
    #: Run ``ALTER TABLE … REPLICA IDENTITY FULL`` for tables that views need, instead of refusing them.
    set_replica_identity: bool = False
    #: A transaction of more rows than this evicts what it touches instead of being applied row by row.
    transaction_rows: int = Field(default=200_000, ge=1)
    #: How often the tables that views read are compared with the catalog (a dropped table is not in the stream).
    schema_check_s: float = Field(default=5.0, gt=0)


class HttpSettings(Section):
    """The two ports."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    #: API worker processes.
    workers: int = Field(default=1, ge=1, le=256)
    admin_port: int = Field(default=8081, ge=0, le=65535)
    #: How long a read that missed may wait for its upquery.
    read_timeout_s: float = Field(default=5.0, gt=0)


class EngineSettings(Section):
    """The engine processes."""

    shards: Literal[1] = 1
    #: Budget for engine state and leaf store together; the processes themselves come on top of it.
    memory: ByteSize = ByteSize(1 << 30)
    #: Which keys are forgotten first when it is used up (`dataflow.eviction`).
    eviction: Literal["s3-fifo", "lru", "clock", "random"] = "s3-fifo"
    #: Rows of transactions applied in one step; reads wait at most for one step.
    step_rows: int = Field(default=500, ge=1)
    #: Where a run keeps the leaf store and its sockets. Default: shared memory.
    directory: Path | None = None

    @field_validator("directory")
    @classmethod
    def _short_enough(cls, directory: Path | None) -> Path | None:
        if directory is not None and len(os.fsencode(directory.absolute())) > LONGEST_DIRECTORY:
            raise ValueError(f"the path is longer than {LONGEST_DIRECTORY} bytes, so sockets cannot be in it")
        return directory


class StateSettings(Section):
    """What survives a restart."""

    #: Views put over HTTP are kept here.
    directory: Path = Path("upquery-state")


class LogSettings(Section):
    """Logs go to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"


class ViewSettings(Section):
    """A view of the configuration file."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$")
    sql: str = Field(min_length=1)
    #: Keep it so, or refuse it. Default: as the planner finds best.
    tier: Literal["incremental", "refresh", "ttl"] | None = None
    #: Seconds for which an answer is good, if it is of a view that only expires.
    ttl: float | None = Field(default=None, gt=0, le=86_400)
    #: Keep it whole.
    materialization: Literal["full"] | None = None


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
    engine: EngineSettings = EngineSettings()
    state: StateSettings = StateSettings()
    log: LogSettings = LogSettings()
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
            "Bind to 127.0.0.1 and put an authenticating proxy in front."
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


def connection_url(url: str, upstream: UpstreamSettings) -> str:
    """`url` with the configured password, as libpq takes it. Raises `SettingsError`."""
    password = upstream_password(upstream)
    if password is None:
        return url
    from psycopg.conninfo import make_conninfo

    return make_conninfo(url, password=password)


def upstream_password(upstream: UpstreamSettings) -> str | None:
    """The configured password, if it is not in the URL. Raises `SettingsError`."""
    return secret(upstream.password, upstream.password_file, "[upstream] password_file")


def secret(value: SecretStr | None, file: Path | None, setting: str) -> str | None:
    """What is given as a value, or in a file. Raises `SettingsError` naming `setting`."""
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise SettingsError(f"{setting} cannot be read: {error}.") from None
