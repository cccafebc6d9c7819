"""The site's database as an application uses it: a few connections, prepared statements, one round trip for all reads
of a request.

psycopg without its pool: a list of free connections costs a third of what the pool does, and with it psycopg is no
slower than asyncpg (measured: 84 to 127 µs of client CPU a single-row query, asyncpg 91 to 103, psycopg's pool 167).

*Invariants*: at most `CONNECTIONS` connections; who finds none free waits. A connection that is not idle afterwards is
closed and opened anew.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, AsyncRawCursor
from psycopg.pq import TransactionStatus

from load.peers.json_forms import register
from load.peers.statements import Values, numbered
from load.peers.view_query import BatchStatement, NumberedStatement, ViewQuery
from load.site import SiteDefinition, SiteView

#: More than the server's cores can use; fewer would queue where a statement waits for a lock.
CONNECTIONS = 16
#: Of a connection: all that a site has stay prepared.
_PREPARED = 1000
_BEGIN, _COMMIT = "BEGIN", "COMMIT"
#: After the commit: what is as new as that has it. Before it, the commit's own record would be missing.
_TOKEN = "SELECT pg_current_wal_insert_lsn()::text"


class Database:
    """Views and writes of a site, run by name.

    *State*: `_free` has the connections that nobody uses, the last used first.
    """

    def __init__(self, url: str, site: SiteDefinition) -> None:
        self._url = url
        self._views = {view.name: ViewQuery(view.sql, view.parameters) for view in site.views}
        self._writes = {
            write.name: [
                NumberedStatement.of(numbered(sql, write.parameters), write.parameters) for sql in write.statements
            ]
            for write in site.writes
        }
        self._free: asyncio.LifoQueue[AsyncConnection[Any]] = asyncio.LifoQueue()

    async def open(self) -> None:
        """Connect, and see which views can be asked for many keys at once."""
        for _ in range(CONNECTIONS):
            self._free.put_nowait(await self.connect())
        async with self._connection() as connection:
            for query in self._views.values():
                await query.try_batch(connection)

    async def connect(self) -> AsyncConnection[Any]:
        """A connection of the caller's own."""
        connection = await AsyncConnection.connect(
            self._url, autocommit=True, cursor_factory=AsyncRawCursor, options="-c timezone=UTC"
        )
        connection.prepared_max = _PREPARED
        register(connection)
        return connection

    def add(self, view: SiteView) -> None:
        """A view beside the site's, or instead of the one of that name. Before `open`."""
        self._views[view.name] = ViewQuery(view.sql, view.parameters)

    async def read(self, view: str, values: Values) -> bytes:
        """The rows of one key, as a JSON array."""
        query = self._views[view]
        async with self._connection() as connection:
            cursor = await connection.execute(query.one.sql, query.one.arguments(values), prepare=True)
            return await query.answer(cursor)

    async def read_many(self, reads: Sequence[tuple[str, Values]]) -> list[bytes]:
        """The rows of several keys, in one round trip and a statement for each view."""
        if len(reads) == 1:
            return [await self.read(*reads[0])]
        questions = self._questions(reads)
        answers = [b"[]"] * len(reads)
        async with self._connection() as connection:
            cursors = await _ask(connection, questions)
            for question, cursor in zip(questions, cursors, strict=True):
                query = self._views[question.view]
                if question.many:
                    found = await query.answers(cursor)
                    for n, place in enumerate(question.places, start=1):
                        answers[place] = found.get(n, b"[]")
                else:
                    answers[question.places[0]] = await query.answer(cursor)
        return answers

    def _questions(self, reads: Sequence[tuple[str, Values]]) -> list[BatchStatement]:
        by_view: dict[str, list[int]] = {}
        for place, (view, _) in enumerate(reads):
            by_view.setdefault(view, []).append(place)
        return [
            question
            for view, places in by_view.items()
            for question in self._views[view].questions(view, places, [reads[place][1] for place in places])
        ]

    async def write(self, name: str, values: Values) -> str:
        """Run a write as one transaction; the token that a read as new as it asks for.

        A statement is a transaction by itself: two round trips then, which cost less than psycopg's pipeline.
        """
        statements = self._writes[name]
        async with self._connection() as connection:
            if len(statements) == 1:
                await connection.execute(statements[0].sql, statements[0].arguments(values), prepare=True)
                return await _only(await connection.execute(_TOKEN, prepare=True))
            async with connection.pipeline():
                await connection.execute(_BEGIN, prepare=True)
                for statement in statements:
                    await connection.execute(statement.sql, statement.arguments(values), prepare=True)
                await connection.execute(_COMMIT, prepare=True)
                cursor = await connection.execute(_TOKEN, prepare=True)
            return await _only(cursor)

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


async def _ask(connection: AsyncConnection[Any], questions: Sequence[BatchStatement]) -> list[AsyncCursor[Any]]:
    if len(questions) == 1:
        return [await connection.execute(questions[0].sql, questions[0].arguments, prepare=True)]
    async with connection.pipeline():
        return [await connection.execute(each.sql, each.arguments, prepare=True) for each in questions]


async def _only(cursor: AsyncCursor[Any]) -> str:
    row = await cursor.fetchone()
    assert row is not None
    return str(row[0])
