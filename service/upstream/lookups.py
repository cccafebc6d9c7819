"""Versioned lookups: rows together with which transactions they include (architecture §5)."""

from collections.abc import Sequence
from dataclasses import dataclass

from cdc.position import PostgresSnapshot
from dataflow.types import Row
from service.upstream.connect import UpstreamPool


@dataclass(slots=True)
class LookupRows:
    """Rows read at `snapshot`. All that it sees is in the stream by `bound`, an insert LSN; `flush` is how far the log
    was flushed then: the stream gets to `bound` by itself if ``bound <= flush``, else it may need a `Lookups.push`."""

    rows: list[Row]
    snapshot: PostgresSnapshot
    bound: int
    flush: int


@dataclass(slots=True)
class ForwardRows:
    """The rows of several queries at one snapshot, and for each query its column names."""

    rows: list[list[Row]]
    columns: list[tuple[str, ...]]
    snapshot: PostgresSnapshot
    bound: int
    flush: int


class Lookups:
    """Everything that is read upstream on behalf of views."""

    def __init__(self, pool: UpstreamPool) -> None:
        #: Statements run upstream so far, heartbeats and pushes included.
        self.statements = 0

    async def run(self, sql: str, arrays: Sequence[Sequence[str | None]]) -> LookupRows:
        """Run a lookup (`dataflow.plan.lookup`); `arrays` are its parameters $1, $2 …, one array of texts each.

        Raises UpstreamError.
        """
        raise NotImplementedError

    async def snapshot(self) -> LookupRows:
        """A version and no rows: the heartbeat. Raises UpstreamError."""
        raise NotImplementedError

    async def push(self) -> bool:
        """Write and flush a logical message, so that the stream passes every position handed out before.

        False: the role may not.
        """
        raise NotImplementedError

    async def forward(self, queries: Sequence[tuple[str, Sequence[str | None]]]) -> ForwardRows:
        """Run whole queries at one snapshot. Parameters $1, $2 … are texts whose types the server infers (or a cast in
        the SQL says); None is NULL. Raises UpstreamError."""
        raise NotImplementedError
