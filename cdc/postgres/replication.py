"""Connections to a PostgreSQL server: ordinary ones, and one on which a slot is streamed.

psycopg has no replication API, so this uses the streaming replication protocol (PostgreSQL manual, "Streaming
Replication Protocol") through libpq's copy functions, without blocking the event loop.

Not here: content of the messages (`pgoutput`), the slot (`slot`), a connection that replaces another (`resumption`).
"""

import asyncio
import os
import re
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Any, NoReturn, Self

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from cdc.postgres.position import PostgresSnapshot, format_lsn, parse_lsn
from cdc.postgres.session import keepalive_parameters, session_sql

_STATUS = Struct("!cQQQqB").pack
#: A line of a timeline's history: an earlier timeline, and the position at which the log left it.
_HISTORY = re.compile(rb"^\s*(\d+)\s+([0-9A-F]+/[0-9A-F]+)", re.MULTILINE)
#: 2000-01-01, PostgreSQL's epoch, in Unix seconds.
_EPOCH_S = 946_684_800
#: ``wal_sender_timeout`` of the connection. Long: the process does not answer while one step fills a view of millions
#: of rows, and a stream dropped then would have to fill it again, endlessly.
_SENDER_PATIENCE = b"10min"


async def connect(conninfo: str, timeout_s: float, **parameters: Any) -> psycopg.AsyncConnection:
    """Connect with the session settings of all connections of a stream."""
    return await psycopg.AsyncConnection.connect(
        conninfo,
        autocommit=True,
        client_encoding="UTF8",
        application_name="upquery cdc",
        connect_timeout=max(2, round(timeout_s)),
        prepare_threshold=None,
        **keepalive_parameters(conninfo),
        **parameters,
    )


@dataclass(frozen=True, slots=True)
class ServerState:
    """Answer to IDENTIFY_SYSTEM: the log's identity, and the position up to which it is flushed."""

    system: str
    timeline: int
    flushed: int

    def __str__(self) -> str:
        return f"system {self.system}, timeline {self.timeline:08X}"


