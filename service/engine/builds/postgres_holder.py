"""Holds a snapshot of PostgreSQL open, and the tables as they are, while others read at it.

An exported snapshot lives as long as the transaction that exported it. The locks come before the snapshot: no table
is rewritten or emptied between the two, or after (PostgreSQL manual, 13.2 and ``LOCK``).

*Invariants*: all that the snapshot sees is in the stream by `bound`; `expired` is set as soon as it is known that
nobody can read at the snapshot any more.

Not here: who reads at it (`builds.build`).
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection

from cdc.postgres.position import PostgresSnapshot, parse_lsn
from service.engine.builds.holder import NamedSnapshot
from service.engine.databases.postgres.connect import PostgresPool

#: How often the connection is tried, and how long it may take to answer.
_PULSE_S = 1.0
_ANSWER_S = 30.0
#: How long somebody else's lock is waited for.
_LOCK_MS = 30_000
_SNAPSHOT = (
    "SELECT pg_catalog.pg_export_snapshot(), pg_catalog.pg_current_snapshot()::text,"
    " pg_catalog.pg_current_wal_insert_lsn()::text"
)


class PostgresHolder:
    """Is a `Holder`."""

    def __init__(self, pool: PostgresPool, url: str, password: str | None) -> None:
        self._pool = pool
        self._url = url
        self._password = password

    @property
    def upstream(self) -> dict[str, Any]:
        """What a job is told of it."""
        return {"kind": "postgresql", "url": self._url, "password": self._password}

    def held(self, tables: Iterable[str], folder: Path) -> AbstractAsyncContextManager[NamedSnapshot]:
        """A snapshot, and the tables as they are."""
        del folder
        return held_snapshot(self._pool, tables)


@asynccontextmanager
async def held_snapshot(pool: PostgresPool, tables: Iterable[str]) -> AsyncIterator[NamedSnapshot]:
    """A snapshot, until the end of the block or until it is released. Raises `UpstreamError` if there is none."""
    opened: asyncio.Future[NamedSnapshot] = asyncio.get_running_loop().create_future()
    keeper = asyncio.create_task(_keep(pool, sorted(set(tables)), opened))
    try:
        held = await opened
        yield held
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _keep(pool: PostgresPool, tables: list[str], opened: "asyncio.Future[NamedSnapshot]") -> None:
    """The whole life of the connection. Fails `opened` if it does not come so far."""
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
        await connection.execute(f"LOCK TABLE ONLY {table} IN ACCESS SHARE MODE".encode())
    row = await (await connection.execute(_SNAPSHOT)).fetchone()
    assert row is not None
    version = str(row[1])
    return NamedSnapshot(str(row[0]), version, PostgresSnapshot.parse(version), parse_lsn(str(row[2])))


async def _until_released(connection: AsyncConnection, held: NamedSnapshot) -> None:
    """Tries the connection now and then: an end that nobody tells of is noticed, too. Returns when it is gone."""
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(held.released.wait(), _PULSE_S)
            return
        try:
            await asyncio.wait_for(connection.execute("SELECT 1"), _ANSWER_S)
        except (psycopg.Error, TimeoutError):
            return
