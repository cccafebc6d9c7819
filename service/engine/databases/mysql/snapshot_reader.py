"""Reader process at a MariaDB or MySQL snapshot: ``python -m service.engine.databases.mysql.snapshot_reader``.

Standard input begins with a line of JSON: the upstream's ``url`` and ``password``, the number of a socket that
``listens``, and the ``tables`` to read. Commands follow: ``begin`` takes a snapshot and returns it if it is exact;
``locked`` takes one while commits are blocked; ``serve`` accepts it, and queries are answered
(`dataflow.spark.readers`). Each command has a reply line on standard output. The process ends at the end of its input,
or when its connection, which holds the snapshot, fails.

*Invariants*: one query at a time; the connection has no other user; a query leaves the snapshot unchanged, even if its
client disconnects. Tables are locked before the first query: an ALTER waits for the end of the snapshot, and no query
waits behind it.

Not here: agreement on one place with other readers (`named_snapshot`).
"""

import asyncio
import json
import os
import sys
import traceback
from base64 import b64encode
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from pickle import dumps
from socket import socket
from typing import Any

import pyarrow as pa

from dataflow.lookups.mysql.render import table_name
from dataflow.schema import SqlType
from dataflow.spark.problems import SparkProblem
from dataflow.types import Row
from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.catalog import load_catalog
from service.engine.databases.mysql.connect import CANCEL_S, MySqlPool
from service.engine.databases.mysql.exact_snapshot import Exact, begin, begin_locked, known_flavour
from service.engine.databases.mysql.log_place import END
from service.engine.databases.mysql.row_decoder import lookup_rows
from service.engine.databases.mysql.sql_text import listed_names, unqualified
from service.engine.databases.mysql.wire import ConnectionBroken, ServerError, Wire
from service.engine.upstream.results import UpstreamError

#: Approximate rows of a batch.
_BATCH_ROWS = 4000
_LINE_LIMIT = 64 << 20
#: Interval of connection checks while no query runs.
_PULSE_S = 0.5
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_SIZE = "SELECT SUM(data_length) FROM information_schema.tables WHERE (table_schema, table_name) IN"
#: Error number for a table altered after the snapshot was taken.
_ALTERED = 1412
#: By the code of an `UpstreamError`: the problem's code and the remedy.
_CODES = {
    "denied": ("upstream_refused", "The role needs SELECT on the table."),
    "credentials": ("upstream_refused", "Check the role and its password."),
    "missing": ("upstream_changed", "A table or column has changed since the catalog was read."),
    "overloaded": ("upstream_busy", "The upstream is short of connections, memory or disk."),
    "timeout": ("upstream_unavailable", "The statement was cancelled, or the table is locked."),
}


