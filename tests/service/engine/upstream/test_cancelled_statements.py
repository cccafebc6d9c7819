"""A statement that is cancelled at whatever moment ends itself and no other one."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import PostgresLookups
from service.engine.upstream.upstream import Lookups
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.seeds import day_seed
from tests.fixtures.streams import run
from tests.service.engine.databases.mysql.upstreams import opened

STATEMENTS, AT_ONCE, CONNECTIONS = 400, 6, 3
Query = Callable[[Random], str]


async def storm(lookups: Lookups, delay: Query, random: Random) -> None:
    """Statements of a millisecond or two, a third of which is cancelled, on few connections: each of the others is
    answered, with its own answer."""
    answered = 0

    async def ask(number: int) -> None:
        nonlocal answered
        found = await lookups.forward(
            [(f"SELECT {number} AS n, {delay(random)} AS slept", [])] * random.choice((1, 1, 2))
        )
        assert {rows[0][0] for rows in found.rows} == {str(number)}
        answered += 1

    async def askers(numbers: range) -> None:
        for number in numbers:
            task = asyncio.ensure_future(ask(number))
            cancelled = random.random() < 0.4
            if cancelled:
                asyncio.get_running_loop().call_later(random.random() * 0.004, task.cancel)
            (error,) = await asyncio.gather(task, return_exceptions=True)
            assert error is None or (cancelled and isinstance(error, asyncio.CancelledError)), error

    await asyncio.gather(*(askers(range(i, STATEMENTS, AT_ONCE)) for i in range(AT_ONCE)))
    assert STATEMENTS // 2 < answered < STATEMENTS


@pytest.mark.postgres
def test_postgres(database: Database) -> None:
    async def check() -> None:
        pool = PostgresPool(database.url, CONNECTIONS)
        try:
            await storm(PostgresLookups(pool), lambda r: f"pg_sleep({r.random() * 0.002})::text", random)
        finally:
            await pool.close()

    random = Random(day_seed("cancelled statements"))
    run(check())


@pytest.mark.mariadb
def test_mariadb(mariadb: MariaDatabase) -> None:
    async def check() -> None:
        async with opened(mariadb.url, size=CONNECTIONS) as upstream:
            await upstream.lookups.snapshot()
            await storm(upstream.lookups, lambda r: f"SLEEP({r.random() * 0.002})", random)

    random = Random(day_seed("cancelled statements"))
    run(check())
