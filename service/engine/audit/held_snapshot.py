"""A snapshot of the upstream that is held open while questions are asked at it.

Not here: how any database does that (`postgres`, `mysql`); bringing the engine to it (`service.engine.loop.hold`).
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
class Taken:
    """What a snapshot saw; all of that is in the stream by `bound`. `name`: others can import it under that."""

    snapshot: UpstreamSnapshot
    bound: int
    name: str = ""


class SnapshotReader(Protocol):
    """Asks at the snapshot, one question at a time."""

    async def ask(self, sql: str, parameters: Sequence[str | None]) -> tuple[list[Row], tuple[AnswerColumn, ...]]:
        """The rows of a query, and its columns. Raises UpstreamError; the next question can be asked all the same."""
        ...


class HeldSnapshots(Protocol):
    """One snapshot after the other, the last of which is kept."""

    #: Why Spark cannot read at it, if it cannot.
    alone: str | None

    async def take(self) -> Taken:
        """Let go of the last one, and take another. Raises UpstreamError."""
        ...

    def readers(self, most: int) -> AbstractAsyncContextManager[Sequence[SnapshotReader]]:
        """Up to so many that read at the last one. Raises UpstreamError."""
        ...


def open_held(settings: Settings, tables: Iterable[str]) -> tuple[Upstream, AbstractAsyncContextManager[HeldSnapshots]]:
    """An upstream of these settings, to be closed, and what holds a snapshot of it, of these tables."""
    upstream = open_upstream(settings)
    # What is not installed cannot be the upstream either.
    from service.engine.databases.postgres.upstream import PostgresUpstream

    if isinstance(upstream, PostgresUpstream):
        from service.engine.audit.postgres import holding

        return upstream, holding(upstream.pool, tables)
    from service.engine.audit.mysql import holding as mysql_holding
    from service.engine.databases.mysql.upstream import MySqlUpstream

    assert isinstance(upstream, MySqlUpstream)
    return upstream, mysql_holding(upstream.pool, tables)


__all__ = ["HeldSnapshots", "SnapshotReader", "Taken", "open_held"]
