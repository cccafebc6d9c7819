"""Connections to MariaDB or MySQL with pinned session settings and classified errors.

*Invariants*: a connection returned in the middle of a request is closed and not reused; no error raised here contains a
password.

Not here: the number of connections (`pool`); the queries (`lookups`, `catalog` …); retries (by the caller: errors say
whether they are retryable).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.failures import connect_failure, server_failure
from service.engine.databases.mysql.wire import ConnectionBroken, ServerError, Wire
from service.engine.upstream.pool import ConnectionPool
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.server_check import ServerWatch

#: MariaDB has no UUID; servers of one replication topology have different ids.
_SERVER = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id', 'server_uuid')"
#: Time limit for a cancellation.
CANCEL_S = 2.0
#: Idle timeout of long-lived connections.
_PATIENT_S = 86_400
#: By dialect: settings that disable timeouts.
_UNLIMITED = {
    "mariadb": "max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0",
    "mysql": "max_execution_time = 0",
}
#: SQL modes that change the syntax or results assumed here, and names of sets that include them.
_UNWANTED_MODES = frozenset(
    {
        "ANSI_QUOTES",
        "PIPES_AS_CONCAT",
        "NO_BACKSLASH_ESCAPES",
        "PAD_CHAR_TO_FULL_LENGTH",
        "NO_UNSIGNED_SUBTRACTION",
        "HIGH_NOT_PRECEDENCE",
        "REAL_AS_FLOAT",
        "IGNORE_SPACE",
        "EMPTY_STRING_IS_NULL",
        "ANSI",
        "ORACLE",
        "MSSQL",
        "DB2",
        "MAXDB",
        "POSTGRESQL",
        "MYSQL323",
        "MYSQL40",
    }
)


@dataclass(frozen=True, slots=True)
class Flavour:
    """Server product and version, as reported by the server."""

    #: ``mariadb`` or ``mysql``, as in `Catalog.dialect`.
    dialect: str
    version: tuple[int, ...]

    @property
    def reports_places(self) -> bool:
        """True if status variables report visible places of the log; otherwise global ids bound a snapshot."""
        return self.dialect == "mariadb"

    @property
    def log_end(self) -> str:
        """Statement that returns the end of the binary log."""
        renamed = self.dialect == "mysql" and self.version >= (8, 2)
        return "SHOW BINARY LOG STATUS" if renamed else "SHOW MASTER STATUS"


class MySqlPool:
    """At most `size` connections, opened on demand and discarded when broken. The first one sets `flavour`."""

    def __init__(
        self, address: Address, size: int = 8, statement_timeout_s: float = 30.0, connect_timeout_s: float = 10.0
    ) -> None:
        self.address = address
        self.flavour: Flavour | None = None
        self._statement_timeout_s = statement_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._pool = ConnectionPool(self, size, statement_timeout_s)
        self.watch = ServerWatch()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Wire]:
        """Lends a connection in autocommit mode. The server's errors become `UpstreamError`.

        Replies may take slightly longer than the statement timeout; a server that exceeds that is treated as lost.
        """
        async with self._pool.lend(_is_at_rest) as wire:
            wire.limit_s = self._statement_timeout_s + self._connect_timeout_s
            try:
                yield wire
            except (ServerError, ConnectionBroken, TimeoutError) as problem:
                raise self.error(problem) from problem

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Wire]:
        """Opens a connection outside the pool, without statement timeout, for long requests. The server's errors become
        `UpstreamError`."""
        wire = await self.open()
        try:
            assert self.flavour is not None, "known since the first connection"
            # Otherwise the server would disconnect a client that reads slowly or stays idle.
            await wire.query(
                f"SET {_UNLIMITED[self.flavour.dialect]}, net_write_timeout = {_PATIENT_S}, wait_timeout = {_PATIENT_S}"
            )
            yield wire
        except (ServerError, ConnectionBroken) as problem:
            raise self.error(problem) from problem
        finally:
            await self.end(wire)

    def error(self, problem: BaseException) -> UpstreamError:
        """Converts an error of the server or of a connection."""
        if isinstance(problem, ServerError):
            return server_failure(problem, self.address)
        return connect_failure(problem, self.address)

    async def begin_anew(self) -> None:
        """Closes all connections, lent ones when they are returned: the next ones may be to another server."""
        self.watch.begin_anew()
        await self._pool.begin_anew()

    async def close(self) -> None:
        """Closes all connections, lent ones when they are returned."""
        await self._pool.close()

    async def open(self) -> Wire:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                return await self._open()
        except (ServerError, ConnectionBroken, TimeoutError) as problem:
            raise self.error(problem) from None

    async def _open(self) -> Wire:
        wire = await self._connected()
        try:
            reply = await wire.query("SELECT @@global.sql_mode, @@version")
            modes, version = (str(value) for value in reply.rows[0])
            maria = "mariadb" in version.lower()
            *_, said = await wire.query_all([*_settings(modes, maria, self._statement_timeout_s), _SERVER])
            self.watch.check(", ".join(sorted(" ".join(map(str, row)) for row in said.rows)))
            self.flavour = Flavour("mariadb" if maria else "mysql", _version(version))
        except BaseException:
            wire.close()
            raise
        return wire

    async def _connected(self) -> Wire:
        """Opens and authenticates a connection. If the caller is cancelled, the thread that opens it discards it."""
        import pymysql

        opened: asyncio.Future[Any] = asyncio.get_running_loop().run_in_executor(None, self._connect)
        try:
            return Wire(await asyncio.shield(opened))
        except asyncio.CancelledError:
            opened.add_done_callback(_discard)
            raise
        except (pymysql.err.Error, OSError, ValueError, RuntimeError) as problem:
            raise connect_failure(problem, self.address) from None

    def _connect(self) -> Any:
        from cdc.mysql.connection import open_connection

        return open_connection(
            **self.address.options(),
            charset="utf8mb4",
            autocommit=True,
            program_name="upquery",
            connect_timeout=max(1, round(self._connect_timeout_s)),
            read_timeout=self._connect_timeout_s,
            write_timeout=self._connect_timeout_s,
        )

    def is_open(self, connection: Wire) -> bool:
        return not connection.broken

    async def end(self, connection: Wire) -> None:
        try:
            # The caller was cancelled: stop the server's work, including all statements sent together.
            if connection.busy and not connection.broken:
                async with asyncio.timeout(CANCEL_S):
                    await self._kill(connection.thread_id)
        except (ServerError, ConnectionBroken, UpstreamError, TimeoutError):
            pass
        finally:
            connection.close()

    async def kill(self, thread_id: int) -> None:
        """Cancels the running statement of a connection, without ending its transaction. Raises ServerError,
        ConnectionBroken, UpstreamError."""
        await self._kill(thread_id, "QUERY")

    async def _kill(self, thread_id: int, what: str = "CONNECTION") -> None:
        """Cancels the statement of a connection, or everything sent to it."""
        killer = await self._connected()
        try:
            await killer.query(f"KILL {what} {thread_id}")
        finally:
            killer.close()


async def _is_at_rest(wire: Wire) -> bool:
    """True outside of requests and transactions."""
    return not wire.broken and not wire.busy and not wire.in_transaction


def _settings(modes: str, maria: bool, timeout_s: float) -> list[str]:
    """Settings of every session (`cdc.mysql.values` parses values printed under these)."""
    kept = ",".join(mode for mode in modes.split(",") if mode.upper() not in _UNWANTED_MODES)
    timeout = f"max_statement_time = {timeout_s}" if maria else f"max_execution_time = {round(timeout_s * 1000)}"
    waits = f"lock_wait_timeout = {max(1, round(timeout_s))}, innodb_lock_wait_timeout = {max(1, round(timeout_s))}"
    return [
        "SET NAMES utf8mb4",
        f"SET time_zone = '+00:00', sql_mode = '{kept}', {timeout}, {waits}",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    ]


def _version(text: str) -> tuple[int, ...]:
    """Parses ``10.11.19-MariaDB-log`` as (10, 11, 19)."""
    number = text.removeprefix("5.5.5-").partition("-")[0]
    return tuple(int(part) for part in number.split(".") if part.isdecimal())


def _discard(opened: "asyncio.Future[Any]") -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result()._force_close()
