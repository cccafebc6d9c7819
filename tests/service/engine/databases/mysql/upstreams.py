"""Connections to a test's MariaDB as the service makes them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from cdc.mysql.stream import MySqlStream
from cdc.stream import Layouts
from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.lookups import MySqlLookups
from service.engine.databases.mysql.upstream import MySqlUpstream
from service.engine.upstream.upstream import UpstreamSession
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run

T = TypeVar("T")


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[MySqlUpstream]:
    """The upstream of a URL."""
    address = Address.parse(url)
    pool = MySqlPool(address, **options)
    try:
        yield MySqlUpstream(pool, MySqlLookups(pool), partial(_binlog, address))
    finally:
        await pool.close()


def asked(database: MariaDatabase | str, question: Callable[[UpstreamSession], Awaitable[T]]) -> T:
    """Return the answer of one session."""
    url = database if isinstance(database, str) else database.url

    async def ask() -> T:
        async with opened(url) as upstream, upstream.session() as session:
            return await question(session)

    return run(ask())


def _binlog(address: Address, layouts: Layouts) -> MySqlStream:
    return MySqlStream(address.options(), layouts, 1000, 10.0, silence_s=30.0)
