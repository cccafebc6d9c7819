"""Interface of an upstream snapshot that is held open for queries.

Not here: implementations (`postgres`, `mysql`); bringing the engine to it (`service.engine.loop.hold`).
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from cdc.stream import UpstreamSnapshot
from dataflow.types import Row
from service.engine.databases.drivers import open_upstream
from service.engine.upstream.results import AnswerColumn
from service.engine.upstream.upstream import Upstream
from service.settings.stack import Settings


@dataclass(frozen=True, slots=True)
class AuditSnapshot:
    """Visibility of a snapshot, all of which is in the stream by `bound`. Other sessions can import it as `name`."""

    snapshot: UpstreamSnapshot
    bound: int
    name: str = ""


class SnapshotReader(Protocol):
    """Runs queries at the snapshot, one at a time."""

    async def ask(self, sql: str, parameters: Sequence[str | None]) -> tuple[list[Row], tuple[AnswerColumn, ...]]:
        """Returns the rows of a query, and its columns. Raises UpstreamError, after which further queries are
        possible."""
        ...


class HeldSnapshots(Protocol):
    """Successive snapshots, of which the latest is held."""

    #: Reason why Spark cannot read at it, if any.
    alone: str | None

    async def take(self) -> AuditSnapshot:
        """Releases the latest snapshot and takes another. Raises UpstreamError."""
        ...

    def readers(self, most: int) -> AbstractAsyncContextManager[Sequence[SnapshotReader]]:
        """Opens at most `most` readers at the latest snapshot. Raises UpstreamError."""
        ...


def open_held(settings: Settings, tables: Iterable[str]) -> tuple[Upstream, AbstractAsyncContextManager[HeldSnapshots]]:
    """Returns an upstream of these settings, which the caller closes, and a holder of snapshots of these tables."""
    upstream = open_upstream(settings)
    # A driver that is not installed cannot be the upstream's.
    from service.engine.databases.postgres.upstream import PostgresUpstream

    if isinstance(upstream, PostgresUpstream):
        from service.engine.audit.postgres import holding

        return upstream, holding(upstream.pool, tables)
    from service.engine.audit.mysql import holding as mysql_holding
    from service.engine.databases.mysql.upstream import MySqlUpstream

    assert isinstance(upstream, MySqlUpstream)
    return upstream, mysql_holding(upstream.pool, tables)


__all__ = ["AuditSnapshot", "HeldSnapshots", "SnapshotReader", "open_held"]
