"""Connections to a test's MariaDB as the service makes them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from service.upstream.mysql.address import Address
from service.upstream.mysql.connect import UpstreamPool
from service.upstream.mysql.lookups import Lookups
from service.upstream.mysql.upstream import MySqlUpstream, binlog_source
from service.upstream.upstream import UpstreamSession
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run

T = TypeVar("T")


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[MySqlUpstream]:
    """The upstream of a URL."""
    address = Address.parse(url)
    pool = UpstreamPool(address, **options)
    try:
        yield MySqlUpstream(pool, Lookups(pool), binlog_source(address, 1000, 10.0, 30.0))
    finally:
        await pool.close()


def asked(database: MariaDatabase | str, question: Callable[[UpstreamSession], Awaitable[T]]) -> T:
    """What one session answers."""
    url = database if isinstance(database, str) else database.url

    async def ask() -> T:
        async with opened(url) as upstream, upstream.session() as session:
            return await question(session)

    return run(ask())
