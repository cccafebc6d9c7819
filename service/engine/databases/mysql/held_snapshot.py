"""Held snapshot of MariaDB or MySQL: it belongs to one connection, which is the only reader.

Not here: its visibility (`log_place`, `bracketed_snapshot`).
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from dataflow.sql.mysql.parameter_values import fill
from dataflow.types import Row
from service.engine.databases.mysql.bracketed_snapshot import BracketQuestion
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.log_place import END, PlaceQuestion, VisiblePlace
from service.engine.databases.mysql.row_decoder import answer_columns, answer_rows
from service.engine.databases.mysql.wire import ConnectionBroken, ServerError, Wire
from service.engine.upstream.held_snapshot import AuditSnapshot
from service.engine.upstream.results import AnswerColumn, UpstreamError

_TRIES = 4


class HeldMySql:
    """Implementation of `HeldSnapshots`, and its only `SnapshotReader`."""

    alone: str | None = "a snapshot of MariaDB or MySQL belongs to one connection, which Spark's tasks could not share"

    def __init__(self, pool: MySqlPool, wire: Wire) -> None:
        self._pool = pool
        self._wire = wire

    async def take(self) -> AuditSnapshot:
        try:
            for _ in range(_TRIES):
                await self._wire.query(END)
                question = self._question()
                *begun, _ = question.statements([])
                replies = await self._wire.ask(*begun)
                # Omit the transaction's end and its reply.
                _, snapshot, _ = question.answer([*replies, replies[-1]])
                if snapshot is not None:
                    return AuditSnapshot(snapshot, snapshot.position)
        except (ServerError, ConnectionBroken) as problem:
            raise self._pool.error(problem) from None
        raise UpstreamError("failed", "The server reported inconsistent binary-log positions.", retryable=True)

    def _question(self) -> PlaceQuestion | BracketQuestion:
        flavour = self._pool.flavour
        assert flavour is not None, "known since the first connection"
        return VisiblePlace().question() if flavour.reports_places else BracketQuestion(flavour, compared=False)

    @asynccontextmanager
    async def readers(self, most: int) -> AsyncIterator[Sequence["HeldMySql"]]:
        del most
        yield [self]

    async def ask(self, sql: str, parameters: Sequence[str | None]) -> tuple[list[Row], tuple[AnswerColumn, ...]]:
        """Returns the rows of a query. A failed query leaves the transaction intact."""
        try:
            reply = await self._wire.query(fill(sql, parameters))
        except (ServerError, ConnectionBroken) as problem:
            raise self._pool.error(problem) from None
        return answer_rows(reply), answer_columns(reply.columns)


@asynccontextmanager
async def holding(pool: MySqlPool, tables: Iterable[str]) -> AsyncIterator[HeldMySql]:
    """Holds snapshots for the block. The server refuses to read tables altered meanwhile."""
    del tables
    async with pool.apart() as wire:
        yield HeldMySql(pool, wire)
