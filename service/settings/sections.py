"""The tables of the configuration file: all keys, with meanings and defaults.

Not here: reading the file and the environment (`service.settings.stack`); the effect of a setting (its reader).
"""

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ByteSize, ConfigDict, Field, SecretStr, field_validator, model_validator

from service.settings.view_options import OptionFields

#: Maximum length of the directory, so that paths of Unix sockets below it stay within 107 bytes.
LONGEST_DIRECTORY = 70
#: Connections to the upstream that are reserved for heartbeats and stream messages.
RESERVED_CONNECTIONS = 2


class Section(BaseModel):
    """A table of the TOML file."""

    #: Only the process that reads the file validates it; others get the result.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class UpstreamSettings(Section):
    """The upstream database, and limits of its load."""

    url: str
    #: Password, if `url` has none.
    password: SecretStr | None = None
    #: File with the password.
    password_file: Path | None = None
    #: Maximum connections. Two of them are reserved for heartbeats and stream messages, which lookups depend on.
    pool_size: int = Field(default=8, ge=3, le=200)
    #: Maximum duration of a statement.
    statement_timeout_s: float = Field(default=30.0, gt=0)
    connect_timeout_s: float = Field(default=10.0, gt=0)
    #: Maximum concurrent lookups (also bounded by `pool_size` - 2; two thirds of them for one table).
    lookups_in_flight: int = Field(default=16, ge=1)
    #: Maximum keys of one lookup.
    lookup_keys: int = Field(default=256, ge=1)
    #: Maximum rows of a key; a larger key is not stored, and its reads fall back to the database. Views may lower it.
    limit_rows: int = Field(default=100_000, ge=1)
    #: Maximum size of a key, approximately, likewise.
    limit_bytes: ByteSize = ByteSize(64 << 20)
    #: Maximum size of an answer that the database computes for a fallback or a refreshed view, approximately; larger
    #: ones get 413. Such answers are buffered in memory, several at a time.
    answer_bytes: ByteSize = ByteSize(64 << 20)

    @property
    def concurrent_lookups(self) -> int:
        """Maximum number of concurrent lookups."""
        return min(self.lookups_in_flight, self.pool_size - RESERVED_CONNECTIONS)


class KafkaSettings(Section):
    """Kafka topics of Debezium (docs/kafka.md). Keys have the names of kafka-python and Debezium."""

    #: ``host:port``, separated by commas.
    bootstrap_servers: str = Field(min_length=1)
    #: Debezium's ``topic.prefix``.
    topic_prefix: str = Field(min_length=1)
    #: Default: ``<topic_prefix>.transaction``.
    transaction_topic: str | None = None
    #: The single topic of all events, if the connector routes them to one.
    routed_topic: str | None = None
    #: Table that Upquery writes to, to advance an idle stream (MariaDB, MySQL): ``database.table``.
    watermark_table: str | None = None
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    #: The connector's settings of the same names. Required if events have no schemas and the form of a value is
    #: ambiguous; a view that depends on an unstated one is broken, with its name in the reason.
    decimal_handling_mode: Literal["precise", "string", "double"] | None = None
    time_precision_mode: (
        Literal["adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds"] | None
    ) = None
    binary_handling_mode: Literal["bytes", "base64", "base64-url-safe", "hex"] | None = None
    unavailable_value_placeholder: str | None = None
    #: Seconds that an event of a completed transaction may be missing before continuity is lost.
    gap_timeout_s: float = Field(default=30.0, gt=0)


