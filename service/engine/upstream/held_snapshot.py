"""Interface of an upstream snapshot that is held open for queries.

Not here: implementations (`service.engine.databases`); bringing the engine to it (`service.engine.loop.hold`).
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from cdc.stream import UpstreamSnapshot
from dataflow.types import Row
from service.engine.upstream.results import AnswerColumn


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


__all__ = ["AuditSnapshot", "HeldSnapshots", "SnapshotReader"]
