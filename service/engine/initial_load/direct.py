"""Reads much itself, on one connection: the way that is always there.

Not here: how each database does it (`service.engine.databases.postgres.bulk_reads`,
`service.engine.databases.mysql.bulk_reads`).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.types import Position, Row, Snapshot
from service.engine.initial_load.way import OpenedWay, Told
from service.engine.upstream import bridge
from service.engine.upstream.upstream import Reading, Upstream


@dataclass(frozen=True, slots=True)
class DirectWay:
    """Is a `Way`."""

    upstream: Upstream

    @property
    def name(self) -> str:
        """``direct``."""
        return "direct"

    def takes(self, lookups: Sequence[Lookup], catalog: Catalog, rows: float) -> bool:  # noqa: ARG002
        """Any."""
        return True

    @asynccontextmanager
    async def open(self, lookups: Sequence[Lookup], catalog: Catalog, told: Told) -> AsyncIterator[OpenedWay]:  # noqa: ARG002
        """Connect, and take a snapshot. Raises `UpstreamError`."""
        async with self.upstream.reading(lookups, catalog) as reading:
            yield _Opened(reading)


@dataclass(frozen=True, slots=True)
class _Opened:
    """Is an `OpenedWay`."""

    reading: Reading

    @property
    def snapshot(self) -> Snapshot:
        """What the rows are as of."""
        return bridge.snapshot(self.reading.snapshot)

    @property
    def bound(self) -> Position:
        """All that the snapshot sees is in the stream by it."""
        return self.reading.bound

    def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        """The rows of one lookup. Raises `UpstreamError`."""
        return self.reading.batches(lookup)
