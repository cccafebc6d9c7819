"""Versioned lookups: rows together with the transactions that they include (ARCHITECTURE.md, "Versioned lookups").

A lookup, or a forwarded query, is one READ COMMITTED statement and thus one snapshot, which it returns beside the rows,
or once without rows. Values come in the text format of the wire protocol, from the same output functions as the
stream's. (Not ``::text``, which prints booleans and padded characters differently.)

*Theory*: a table rewritten by TRUNCATE or ALTER is empty for older snapshots (PostgreSQL manual, 13.6). The server
locks a statement's tables while it analyzes and plans it, and takes its snapshot when it runs it, so the tables of one
statement are locked before its snapshot. Several queries at one snapshot do not have this property; they are repeated
if a relation that they locked differs from that of their snapshot (`_REPLACED`).

*Invariants*: everything that a result's snapshot sees committed at or before its `bound`; no snapshot is older than the
locks on the tables read under it.

Not here: the SQL (`dataflow.lookups.postgres`), waiting for the bound (the engine), reaching it
(`service.engine.loop.pushes`).
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import is_, itemgetter
from typing import Any, Self

from psycopg import AsyncConnection
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.types.string import TextLoader

from cdc.postgres.position import PostgresSnapshot, parse_lsn
from cdc.stream import UpstreamSnapshot
from dataflow.functions import arrays
from dataflow.lookups.postgres.lookup import Argument, lookup_arguments, lookup_sql, semijoin_sql
from dataflow.plan.nodes import Aggregate, Chain, table_of
from dataflow.plan.parts import Lookup, tables_of
from dataflow.schema import Catalog, Table
from dataflow.types import Columns, Row
from service.engine.databases.postgres.connect import CANCEL_S, PostgresPool
from service.engine.databases.postgres.open_transactions import UNDECIDED
from service.engine.databases.postgres.statements import CHUNK_ROWS, PreparedStatements
from service.engine.upstream.results import (
    UNLIMITED,
    AnswerCount,
    AnswerPart,
    AnswerSize,
    ForwardRows,
    LookupRows,
    UpstreamError,
)
from service.engine.upstream.stalls import StallTimer, stall_limit

#: Snapshot, and positions of the log at that time.
VERSION = (
    "pg_catalog.pg_current_snapshot()::text AS s, pg_catalog.pg_current_wal_insert_lsn()::text AS l, "
    "pg_catalog.pg_current_wal_flush_lsn()::text AS f"
)
#: A query that runs once is planned for its parameters, unlike lookups.
_ONCE = "SET TRANSACTION READ ONLY; SET LOCAL plan_cache_mode = auto"
_TOGETHER = f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; {_ONCE}"
#: Locked relations whose file, name or partitions differ from the transaction's snapshot: catalog tables are read at
#: the snapshot, catalog functions return the current state.
_REPLACED = """
SELECT count(*) FROM pg_catalog.pg_lock_status() l
     LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE l.locktype = 'relation' AND l.pid = pg_catalog.pg_backend_pid()
  AND (c.oid IS NULL OR (c.relfilenode <> 0 AND c.relfilenode <> pg_catalog.pg_relation_filenode(c.oid))
       OR pg_catalog.format('%I.%I', n.nspname, c.relname)
          <> (pg_catalog.pg_identify_object('pg_catalog.pg_class'::regclass, c.oid, 0)).identity
       OR c.relkind = 'p' AND ARRAY(
           SELECT i.inhrelid FROM pg_catalog.pg_inherits i
           WHERE i.inhparent = c.oid AND NOT i.inhdetachpending ORDER BY 1)
          <> ARRAY(SELECT t.relid::oid FROM pg_catalog.pg_partition_tree(c.oid) t WHERE t.level = 1 ORDER BY 1))
