"""Estimates of PostgreSQL's planner for lookups of everything."""

import pytest

from dataflow.plan.nodes import Aggregate, Chain, Relation, inputs_of
from dataflow.sql import plan_view
from service.engine.databases.postgres.catalog import load_catalog
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.sizes import expected_sizes
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres


def test_conditions_groups_and_widths_count(database: Database) -> None:
    database.execute(
        "CREATE TABLE notes (id int PRIMARY KEY, kind int, body text)",
        "ALTER TABLE notes REPLICA IDENTITY FULL",
        "INSERT INTO notes SELECT i, i % 10, repeat('x', 500) FROM generate_series(1, 5000) i",
        "ANALYZE notes",
    )

    async def ask() -> None:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                catalog = await load_catalog(connection)
                bodies = plan_view("v", "SELECT id, body FROM notes WHERE kind = 3", catalog).relation
                counted = plan_view("v", "SELECT kind, count(*) AS n FROM notes GROUP BY kind", catalog).relation
                (kinds,) = inputs_of(counted)
                assert isinstance(bodies, Chain)
                assert isinstance(kinds, Aggregate)
                sizes = await expected_sizes(connection, [bodies, kinds], catalog)
        finally:
            await pool.close()
        wanted: list[Relation] = [bodies, kinds]
        assert list(sizes) == wanted
        assert 300 < sizes[bodies].rows < 800
        assert sizes[bodies].row_bytes > 400
        assert sizes[kinds].rows == 10

    run(ask())


def test_tables_that_were_never_analyzed_are_as_large_as_they_are(database: Database) -> None:
    database.execute(
        "CREATE TABLE few (id int PRIMARY KEY) WITH (autovacuum_enabled = false)",
        "CREATE TABLE none (id int PRIMARY KEY) WITH (autovacuum_enabled = false)",
        "CREATE TABLE many (id int PRIMARY KEY) WITH (autovacuum_enabled = false)",
        *(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in ("few", "none", "many")),
        "INSERT INTO few SELECT generate_series(1, 5)",
        "INSERT INTO many SELECT generate_series(1, 50000)",
    )

    async def ask() -> None:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                catalog = await load_catalog(connection)
                relations = [plan_view("v", f"SELECT id FROM {t}", catalog).relation for t in ("few", "none", "many")]
                chains = [relation for relation in relations if isinstance(relation, Chain)]
                few, none, many = (await expected_sizes(connection, chains, catalog)).values()
        finally:
            await pool.close()
        assert few.rows == 5
        assert none.rows == 0
        assert many.rows > 20_000

    run(ask())
