"""Connections to PostgreSQL with pinned session settings and classified errors.

*Invariants*: a connection returned in the middle of a request is closed and not reused; no error raised here contains a
password.

Not here: the number of connections (`pool`); the queries (`lookups`, `catalog` …); retries (by the caller: errors say
whether they are retryable).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import ConnStatus, PipelineStatus, TransactionStatus

from cdc.postgres.failures import check_conninfo, classify
from cdc.postgres.session import keepalive_parameters, session_sql
from service.engine.upstream.pool import ConnectionPool
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.server_check import ServerWatch
from service.engine.upstream.stalls import has_input

#: In addition to those that determine how values print. A push need not wait for a standby, since it contains no data.
#: Planning a lookup of a few keys takes three times as long as running it (97 µs against 32 µs), and its plan does not
#: depend on the keys.
_OTHER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "synchronous_commit": "local",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "60s",
}

_SERVER = (
    "SELECT 'system ' || system_identifier || CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE ', timeline ' ||"
    " left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) END"
    " FROM pg_catalog.pg_control_system()"
)
#: `transaction_timeout` exists since PostgreSQL 17; earlier versions get an unused custom setting.
_PATIENT = (
    "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0;"
    " SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'"
)
#: Session state that survives a rollback, which users' SQL may have changed.
_FORGET = b"SELECT pg_catalog.pg_advisory_unlock_all(); UNLISTEN *; CLOSE ALL; DISCARD TEMP; DISCARD SEQUENCES"
#: Time limit for a cancellation.
CANCEL_S = 2.0


class PostgresPool:
    """At most `size` connections, opened on demand and discarded when broken."""

    def __init__(
        self, conninfo: str, size: int = 8, statement_timeout_s: float = 30.0, connect_timeout_s: float = 10.0
    ) -> None:
        self._conninfo = conninfo
        self._limit_s = statement_timeout_s + connect_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._pool = ConnectionPool(self, size, statement_timeout_s)
        self.watch = ServerWatch()
        settings = {**_OTHER_SETTINGS, "statement_timeout": str(round(statement_timeout_s * 1000))}
        self._session = "; ".join([session_sql(), *(f"SET {name} = '{value}'" for name, value in settings.items())])

    @asynccontextmanager
    async def connection(self, *, foreign: bool = False) -> AsyncIterator[AsyncConnection]:
        """Lends a connection in autocommit mode. psycopg's errors become `UpstreamError`. `foreign`: it runs users'
        SQL, so it is reset afterwards.

        Requests may take slightly longer than the statement timeout; a server that exceeds that is treated as lost.
        """
        async with self._pool.lend(self._reset if foreign else _is_at_rest) as connection:
            try:
                async with asyncio.timeout(self._limit_s):
                    yield connection
            except (psycopg.Error, TimeoutError) as problem:
                raise self.error(problem) from problem

    @asynccontextmanager
    async def apart(self) -> AsyncIterator[AsyncConnection]:
        """Opens a connection outside the pool, without statement and transaction timeouts, for long requests. psycopg's
        errors become `UpstreamError`."""
        connection = await self.open()
        try:
            await connection.execute(_PATIENT)
            yield connection
        except psycopg.Error as problem:
            raise self.error(problem) from problem
        finally:
            await self.end(connection)

    def error(self, problem: BaseException) -> UpstreamError:
        """Converts psycopg's error or a timeout."""
        failure = classify(problem, self._conninfo)
        return UpstreamError(failure.code, failure.detail, failure.hint, failure.retryable)

    async def begin_anew(self) -> None:
        """Closes all connections, lent ones when they are returned: the next ones may be to another server."""
        self.watch.begin_anew()
        await self._pool.begin_anew()

    async def continue_on(self, server: str) -> None:
        """Closes all connections, lent ones when they are returned: the next ones are to this server."""
        if server != self.watch.server:
            self.watch.accept(server)
            await self._pool.begin_anew()

    async def close(self) -> None:
        """Closes all connections, lent ones when they are returned."""
        await self._pool.close()

    async def open(self) -> AsyncConnection:
        try:
            check_conninfo(self._conninfo)
        except ValueError as problem:
            raise UpstreamError("invalid", str(problem)) from None
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                connection = await AsyncConnection.connect(
                    self._conninfo,
                    autocommit=True,
                    application_name="upquery",
                    client_encoding="UTF8",
                    **keepalive_parameters(self._conninfo),
                )
                try:
                    await connection.execute(self._session.encode())
                    self.watch.check(await _server_of(connection))
                except BaseException:
                    await connection.close()
                    raise
                return connection
        except (psycopg.Error, TimeoutError) as problem:
            raise self.error(problem) from None

    def is_open(self, connection: AsyncConnection) -> bool:
        """Unexpected data on an idle connection is most likely a termination notice."""
        return not (connection.closed or has_input(connection.pgconn.socket))

    async def end(self, connection: AsyncConnection) -> None:
        try:
            # The caller was cancelled: stop the server's work, too.
            if _is_busy(connection):
                await connection.cancel_safe(timeout=CANCEL_S)
        except psycopg.Error:
            pass
        finally:
            await connection.close()

    async def end_if_busy(self, connection: AsyncConnection) -> None:
        """Closes a connection whose statement was abandoned, and cancels the statement."""
        if _is_busy(connection):
            await self.end(connection)

    async def _reset(self, connection: AsyncConnection) -> bool:
        """Resets the session after users' SQL; False if that is impossible."""
        if not await _is_at_rest(connection):
            return False
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await connection.execute(_FORGET)
        except (psycopg.Error, TimeoutError):
            return False
        except BaseException:
            await connection.close()
            raise
        return True


async def _is_at_rest(connection: AsyncConnection) -> bool:
    """True outside of requests, transactions and pipelines."""
    pgconn = connection.pgconn
    is_idle = pgconn.status == ConnStatus.OK and pgconn.transaction_status == TransactionStatus.IDLE
    return is_idle and pgconn.pipeline_status == PipelineStatus.OFF


def _is_busy(connection: AsyncConnection) -> bool:
    pgconn = connection.pgconn
    return pgconn.status == ConnStatus.OK and pgconn.transaction_status == TransactionStatus.ACTIVE


async def _server_of(connection: AsyncConnection) -> str:
    """Returns the cluster's id and timeline; a promoted standby begins a new timeline. Empty without the right to query
    them."""
    try:
        found = await (await connection.execute(_SERVER)).fetchone()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction, psycopg.errors.FeatureNotSupported):
        return ""
    return "" if found is None else str(found[0])