"""
#: Attempts to run several queries at one snapshot while tables are rewritten.
_TRIES = 5
#: Next transaction id, of 32 bits, computed from an age, which does not consume an id.
_NEXT_XID = "(pg_catalog.age('3'::pg_catalog.xid)::int8 + 3) & 4294967295"
#: `present` distinguishes no rows from a row of NULLs.
_VERSIONED = (
    f"SELECT v.*, r.* FROM (SELECT {VERSION}) v LEFT JOIN (SELECT true AS present, q.* FROM (\n%s\n) q) r ON true"
)
_PRESENT = 3
_FIRST = 4
#: Maximum cached lookup texts.
KEPT_STATEMENTS = 1000


#: What the text of a lookup depends on, with its table: of a semijoin, also the other relation, its key, and the links.
_Statement = tuple[Chain | Aggregate, Columns, tuple[Chain | Aggregate, Columns, Columns] | None]


class _TextContext:
    """psycopg context that loads every value of any type as its text."""

    def __init__(self) -> None:
        self.adapters = AdaptersMap()
        self.adapters.register_loader(0, TextLoader)
        self.connection = None


class PostgresLookups:
    """All upstream reads on behalf of views.

    *State*: `can_push`, None until the first push.
    """

    def __init__(self, pool: PostgresPool) -> None:
        self._pool = pool
        self._statements = PreparedStatements()
        #: Statements run upstream so far, heartbeats and pushes included.
        self.statements = 0
        #: True if the role may write logical messages; None if untested.
        self.can_push: bool | None = None
        #: Statements of lookups by keys, with the tables as they were; partial ranges are too many to be cached.
        self._kept: dict[_Statement, tuple[list[Table], str]] = {}

    async def run(
        self, lookup: Lookup, catalog: Catalog, most: AnswerSize = UNLIMITED, stall_s: float | None = None
    ) -> LookupRows:
        found = await self._run_versioned(self._statement(lookup, catalog), lookup_arguments(lookup), most, stall_s)
        return _divided(lookup, found)

    async def run_round(
        self, lookups: Sequence[Lookup], catalog: Catalog, most: AnswerSize, stall_s: float
    ) -> list[LookupRows | None]:
        """Statements of a table whose first one has not ended after `stall_s`, since it is locked, are cancelled."""
        requests = [(self._statement(lookup, catalog), _parameters(lookup_arguments(lookup))) for lookup in lookups]
        self.statements += len(lookups)
        found = [_StatementRows() for _ in lookups]
        counts = [AnswerCount(most) for _ in lookups]
        failed: set[int] = set()
        tables = [tables_of(lookup) for lookup in lookups]
        async with (
            self._pool.connection() as connection,
            _Stalls(connection, tables, stall_s) as stalls,
            aclosing(self._statements.pipeline(connection, requests)) as results,
        ):
            async for at, result in results:
                if result is None:
                    stalls.ended(at)
                elif result.status == ExecStatus.FATAL_ERROR:
                    failed.add(at)
                elif at not in failed and found[at].add(result, counts[at]) is not None:
                    failed.add(at)
                    stalls.cancel()
        return [
            None if at in failed else _divided(lookup, LookupRows(each.rows, *each.version))
            for at, (lookup, each) in enumerate(zip(lookups, found, strict=True))
        ]

    def _statement(self, lookup: Lookup, catalog: Catalog) -> str:
        if lookup.part is not None:
            return _VERSIONED % lookup_sql(lookup.relation, lookup.columns, catalog, lookup.part)
        tables = [catalog.tables[table_of(lookup.relation)]]
        semijoin = lookup.semijoin
        joined = None
        if semijoin is not None:
            joined = (semijoin.lookup.relation, semijoin.lookup.columns, semijoin.links)
            tables.append(catalog.tables[table_of(semijoin.lookup.relation)])
        at = (lookup.relation, lookup.columns, joined)
        kept = self._kept.get(at)
        # A relation does not contain the names of a table's columns.
        if kept is None or not all(map(is_, kept[0], tables)):
            if len(self._kept) >= KEPT_STATEMENTS:
                self._kept.clear()
            if semijoin is None:
                sql = lookup_sql(lookup.relation, lookup.columns, catalog)
            else:
                sql = semijoin_sql(lookup.relation, lookup.columns, catalog, semijoin)
            kept = self._kept[at] = (tables, _VERSIONED % sql)
        return kept[1]

    async def run_statement(self, sql: str, arguments: Sequence[Argument], most: AnswerSize = UNLIMITED) -> LookupRows:
        """Runs a lookup (`dataflow.lookups.postgres`) with the parameters $1, $2 …: each a text, or an array of texts.

        Raises UpstreamError.
        """
        return await self._run_versioned(_VERSIONED % sql, arguments, most)

    async def _run_versioned(
        self, statement: str, arguments: Sequence[Argument], most: AnswerSize, stall_s: float | None = None
    ) -> LookupRows:
        self.statements += 1
        async with self._pool.connection() as connection:
            chunks = self._statements.chunks(connection, statement, _parameters(arguments))
            async with stall_limit(connection.pgconn.socket, stall_s, ends=False) as timer:
                found = await _gathered(connection, chunks, AnswerCount(most))
        return LookupRows(found.rows, *found.version, stalled=timer.has_stalled)

    async def snapshot(self) -> LookupRows:
        """Takes the heartbeat's snapshot. It has a horizon, so it may serve for a `TableJoined`. Raises
        UpstreamError."""
        result = await self._run(f"SELECT {VERSION}, {_NEXT_XID}")
        row = rows_of(result, 0, 1)[0]
        _, bound, flush = version_of(row)
        snapshot = PostgresSnapshot.parse(str(row[0]), int(str(row[3])))
        return LookupRows([], snapshot, bound, flush)

    async def settled(self, since: UpstreamSnapshot) -> bool:
        assert isinstance(since, PostgresSnapshot)
        asked = await self._run(UNDECIDED)
        undecided = [row[0] for row in rows_of(asked, 0, asked.ntuples)]
        # Taken later: it sees everything that has ended meanwhile.
        snapshot = PostgresSnapshot.parse(str(rows_of(await self._run(f"SELECT {VERSION}"), 0, 1)[0][0]))
        return None not in undecided and snapshot.decided(since, [int(str(xid)) for xid in undecided])

    async def executed(self) -> None:
        """Returns None: PostgreSQL's transactions have no server-independent ids."""

    async def push(self) -> bool:
        """Writes and flushes a logical message, so that the stream passes every position returned before.

        Returns False without the right; the stream then advances with the next flushed commit. Raises UpstreamError.
        """
        try:
            await self._run("SELECT pg_catalog.pg_logical_emit_message(true, 'upquery', '')")
        except UpstreamError as error:
            if error.code != "denied":
                raise
            self.can_push = False
            return False
        self.can_push = True
        return True

    async def forward(
        self, queries: Sequence[tuple[str, Sequence[str | None]]], most: AnswerSize = UNLIMITED
    ) -> ForwardRows:
        """Runs whole queries at one snapshot. Parameters $1, $2 … are texts whose types are inferred by the server or
        given by a cast; None is NULL. Raises UpstreamError: ``too_large`` as soon as the results exceed `most`."""
        if len(queries) > 1:
            return await self._forward_together(queries, most)
        ((sql, parameters),) = queries
        async with self._transaction(_ONCE) as connection:
            found = await self._once(connection, AnswerCount(most), _VERSIONED % sql, parameters)
        return ForwardRows([found.rows], [found.columns], *found.version)

    async def stream(self, sql: str, parameters: Sequence[str | None]) -> AsyncGenerator[AnswerPart]:
        """Streams a query's rows on a connection outside the pool. Leaving early cancels the query with its connection.
        Raises UpstreamError."""
        self.statements += 1
        async with self._pool.apart() as connection:
            await connection.execute(b"BEGIN")
            await connection.execute(_ONCE.encode())
            async for result in self._statements.chunks_once(connection, sql, parameters):
                if result.status == ExecStatus.FATAL_ERROR:
                    raise error_from_result(result)
                yield columns_of(result), rows_of(result, 0, result.ntuples)

    async def _forward_together(
        self, queries: Sequence[tuple[str, Sequence[str | None]]], most: AnswerSize
    ) -> ForwardRows:
        for _ in range(_TRIES):
            async with self._transaction(_TOGETHER) as connection:
                counted, ours = AnswerCount(most), AnswerCount(UNLIMITED)
                once = partial(self._once, connection, first=0)
                # The transaction's first query takes its snapshot; the insert LSN is read after that.
                version = await once(ours, f"SELECT {VERSION}")
                found = [await once(counted, sql, parameters) for sql, parameters in queries]
                replaced = await once(ours, _REPLACED)
            if replaced.rows == [("0",)]:
                return ForwardRows([each.rows for each in found], [each.columns for each in found], *version.version)
        raise UpstreamError(
            "failed", "The lookup was repeated too often, since its tables are rewritten continuously.", retryable=True
        )

    async def _once(
        self,
        connection: AsyncConnection,
        counted: AnswerCount,
        statement: str,
        parameters: Sequence[str | None] = (),
        first: int = _FIRST,
    ) -> "_StatementRows":
        self.statements += 1
        return await _gathered(
            connection, self._statements.chunks_once(connection, statement, parameters), counted, first
        )

    @asynccontextmanager
    async def _transaction(self, settings: str) -> AsyncIterator[AsyncConnection]:
        """Runs a transaction that is rolled back, to undo changes of the session by functions."""
        async with self._pool.connection(foreign=True) as connection, connection.transaction(force_rollback=True):
            await connection.execute(settings.encode())
            try:
                yield connection
            finally:
                # A rollback is impossible while a statement runs.
                await self._pool.end_if_busy(connection)

    async def _run(self, statement: str, parameters: Sequence[str | None] = ()) -> PGresult:
        self.statements += 1
        async with self._pool.connection() as connection:
            return await self._statements.run(connection, statement, parameters)