class SnapshotReaderServer:
    """Connection with its snapshot, and its clients. *State*: `_snapshot`, None before the first."""

    def __init__(self, pool: MySqlPool, wire: Wire) -> None:
        self._pool = pool
        self._wire = wire
        self._flavour = known_flavour(pool)
        self._snapshot: Exact | None = None

    # --- the snapshot -------------------------------------------------------------------------------------------------

    async def begin(self) -> Exact | None:
        """Takes another snapshot; None if it is not exact. Raises ServerError, ConnectionBroken, UpstreamError."""
        await self._wire.query(END)
        self._snapshot = await begin(self._wire, self._flavour)
        return self._snapshot

    async def begin_locked(self) -> Exact:
        """Takes another snapshot while commits are blocked. Raises like `begin`."""
        await self._wire.query(END)
        self._snapshot = await begin_locked(self._wire, self._flavour)
        return self._snapshot

    # --- queries ------------------------------------------------------------------------------------------------------

    async def lock(self, tables: Iterable[str]) -> None:
        """Locks tables against ALTER for the life of the snapshot. (A read holds its metadata lock until the
        transaction ends.) Raises ServerError, ConnectionBroken."""
        for table in tables:
            await self._wire.query(f"SELECT 1 FROM {table_name(table)} LIMIT 0")

    async def serve(self, listener: socket) -> None:
        """Answers one query after the other until the connection is lost."""
        loop = asyncio.get_running_loop()
        while True:
            accepting = asyncio.ensure_future(loop.sock_accept(listener))
            # Not cancelled for a check: it may have accepted a connection already.
            while not accepting.done():
                if self._wire.broken:
                    return
                await asyncio.wait({accepting}, timeout=_PULSE_S)
            client, _ = accepting.result()
            reading, writing = await asyncio.open_connection(sock=client, limit=_LINE_LIMIT)
            try:
                with suppress(OSError, asyncio.IncompleteReadError):
                    await self._answer_one(reading, writing)
            finally:
                writing.close()
            await self._stop()

    async def _answer_one(self, reading: asyncio.StreamReader, writing: asyncio.StreamWriter) -> None:
        question = json.loads(await reading.readuntil())
        answering = asyncio.ensure_future(self._answer(question, writing))
        # The client sends nothing more, but may disconnect.
        leaving = asyncio.ensure_future(reading.read(1))
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (answering, leaving):
            task.cancel()
        await asyncio.gather(answering, leaving, return_exceptions=True)
        if not answering.cancelled():
            answering.result()

    async def _stop(self) -> None:
        """Ends the current statement, even if its client has disconnected."""
        if not self._wire.busy or self._wire.broken:
            return
        with suppress(ServerError, ConnectionBroken, UpstreamError, TimeoutError):
            async with asyncio.timeout(CANCEL_S):
                await self._pool.kill(self._wire.thread_id)
        with suppress(ConnectionBroken):
            await self._wire.drop()
            # A late kill may hit the next statement instead.
            await self._wire.ask("DO 0")

    async def _answer(self, question: Mapping[str, Any], writing: asyncio.StreamWriter) -> None:
        names = question["names"]
        schema = pa.schema([(name, pa.string()) for name in names])
        last: dict[str, Any] = {}
        writing.write(memoryview(schema.serialize()))
        try:
            # Close the stream before the next query, even if the rest of the rows is not wanted.
            async with aclosing(self._rows(question)) as found:
                async for rows in found:
                    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
                    writing.write(memoryview(pa.record_batch(columns, schema=schema).serialize()))
                    await writing.drain()
        except (ServerError, ConnectionBroken, UpstreamError) as problem:
            last = self._problem(problem).as_json()
        except (pa.ArrowException, TypeError, ValueError, KeyError) as problem:
            # A row too large for a batch, or a bug: the query fails, and the snapshot lives on.
            traceback.print_exc()
            detail = f"A process that reads for Spark failed ({type(problem).__name__})."
            last = SparkProblem(
                "failed", detail, "The service's log has the cause. Load the view without Spark.", True
            ).as_json()
        writing.write(_END_OF_STREAM + json.dumps(last).encode() + b"\n")
        await writing.drain()

    def _rows(self, question: Mapping[str, Any]) -> AsyncGenerator[list[Row]]:
        if "sql" not in question:
            return self._catalog_text(question)
        return self._selected(question["sql"], [SqlType(name, name) for name in question["types"]])

    async def _catalog_text(self, question: Mapping[str, Any]) -> AsyncGenerator[list[Row]]:
        """Yields one row with the text of a version, a table or its size."""
        found: str | None
        match question["ask"]:
            case "version":
                found = str(self._snapshot)
            case "table":
                catalog = await load_catalog(self._wire, self._flavour.dialect, [question["table"]])
                table = catalog.tables.get(question["table"])
                found = None if table is None else b64encode(dumps(table)).decode()
            case _:
                names = listed_names([unqualified(question["table"])])
                (row,) = (await self._wire.query(f"{_SIZE} ({names})")).rows
                found = None if row[0] is None else str(row[0])
        yield [(found,)]

    async def _selected(self, sql: str, types: list[SqlType]) -> AsyncGenerator[list[Row]]:
        async with aclosing(self._wire.stream(sql, _BATCH_ROWS)) as replies:
            async for reply in replies:
                rows = lookup_rows(reply, types)
                if rows:
                    yield rows

    def _problem(self, problem: ServerError | ConnectionBroken | UpstreamError) -> SparkProblem:
        if self._wire.broken or (isinstance(problem, ServerError) and problem.number == _ALTERED):
            detail = "The connection that held the snapshot is gone." if self._wire.broken else "A table was altered."
            return SparkProblem("snapshot_lost", detail, "Retry with a new snapshot.", retryable=True)
        error = problem if isinstance(problem, UpstreamError) else self._pool.error(problem)
        code, hint = _CODES.get(error.code, ("upstream_failed", error.hint or ""))
        # The server's syntax error would quote the statement.
        detail = "The upstream rejects the statement." if error.code == "invalid" else error.detail
        return SparkProblem(code, detail, hint, error.retryable)


async def _words(
    reader: SnapshotReaderServer, stdin: asyncio.StreamReader, listener: socket, tables: Iterable[str]
) -> None:
    """Executes the parent's commands until the end of the input."""
    serving: asyncio.Future[None] | None = None
    try:
        while word := (await _next(stdin, serving)).strip():
            match word:
                case b"begin":
                    _say({"snapshot": _packed(await reader.begin())})
                case b"locked":
                    _say({"snapshot": _packed(await reader.begin_locked())})
                case b"serve":
                    await reader.lock(tables)
                    serving = asyncio.ensure_future(reader.serve(listener))
                    _say({})
                case _:
                    pass
    finally:
        if serving is not None:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def _next(stdin: asyncio.StreamReader, serving: "asyncio.Future[None] | None") -> bytes:
    """Returns the next command; empty at the end of the input, or when nothing can be served."""
    waiting = asyncio.ensure_future(stdin.readline())
    tasks: Iterable[asyncio.Future[Any]] = {waiting} if serving is None else {waiting, serving}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if waiting.done():
        return waiting.result()
    waiting.cancel()
    assert serving is not None
    # A bug: the log has the cause.
    serving.result()
    return b""


def _packed(snapshot: Exact | None) -> str | None:
    return None if snapshot is None else b64encode(dumps(snapshot)).decode()


def _say(message: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def _main() -> None:
    stdin = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    message = json.loads(await stdin.readline())
    listener = socket(fileno=message["listens"])
    pool = MySqlPool(Address.parse(message["url"], message["password"]), 1)
    try:
        async with pool.apart() as wire:
            reader = SnapshotReaderServer(pool, wire)
            _say({})
            await _words(reader, stdin, listener, message["tables"])
    except (ServerError, ConnectionBroken) as problem:
        _say({"error": pool.error(problem).code, "detail": pool.error(problem).detail})
    except UpstreamError as error:
        _say({"error": error.code, "detail": error.detail, "hint": error.hint})
    finally:
        await pool.close()


if __name__ == "__main__":
    asyncio.run(_main())
    # Threads may still run; their results are not needed.
    os._exit(0)
