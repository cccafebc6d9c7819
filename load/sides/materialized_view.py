"""The database's own materialized views, refreshed concurrently every few seconds, behind the same application."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from load import processes
from load.peers.configuration import PeerConfiguration
from load.sides.application import running_application
from load.sides.postgres import execute
from load.sides.side import Side, StartSide, UpstreamDatabase
from load.site import SiteDefinition

#: Of the materialized views.
_SCHEMA = "materialized"
_SIZE = "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c WHERE c.relnamespace = %s::regnamespace"


def materialized_view(refresh_s: float = 1.0) -> StartSide:
    """Refreshed so many seconds after the last refresh has ended. The state's bytes are those of its relations."""

    @contextmanager
    def start(upstream: UpstreamDatabase, site: SiteDefinition) -> Iterator[Side]:
        options = {"refresh_s": refresh_s, "schema": _SCHEMA}
        with (
            _schema(upstream.url),
            running_application(PeerConfiguration("materialized_view", site, upstream.url, options)) as app,
        ):
            yield Side(
                name=f"materialized view, {refresh_s:g} s",
                reads_url=app.url,
                writes_url=app.url,
                pids=lambda: [app.pid, *upstream.pids()],
                resident_bytes=lambda: processes.resident_bytes([app.pid]),
                state_bytes=lambda: _size(upstream.url),
            )

    return start


@contextmanager
def _schema(url: str) -> Iterator[None]:
    """A schema for them, dropped with all of them."""
    execute(url, f"CREATE SCHEMA {_SCHEMA}")
    try:
        yield
    finally:
        execute(url, f"DROP SCHEMA {_SCHEMA} CASCADE")


def _size(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_SIZE, [_SCHEMA]).fetchone()
    assert row is not None
    return int(row[0])