class CdcSettings(Section):
    """Source of the change stream."""

    #: ``direct``: PostgreSQL's slot, the binary log of MariaDB or MySQL. ``kafka``: Debezium's topics.
    source: Literal["direct", "kafka"] = "direct"
    kafka: KafkaSettings | None = None
    #: URL of a separate login for the stream, such as one that bypasses a pooler. Default: the upstream's URL.
    url: str | None = None
    #: Password, if `url` has none. Default: the upstream's.
    password: SecretStr | None = None
    #: File with the password.
    password_file: Path | None = None
    #: PostgreSQL's replication slot. ``permanent``: a broken connection, or a restart of the database, evicts nothing.
    #: ``temporary``: the slot ends with its connection, and everything is evicted. ``auto``: permanent if the server
    #: limits what a slot may hold (``max_slot_wal_keep_size``), else temporary.
    slot: Literal["auto", "permanent", "temporary"] = "auto"
    #: Size of the log that a permanent slot may hold on a server without a limit while the stream cannot continue; then
    #: Upquery drops the slot, and the stream begins anew.
    slot_keep: ByteSize = ByteSize(4 << 30)
    publication: str = Field(default="upquery", min_length=1, max_length=63)
    #: Run ``ALTER TABLE … REPLICA IDENTITY FULL`` for tables of views that have another replica identity.
    set_replica_identity: bool = False
    #: Maximum rows of a transaction that is applied row by row; a larger one evicts the keys that it affects.
    transaction_rows: int = Field(default=200_000, ge=1)
    #: Seconds between retries of broken views, and between full comparisons of the catalog. (Indications of a change
    #: are checked every second, or at this interval if it is shorter.)
    schema_check_s: float = Field(default=5.0, gt=0)
    #: Seconds of silence after which the change stream's connection is broken; the server is asked for signs of life
    #: before.
    silence_s: float = Field(default=30.0, ge=1)


class HttpSettings(Section):
    """The data port and the admin port."""

    host: str = "127.0.0.1"
    #: The data port; 0: any free port.
    port: int = Field(default=8080, ge=0, le=65535)
    #: Number of API worker processes.
    workers: int = Field(default=1, ge=1, le=256)
    admin_port: int = Field(default=8081, ge=0, le=65535)
    #: Maximum seconds that a read that missed waits for its upquery.
    read_timeout_s: float = Field(default=5.0, gt=0)
    #: Maximum wait in seconds that a request can ask for (``Prefer: wait=``).
    max_wait_s: float = Field(default=30.0, gt=0)
    #: Maximum requests of each worker that wait for the engine; further ones get 503.
    waiting_reads: int = Field(default=1000, ge=1, le=4000)
    #: Maximum waiting requests of one client (its credentials, else its address) at a worker; further ones get 429.
    #: Default: a quarter of `waiting_reads` with [auth], else no limit.
    client_waiting_reads: int | None = Field(default=None, ge=1)
    #: Maximum size of a request's body.
    max_body_bytes: ByteSize = Field(default=ByteSize(1 << 20), ge=1024, le=64 << 20)
    #: Maximum keys of a request.
    max_keys: int = Field(default=1000, ge=1, le=100_000)
    #: Maximum size of a request's head: request line and headers.
    max_head_bytes: ByteSize = Field(default=ByteSize(16 << 10), ge=1024, le=1 << 20)
    #: Maximum number of headers.
    max_headers: int = Field(default=100, ge=10, le=10_000)
    #: Maximum seconds from the first byte of a request to its last; then the connection is closed.
    receive_timeout_s: float = Field(default=15.0, gt=0)
    #: Maximum seconds that a connection stays open without a request.
    keep_alive_s: float = Field(default=75.0, gt=0)
    #: Maximum connections of each worker; requests on further ones get 503.
    max_connections: int = Field(default=10_000, ge=1)
    #: Minimum size of answers that are compressed, as Accept-Encoding allows (gzip; zstd with the extra ``zstd``);
    #: 0: no compression.
    compress_bytes: ByteSize = Field(default=ByteSize(8 << 10), ge=0)


class EngineSettings(Section):
    """The engine processes."""

    #: Number of engine processes, each with a part of the keys and of the memory (docs/shards.md).
    shards: int = Field(default=1, ge=1, le=64)
    #: Memory budget of engine state and leaf store, without the processes themselves.
    memory: ByteSize = ByteSize(1 << 30)
    #: Maximum rows of transactions applied in one step; reads wait at most for one step.
    step_rows: int = Field(default=500, ge=1)
    #: Estimated rows from which an initial load reads a table in slices beside other work; smaller tables are read by
    #: one lookup.
    load_rows: int = Field(default=5_000, ge=0)
    #: Seconds without a heartbeat after which a process that hangs (stopped, or waiting for memory) is ended and
    #: restarted; 0: never.
    watchdog_s: float = Field(default=10.0, ge=0)
    #: Directory of the leaf store and the sockets of a run. Default: shared memory.
    directory: Path | None = None

    @field_validator("directory")
    @classmethod
    def _short_enough(cls, directory: Path | None) -> Path | None:
        if directory is not None and len(os.fsencode(directory.absolute())) > LONGEST_DIRECTORY:
            raise ValueError(f"the path must have at most {LONGEST_DIRECTORY} bytes, since it contains sockets")
        return directory


