"""Which database the upstream is, by its URL, and where its change stream comes from, by the settings.

Drivers are imported when they are needed: those of MariaDB and of Kafka are extras.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from cdc.change import StreamLost, TableLayout
from cdc.source import Source
from service.settings.errors import SettingsError
from service.settings.load import MYSQL_SCHEMES, Settings
from service.settings.secrets import connection_url, replication_password, upstream_password
from service.settings.sections import KafkaSettings
from service.upstream.upstream import Capture, Layouts, Lookups, Upstream
from service.upstream.words import Finding, UpstreamError

MakeSource = Callable[[Layouts], Source]


def open_upstream(settings: Settings) -> Upstream:
    """The upstream of these settings; connections are made when they are needed. Raises `SettingsError`."""
    is_mysql = urlsplit(settings.upstream.url).scheme in MYSQL_SCHEMES
    return _mysql(settings) if is_mysql else _postgres(settings)


def _postgres(settings: Settings) -> Upstream:
    from service.upstream.postgres.connect import UpstreamPool
    from service.upstream.postgres.lookups import Lookups
    from service.upstream.postgres.upstream import PostgresUpstream, slot_source

    upstream, cdc = settings.upstream, settings.cdc
    url = connection_url(upstream.url, upstream_password(upstream))
    pool = UpstreamPool(url, upstream.pool_size, upstream.statement_timeout_s, upstream.connect_timeout_s)
    lookups = Lookups(pool)
    if cdc.kafka is not None:
        make_source, capture = _debezium(cdc.kafka, lookups, cdc.transaction_rows)
        return PostgresUpstream(pool, lookups, make_source, cdc.publication, capture)
    replication_url = connection_url(cdc.url, replication_password(cdc, upstream)) if cdc.url else url
    make_source = slot_source(replication_url, cdc.publication, cdc.transaction_rows, cdc.silence_s)
    return PostgresUpstream(pool, lookups, make_source, cdc.publication, apart=cdc.url is not None)


def _mysql(settings: Settings) -> Upstream:
    try:
        from service.upstream.mysql.address import Address
        from service.upstream.mysql.connect import UpstreamPool
        from service.upstream.mysql.lookups import Lookups
        from service.upstream.mysql.upstream import MySqlUpstream, binlog_source
    except ImportError as missing:
        raise _extra("mysql", missing) from None

    upstream, cdc = settings.upstream, settings.cdc
    try:
        address = Address.parse(upstream.url, upstream_password(upstream))
        replication = Address.parse(cdc.url, replication_password(cdc, upstream)) if cdc.url else address
    except ValueError as problem:
        raise SettingsError(str(problem)) from None
    pool = UpstreamPool(address, upstream.pool_size, upstream.statement_timeout_s, upstream.connect_timeout_s)
    if cdc.kafka is not None:
        lookups = Lookups(pool, cdc.kafka.watermark_table)
        make_source, capture = _debezium(cdc.kafka, lookups, cdc.transaction_rows)
        return MySqlUpstream(pool, lookups, make_source, capture)
    make_source = binlog_source(replication, cdc.transaction_rows, upstream.connect_timeout_s, cdc.silence_s)
    return MySqlUpstream(pool, Lookups(pool), make_source, apart=cdc.url is not None)


def _debezium(kafka: KafkaSettings, lookups: Lookups, transaction_rows: int) -> tuple[MakeSource, Capture]:
    """Change streams of Debezium's topics, and the topics."""
    try:
        from cdc.debezium.source import DebeziumSource
        from service.upstream.topics import Topics, debezium_options
    except ImportError as missing:
        raise _extra("kafka", missing) from None
    options = debezium_options(kafka)

    async def take_snapshot() -> Any:
        try:
            return (await lookups.snapshot()).snapshot
        except UpstreamError as error:
            raise StreamLost(error.detail, error.retryable, error.hint) from None

    def make(layouts: Layouts) -> Source:
        return DebeziumSource(options, layouts, take_snapshot, transaction_rows)

    return make, Topics(options)


def _extra(name: str, missing: ImportError) -> SettingsError:
    return SettingsError(f"These settings need {missing.name}, which is not installed: pip install 'upquery[{name}]'.")


async def stream_findings(settings: Settings, layouts: Mapping[str, TableLayout], dialect: str) -> list[Finding]:
    """What the change stream itself shows of how it is set up, if that is not the database's own."""
    kafka = settings.cdc.kafka
    if kafka is None:
        return []
    try:
        from cdc.debezium import checks
        from service.upstream.topics import debezium_options
    except ImportError as missing:
        raise _extra("kafka", missing) from None
    kind = "postgres" if dialect == "postgres" else "mysql"
    found = await asyncio.to_thread(checks.stream_findings, debezium_options(kafka), layouts, kind)
    return [Finding(f.code, f.reason, f.fix, f.table, f.fatal) for f in found]