#: One for all results: it looks a type's loader up once.
_TEXTS = Transformer(_TextContext())


@dataclass(slots=True)
class _StatementRows:
    """Rows of a statement, from column `first` on. `head`: the first row, whole."""

    first: int = _FIRST
    rows: list[Row] = field(default_factory=list)
    head: Row = ()
    _described: PGresult | None = None

    @property
    def version(self) -> tuple[PostgresSnapshot, int, int]:
        """Snapshot, insert LSN and flush LSN, from the columns of `VERSION`."""
        return version_of(self.head)

    @property
    def columns(self) -> tuple[tuple[str, int], ...]:
        """Names and type OIDs of the columns, once there was a result."""
        return () if self._described is None else columns_of(self._described)[self.first :]

    def add(self, result: PGresult, counted: AnswerCount) -> UpstreamError | None:
        """Adds rows of a result. Returns the error of too many, which are dropped."""
        if self._described is None:
            self._described = result
        if not result.ntuples:
            return None
        if not self.head:
            self.head = rows_of(result, 0, 1)[0]
        if self.first and self.head[_PRESENT] is None:
            return None
        rows = rows_of(result, 0, result.ntuples, self.first)
        self.rows += rows
        problem = counted.add(rows)
        if problem is not None:
            self.rows.clear()
        return problem


