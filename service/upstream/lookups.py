"""Versioned lookups: rows together with which transactions they include (architecture §5).

A lookup is one READ COMMITTED statement, so one snapshot, which returns that snapshot beside the rows, and once even if
there are no rows. Values come in the text format of the wire protocol: the same output functions as the stream's.
(Not ``::text``: that prints booleans and padded characters differently.)

*Invariants*: everything that a result's snapshot sees committed at or before its `bound`.

Not here: the SQL inside (`dataflow.plan.lookup`), waiting for the bound (the engine), getting there (`runtime.pushes`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.adapt import AdaptersMap, Transformer
from psycopg.pq.abc import PGresult
from psycopg.types.string import TextLoader

from cdc.position import PostgresSnapshot, parse_lsn
from dataflow.types import Row
from service.upstream.connect import UpstreamError, UpstreamPool

T = TypeVar("T")

_VERSION = (
    "pg_catalog.pg_current_snapshot()::text AS s, pg_catalog.pg_current_wal_insert_lsn()::text AS l, "
    "pg_catalog.pg_current_wal_flush_lsn()::text AS f"
)
#: The next transaction id to be given out, of 32 bits: an age counts from there, and asking does not take one.
_NEXT_XID = "(pg_catalog.age('3'::pg_catalog.xid)::int8 + 3) & 4294967295"
#: `present` tells no rows from a row of NULLs.
_LOOKUP = (
    "SELECT v.*, r.* FROM (SELECT {version}) v LEFT JOIN LATERAL (SELECT true AS present, q.* FROM ({sql}) q) r ON true"
)
_PRESENT = 3
_FIRST = 4
#: Rows taken out of a result before the loop gets a turn.
_SLICE_ROWS = 5000


class _TextContext:
    """Tells psycopg to read every value, of whatever type, as its text."""

    def __init__(self) -> None:
        self.adapters = AdaptersMap()
        self.adapters.register_loader(0, TextLoader)
        self.connection = None


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
    """Everything that is read upstream on behalf of views.

    *State*: `can_push`, None until the first push.
    """

    def __init__(self, pool: UpstreamPool) -> None:
        self._pool = pool
        self._context = _TextContext()
        #: Statements run upstream so far, heartbeats and pushes included.
        self.statements = 0
        #: Whether the role may write logical messages; None if nobody tried.
        self.can_push: bool | None = None

    async def run(self, sql: str, arrays: Sequence[Sequence[str | None]]) -> LookupRows:
        """Run a lookup (`dataflow.plan.lookup`); `arrays` are its parameters $1, $2 …, one array of texts each.

        Raises UpstreamError.
        """
        parameters = [array_text(array) for array in arrays]
        statement = _LOOKUP.format(version=_VERSION, sql=sql)
        result = await self._planned(lambda connection: self._execute(connection, statement, parameters))
        first = self._rows(result, 0, 1)[0]
        rows: list[Row] = []
        if first[_PRESENT] is not None:
            for start in range(0, result.ntuples, _SLICE_ROWS):
                rows += [row[_FIRST:] for row in self._rows(result, start, start + _SLICE_ROWS)]
                if start:
                    await asyncio.sleep(0)
        snapshot, bound, flush = _version(first)
        return LookupRows(rows, snapshot, bound, flush)

    async def snapshot(self) -> LookupRows:
        """A version and no rows: the heartbeat. Its snapshot may be that of a `TableJoined`: it has a horizon.

        Raises UpstreamError.
        """
        async with self._pool.connection() as connection:
            result = await self._execute(connection, f"SELECT {_VERSION}, {_NEXT_XID}")
        row = self._rows(result, 0, 1)[0]
        _, bound, flush = _version(row)
        snapshot = PostgresSnapshot.parse(str(row[0]), int(str(row[3])))
        return LookupRows([], snapshot, bound, flush)

    async def push(self) -> bool:
        """Write and flush a logical message, so that the stream passes every position handed out before.

        False: the role may not; the stream then gets there when somebody else's commit flushes. Raises UpstreamError.
        """
        try:
            async with self._pool.connection() as connection:
                await self._execute(connection, "SELECT pg_catalog.pg_logical_emit_message(true, 'upquery', '')")
        except UpstreamError as error:
            if error.code != "denied":
                raise
            self.can_push = False
            return False
        self.can_push = True
        return True

    async def forward(self, queries: Sequence[tuple[str, Sequence[str | None]]]) -> ForwardRows:
        """Run whole queries at one snapshot. Parameters $1, $2 … are texts whose types the server infers (or a cast in
        the SQL says); None is NULL. Raises UpstreamError."""
        version, *results = await self._planned(lambda connection: self._at_one_snapshot(connection, queries))
        rows = [self._rows(result, 0, result.ntuples) for result in results]
        return ForwardRows(rows, [_column_names(r) for r in results], *_version(self._rows(version, 0, 1)[0]))

    async def _at_one_snapshot(
        self, connection: AsyncConnection, queries: Sequence[tuple[str, Sequence[str | None]]]
    ) -> list[PGresult]:
        """The version, then the queries' results. The first query takes the snapshot; the insert LSN is read after."""
        async with connection.transaction():
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            results = [await self._execute(connection, f"SELECT {_VERSION}")]
            for sql, parameters in queries:
                results.append(await self._execute(connection, sql, parameters))
        return results

    async def _planned(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do `work` on a connection; once more if what it had prepared is about a table that was altered since."""
        async with self._pool.connection() as connection:
            try:
                return await work(connection)
            except psycopg.errors.FeatureNotSupported:
                # "cached plan must not change result type". psycopg forgets what it has prepared at a ROLLBACK.
                await connection.execute("ROLLBACK")
                return await work(connection)

    async def _execute(
        self, connection: AsyncConnection, statement: str, parameters: Sequence[str | None] = ()
    ) -> PGresult:
        """Run one statement. Always as a prepared one: the simple protocol would take several in one text."""
        self.statements += 1
        cursor: AsyncRawCursor[Any] = AsyncRawCursor(connection)
        await cursor.execute(statement.encode(), parameters, prepare=True)
        if cursor.pgresult is None:
            raise UpstreamError("failed", "The upstream returned no result.", retryable=True)
        return cursor.pgresult

    def _rows(self, result: PGresult, start: int, end: int) -> list[Row]:
        """Rows of a result as texts."""
        transformer = Transformer(self._context)
        transformer.set_pgresult(result)
        return transformer.load_rows(start, min(end, result.ntuples), tuple)


def _column_names(result: PGresult) -> tuple[str, ...]:
    return tuple((result.fname(i) or b"").decode() for i in range(result.nfields))


def _version(row: Sequence[Any]) -> tuple[PostgresSnapshot, int, int]:
    return PostgresSnapshot.parse(row[0]), parse_lsn(row[1]), parse_lsn(row[2])


def array_text(values: Sequence[str | None]) -> str:
    """An array literal of these texts, whatever their type. Raises UpstreamError for a text that no value has."""
    parts = []
    for value in values:
        if value is None:
            parts.append("NULL")
        elif "\0" in value:
            raise UpstreamError("invalid", "A text with a zero byte is no value of any PostgreSQL type.")
        else:
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'"{escaped}"')
    return "{" + ",".join(parts) + "}"