class ShardSettings(Section):
    """The shard that this service is, if several services share the keys (docs/shards.md)."""

    #: Number of this shard, from 0 to `of` - 1.
    number: int = Field(default=0, ge=0)
    #: Number of shards.
    of: int = Field(default=1, ge=1, le=64)

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.number >= self.of:
            raise ValueError(f"number must be at most {self.of - 1}, since of is {self.of}: got {self.number}")
        return self


class SubscriptionSettings(Section):
    """Limits of subscriptions, for each worker."""

    #: Maximum open subscriptions; further requests get 429.
    subscribers: int = Field(default=10_000, ge=1)
    #: Maximum open subscriptions of one client, with [auth].
    client_subscribers: int = Field(default=2_500, ge=1)
    #: Maximum distinct answers with subscribers; a new one replaces one that lingers.
    topics: int = Field(default=10_000, ge=1)
    #: Maximum keys of these answers; the engine does not evict them.
    keys: int = Field(default=100_000, ge=1)
    #: Maximum size of an answer with subscribers.
    topic_bytes: ByteSize = ByteSize(4 << 20)
    #: Maximum memory of all answers and logs. Above it, the worker shortens logs, then ends subscriptions.
    memory: ByteSize = ByteSize(256 << 20)
    #: Maximum changes in an answer's log, from which subscribers resume.
    log_entries: int = Field(default=256, ge=1)
    #: Maximum size of an answer's log.
    log_bytes: ByteSize = ByteSize(1 << 20)
    #: Seconds that an answer is followed after its last subscriber has left.
    linger_s: float = Field(default=60.0, ge=0)
    #: Interval in seconds of the newest version to subscribers without changes.
    up_to_date_s: float = Field(default=15.0, gt=0)
    #: Maximum silence of an event stream in seconds; then a comment is sent, so that proxies do not close it.
    keep_alive_s: float = Field(default=15.0, gt=0)
    #: Maximum wait of a long poll in seconds.
    poll_s: float = Field(default=25.0, gt=0)
    #: Maximum subscriptions of one WebSocket.
    per_connection: int = Field(default=1000, ge=1)
    #: Origins (``https://app.example``) whose pages may open WebSockets, besides the service's own.
    origins: tuple[str, ...] = ()


class StateSettings(Section):
    """State that survives a restart."""

    #: Directory of views registered over HTTP, of files of loads and builds, of the checkpoint and of the hot keys.
    directory: Path = Path("upquery-state")
    #: Maximum seconds for writing a checkpoint of the cache when the service stops. The next start continues from it.
    #: 0: no checkpoint is written or used.
    checkpoint_s: float = Field(default=10.0, ge=0)
    #: Seconds between lists of the keys that are read most, which a start with an empty cache fills first.
    #: 0: no list is written or used.
    hot_keys_s: float = Field(default=10.0, ge=0)
    #: Maximum seconds that the first readiness of a process waits until these keys are filled, after all else that it
    #: waits for, and for which answers of the session before are used meanwhile. 0: it does not wait, and uses none.
    warm_timeout_s: float = Field(default=30.0, ge=0)
    #: The service will start again on this host with this directory. Required for checkpoints with PostgreSQL's slot:
    #: it then stays when the service stops, and the database keeps its log for it.
    persistent: bool = False


class LogSettings(Section):
    """The log, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    #: Milliseconds from which a request is logged as slow; 0: all requests that are not answered at once.
    slow_ms: float = Field(default=1000.0, ge=0)


class ViewSettings(OptionFields, Section):
    """A view of the configuration file, with its options."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$")
    sql: str = Field(min_length=1)