class _Stalls:
    """Cancels the running statement of a round when it makes no progress, which then is that of a locked table, and
    further statements of this table as soon as they run.

    A cancellation that comes late may hit the next statement instead.
    """

    def __init__(self, connection: AsyncConnection, tables: Sequence[frozenset[str]], limit_s: float) -> None:
        self._connection = connection
        self._tables = tables
        self._running = 0
        self._stalled: set[str] = set()
        self._cancelling: set[asyncio.Task[None]] = set()
        self._timer = StallTimer(connection.pgconn.socket, limit_s, self._stall)

    def ended(self, statement: int) -> None:
        """Notes the end of a statement; the next one runs."""
        self._running = statement + 1
        if self._running < len(self._tables) and self._tables[self._running] & self._stalled:
            self.cancel()
        self._timer.restart()

    def cancel(self) -> None:
        """Cancels the running statement."""
        self._cancelling.add(asyncio.ensure_future(self._connection.cancel_safe(timeout=CANCEL_S)))

    def _stall(self) -> None:
        if self._running < len(self._tables):
            self._stalled |= self._tables[self._running]
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._timer.stop()
        if self._cancelling:
            await asyncio.gather(*self._cancelling, return_exceptions=True)


async def _gathered(
    connection: AsyncConnection, chunks: AsyncIterator[PGresult], counted: AnswerCount, first: int = _FIRST
) -> _StatementRows:
    """Reads the rows of a running statement, from column `first` on. Beyond the limits the statement is cancelled and
    its remaining rows are discarded, so that the connection can be reused. Raises psycopg.Error, UpstreamError."""
    found = _StatementRows(first)
    problem: Exception | None = None
    async for result in chunks:
        if result.status == ExecStatus.FATAL_ERROR:
            problem = problem or error_from_result(result)
        elif problem is None:
            problem = found.add(result, counted)
            if problem is not None:
                await connection.cancel_safe(timeout=CANCEL_S)
            elif result.ntuples == CHUNK_ROWS:
                # Yield the loop, even if the server is faster.
                await asyncio.sleep(0)
    if problem is not None:
        raise problem
    return found


def rows_of(result: PGresult, start: int, end: int, first: int = 0) -> list[Row]:
    """Returns rows of a result as texts, from column `first` on."""
    _TEXTS.set_pgresult(result)
    return _TEXTS.load_rows(start, min(end, result.ntuples), itemgetter(slice(first, None)) if first else tuple)


def _divided(lookup: Lookup, found: LookupRows) -> LookupRows:
    """Divides rows of a semijoin into keys and rows (`semijoin_sql`)."""
    if lookup.semijoin is not None:
        width = len(lookup.columns)
        found.keys = list(dict.fromkeys(row[:width] for row in found.rows))
        found.rows = [row[width + 1 :] for row in found.rows if row[width] is not None]
    return found


def _parameters(arguments: Sequence[Argument]) -> list[str | None]:
    return [value if value is None or isinstance(value, str) else array_text(value) for value in arguments]


def columns_of(result: PGresult) -> tuple[tuple[str, int], ...]:
    """Returns names and type OIDs of a result's columns."""
    return tuple(((result.fname(i) or b"").decode(), result.ftype(i)) for i in range(result.nfields))


def version_of(row: Sequence[Any]) -> tuple[PostgresSnapshot, int, int]:
    """Parses snapshot, insert LSN and flush LSN from a row of `VERSION`."""
    return PostgresSnapshot.parse(row[0]), parse_lsn(row[1]), parse_lsn(row[2])


def array_text(values: Sequence[str | None]) -> str:
    """Returns an array literal of texts of any type. Raises UpstreamError for a text that no value has."""
    if any(value is not None and "\0" in value for value in values):
        raise UpstreamError("invalid", "A text with a zero byte is not a value of any PostgreSQL type.")
    return arrays.render(values)
