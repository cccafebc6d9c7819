"""The site's database as an application uses it: a few connections, prepared statements, one round trip a request.

psycopg without its pool: a list of free connections costs a third of what the pool does, and with it psycopg is no
slower than asyncpg (measured: 84 to 127 µs of client CPU a single-row query, asyncpg 91 to 103, psycopg's pool 167).

*Invariants*: at most `CONNECTIONS` connections; who finds none free waits. A connection that is not idle afterwards is
closed and opened anew.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.pq import TransactionStatus

from load.peers.json_forms import register
from load.peers.statements import Statement, Values, numbered, wire_form
from load.sides.side import SiteDefinition

#: More than the server's cores can use; fewer would queue where a statement waits for a lock.
CONNECTIONS = 16
#: Of a connection: all that a site has stay prepared.
_PREPARED = 1000
_BEGIN, _COMMIT = "BEGIN", "COMMIT"
#: After the commit: what is as new as that has it. Before it, the commit's own record would be missing.
_TOKEN = "SELECT pg_current_wal_insert_lsn()::text"


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A statement and where its values are among a read's or a write's."""

    sql: str
    places: tuple[int, ...]

    def arguments(self, values: Values) -> list[str | None]:
        return [wire_form(values[place]) for place in self.places]


class Database:
    """Views and writes of a site, run by name.

    *State*: `_free` has the connections that nobody uses, the last used first; `_columns` the names that a view's rows
    have, once it was read.
    """

    def __init__(self, url: str, site: SiteDefinition) -> None:
        self._url = url
        self._views = {
            view.name: _prepared(numbered(view.sql, view.parameters), view.parameters) for view in site.views
        }
        self._writes = {
            write.name: [_prepared(numbered(sql, write.parameters), write.parameters) for sql in write.statements]
            for write in site.writes
        }
        self._free: asyncio.LifoQueue[AsyncConnection[Any]] = asyncio.LifoQueue()
        self._columns: dict[str, tuple[str, ...]] = {}

    async def open(self) -> None:
        """Connect."""
        for _ in range(CONNECTIONS):
            self._free.put_nowait(await self.connect())

    async def connect(self) -> AsyncConnection[Any]:
        """A connection of the caller's own."""
        connection = await AsyncConnection.connect(
            self._url, autocommit=True, cursor_factory=AsyncRawCursor, options="-c timezone=UTC"
        )
        connection.prepared_max = _PREPARED
        register(connection)
        return connection

    def read_instead(self, view: str, statement: Statement, parameters: Sequence[str]) -> None:
        """Have a view read by another statement, of the same rows."""
        self._views[view] = _prepared(statement, parameters)

    async def read(self, view: str, values: Values) -> bytes:
        """The rows of one key, as a JSON array."""
        prepared = self._views[view]
        async with self._connection() as connection:
            cursor = await connection.execute(prepared.sql, prepared.arguments(values), prepare=True)
            return await self._json(view, cursor)

    async def read_many(self, reads: Sequence[tuple[str, Values]]) -> list[bytes]:
        """The rows of several keys, in one round trip."""
        if len(reads) == 1:
            return [await self.read(*reads[0])]
        async with self._connection() as connection:
            cursors = []
            async with connection.pipeline():
                for view, values in reads:
                    prepared = self._views[view]
                    cursors.append(await connection.execute(prepared.sql, prepared.arguments(values), prepare=True))
            return [await self._json(view, cursor) for (view, _), cursor in zip(reads, cursors, strict=True)]

    async def write(self, name: str, values: Values) -> str:
        """Run a write as one transaction, in one round trip; the token that a read as new as it asks for."""
        async with self._connection() as connection:
            async with connection.pipeline():
                await connection.execute(_BEGIN, prepare=True)
                for prepared in self._writes[name]:
                    await connection.execute(prepared.sql, prepared.arguments(values), prepare=True)
                await connection.execute(_COMMIT, prepare=True)
                cursor = await connection.execute(_TOKEN, prepare=True)
            row = await cursor.fetchone()
            assert row is not None
            return str(row[0])

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        connection = await self._free.get()
        try:
            yield connection
        finally:
            try:
                if connection.info.transaction_status is not TransactionStatus.IDLE:
                    await connection.close()
                    connection = await self.connect()
            finally:
                self._free.put_nowait(connection)

    async def _json(self, view: str, cursor: Any) -> bytes:
        rows = await cursor.fetchall()
        if not rows:
            return b"[]"
        columns = self._columns.get(view)
        if columns is None:
            columns = self._columns[view] = unique_names([column.name for column in cursor.description])
        return orjson.dumps([dict(zip(columns, row, strict=True)) for row in rows])


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names readers see: a repeated one gets ``_2``, ``_3``, …"""
    taken: list[str] = []
    for name in names:
        candidate, n = name, 1
        while candidate in taken:
            n += 1
            candidate = f"{name}_{n}"
        taken.append(candidate)
    return tuple(taken)


def _prepared(statement: Statement, parameters: Sequence[str] | Any) -> _Prepared:
    order = list(parameters)
    return _Prepared(statement.sql, tuple([order.index(name) for name in statement.names]))
