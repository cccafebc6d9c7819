"""Statements at libpq's level, for speed on the path of every miss.

psycopg's cursors cost twice as much (measured for a lookup of one row: 310 µs against 190 µs, of which the server takes
120).

*Invariants*: always the extended protocol, which accepts one statement per text; a statement that the server has
discarded, or that was planned for an altered table, is prepared again.

Not here: the pool (`connect`), the queries (`lookups`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Self
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection
from psycopg.errors import error_from_result
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

#: Maximum prepared statements of a connection.
KEPT = 200
#: Rows per chunk of a result of unknown size, and so the maximum overrun of a limit.
CHUNK_ROWS = 100
#: invalid_sql_statement_name, and "cached plan must not change result type".
_FORGOTTEN = frozenset({b"26000", b"0A000"})
_SUCCESS = frozenset({ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK})


class PreparedStatements:
    """Prepared statements of each of a pool's connections."""

    def __init__(self) -> None:
        self._prepared: WeakKeyDictionary[AsyncConnection, _Prepared] = WeakKeyDictionary()

    async def run(self, connection: AsyncConnection, statement: str, parameters: Sequence[str | None] = ()) -> PGresult:
        """Runs a statement with texts as parameters. The caller owns the connection. Raises psycopg.Error."""
        return await self._statements_of(connection).run(statement, _encoded(parameters))

    async def run_once(
        self, connection: AsyncConnection, statement: str, parameters: Sequence[str | None] = ()
    ) -> PGresult:
        """Runs a statement planned for these parameters, without preparing it. Raises psycopg.Error."""
        connection.pgconn.send_query_params(statement.encode(), _encoded(parameters))
        return _checked(await fetch(connection.pgconn))

    def chunks(
        self, connection: AsyncConnection, statement: str, parameters: Sequence[str | None] = ()
    ) -> AsyncIterator[PGresult]:
        """Runs a statement like `run`; yields results of at most `CHUNK_ROWS` rows as they arrive. An error is the last
        one. Consume all: the connection is unusable before."""
        return self._statements_of(connection).chunks(statement, _encoded(parameters))

    def pipeline(
        self, connection: AsyncConnection, requests: Sequence[tuple[str, Sequence[str | None]]]
    ) -> AsyncGenerator[tuple[int, PGresult | None]]:
        """Runs statements like `chunks`, all prepared and sent before the first result is awaited (libpq's pipeline
        mode); yields results with the statement's ordinal, and None at the end of each statement. Each is a transaction
        of its own: if one fails, the others run, and no lock outlives its statement. The caller waits for nothing else
        between results, and closes the generator if it leaves early."""
        return self._statements_of(connection).pipeline([(each, _encoded(values)) for each, values in requests])

    async def chunks_once(
        self, connection: AsyncConnection, statement: str, parameters: Sequence[str | None] = ()
    ) -> AsyncIterator[PGresult]:
        """Like `chunks`, planned for these parameters, without preparing the statement."""
        connection.pgconn.send_query_params(statement.encode(), _encoded(parameters))
        connection.pgconn.set_chunked_rows_mode(CHUNK_ROWS)
        async for result in results(connection.pgconn):
            yield result

    def _statements_of(self, connection: AsyncConnection) -> "_Prepared":
        prepared = self._prepared.get(connection)
        if prepared is None:
            prepared = self._prepared[connection] = _Prepared(connection.pgconn)
        return prepared


