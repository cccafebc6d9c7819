"""Versioned lookups: rows together with which transactions they include (ARCHITECTURE.md, "Versioned lookups").

A lookup is a transaction with a consistent snapshot, of which is known what it saw
(`log_place`; of MySQL `bracketed_snapshot`). Its statements
are sent together, so it waits for the network once.

*Invariants*: everything that a result's snapshot may see is in the log up to its `bound`, and the stream gets there by
itself. So is every statement that made another table of one that was read, between the snapshot and the SELECT: a
snapshot is one of rows, and a table is found by its name (RENAME TABLE puts another one there) when it is read. From
then on its definition is locked until the transaction ends, so the log's end after the SELECT is behind the statement.

Not here: the SQL inside (`dataflow.plan.mysql_lookup`).
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from cdc.gtid import GtidPosition, Gtids, GtidSet
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from cdc.stream import UpstreamSnapshot
from dataflow.plan.mysql_lookup import lookup_columns, lookup_statement
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.sql.parameter_values import fill
from service.engine.databases.mysql.bracketed_snapshot import BracketQuestion
from service.engine.databases.mysql.bulk_reads import BATCH_ROWS
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.log_place import PlaceQuestion, VisiblePlace
from service.engine.databases.mysql.row_decoder import answer_columns, answer_rows, lookup_rows
from service.engine.databases.mysql.wire import ServerReply
from service.engine.upstream.results import UNLIMITED, AnswerPart, AnswerSize, ForwardRows, LookupRows, UpstreamError

#: A second time, what is visible is asked for; another server may have taken the place of the one that was asked.
_TRIES = 4


@dataclass(frozen=True, slots=True)
class SnapshotReplies:
    """The replies to statements that saw `snapshot`; `bound` is where the log ended after them."""

    replies: list[ServerReply]
    snapshot: BinlogSnapshot | BracketSnapshot
    bound: int


class MySqlLookups:
    """Everything that is read upstream on behalf of views. Is `service.engine.upstream.upstream.Lookups`.

    `watermark`: a table, qualified and quoted, that a push writes to, for change streams that do not go on by
    themselves; it is made by whoever runs the stream.
    """

    def __init__(self, pool: MySqlPool, watermark: str | None = None) -> None:
        self._pool = pool
        self._watermark = watermark
        self._visible = VisiblePlace()
        #: Statements run upstream so far, heartbeats and pushes included.
        self.statements = 0

    async def run(self, lookup: Lookup, catalog: Catalog, most: AnswerSize = UNLIMITED) -> LookupRows:
        """The rows that the engine asks for. Raises UpstreamError."""
        read = await self.read([lookup_statement(lookup, catalog)], most=most)
        rows = lookup_rows(read.replies[0], lookup_columns(lookup.relation, catalog))
        return LookupRows(rows, read.snapshot, read.bound, read.bound)

    async def snapshot(self) -> LookupRows:
        """A version and no rows: the heartbeat. It may see all that the log has, also what the stream has read of it
        ahead of its commit, so it may be that of a `TableJoined`. Raises UpstreamError."""
        read = await self.read([], compared=True)
        return LookupRows([], read.snapshot, read.bound, read.bound)

    async def settled(self, since: UpstreamSnapshot) -> bool:  # noqa: ARG002
        """Never known: a commit is in the log before it is visible, and nothing says which ones are about to be."""
        return False

    async def executed(self) -> Gtids:
        """All transactions that are in the log by now, by their global ids. Raises UpstreamError."""
        self.statements += 1
        async with self._pool.connection() as wire:
            assert self._pool.flavour is not None, "known since the first connection"
            mariadb = self._pool.flavour.dialect == "mariadb"
            reply = await wire.query(f"SELECT @@GLOBAL.{'gtid_binlog_pos' if mariadb else 'gtid_executed'}")
        text = str(reply.rows[0][0] or "")
        return GtidPosition.parse(text) if mariadb else GtidSet.parse(text)

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

    async def forward(
        self, queries: Sequence[tuple[str, Sequence[str | None]]], most: AnswerSize = UNLIMITED
    ) -> ForwardRows:
        """Run whole queries at one snapshot, with the texts of their parameters $1, $2 …; None is NULL. Raises
        UpstreamError: ``too_large`` as soon as the answers are more than `most`."""
        read = await self.read([fill(sql, parameters) for sql, parameters in queries], most=most)
        rows = [answer_rows(reply) for reply in read.replies]
        columns = [answer_columns(reply.columns) for reply in read.replies]
        return ForwardRows(rows, columns, read.snapshot, read.bound, read.bound, read.snapshot.position)

    async def stream(self, sql: str, parameters: Sequence[str | None]) -> AsyncGenerator[AnswerPart]:
        """Run a query as `forward` does, on a connection beside the pool's, and yield what comes. Left before its end,
        the query is ended with its connection. Raises UpstreamError."""
        self.statements += 1
        async with self._pool.apart() as wire:
            async for reply in wire.stream(fill(sql, parameters), BATCH_ROWS):
                yield answer_columns(reply.columns), answer_rows(reply)

    async def read(
        self, statements: Sequence[str], *, compared: bool = False, most: AnswerSize = UNLIMITED
    ) -> SnapshotReplies:
        """The replies to statements of one snapshot, which others may be `compared` with. Raises UpstreamError."""
        for _ in range(_TRIES):
            self.statements += 1 + len(statements)
            async with self._pool.connection() as wire:
                question = self._question(compared)
                found, snapshot, bound = question.answer(await wire.ask(*question.statements(statements), most=most))
            if snapshot is not None:
                return SnapshotReplies(found, snapshot, bound)
        raise UpstreamError("failed", "The server reported inconsistent binary-log positions.", retryable=True)

    def _question(self, compared: bool) -> PlaceQuestion | BracketQuestion:
        flavour = self._pool.flavour
        assert flavour is not None, "known since the first connection"
        return self._visible.question() if flavour.dialect == "mariadb" else BracketQuestion(flavour, compared)
