"""Held snapshot of PostgreSQL: exported by one idle connection, imported by readers.

*Invariants*: readers are read-only and at the snapshot, also after a failed query. Tables are locked (ACCESS SHARE)
before it is taken, since effects of TRUNCATE and ALTER are visible to older snapshots (PostgreSQL manual, 13.6).
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
from psycopg import AsyncConnection

from dataflow.types import Row
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import VERSION, columns_of, rows_of, version_of
from service.engine.databases.postgres.statements import PreparedStatements
from service.engine.upstream.held_snapshot import AuditSnapshot
from service.engine.upstream.results import AnswerColumn

_BEGIN = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_NAME = 3
#: The stream is held meanwhile.
_LOCK_MS = 50


class HeldPostgres:
    """Implementation of `HeldSnapshots`."""

    alone: str | None = None

    def __init__(self, pool: PostgresPool, holder: AsyncConnection, tables: Iterable[str]) -> None:
        self._pool = pool
        self._holder = holder
        self._name = ""
        named = ", ".join(sorted(tables))
        # SET takes no snapshot: the next statement does.
        self._lock = f"SET LOCAL lock_timeout = {_LOCK_MS}" + (named and f"; LOCK TABLE {named} IN ACCESS SHARE MODE")

    async def take(self) -> AuditSnapshot:
        """Takes and exports another snapshot."""
        try:
            await self._holder.execute(b"ROLLBACK")
            await self._holder.execute(_BEGIN)
            await self._holder.execute(self._lock.encode())
            result = await PreparedStatements().run_once(
                self._holder, f"SELECT {VERSION}, pg_catalog.pg_export_snapshot()"
            )
        except psycopg.Error as problem:
            raise self._pool.error(problem) from None
        row = rows_of(result, 0, 1)[0]
        snapshot, bound, _ = version_of(row)
        self._name = str(row[_NAME])
        return AuditSnapshot(snapshot, bound, self._name)

    @asynccontextmanager
    async def readers(self, most: int) -> AsyncIterator[Sequence["PostgresReader"]]:
        async with AsyncExitStack() as stack:
            found = []
            for _ in range(most):
                reader = PostgresReader(self._pool, await stack.enter_async_context(self._pool.apart()), self._name)
                await reader.begin()
                found.append(reader)
            yield found


class PostgresReader:
    """Implementation of `SnapshotReader`."""

    def __init__(self, pool: PostgresPool, connection: AsyncConnection, name: str) -> None:
        self._pool = pool
        self._connection = connection
        self._statements = PreparedStatements()
        self._name = name

    async def begin(self) -> None:
        """Begins a transaction at the snapshot."""
        execute = self._connection.execute
        await execute(_BEGIN)
        await execute(f"SET TRANSACTION SNAPSHOT '{self._name}'".encode())
        await execute(b"SET LOCAL plan_cache_mode = auto")

    async def ask(self, sql: str, parameters: Sequence[str | None]) -> tuple[list[Row], tuple[AnswerColumn, ...]]:
        try:
            result = await self._statements.run(self._connection, sql, parameters)
        except psycopg.Error as problem:
            if not self._connection.closed:
                await self._connection.execute(b"ROLLBACK")
                await self.begin()
            raise self._pool.error(problem) from None
        return rows_of(result, 0, result.ntuples), columns_of(result)


@asynccontextmanager
async def holding(pool: PostgresPool, tables: Iterable[str]) -> AsyncIterator[HeldPostgres]:
    """Holds snapshots of `tables` for the block."""
    async with pool.apart() as holder:
        yield HeldPostgres(pool, holder, tables)