class _Prepared:
    """Statements of one connection. *State*: `_names`, the names of prepared statements, most recently used last."""

    def __init__(self, pgconn: PGconn) -> None:
        self._pgconn = pgconn
        self._names: OrderedDict[str, bytes] = OrderedDict()
        self._count = 0

    async def run(self, statement: str, parameters: Sequence[bytes | None]) -> PGresult:
        result = await self._execute(statement, parameters)
        if _is_forgotten(result):
            await self._forget(statement)
            result = await self._execute(statement, parameters)
        return _checked(result)

    async def chunks(self, statement: str, parameters: Sequence[bytes | None]) -> AsyncIterator[PGresult]:
        for again in (False, True):
            begun = forgotten = False
            await self._send(statement, parameters)
            self._pgconn.set_chunked_rows_mode(CHUNK_ROWS)
            async for result in results(self._pgconn):
                # After the first rows, the error is not a discarded statement, and the rows must not be returned twice.
                forgotten = not again and not begun and _is_forgotten(result)
                begun = True
                if not forgotten:
                    yield result
            if not forgotten:
                return
            await self._forget(statement)

    async def pipeline(
        self, requests: Sequence[tuple[str, Sequence[bytes | None]]]
    ) -> AsyncGenerator[tuple[int, PGresult | None]]:
        await self._make_room(len(requests))
        self._pgconn.enter_pipeline_mode()
        prepared_first = [self._send_of_pipeline(statement, parameters) for statement, parameters in requests]
        await _flush(self._pgconn)
        forgotten: set[str] = set()
        with _Watch(self._pgconn.socket) as watch:
            for ordinal, (statement, _) in enumerate(requests):
                if prepared_first[ordinal]:
                    async for result in results(self._pgconn, watch):
                        if result.status == ExecStatus.FATAL_ERROR:
                            forgotten.add(statement)
                            yield ordinal, result
                self._pgconn.set_chunked_rows_mode(CHUNK_ROWS)
                async for result in results(self._pgconn, watch):
                    if _is_forgotten(result):
                        forgotten.add(statement)
                    yield ordinal, result
                # The synchronization point, which is followed by nothing.
                await _next_result(self._pgconn, watch)
                yield ordinal, None
        self._pgconn.exit_pipeline_mode()
        for statement in forgotten:
            await self._forget(statement)

    def _send_of_pipeline(self, statement: str, parameters: Sequence[bytes | None]) -> bool:
        """Returns whether the statement had to be prepared, which has a result of its own."""
        new = statement not in self._names
        if new:
            self._send_prepare(statement)
        self._names.move_to_end(statement)
        self._pgconn.send_query_prepared(self._names[statement], parameters)
        self._pgconn.pipeline_sync()
        return new

    async def _execute(self, statement: str, parameters: Sequence[bytes | None]) -> PGresult:
        await self._send(statement, parameters)
        return await fetch(self._pgconn)

    async def _send(self, statement: str, parameters: Sequence[bytes | None]) -> None:
        self._pgconn.send_query_prepared(await self._name_of(statement), parameters)

    async def _name_of(self, statement: str) -> bytes:
        if statement not in self._names:
            await self._make_room(1)
            self._send_prepare(statement)
            try:
                _checked(await fetch(self._pgconn))
            except BaseException:
                del self._names[statement]
                raise
        self._names.move_to_end(statement)
        return self._names[statement]

    async def _make_room(self, statements: int) -> None:
        while self._names and len(self._names) + statements > KEPT:
            await self._forget(next(iter(self._names)))

    def _send_prepare(self, statement: str) -> None:
        self._count += 1
        name = self._names[statement] = b"upquery_%d" % self._count
        self._pgconn.send_prepare(name, statement.encode())

    async def _forget(self, statement: str) -> None:
        name = self._names.pop(statement)
        # The result does not matter: the server may have discarded the statement already.
        self._pgconn.send_query(b"DEALLOCATE " + name)
        await fetch(self._pgconn)


async def fetch(pgconn: PGconn) -> PGresult:
    """Sends queued commands and returns the last result of one command. Raises psycopg.OperationalError."""
    last: PGresult | None = None
    async for result in results(pgconn):
        if last is None or last.status != ExecStatus.FATAL_ERROR:
            last = result
    assert last is not None  # A command that was sent has a result, be it that the connection is gone.
    return last


async def results(pgconn: PGconn, watch: "_Watch | None" = None) -> AsyncIterator[PGresult]:
    """Sends queued commands and yields the results of one command as they arrive. Raises psycopg.OperationalError."""
    await _flush(pgconn)
    while (result := await _next_result(pgconn, watch) if pgconn.is_busy() else pgconn.get_result()) is not None:
        yield result


async def _next_result(pgconn: PGconn, watch: "_Watch | None" = None) -> PGresult | None:
    """Returns the next result; None ends those of one command."""
    while pgconn.is_busy():
        await (_ready(pgconn, to_write=False) if watch is None else watch.readable())
        pgconn.consume_input()
    return pgconn.get_result()


class _Watch:
    """Has the loop watch a socket until the end of the block: to begin and end that for each result takes longer than
    to read it. Within the block, nothing else may wait for the socket, or for anything while the socket has input."""

    def __init__(self, socket: int) -> None:
        self._socket = socket
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        self._loop.add_reader(self._socket, self._wake)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.remove_reader(self._socket)

    def _wake(self) -> None:
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    async def readable(self) -> None:
        """Waits until the socket is readable."""
        self._ready = self._loop.create_future()
        await self._ready


async def _flush(pgconn: PGconn) -> None:
    """Sends what libpq has queued, and reads what arrives meanwhile, so that neither side waits for the other."""
    while pgconn.flush():
        await _ready(pgconn, to_write=True)
        pgconn.consume_input()


async def _ready(pgconn: PGconn, *, to_write: bool) -> None:
    """Waits until the socket is readable (or, if requested, writable)."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    socket = pgconn.socket
    loop.add_reader(socket, _wake, ready)
    if to_write:
        loop.add_writer(socket, _wake, ready)
    try:
        await ready
    finally:
        loop.remove_reader(socket)
        if to_write:
            loop.remove_writer(socket)


def _wake(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def _is_forgotten(result: PGresult) -> bool:
    return result.status == ExecStatus.FATAL_ERROR and result.error_field(DiagnosticField.SQLSTATE) in _FORGOTTEN


def _checked(result: PGresult) -> PGresult:
    if result.status not in _SUCCESS:
        raise error_from_result(result)
    return result


def _encoded(parameters: Sequence[str | None]) -> list[bytes | None]:
    return [None if text is None else text.encode() for text in parameters]
