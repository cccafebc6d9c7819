"""Versioned lookups: rows together with which transactions they include (architecture §5).

A lookup is a transaction with a consistent snapshot, which knows its place in the binary log (`place`). Its statements
are sent together, so it waits for the network once.

*Invariants*: everything that a result's snapshot sees is in the log up to its `bound`, and the log says so by itself.

Not here: the SQL inside (`dataflow.plan.mysql_lookup`), servers without such snapshots (`bracket`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from cdc.mysql.position import BinlogSnapshot, position_of
from dataflow.engine.effects import Lookup
from dataflow.plan.mysql_lookup import lookup_columns, lookup_statement
from dataflow.schema import Catalog
from dataflow.sql.filling import fill
from service.upstream.mysql.answers import answer_columns, answer_rows, lookup_rows
from service.upstream.mysql.connect import UpstreamPool
from service.upstream.mysql.place import BEGIN, END, END_OF_LOG, PLACE, snapshot_of
from service.upstream.mysql.wire import Reply
from service.upstream.words import ForwardRows, LookupRows, UpstreamError

#: A transaction is in the log for a moment before snapshots see it: that long, and no longer than a slow disk takes.
_RETRY_S, _TRIES = 0.005, 1000


@dataclass(frozen=True, slots=True)
class Read:
    """The replies to statements that saw `snapshot`."""

    replies: list[Reply]
    snapshot: BinlogSnapshot


class Lookups:
    """Everything that is read upstream on behalf of views. Is `service.upstream.upstream.Lookups`.

    `watermark`: a table, qualified and quoted, that a push writes to, for change streams that do not go on by
    themselves; it is made by whoever runs the stream.
    """

    def __init__(self, pool: UpstreamPool, watermark: str | None = None) -> None:
        self._pool = pool
        self._watermark = watermark
        #: Statements run upstream so far, heartbeats and pushes included.
        self.statements = 0

    async def run(self, lookup: Lookup, catalog: Catalog) -> LookupRows:
        """The rows that the engine asks for. Raises UpstreamError."""
        read = await self.read([lookup_statement(lookup, catalog)])
        rows = lookup_rows(read.replies[0], lookup_columns(lookup.relation, catalog))
        return LookupRows(rows, read.snapshot, read.snapshot.position, read.snapshot.position)

    async def snapshot(self) -> LookupRows:
        """A version and no rows: the heartbeat. It sees all that was in the log before, also what the stream may have
        read of it ahead of its commit, so it may be that of a `TableJoined`. Raises UpstreamError."""
        log_end: int | None = None
        for _ in range(_TRIES):
            self.statements += 2
            async with self._pool.connection() as wire:
                ended, begun, place, done = await wire.ask(END_OF_LOG, BEGIN, PLACE, END)
                for reply in (begun, place, done):
                    if reply.error is not None:
                        raise reply.error
            position = snapshot_of(place).position
            # Who may not ask is not told; the doctor says so.
            if log_end is None and ended.error is None and ended.rows:
                log_end = position_of(str(ended.rows[0][0]), int(str(ended.rows[0][1])))
            if log_end is None or position >= log_end:
                return LookupRows([], BinlogSnapshot(position), position, position)
            await asyncio.sleep(_RETRY_S)
        raise UpstreamError(
            "timeout", "A transaction that is in the binary log does not get committed.", retryable=True
        )

    async def push(self) -> bool:
        """Write to the watermark table. The binary log needs none: its events are sent when they are written.

        False: the role may not. Raises UpstreamError.
        """
        if self._watermark is None:
            return True
        self.statements += 1
        statement = f"INSERT INTO {self._watermark} (id, n) VALUES (1, 1) ON DUPLICATE KEY UPDATE n = n + 1"
        try:
            async with self._pool.connection() as wire:
                await wire.query(statement)
        except UpstreamError as error:
            if error.code != "denied":
                raise
            return False
        return True

    async def forward(self, queries: Sequence[tuple[str, Sequence[str | None]]]) -> ForwardRows:
        """Run whole queries at one snapshot, with the texts of their parameters $1, $2 …; None is NULL. Raises
        UpstreamError."""
        read = await self.read([fill(sql, parameters) for sql, parameters in queries])
        rows = [answer_rows(reply) for reply in read.replies]
        columns = [answer_columns(reply.columns) for reply in read.replies]
        return ForwardRows(rows, columns, read.snapshot, read.snapshot.position, read.snapshot.position)

    async def read(self, statements: Sequence[str]) -> Read:
        """The replies to statements of one snapshot. Raises UpstreamError."""
        self.statements += 1 + len(statements)
        async with self._pool.connection() as wire:
            begun, place, *replies, ended = await wire.ask(BEGIN, PLACE, *statements, END)
            for reply in (begun, place, *replies, ended):
                if reply.error is not None:
                    raise reply.error
        return Read(replies, snapshot_of(place))
