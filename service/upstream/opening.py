"""Which database the upstream is, by its URL, and where its change stream comes from, by the settings."""

from dataflow.schema import Catalog
from service.settings import Settings, connection_url
from service.upstream.postgres.connect import UpstreamPool
from service.upstream.postgres.lookups import Lookups
from service.upstream.postgres.upstream import PostgresUpstream, slot_source
from service.upstream.upstream import Upstream
from service.upstream.words import Finding


def open_upstream(settings: Settings) -> Upstream:
    """The upstream of these settings; connections are made when they are needed. Raises `SettingsError`."""
    upstream, cdc = settings.upstream, settings.cdc
    lookups_url = connection_url(upstream.url, upstream)
    replication_url = connection_url(cdc.url, upstream) if cdc.url else lookups_url
    pool = UpstreamPool(lookups_url, upstream.pool_size, upstream.statement_timeout_s, upstream.connect_timeout_s)
    make_source = slot_source(replication_url, cdc.publication, cdc.transaction_rows)
    return PostgresUpstream(pool, Lookups(pool), make_source, cdc.publication)


async def stream_findings(settings: Settings, catalog: Catalog) -> list[Finding]:  # noqa: ARG001
    """What the change stream itself shows of how it is set up."""
    return []
