"""The tables of the configuration file: every key, what it means, its default.

Not here: reading the file and the environment (`service.settings.stack`); what a setting does (its section's reader).
"""

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ByteSize, ConfigDict, Field, SecretStr, field_validator, model_validator

from service.settings.view_options import OptionFields

#: What a Unix socket's path (107 bytes) leaves of a directory for the run's own below it.
LONGEST_DIRECTORY = 70
#: Of the upstream's connections, those that lookups leave alone.
RESERVED_CONNECTIONS = 2


class Section(BaseModel):
    """A table of the TOML file."""

    #: Only the process that reads the file checks it; all others are given what was read.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


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
    #: Lookups in flight at once (and never more than connections are there; of one table two thirds), and keys of one
    #: lookup: a cold start must not flatten the upstream.
    lookups_in_flight: int = Field(default=16, ge=1)
    lookup_keys: int = Field(default=256, ge=1)
    #: A key of more rows, or of about more bytes, is not stored: the database answers its reads. Views may have lower
    #: limits of their own.
    limit_rows: int = Field(default=100_000, ge=1)
    limit_bytes: ByteSize = ByteSize(64 << 20)
    #: What the database answers of a read, or of a view that is refreshed, and is about larger is refused (413): it is
    #: held in memory until it is sent, several at a time.
    answer_bytes: ByteSize = ByteSize(64 << 20)

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
    #: Instead of a password in `url`. Without either, the upstream's is meant.
    password: SecretStr | None = None
    password_file: Path | None = None
    slot: Literal["temporary"] = "temporary"
    publication: str = Field(default="upquery", min_length=1, max_length=63)
    #: Run ``ALTER TABLE … REPLICA IDENTITY FULL`` for tables that views need, instead of refusing them.
    set_replica_identity: bool = False
    #: A transaction of more rows than this evicts what it touches instead of being applied row by row.
    transaction_rows: int = Field(default=200_000, ge=1)
    #: How often broken views are tried anew, and the catalog is compared even if it does not seem to have changed.
    #: (Whether it does is looked at once a second, or this often if that is less.)
    schema_check_s: float = Field(default=5.0, gt=0)
    #: A change stream in which nothing comes for so long is lost: the server is asked for signs of life all the time.
    silence_s: float = Field(default=30.0, ge=1)


