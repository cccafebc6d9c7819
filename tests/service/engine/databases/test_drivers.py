"""The upstream of a URL, in each form that a URL may have."""

import pytest

from service.engine.databases.drivers import open_upstream
from service.settings.stack import Settings
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run


def connect(url: str) -> None:
    async def check() -> None:
        upstream = open_upstream(Settings(upstream={"url": url}))  # type: ignore[arg-type]
        try:
            await upstream.lookups.snapshot()
        finally:
            await upstream.close()

    run(check())


@pytest.mark.postgres
@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_postgres(database: Database, scheme: str) -> None:
    connect(f"{scheme}://{database.url.partition('://')[2]}?application_name=upquery%20tests")


@pytest.mark.mariadb
@pytest.mark.parametrize("scheme", ["mariadb", "mysql", "mariadb+pymysql", "mysql+pymysql"])
def test_mariadb(mariadb: MariaDatabase, scheme: str) -> None:
    connect(f"{scheme}://{mariadb.url.partition('://')[2]}?charset=utf8mb4")
