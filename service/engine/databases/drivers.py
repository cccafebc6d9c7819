"""Choice of the database by the upstream's URL, and of its change stream by the settings.

Drivers are imported on demand: those of MariaDB and of Kafka are extras.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from cdc.change import StreamLost, TableLayout
from cdc.debezium.identity_proofs import ReadIdentities
from cdc.debezium.place import SourceLog
from cdc.stream import ChangeStream, Layouts
from service.engine.databases.streams import MakeStream, binlog_stream, missing_extra, slot_stream
from service.engine.upstream.results import Finding, UpstreamError
from service.engine.upstream.upstream import Capture, Lookups, Upstream
from service.settings.database_url import is_mysql
from service.settings.errors import SettingsError
from service.settings.secrets import connection_url, upstream_password
from service.settings.sections import KafkaSettings
from service.settings.stack import Settings


def open_upstream(settings: Settings) -> Upstream:
    """Returns the upstream of these settings; it connects on demand. Raises `SettingsError`."""
    return _mysql(settings) if is_mysql(settings.upstream.url) else _postgres(settings)


def _postgres(settings: Settings) -> Upstream:
    from service.engine.databases.postgres.connect import PostgresPool
    from service.engine.databases.postgres.lookups import PostgresLookups
    from service.engine.databases.postgres.replica_identities import read_identities
    from service.engine.databases.postgres.source_log import PostgresLog
    from service.engine.databases.postgres.upstream import PostgresUpstream

    upstream, cdc = settings.upstream, settings.cdc
    url = connection_url(upstream.url, upstream_password(upstream))
    pool = PostgresPool(url, upstream.pool_size, upstream.statement_timeout_s, upstream.connect_timeout_s)
    lookups = PostgresLookups(pool)
    if cdc.kafka is not None:
        source_log = PostgresLog(pool, lookups)
        identities = partial(read_identities, pool)
        make_stream, capture = _debezium(cdc.kafka, lookups, cdc.transaction_rows, source_log, identities)
        return PostgresUpstream(pool, lookups, make_stream, cdc.publication, capture, False, cdc.set_replica_identity)
    apart = cdc.url is not None
    return PostgresUpstream(
        pool, lookups, slot_stream(settings), cdc.publication, None, apart, cdc.set_replica_identity
    )


def _mysql(settings: Settings) -> Upstream:
    try:
        from service.engine.databases.mysql.address import Address
        from service.engine.databases.mysql.connect import MySqlPool
        from service.engine.databases.mysql.lookups import MySqlLookups
        from service.engine.databases.mysql.upstream import MySqlUpstream
    except ImportError as missing:
        raise missing_extra("mysql", missing) from None

    upstream, cdc = settings.upstream, settings.cdc
    try:
        address = Address.parse(upstream.url, upstream_password(upstream))
    except ValueError as problem:
        raise SettingsError(str(problem)) from None
    pool = MySqlPool(address, upstream.pool_size, upstream.statement_timeout_s, upstream.connect_timeout_s)
    if cdc.kafka is not None:
        lookups = MySqlLookups(pool, cdc.kafka.watermark_table)
        make_stream, capture = _debezium(cdc.kafka, lookups, cdc.transaction_rows)
        return MySqlUpstream(pool, lookups, make_stream, capture)
    return MySqlUpstream(pool, MySqlLookups(pool), binlog_stream(settings), apart=cdc.url is not None)


def _debezium(
    kafka: KafkaSettings,
    lookups: Lookups,
    transaction_rows: int,
    source_log: SourceLog | None = None,
    identities: ReadIdentities | None = None,
) -> tuple[MakeStream, Capture]:
    """Returns the factory of change streams from Debezium's topics, and the topics. `source_log`: the database's,
    if a restart may continue them (not MariaDB's: the topics lack DDL, and its catalog does not tell a table from one
    that was created again); `identities`: reader of replica identities, for databases that have them."""
    try:
        from cdc.debezium.stream import DebeziumStream
        from service.engine.databases.topics import Topics, debezium_options
    except ImportError as missing:
        raise missing_extra("kafka", missing) from None
    options = debezium_options(kafka)

    async def take_snapshot() -> Any:
        try:
            return (await lookups.snapshot()).snapshot
        except UpstreamError as error:
            raise StreamLost(error.detail, error.retryable, error.hint) from None

    def make(layouts: Layouts) -> ChangeStream:
        return DebeziumStream(
            options, layouts, take_snapshot, transaction_rows, read_identities=identities, source_log=source_log
        )

    return make, Topics(options)


async def stream_findings(settings: Settings, layouts: Mapping[str, TableLayout], dialect: str) -> list[Finding]:
    """Returns findings about the change stream's configuration, for a stream other than the database's own."""
    kafka = settings.cdc.kafka
    if kafka is None:
        return []
    try:
        from cdc.debezium import checks
        from service.engine.databases.topics import debezium_options
    except ImportError as missing:
        raise missing_extra("kafka", missing) from None
    found = await asyncio.to_thread(checks.stream_findings, debezium_options(kafka), layouts, dialect)
    return [Finding(f.code, f.reason, f.fix, f.table, f.fatal) for f in found]
