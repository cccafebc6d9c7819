"""Bulk reads: all rows of lookups at one exact snapshot, a bounded number at a time.

Each uses one transaction on a connection of its own. Backpressure is by TCP: the server sends rows only as fast as the
socket is read.

Not here: the snapshot (`exact_snapshot`), small lookups (`lookups`), their SQL (`dataflow.lookups.mysql.lookup`).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from dataflow.lookups.mysql.lookup import lookup_columns, lookup_statement
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.types import Row
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.exact_snapshot import TRIES, Exact, exact_snapshot
from service.engine.databases.mysql.row_decoder import lookup_rows
from service.engine.databases.mysql.wire import ConnectionBroken, ServerError, Wire

#: Maximum rows of a batch.
BATCH_ROWS = 2000


@dataclass(slots=True)
class MySqlReading:
    """Implementation of `service.engine.upstream.upstream.Reading`."""

    snapshot: Exact
    _wire: Wire
    _pool: MySqlPool
    _catalog: Catalog

    @property
    def bound(self) -> int:
        return self.snapshot.position

    async def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        """Yields the rows of one lookup; lookups run one after the other. Raises UpstreamError."""
        types = lookup_columns(lookup.relation, self._catalog)
        try:
            await self._leave()
            async for reply in self._wire.stream(lookup_statement(lookup, self._catalog), BATCH_ROWS):
                rows = lookup_rows(reply, types)
                for start in range(0, len(rows), BATCH_ROWS):
                    yield rows[start : start + BATCH_ROWS]
        except (ServerError, ConnectionBroken) as problem:
            raise self._pool.error(problem) from problem

    async def _leave(self) -> None:
        """Discards the rest of the previous lookup."""
        if self._wire.busy:
            await self._pool.kill(self._wire.thread_id)
            await self._wire.drop()


@asynccontextmanager
async def reading(pool: MySqlPool, catalog: Catalog, tries: int = TRIES) -> AsyncIterator[MySqlReading]:
    """Holds a snapshot for the block. Raises UpstreamError."""
    async with pool.apart() as wire:
        yield MySqlReading(await exact_snapshot(pool, wire, tries), wire, pool, catalog)
