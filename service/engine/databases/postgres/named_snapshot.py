"""Exported snapshot of PostgreSQL for a build, with locks on its tables.

An exported snapshot lives as long as the transaction that exported it. Locks are taken before the snapshot, so no table
is rewritten or truncated between the two, or after (PostgreSQL manual, 13.2 and ``LOCK``).

*Invariants*: everything that the snapshot sees is in the stream by `bound`; `expired` is set as soon as the snapshot is
known to be unusable.

Not here: reading at it (`service.engine.builds.build`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection

from cdc.postgres.position import PostgresSnapshot, parse_lsn
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.upstream.named_snapshot import NamedSnapshot

#: Interval of connection checks, and their time limit.
_PULSE_S = 1.0
_ANSWER_S = 30.0
#: Maximum wait for a conflicting lock.
_LOCK_MS = 30_000
_SNAPSHOT = (
    "SELECT pg_catalog.pg_export_snapshot(), pg_catalog.pg_current_snapshot()::text,"
    " pg_catalog.pg_current_wal_insert_lsn()::text"
)


class PostgresHolder:
    """Implementation of `NamedSnapshots`."""

    local_only: str | None = None

    def __init__(self, pool: PostgresPool, url: str, password: str | None) -> None:
        self._pool = pool
        self._url = url
        self._password = password

    @property
    def upstream(self) -> dict[str, Any]:
        return {"kind": "postgresql", "url": self._url, "password": self._password}

    def held(self, tables: Iterable[str], folder: Path) -> AbstractAsyncContextManager[NamedSnapshot]:
        del folder
        return held_snapshot(self._pool, tables)


@asynccontextmanager
async def held_snapshot(pool: PostgresPool, tables: Iterable[str]) -> AsyncIterator[NamedSnapshot]:
    """Holds a snapshot until the end of the block or its release. Raises `UpstreamError`."""
    opened: asyncio.Future[NamedSnapshot] = asyncio.get_running_loop().create_future()
    keeper = asyncio.create_task(_keep(pool, sorted(set(tables)), opened))
    try:
        held = await opened
        yield held
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _keep(pool: PostgresPool, tables: list[str], opened: "asyncio.Future[NamedSnapshot]") -> None:
    """Runs the connection from start to end. Fails `opened` if no snapshot is taken."""
    try:
        async with pool.apart() as connection:
            held = await _export(connection, tables)
            if opened.done():  # Cancelled: nobody waits.
                return
            opened.set_result(held)
            try:
                await _until_released(connection, held)
            finally:
                held.expired.set()
    except BaseException as error:
        if not opened.done():
            opened.set_exception(error)
            return
        if not isinstance(error, Exception):
            raise


async def _export(connection: AsyncConnection, tables: list[str]) -> NamedSnapshot:
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    await connection.execute(f"SET LOCAL lock_timeout = {_LOCK_MS}")
    for table in tables:
        await connection.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE".encode())
    row = await (await connection.execute(_SNAPSHOT)).fetchone()
    assert row is not None
    version = str(row[1])
    return NamedSnapshot(str(row[0]), version, PostgresSnapshot.parse(version), parse_lsn(str(row[2])))


async def _until_released(connection: AsyncConnection, held: NamedSnapshot) -> None:
    """Checks the connection periodically, to detect silent disconnects. Returns when it is lost or released."""
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(held.released.wait(), _PULSE_S)
            return
        try:
            await asyncio.wait_for(connection.execute("SELECT 1"), _ANSWER_S)
        except (psycopg.Error, TimeoutError):
            return