class HttpSettings(Section):
    """The two ports."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    #: API worker processes.
    workers: int = Field(default=1, ge=1, le=256)
    admin_port: int = Field(default=8081, ge=0, le=65535)
    #: How long a read that missed may wait for its upquery.
    read_timeout_s: float = Field(default=5.0, gt=0)
    #: How long a request may wait that asks for more than that itself (``Prefer: wait=``).
    max_wait_s: float = Field(default=30.0, gt=0)
    #: Of each worker, requests that wait for the engine; more are refused (503), so that nothing queues without bound.
    waiting_reads: int = Field(default=1000, ge=1, le=4000)
    #: Of one client (its credentials, else its address), requests that wait at a worker; more are refused (429).
    #: Default: a quarter with [auth], else as many as there may be.
    client_waiting_reads: int | None = Field(default=None, ge=1)
    #: The largest body of a request, and the most keys that it may ask for.
    max_body_bytes: ByteSize = Field(default=ByteSize(1 << 20), ge=1024, le=64 << 20)
    max_keys: int = Field(default=1000, ge=1, le=100_000)
    #: The largest head of a request (its first line and all headers), and the most headers.
    max_head_bytes: ByteSize = Field(default=ByteSize(16 << 10), ge=1024, le=1 << 20)
    max_headers: int = Field(default=100, ge=10, le=10_000)
    #: How long a request may take from its first byte to its last; the connection is closed then.
    receive_timeout_s: float = Field(default=15.0, gt=0)
    #: How long a connection may stay open without a request.
    keep_alive_s: float = Field(default=75.0, gt=0)
    #: Connections of each worker; requests on further ones are refused (503).
    max_connections: int = Field(default=10_000, ge=1)
    #: Answers of at least so many bytes are compressed for clients that take it (gzip; zstd with the extra of that
    #: name); 0: none are.
    compress_bytes: ByteSize = Field(default=ByteSize(8 << 10), ge=0)


class EngineSettings(Section):
    """The engine processes."""

    #: Engine processes of this service, each with a part of the keys and of the memory (docs/shards.md).
    shards: int = Field(default=1, ge=1, le=64)
    #: Budget for engine state and leaf store together; the processes themselves come on top of it.
    memory: ByteSize = ByteSize(1 << 30)
    #: Rows of transactions applied in one step; reads wait at most for one step.
    step_rows: int = Field(default=500, ge=1)
    #: What is kept whole and has at least so many rows, by the database's estimate, is read in slices beside everything
    #: else; what has fewer, by one lookup.
    load_rows: int = Field(default=5_000, ge=0)
    #: A process of the service that does not run for so long (it was stopped, or waits for memory) is ended and started
    #: again; 0: none is.
    watchdog_s: float = Field(default=10.0, ge=0)
    #: Where a run keeps the leaf store and its sockets. Default: shared memory.
    directory: Path | None = None

    @field_validator("directory")
    @classmethod
    def _short_enough(cls, directory: Path | None) -> Path | None:
        if directory is not None and len(os.fsencode(directory.absolute())) > LONGEST_DIRECTORY:
            raise ValueError(f"the path is longer than {LONGEST_DIRECTORY} bytes, so sockets cannot be in it")
        return directory


class ShardSettings(Section):
    """Which shard this whole service is, where several services share the keys (docs/shards.md)."""

    #: 0, 1, …, below `of`.
    number: int = Field(default=0, ge=0)
    #: How many there are.
    of: int = Field(default=1, ge=1, le=64)

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.number >= self.of:
            raise ValueError(f"number is {self.number}; of {self.of} the last one is {self.of - 1}")
        return self


class SubscriptionSettings(Section):
    """Subscriptions, of each worker."""

    #: Beyond them, more are refused.
    subscribers: int = Field(default=10_000, ge=1)
    #: With [auth], those of one client.
    client_subscribers: int = Field(default=2_500, ge=1)
    #: Answers that are followed at once, whoever subscribes to them; a new one takes the place of one that lingers.
    topics: int = Field(default=10_000, ge=1)
    #: Keys of all of them together: while they are followed, the engine does not evict them.
    keys: int = Field(default=100_000, ge=1)
    #: The largest answer that may be subscribed to.
    topic_bytes: ByteSize = ByteSize(4 << 20)
    #: What all of them may take. A worker that has more shortens their logs, then ends subscriptions.
    memory: ByteSize = ByteSize(256 << 20)
    #: Changes of each answer that are remembered, for those who come back and those who are slow.
    log_entries: int = Field(default=256, ge=1)
    log_bytes: ByteSize = ByteSize(1 << 20)
    #: How long an answer is followed after its last subscriber has gone.
    linger_s: float = Field(default=60.0, ge=0)
    #: How often subscribers to whom nothing happens are told the newest version.
    up_to_date_s: float = Field(default=15.0, gt=0)
    #: A stream of events is never silent for longer: a comment is sent instead, which keeps proxies from ending it.
    keep_alive_s: float = Field(default=15.0, gt=0)
    #: The longest time for which a long poll waits.
    poll_s: float = Field(default=25.0, gt=0)
    #: Subscriptions over one WebSocket.
    per_connection: int = Field(default=1000, ge=1)
    #: Origins (``https://app.example``) whose pages may open WebSockets here, beside those that this server has served.
    origins: tuple[str, ...] = ()


class StateSettings(Section):
    """What survives a restart."""

    #: Views put over HTTP are kept here.
    directory: Path = Path("upquery-state")


class LogSettings(Section):
    """Logs go to standard error."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["text", "json"] = "text"
    #: Requests that are answered later than that are logged; 0: all that are not answered at once.
    slow_ms: float = Field(default=1000.0, ge=0)


class ViewSettings(OptionFields, Section):
    """A view of the configuration file, with its options."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$")
    sql: str = Field(min_length=1)
