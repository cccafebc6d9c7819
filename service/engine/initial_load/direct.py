"""Initial load over one connection of the engine process: the default way.

Not here: the reading by each database (`service.engine.databases.postgres.bulk_reads`,
`service.engine.databases.mysql.bulk_reads`).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.types import Position, Row, Snapshot
from service.engine.initial_load.way import OpenedWay, ProgressReport
from service.engine.upstream import bridge
from service.engine.upstream.upstream import Reading, Upstream


@dataclass(frozen=True, slots=True)
class DirectWay:
    """Implementation of `Way` that accepts every load."""

    upstream: Upstream

    @property
    def name(self) -> str:
        return "direct"

    def takes(self, lookups: Sequence[Lookup], catalog: Catalog, rows: float) -> bool:  # noqa: ARG002
        return True

    @asynccontextmanager
    async def open(
        self,
        lookups: Sequence[Lookup],
        catalog: Catalog,
        report: ProgressReport,  # noqa: ARG002
    ) -> AsyncIterator[OpenedWay]:
        """Connects and takes a snapshot. Raises `UpstreamError`."""
        async with self.upstream.reading(lookups, catalog) as reading:
            yield _Opened(reading)


@dataclass(frozen=True, slots=True)
class _Opened:
    """Implementation of `OpenedWay`."""

    reading: Reading

    @property
    def snapshot(self) -> Snapshot:
        return bridge.snapshot(self.reading.snapshot)

    @property
    def bound(self) -> Position:
        return self.reading.bound

    def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        return self.reading.batches(lookup)
