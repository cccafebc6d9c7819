"""Reads of a forum, a shop and an issue tracker: how many have incremental plans, and the reasons of the others."""

import json
from collections import Counter
from collections.abc import Callable

import pytest

from dataflow.schema import Catalog
from dataflow.sql.statement import statement_of
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.upstream import PostgresSession
from service.engine.upstream.upstream import UpstreamSession
from tests.fixtures import corpus
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run
from tests.service.engine.databases.mysql.upstreams import asked
from tests.sql.applications.reads import APPLICATIONS, READS, planned, reads, schema, share, table

Record = Callable[[str, object], None]
#: Least shares of incremental reads.
POSTGRES, MARIADB = 0.97, 0.97


@pytest.mark.parametrize("dialect", ["postgres", "mariadb"])
def test_all_reads_are_there(dialect: str) -> None:
    assert Counter(read.application for read in reads(dialect)) == dict.fromkeys(APPLICATIONS, READS)
    purposes = [(read.application, read.purpose) for read in reads(dialect)]
    assert len(set(purposes)) == len(purposes)


@pytest.mark.postgres
def test_postgres(database: Database, record_property: Record) -> None:
    database.execute(*schema("postgres"))

    async def ask() -> Catalog:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                return await accepting(PostgresSession(connection, "upquery"))
        finally:
            await pool.close()

    check(run(ask()), POSTGRES, record_property)


@pytest.mark.mariadb
def test_mariadb(mariadb: MariaDatabase, record_property: Record) -> None:
    mariadb.execute(*schema("mariadb"))
    check(asked(mariadb, accepting), MARIADB, record_property)


async def accepting(session: UpstreamSession) -> Catalog:
    """The catalog of a database that accepts all reads. InvalidQuery if it does not."""
    catalog = await session.load_catalog()
    for read in reads(catalog.dialect):
        await session.describe(statement_of(read.sql, catalog.dialect))
    return catalog


def check(catalog: Catalog, least: float, record: Record) -> None:
    found = planned(catalog)
    title = f"Reads of applications, {catalog.dialect}: {share(found):.1%} incremental"
    record(corpus.APPLICATIONS, json.dumps([title, *table(found)]))
    assert share(found) >= least, "\n".join(table(found))
