"""Connections to MariaDB or MySQL: a bounded pool, pinned session settings, classified errors.

*Invariants*: at most `size` connections are open; one that comes back in the middle of something is closed, never lent
again; no error that leaves here holds a password.

Not here: what is asked (`lookups`, `catalog` …); trying again (whoever asked: the error says whether it may help).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.failures import connect_failure, server_failure
from service.engine.databases.mysql.wire import ConnectionBroken, ServerError, Wire
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.server_check import ServerWatch

#: MariaDB has no UUID; servers that replicate must have different numbers.
_SERVER = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id', 'server_uuid')"
#: How long it may take to tell the server that nobody waits for a statement any more.
CANCEL_S = 2.0
#: How long a connection may be left alone that is kept for long.
_PATIENT_S = 86_400
#: By dialect: nothing that runs or waits for long is ended.
_UNLIMITED = {
    "mariadb": "max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0",
    "mysql": "max_execution_time = 0",
}
#: What changes how SQL is read, or what it computes, from what the dialect here takes it for; and names for sets of
#: these, which bring them back.
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
    """Which server it is, as it says itself."""

    #: ``mariadb`` or ``mysql``, as in `Catalog.dialect`.
    dialect: str
    version: tuple[int, ...]

    @property
    def log_end(self) -> str:
        """The statement that says how far the binary log is."""
        renamed = self.dialect == "mysql" and self.version >= (8, 2)
        return "SHOW BINARY LOG STATUS" if renamed else "SHOW MASTER STATUS"


class MySqlPool:
    """At most `size` connections, made when needed, thrown away when broken.

    *State*: `_idle`, connections that nobody uses, the one used last at the end; `_free`, how many more may be lent.
    `flavour`, once there was a connection.
    """

    def __init__(
        self, address: Address, size: int = 8, statement_timeout_s: float = 30.0, connect_timeout_s: float = 10.0
    ) -> None:
        self.address = address
        self.flavour: Flavour | None = None
        self._free = asyncio.Semaphore(size)
        self._statement_timeout_s = statement_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._idle: list[Wire] = []
        self._lent: set[Wire] = set()
        #: Of these, those that were lent before `begin_anew`.
        self._outdated: set[Wire] = set()
        self._closed = False
        self.watch = ServerWatch()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Wire]:
        """A connection in autocommit mode, back in the pool afterwards. The server's errors become `UpstreamError`.

        Replies may take the statement timeout and a little more; a server that does not even time out is gone.
        """
        await self._wait_for_free()
        try:
            wire = await self._take()
            wire.limit_s = self._statement_timeout_s + self._connect_timeout_s
            self._lent.add(wire)
            try:
                yield wire
            except (ServerError, ConnectionBroken, TimeoutError) as problem:
                raise self.error(problem) from problem
            finally:
                self._lent.discard(wire)
                await self._give_back(wire)
        finally:
            self._free.release()

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[Wire]:
        """A connection beside the pool's, for what takes as long as it takes: its statements are not ended. The
        server's errors become `UpstreamError`."""
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                wire = await self._open()
        except (ServerError, ConnectionBroken, TimeoutError) as problem:
            raise self.error(problem) from None
        try:
            assert self.flavour is not None, "known since the first connection"
            # The server would take who does not read on, or asks nothing for long, for gone.
            await wire.query(
                f"SET {_UNLIMITED[self.flavour.dialect]}, net_write_timeout = {_PATIENT_S}, wait_timeout = {_PATIENT_S}"
            )
            yield wire
        except (ServerError, ConnectionBroken) as problem:
            raise self.error(problem) from problem
        finally:
            await self._end(wire)

    def error(self, problem: BaseException) -> UpstreamError:
        """The server's error, or that of a connection, in our words."""
        if isinstance(problem, ServerError):
            return server_failure(problem, self.address)
        return connect_failure(problem, self.address)

    async def begin_anew(self) -> None:
        """Close all connections, those in use when they come back: the next ones may be to another server."""
        self._outdated |= self._lent
        self.watch.begin_anew()
        self._close_idle()

    async def close(self) -> None:
        """Close all connections; those in use when they come back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _wait_for_free(self) -> None:
        if self._closed:
            raise UpstreamError("unavailable", "The upstream's connections are closed.")
        if not self._free.locked():
            await self._free.acquire()  # Does not wait, and costs no timer.
            return
        try:
            await asyncio.wait_for(self._free.acquire(), self._statement_timeout_s)
        except TimeoutError:
            raise UpstreamError("overloaded", "No upstream connection became free in time.", retryable=True) from None

    async def _take(self) -> Wire:
        while self._idle:
            wire = self._idle.pop()
            if not wire.broken:
                return wire
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
        """A connection that is logged in. The thread that makes one that nobody waits for any more throws it away."""
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

    async def _give_back(self, wire: Wire) -> None:
        outdated = wire in self._outdated
        self._outdated.discard(wire)
        if not outdated and not wire.broken and not wire.busy and not wire.in_transaction and not self._closed:
            self._idle.append(wire)
        else:
            await self._end(wire)

    async def _end(self, wire: Wire) -> None:
        try:
            # Whoever waited for it has gone; the server should stop, too: with all statements that were sent together.
            if wire.busy and not wire.broken:
                async with asyncio.timeout(CANCEL_S):
                    await self._kill(wire.thread_id)
        except (ServerError, ConnectionBroken, UpstreamError, TimeoutError):
            pass
        finally:
            wire.close()

    async def kill(self, thread_id: int) -> None:
        """End the statement of a connection, not its transaction. Raises ServerError, ConnectionBroken,
        UpstreamError."""
        await self._kill(thread_id, "QUERY")

    async def _kill(self, thread_id: int, what: str = "CONNECTION") -> None:
        """End the statement of a connection, or all that it was sent."""
        killer = await self._connected()
        try:
            await killer.query(f"KILL {what} {thread_id}")
        finally:
            killer.close()


def _settings(modes: str, maria: bool, timeout_s: float) -> list[str]:
    """What every session has (`cdc.mysql.values` knows values as they are printed under these)."""
    kept = ",".join(mode for mode in modes.split(",") if mode.upper() not in _UNWANTED_MODES)
    timeout = f"max_statement_time = {timeout_s}" if maria else f"max_execution_time = {round(timeout_s * 1000)}"
    waits = f"lock_wait_timeout = {max(1, round(timeout_s))}, innodb_lock_wait_timeout = {max(1, round(timeout_s))}"
    return [
        "SET NAMES utf8mb4",
        f"SET time_zone = '+00:00', sql_mode = '{kept}', {timeout}, {waits}",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    ]


def _version(text: str) -> tuple[int, ...]:
    """``10.11.19-MariaDB-log``: (10, 11, 19)."""
    number = text.removeprefix("5.5.5-").partition("-")[0]
    return tuple(int(part) for part in number.split(".") if part.isdecimal())


def _discard(opened: "asyncio.Future[Any]") -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result()._force_close()