class ReplicationConnection:
    """A connection on which the server sends a slot's changes.

    *State*: `heard_s`, time of the server's last message.
    """

    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection
        #: Process and version of the server.
        self.pid = connection.info.backend_pid
        self.version = connection.info.server_version
        self.pgconn = connection.pgconn
        self.heard_s = time.monotonic()

    @classmethod
    async def open(cls, conninfo: str, timeout_s: float) -> Self:
        connection = await connect(conninfo, timeout_s, replication="database")
        try:
            await connection.execute(session_sql().encode())
            await connection.execute(b"SET wal_sender_timeout = '%s'" % _SENDER_PATIENCE)
        except BaseException:
            await connection.close()
            raise
        return cls(connection)

    async def identify(self) -> ServerState:
        row = await self.row(sql.SQL("IDENTIFY_SYSTEM"))
        assert row is not None
        return ServerState(str(row[0]), int(row[1]), parse_lsn(row[2]))

    async def is_standby(self) -> bool:
        """Return whether the server follows another one, and has not been promoted."""
        row = await self.row(sql.SQL("SELECT pg_catalog.pg_is_in_recovery()"))
        return row is not None and bool(row[0])

    async def end_of_timeline(self, former: int, current: int) -> int | None:
        """Return the position up to which the log of the timeline `current` is that of `former`; None if it is not."""
        row = await self.row(sql.SQL("TIMELINE_HISTORY {}").format(sql.Literal(current)))
        history = b"" if row is None else row[1] if isinstance(row[1], bytes) else str(row[1]).encode()
        ends = {int(timeline): parse_lsn(end.decode()) for timeline, end in _HISTORY.findall(history)}
        return ends.get(former)

    async def create_slot(
        self, name: str, ordinary: psycopg.AsyncConnection, *, temporary: bool
    ) -> tuple[int, PostgresSnapshot]:
        """Create a slot; return its position, and the snapshot there, which is read on `ordinary`."""
        kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
        # Standbys that synchronize slots have it, too.
        failover = ", FAILOVER" if not temporary and self.version >= 170000 else ""
        created = await self.row(
            sql.SQL("CREATE_REPLICATION_SLOT {} {} pgoutput (SNAPSHOT 'export'{})").format(
                sql.Identifier(name), sql.SQL(kind), sql.SQL(failover)
            )
        )
        assert created is not None
        return parse_lsn(created[1]), await _import_snapshot(ordinary, created[2])

    async def row(self, command: sql.SQL | sql.Composed) -> tuple[Any, ...] | None:
        """Return the first row of a command or query without parameters."""
        return await (await self._connection.execute(command)).fetchone()

    async def begin(self, slot: str, publication: str, position: int) -> None:
        """Start streaming: transactions whose commits begin at `position` or later (0: where the slot is)."""
        pgconn = self.pgconn
        options = {"proto_version": "1", "publication_names": f'"{publication.replace(chr(34), chr(34) * 2)}"'}
        if self.version >= 140000:
            # A transactional logical message is flushed at once, which moves an idle stream forward.
            options["messages"] = "true"
        written = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.SQL(key), sql.Literal(value)) for key, value in options.items()
        )
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL {} ({})").format(
            sql.Identifier(slot), sql.SQL(format_lsn(position)), written
        )
        pgconn.send_query(command.as_bytes(self._connection))
        pgconn.flush()
        while pgconn.is_busy():
            await self.readable(None)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None or result.status != ExecStatus.COPY_BOTH:
            raise_end(result)

    async def readable(self, silence_s: float | None) -> bool:
        """Wait until the server has sent something; return False if it is silent for so long (None: no limit).

        The socket is watched only meanwhile: a readable socket that is not read would spin the loop.
        """
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        socket = self.pgconn.socket
        loop.add_reader(socket, _settle, ready, True)
        silence = None
        if silence_s is not None:
            # Measured from the last message, since the wait may have been cancelled and repeated.
            silence = loop.call_later(self.heard_s + silence_s - time.monotonic(), _settle, ready, False)
        try:
            heard = bool(await ready)
        finally:
            if silence is not None:
                silence.cancel()
            loop.remove_reader(socket)
        if heard:
            self.heard_s = time.monotonic()
        return heard

    def send_status(self, written: int, applied: int, *, wants_reply: bool) -> None:
        """Send a status update; reading raises the error of a broken connection."""
        now_us = int((time.time() - _EPOCH_S) * 1_000_000)
        try:
            self.pgconn.put_copy_data(_STATUS(b"r", written, applied, applied, now_us, wants_reply))
            self.pgconn.flush()
        except psycopg.Error:
            pass

    def shut_down(self) -> None:
        """Let reading fail, as if the server had closed the connection."""
        with socket.socket(fileno=os.dup(self.pgconn.socket)) as shared, suppress(OSError):
            shared.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        await self._connection.close()


def raise_end(result: psycopg.pq.abc.PGresult | None) -> NoReturn:
    """Raise the error that ended the stream."""
    if result is None or result.status != ExecStatus.FATAL_ERROR:
        raise psycopg.OperationalError("The server ended the change stream.")
    raise psycopg.errors.error_from_result(result)


def _settle(ready: "asyncio.Future[bool]", result: bool) -> None:
    if not ready.done():
        ready.set_result(result)


async def _import_snapshot(ordinary: psycopg.AsyncConnection, exported: str) -> PostgresSnapshot:
    """Return the slot's snapshot. It is valid until the slot's connection runs another command."""
    async with ordinary.transaction():
        await ordinary.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        await ordinary.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported)))
        return await read_snapshot(ordinary)


async def read_snapshot(ordinary: psycopg.AsyncConnection) -> PostgresSnapshot:
    """Return the snapshot of a statement that runs now."""
    row = await (await ordinary.execute("SELECT pg_catalog.pg_current_snapshot()::text")).fetchone()
    assert row is not None
    return PostgresSnapshot.parse(row[0])
