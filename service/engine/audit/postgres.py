"""A snapshot of PostgreSQL: exported by one connection that does nothing else, read at by others.

*Invariants*: whoever reads is read-only, and at the snapshot, also after a question that failed. The tables were locked
(ACCESS SHARE) before it was taken: what TRUNCATE and ALTER do is not undone for older snapshots (PostgreSQL manual,
13.6).
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import psycopg
from psycopg import AsyncConnection

from dataflow.types import Row
from service.engine.audit.held_snapshot import Taken
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import VERSION, columns_of, rows_of, version_of
from service.engine.databases.postgres.statements import PreparedStatements
from service.engine.upstream.results import AnswerColumn

_BEGIN = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_NAME = 3
#: Nothing is applied meanwhile.
_LOCK_MS = 50


class HeldPostgres:
    """Is a `Held`."""

    alone: str | None = None

    def __init__(self, pool: PostgresPool, holder: AsyncConnection, tables: Iterable[str]) -> None:
        self._pool = pool
        self._holder = holder
        self._name = ""
        named = ", ".join(sorted(tables))
        # Takes no snapshot: the next statement does.
        self._lock = f"SET LOCAL lock_timeout = {_LOCK_MS}" + (named and f"; LOCK TABLE {named} IN ACCESS SHARE MODE")

    async def take(self) -> Taken:
        """Another snapshot, exported."""
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
        return Taken(snapshot, bound, self._name)

    @asynccontextmanager
    async def readers(self, most: int) -> AsyncIterator[Sequence["PostgresReader"]]:
        """Connections of their own."""
        async with AsyncExitStack() as stack:
            found = []
            for _ in range(most):
                reader = PostgresReader(self._pool, await stack.enter_async_context(self._pool.apart()), self._name)
                await reader.begin()
                found.append(reader)
            yield found


class PostgresReader:
    """Is a `Reader`."""

    def __init__(self, pool: PostgresPool, connection: AsyncConnection, name: str) -> None:
        self._pool = pool
        self._connection = connection
        self._statements = PreparedStatements()
        self._name = name

    async def begin(self) -> None:
        """At the snapshot from now on."""
        execute = self._connection.execute
        await execute(_BEGIN)
        await execute(f"SET TRANSACTION SNAPSHOT '{self._name}'".encode())
        await execute(b"SET LOCAL plan_cache_mode = auto")

    async def ask(self, sql: str, parameters: Sequence[str | None]) -> tuple[list[Row], tuple[AnswerColumn, ...]]:
        """The rows of a query."""
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
    """For the length of a block; `tables` stay what they are."""
    async with pool.apart() as holder:
        yield HeldPostgres(pool, holder, tables)
