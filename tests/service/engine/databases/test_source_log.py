"""Logs of databases as streams from Debezium's topics recognize them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cdc.postgres.position import parse_lsn
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import PostgresLookups
from service.engine.databases.postgres.source_log import PostgresLog
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run


@asynccontextmanager
async def postgres_log(database: Database) -> AsyncIterator[PostgresLog]:
    pool = PostgresPool(database.url)
    try:
        yield PostgresLog(pool, PostgresLookups(pool))
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
