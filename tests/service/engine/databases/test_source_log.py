"""Logs of databases as streams from Debezium's topics recognize them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cdc.mysql.position import position_of
from cdc.postgres.position import parse_lsn
from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.source_log import MariaDbLog
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import PostgresLookups
from service.engine.databases.postgres.source_log import PostgresLog
from tests.fixtures.mariadb import MariaDatabase, MariaDbServer, empty_mariadb, start_mariadb
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run


@pytest.fixture(scope="module")
def own_server() -> Iterator[MariaDbServer]:
    """A server whose log may be reset."""
    server = start_mariadb()
    yield server
    server.discard()


@asynccontextmanager
async def postgres_log(database: Database) -> AsyncIterator[PostgresLog]:
    pool = PostgresPool(database.url)
    try:
        yield PostgresLog(pool, PostgresLookups(pool))
    finally:
        await pool.close()


@asynccontextmanager
async def mariadb_log(database: MariaDatabase) -> AsyncIterator[MariaDbLog]:
    pool = MySqlPool(Address.parse(database.url))
    try:
        yield MariaDbLog(pool)
    finally:
        await pool.close()


@pytest.mark.postgres
def test_the_log_of_postgres(database: Database) -> None:
    """Server, timeline and version are the same, and the log has not become shorter."""

    async def scenario() -> None:
        async with postgres_log(database) as log:
            mark = await log.mark()
        at = parse_lsn(str(database.query("SELECT pg_current_wal_insert_lsn()::text")[0][0]))
        async with postgres_log(database) as log:
            assert await log.refusal(mark, at) == ""
            assert "it was system 1, timeline 2" in await log.refusal("system 1, timeline 2, version 3", at)
            assert "before FF/0, which was applied" in await log.refusal(mark, 0xFF << 32)

    run(scenario())


@pytest.mark.mariadb
def test_the_log_of_mariadb(own_server: MariaDbServer) -> None:
    """A log has the same transactions before the same place; not any more when it was reset, however long it is."""

    async def scenario(database: MariaDatabase) -> None:
        def end() -> int:
            ((file, offset, *_),) = database.query("SHOW MASTER STATUS")
            return position_of(file, offset)

        async def refusal(mark: str, at: int) -> Any:
            async with mariadb_log(database) as log:
                return await log.refusal(mark, at)

        database.execute("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)")
        async with mariadb_log(database) as log:
            mark, at = await log.mark(), end()
        assert await refusal(mark, at) == ""
        assert "before what was applied" in await refusal(mark, at + 1)
        database.execute("INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS")
        assert await refusal(mark, at) == ""
        database.execute("RESET MASTER")
        assert "before what was applied" in await refusal(mark, at)
        database.execute("FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
        assert end() > at
        assert "or other transactions before it" in await refusal(mark, at)

    with empty_mariadb(own_server) as database:
        run(scenario(database))
