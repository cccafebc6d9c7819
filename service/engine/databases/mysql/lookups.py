"""Versioned lookups: rows together with the transactions that they include (ARCHITECTURE.md, "Versioned lookups").

A lookup is a transaction with a consistent snapshot of known visibility (`log_place`; for MySQL `bracketed_snapshot`).
Its statements are sent together, in one network round trip.

*Invariants*: everything that a result's snapshot may see is in the log up to its `bound`, which the stream reaches by
itself. The same holds for a statement that replaces a table between the snapshot and the SELECT: a snapshot covers
rows, but a table is found by its name when it is read (RENAME TABLE may put another one there). From then on its
definition is locked until the transaction ends, so the log's end after the SELECT is beyond that statement.

Not here: the SQL (`dataflow.lookups.mysql.lookup`).
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from cdc.gtid import GtidPosition, Gtids, GtidSet
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from cdc.stream import UpstreamSnapshot
from dataflow.lookups.mysql.lookup import lookup_columns, lookup_statement, semijoin_statements
from dataflow.plan.nodes import column_types
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.sql.mysql.parameter_values import fill
from dataflow.types import Key
from service.engine.databases.mysql.bracketed_snapshot import BracketQuestion
from service.engine.databases.mysql.bulk_reads import BATCH_ROWS
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.log_place import PlaceQuestion, VisiblePlace
from service.engine.databases.mysql.row_decoder import answer_columns, answer_rows, lookup_rows
from service.engine.databases.mysql.wire import ServerReply
from service.engine.upstream.results import (
    UNLIMITED,
    AnswerPart,
    AnswerSize,
    ForwardRows,
    LookupRows,
    UpstreamError,
)
from service.engine.upstream.stalls import stall_limit

#: The second attempt reads the visible place again; another server may have taken over.
_TRIES = 4


@dataclass(frozen=True, slots=True)
class SnapshotReplies:
    """Replies to statements that saw `snapshot`; `bound` is the end of the log after them. `stalled`: the server took
    too long."""

    replies: list[ServerReply]
    snapshot: BinlogSnapshot | BracketSnapshot
    bound: int
    stalled: bool


class MySqlLookups:
    """Implementation of `service.engine.upstream.upstream.Lookups`.

    `watermark`: qualified and quoted table that a push writes to, for change streams that do not advance by themselves;
    the operator of the stream creates it.
    """

    def __init__(self, pool: MySqlPool, watermark: str | None = None) -> None:
        self._pool = pool
        self._watermark = watermark
        self._visible = VisiblePlace()
        #: Statements run upstream so far, heartbeats and pushes included.
        self.statements = 0

    async def run(
        self, lookup: Lookup, catalog: Catalog, most: AnswerSize = UNLIMITED, stall_s: float | None = None
    ) -> LookupRows:
        read = await self.read(_statements(lookup, catalog), most=most, stall_s=stall_s)
        return _found([lookup], read, catalog)[0]

    async def run_round(
        self, lookups: Sequence[Lookup], catalog: Catalog, most: AnswerSize, stall_s: float
    ) -> list[LookupRows | None]:
        """All at one snapshot; if one fails, none has a result."""
        try:
            statements = [each for lookup in lookups for each in _statements(lookup, catalog)]
            read = await self.read(statements, most=most, stall_s=stall_s, ends=True)
        except UpstreamError:
            return [None] * len(lookups)
        return [*_found(lookups, read, catalog)]

    async def snapshot(self) -> LookupRows:
        """Takes the heartbeat's snapshot. It may see the whole log, including transactions that the stream has read
        ahead of their commit, so it may serve for a `TableJoined`. Raises UpstreamError."""
        read = await self.read([], compared=True)
        return LookupRows([], read.snapshot, read.bound, read.bound)

    async def settled(self, since: UpstreamSnapshot) -> bool:  # noqa: ARG002
        """Always False: a commit is in the log before it is visible, and the server does not report pending ones."""
        return False

    async def executed(self) -> Gtids:
        """Returns the global ids of all transactions in the log. Raises UpstreamError."""
        self.statements += 1
        async with self._pool.connection() as wire:
            assert self._pool.flavour is not None, "known since the first connection"
            mariadb = self._pool.flavour.dialect == "mariadb"
            reply = await wire.query(f"SELECT @@GLOBAL.{'gtid_binlog_pos' if mariadb else 'gtid_executed'}")
        text = str(reply.rows[0][0] or "")
        return GtidPosition.parse(text) if mariadb else GtidSet.parse(text)

    async def push(self) -> bool:
        """Writes to the watermark table. The binary log needs no push: its events are sent when they are written.

        Returns False without the right to write. Raises UpstreamError.
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

    async def forward(
        self, queries: Sequence[tuple[str, Sequence[str | None]]], most: AnswerSize = UNLIMITED
    ) -> ForwardRows:
        read = await self.read([fill(sql, parameters) for sql, parameters in queries], most=most)
        rows = [answer_rows(reply) for reply in read.replies]
        columns = [answer_columns(reply.columns) for reply in read.replies]
        return ForwardRows(rows, columns, read.snapshot, read.bound, read.bound, read.snapshot.position)

    async def stream(self, sql: str, parameters: Sequence[str | None]) -> AsyncGenerator[AnswerPart]:
        """Streams a query's rows on a connection outside the pool. Leaving early cancels the query with its connection.
        Raises UpstreamError."""
        self.statements += 1
        async with self._pool.apart() as wire:
            async for reply in wire.stream(fill(sql, parameters), BATCH_ROWS):
                yield answer_columns(reply.columns), answer_rows(reply)

    async def read(
        self,
        statements: Sequence[str],
        *,
        compared: bool = False,
        most: AnswerSize = UNLIMITED,
        stall_s: float | None = None,
        ends: bool = False,
    ) -> SnapshotReplies:
        """Runs statements at one snapshot, `compared` if other snapshots are compared with it. A server that is
        connected and sends nothing for `stall_s` has stalled. Raises UpstreamError, with `ends` also for that."""
        for _ in range(_TRIES):
            self.statements += 1 + len(statements)
            async with self._pool.connection() as wire:
                question = self._question(compared)
                async with stall_limit(wire.fileno, stall_s, ends=ends) as timer:
                    replies = await wire.ask(*question.statements(statements), most=most)
                found, snapshot, bound = question.answer(replies)
            if snapshot is not None:
                return SnapshotReplies(found, snapshot, bound, timer.has_stalled)
        raise UpstreamError("failed", "The server reported inconsistent binary-log positions.", retryable=True)

    def _question(self, compared: bool) -> PlaceQuestion | BracketQuestion:
        flavour = self._pool.flavour
        assert flavour is not None, "known since the first connection"
        return self._visible.question() if flavour.reports_places else BracketQuestion(flavour, compared)


def _statements(lookup: Lookup, catalog: Catalog) -> Sequence[str]:
    if lookup.semijoin is None:
        return [lookup_statement(lookup, catalog)]
    return semijoin_statements(lookup, lookup.semijoin, catalog)


def _found(lookups: Sequence[Lookup], read: SnapshotReplies, catalog: Catalog) -> list[LookupRows]:
    """Returns the results of lookups from the replies to `_statements`."""
    replies = iter(read.replies)
    found: list[LookupRows] = []
    for lookup in lookups:
        keys: list[Key] = []
        if lookup.semijoin is not None:
            types = column_types(lookup.semijoin.lookup.relation)
            keys = list(dict.fromkeys(lookup_rows(next(replies), [types[c] for c in lookup.semijoin.links])))
        rows = lookup_rows(next(replies), lookup_columns(lookup.relation, catalog))
        found.append(LookupRows(rows, read.snapshot, read.bound, read.bound, keys, read.stalled))
    return found
