"""Examples of `docs/sql.md`: they are planned over the demo's tables, as the service plans them.

A row of a table is an example if its first cell is SQL and its second how the view is kept. Of views that are not kept
incrementally, the third cell is the reason, in the service's own words.
"""

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import psycopg
import pytest

from dataflow.engine.explain import Explanation
from dataflow.plan.nodes import View
from dataflow.schema import Table
from service.demo.loading import create_tables
from service.demo.views import VIEWS
from service.engine.databases.postgres.catalog import load_catalog
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.upstream import PostgresSession
from service.engine.views.planner import Planning, TableChecks
from service.engine.views.registry import Definition, Origin, ViewOptions
from service.engine.views.tables import FollowedTables, TableRefusedError
from service.ground.errors import ApiError
from service.protocol.admin_models import PutView
from service.settings.sections import CdcSettings
from tests.fixtures.postgres import Database
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.postgres
PAGE = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
KEPT = ("partial", "partial, in parts", "partial, rest whole", "full", "refresh", "ttl", "refused")
#: How the page writes a collation that the service does not reproduce.
LOCALE = ' COLLATE "und-x-icu"'
ROW = re.compile(r"^\| `(?P<sql>[^`]+)` \| (?P<kept>[a-z, ]+) \|(?P<why>.*)\|$", re.MULTILINE)
WITH_OPTIONS = re.compile(r"^\| `(?P<options>\"[^`]+)` \| `(?P<sql>[^`]+)` \| (?P<kept>[a-z, ]+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """SQL on the page, and how it is kept."""

    sql: str
    kept: str
    #: What the page says beside it; None if that is no reason.
    why: str | None
    options: ViewOptions = field(default_factory=ViewOptions)
    name: str = "example"


def examples() -> Iterator[Example]:
    for row in ROW.finditer(PAGE):
        why = row["why"].strip() if row["kept"] in ("refresh", "ttl", "refused") else None
        yield Example(row["sql"], row["kept"], why)
    for row in WITH_OPTIONS.finditer(PAGE):
        body = PutView(sql=row["sql"], **json.loads("{" + row["options"] + "}"))
        yield Example(row["sql"], row["kept"], None, ViewOptions(**body.options()))


def block(language: str) -> str:
    """The page's one block of code in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def prepare(database: Database) -> None:
    """The demo's tables, and what the page adds to them."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        create_tables(connection)
        # The tests' server has no locales: what is known of the column's collation is put in by hand.
        connection.execute(block("sql").replace(LOCALE, "").encode())


def with_locale(places: Table) -> Table:
    """The table, `LOCALE` being the collation of its names."""
    columns = tuple(
        replace(c, type=replace(c.type, collation="deterministic", folding="")) if c.name == "name" else c
        for c in places.columns
    )
    return replace(places, columns=columns)


@dataclass(frozen=True)
class Found:
    """How the service would keep it: the page's word, the reason, the plan as text."""

    kept: str
    why: str
    text: str = ""


async def planned(database: Database, wanted: list[Example]) -> list[Found]:
    """How each would be kept, with the demo's views registered."""
    pool = PostgresPool(database.url)
    try:
        async with pool.connection() as connection:
            catalog = await load_catalog(connection)
            catalog = replace(catalog, registered={view.name: view.sql for view in VIEWS})
            catalog.tables["public.places"] = with_locale(catalog.tables["public.places"])
            planning = Planning(catalog, TableChecks(FollowedTables(CdcSettings()).refusals))
            return [await found(PostgresSession(connection, "upquery"), planning, example) for example in wanted]
    finally:
        await pool.close()


async def found(session: PostgresSession, planning: Planning, example: Example) -> Found:
    definition = Definition(example.name, example.sql, Origin.HTTP, example.options)
    try:
        plan = await planning.plan(session, definition)
    except ApiError as error:
        return Found("refused", str(error.detail))
    except TableRefusedError as error:
        return Found("refused", error.reason)
    if not isinstance(plan.view, View):
        return Found(str(plan.tier), plan.view.reason)
    explanation = Explanation(plan.view, planning.catalog, whole=plan.whole)
    return Found(kept(explanation), explanation.reason, explanation.text())


def kept(explanation: Explanation) -> str:
    """In the page's words."""
    if explanation.materialization == "partial":
        if explanation.reason.startswith("Only what is read"):
            return "partial, in parts"
        if "fully materialized" in explanation.reason:
            return "partial, rest whole"
    return explanation.materialization


def test_the_page_has_examples_of_every_kind() -> None:
    kinds = [example.kept for example in examples()]
    assert set(kinds) == set(KEPT)
    assert len(kinds) == len(re.findall(r"^\| `.*(?:SELECT|DELETE) .*\|$", PAGE, re.MULTILINE))


def test_views_are_kept_as_the_page_says(database: Database) -> None:
    prepare(database)
    wanted = list(examples())
    wrong = [
        f"{example.sql}\n  page: {example.kept}: {example.why}\n  is: {is_.kept}: {is_.why}"
        for example, is_ in zip(wanted, asyncio.run(planned(database, wanted)), strict=True)
        if example.kept != is_.kept or example.why not in (None, is_.why)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_plan_that_the_page_explains(database: Database) -> None:
    prepare(database)
    shown = Example(VIEWS[0].sql, "partial", None, name=VIEWS[0].name)
    (is_,) = asyncio.run(planned(database, [shown]))
    assert block("text") == is_.text
