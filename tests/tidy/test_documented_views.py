"""The SQL and the commands that the README shows work: they are planned by the real planner over the demo's tables."""

import asyncio
import json
import re
import shlex

import psycopg
import pytest

from dataflow.plan.nodes import View
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from service.demo.loading import create_tables
from service.demo.views import VIEWS
from service.engine.databases.postgres.catalog import load_catalog
from tests.fixtures.postgres import Database
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.postgres
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def catalog(database: Database) -> Catalog:
    """The catalog of the demo's empty tables."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        create_tables(connection)

    async def load() -> Catalog:
        async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as connection:
            return await load_catalog(connection)

    return asyncio.run(load())


def words(sql: str) -> list[str]:
    return sql.split()


def test_the_first_view_is_the_demos() -> None:
    shown = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    assert [words(sql) for sql in shown] == [words(VIEWS[0].sql)]


def test_every_demo_view_is_planned(catalog: Catalog) -> None:
    for view in VIEWS:
        planned = plan_view(view.name, view.sql, catalog)
        assert isinstance(planned, View)
        assert [p.name for p in planned.parameters] == list(view.example_parameters)


def test_the_view_that_readers_register_is_planned(catalog: Catalog) -> None:
    commands = [shlex.split(line) for line in README.replace("\\\n", "").splitlines() if line.startswith("$ curl")]
    bodies = [json.loads(c[c.index("-d") + 1]) for c in commands if "-d" in c]
    assert bodies
    for body in bodies:
        assert [p.name for p in plan_view("busy_stories", body["sql"], catalog).parameters] == ["author"]


def test_commands_read_views_that_exist() -> None:
    read = set(re.findall(r"/v1/views/(\w+)\?", README))
    registered = set(re.findall(r"/v1/catalog/views/(\w+)", README))
    assert read <= registered | {view.name for view in VIEWS}
