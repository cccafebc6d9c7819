"""Plans that the process before made: used where the same would be made, and only there."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from dataflow.collations import Collation
from dataflow.schema import Catalog, Column, Spread, SqlType, Table, UpstreamView
from dataflow.types import ViewId
from service.engine.views import plan_cache, planner
from service.engine.views.catalog_diff import Look
from service.engine.views.plan_cache import KnownPlans
from service.engine.views.planner import Planning, TableChecks
from service.engine.views.registry import Definition, InstalledView, Origin, RegisteredView, ViewPlan, ViewRegistry
from service.engine.views.tables import FollowedTables
from service.protocol.reads import ReadItem
from service.settings.sections import CdcSettings
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, until

INT, TEXT = SqlType("int4", "int4"), SqlType("text", "text")
CODE = {("function", "f"): "1"}
VIEWS = {
    "item": "SELECT id, name FROM items WHERE id = :id",
    "listed": "SELECT id, name FROM list WHERE id = :id",
    "named": "SELECT id, name FROM items",
    "above": "SELECT count(*) AS n FROM named WHERE name = :name",
    "other": "SELECT id FROM others WHERE id = :id",
}
#: What reads registered views is always planned anew.
KEPT = VIEWS.keys() - {"above"}
DEFINITIONS = {name: Definition(name, sql, Origin.CONFIG) for name, sql in VIEWS.items()}


def table(name: str, *columns: Column, keys: tuple[tuple[int, ...], ...] = ((0,),)) -> Table:
    return Table(f"public.{name}", (Column("id", INT, True), *columns), keys)


ITEMS, OTHERS = table("items", Column("name", TEXT)), table("others")
LIST = UpstreamView("public.list", " SELECT id, name FROM items", (Column("id", INT), Column("name", TEXT)))


def catalog(*tables: Table, views: Iterable[UpstreamView] = (LIST,)) -> Catalog:
    return Catalog({t.name: t for t in tables}, views={view.name: view for view in views})


LOOK = Look(None, CODE, catalog(ITEMS, OTHERS))


def registry_of(look: Look, directory: Path, names: Iterable[str]) -> ViewRegistry:
    """These of `VIEWS`, planned and installed."""
    registry = ViewRegistry(directory)
    registry.views = {name: RegisteredView(DEFINITIONS[name]) for name in names}

    async def planned(definition: Definition) -> ViewPlan:
        others = {name: sql for name, sql in VIEWS.items() if name != definition.name}
        checks = TableChecks(None, look.catalog.tables)  # type: ignore[arg-type]
        planning = Planning(replace(look.catalog, registered=others), checks)
        return await planning.plan(None, definition)  # type: ignore[arg-type]

    for number, name in enumerate(names):
        plan = asyncio.run(planned(DEFINITIONS[name]))
        registry.installations[ViewId(number)] = InstalledView(ViewId(number), plan, DEFINITIONS[name])
    return registry


def written(
    look: Look,
    directory: Path,
    names: Iterable[str] = VIEWS,
    registry: ViewRegistry | None = None,
    later: Look | None = None,
) -> KnownPlans:
    """The file of a session that began with a look; `later`, the last one."""
    registry = registry or registry_of(look, directory, names)
    known = KnownPlans(directory / "plans", registry, FollowedTables(CdcSettings()))
    assert known.under(look) == {}

    async def write() -> None:
        keeping = asyncio.ensure_future(known.keep(lambda: later or look))
        await until(known.path.exists)
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping

    asyncio.run(write())
    return known


def test_of_the_same_catalog_all_are_known(tmp_path: Path) -> None:
    known = written(LOOK, tmp_path)
    plans = {each.definition: each.plan for each in known.registry.installations.values()}
    assert plans.keys() == set(DEFINITIONS.values())
    made = {definition: plan for definition, plan in plans.items() if definition.name in KEPT}
    assert known.under(LOOK) == made
    counted = replace(ITEMS, estimated_rows=5.0, spreads={0: Spread(1.0, 1.0)}, indexes=((1,),))
    assert known.under(Look(None, CODE, catalog(counted, OTHERS))) == made


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (catalog(ITEMS, replace(OTHERS, keys=())), {"item", "listed", "named"}),
        (catalog(ITEMS), {"item", "listed", "named"}),
        (catalog(table("items", Column("name", TEXT, True)), OTHERS), {"other"}),
        (catalog(table("items", Column("name", replace(TEXT, collation="deterministic"))), OTHERS), {"other"}),
        (
            catalog(ITEMS, OTHERS, views=[replace(LIST, sql=LIST.sql + " WHERE true")]),
            {"item", "named", "other"},
        ),
        # Either may be what a bare name means.
        (catalog(ITEMS, OTHERS, replace(OTHERS, name="new.others")), {"item", "listed", "named"}),
        (catalog(ITEMS, OTHERS, replace(OTHERS, name="new.unrelated")), set(KEPT)),
        (replace(LOOK.catalog, search_path=("new", "public")), set()),
        (replace(LOOK.catalog, dialect="mariadb"), set()),
        (replace(LOOK.catalog, text=replace(TEXT, collation="nondeterministic")), set()),
    ],
)
def test_of_another_one_those_that_it_does_not_concern(now: Catalog, left: set[str], tmp_path: Path) -> None:
    known = written(LOOK, tmp_path)
    assert {definition.name for definition in known.under(Look(None, CODE, now))} == left


def test_of_other_code(tmp_path: Path) -> None:
    known = written(LOOK, tmp_path)
    assert known.under(replace(LOOK, code={("function", "f"): "2"})) == {}


def test_of_a_session_in_which_code_changed(tmp_path: Path) -> None:
    """Plans from before the change may be wrong now."""
    altered = replace(LOOK, code={("function", "f"): "2"})
    known = written(LOOK, tmp_path, later=altered)
    assert known.under(altered) == {}


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    known = written(LOOK, tmp_path)
    whole, made = known.path.read_bytes(), known.under(LOOK)
    for size in range(0, len(whole), 7):
        known.path.write_bytes(whole[:size])
        assert known.under(LOOK).items() <= made.items()
    for content in (b"nothing of the kind", whole[: len(whole) // 2] + b"\xff" * 100):
        known.path.write_bytes(content)
        assert known.under(LOOK).items() <= made.items()
    known.path.unlink()
    assert known.under(LOOK) == {}


def test_what_cannot_be_pickled_is_planned_again(tmp_path: Path) -> None:
    registry = registry_of(LOOK, tmp_path, VIEWS)
    odd = registry.installations[ViewId(0)]
    odd.plan = replace(odd.plan, described=frozenset({lambda: None}))  # type: ignore[arg-type]
    known = written(LOOK, tmp_path, registry=registry)
    assert {each.name for each in known.under(LOOK)} == KEPT - {odd.definition.name}


def test_collations_are_those_of_the_catalog(tmp_path: Path) -> None:
    def weighted() -> Collation:
        return Collation("utf8mb4_x", {ord(c): bytes([1, ord(c.lower())]) for c in "aAbB"}, pad_space=False)

    def look() -> Look:
        name = Column("name", replace(TEXT, collation="utf8mb4_x", weights=weighted()))
        return Look(None, CODE, replace(catalog(table("items", name), OTHERS), dialect="mariadb"))

    now = look()
    known = written(look(), tmp_path, ["item"])
    assert b"_levels" not in known.path.read_bytes()
    found = known.under(now)[DEFINITIONS["item"]]
    chain = found.view.relation  # type: ignore[union-attr]
    assert next(c.type.weights for c in chain.columns if c.type.weights is not None) is (  # type: ignore[union-attr]
        now.catalog.tables["public.items"].columns[1].type.weights
    )
    gone = Look(None, CODE, replace(LOOK.catalog, dialect="mariadb"))
    assert known.under(gone) == {}


@pytest.mark.postgres
def test_the_next_process_plans_nothing_twice(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute(
        "CREATE TABLE items (id int PRIMARY KEY, name text)",
        "ALTER TABLE items REPLICA IDENTITY FULL",
        "INSERT INTO items VALUES (1, 'one')",
    )
    views = {"item": VIEWS["item"]}

    async def rows(runtime: object) -> list[bytes]:
        reply = await runtime.read([ReadItem("item", ("1",))])  # type: ignore[attr-defined]
        return [answer.rows for answer in reply.answers]

    async def scenario() -> None:
        async with running(database, tmp_path, views=views) as runtime:
            before = await rows(runtime)
            await until((tmp_path / "plans").exists)
        analysed: list[str] = []
        monkeypatch.setattr(
            planner, "_analysed", lambda definition, _: analysed.append(definition.name) or pytest.fail("planned")
        )
        async with running(database, tmp_path, views=views) as runtime:
            assert await rows(runtime) == before
            database.execute("UPDATE items SET name = 'two'")
            assert analysed == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "fixture",
    [pytest.param("database", marks=pytest.mark.postgres), pytest.param("mariadb", marks=pytest.mark.mariadb)],
)
def test_of_a_table_that_lost_a_column_which_no_view_reads(
    fixture: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view goes on as it was planned; in the next process its columns stand elsewhere."""
    rounds: list[int] = []
    installed = KnownPlans._installed
    monkeypatch.setattr(plan_cache, "_EVERY_S", 0.05)
    monkeypatch.setattr(KnownPlans, "_installed", lambda known: (rounds.append(1), installed(known))[1])
    database: Database = request.getfixturevalue(fixture)
    database.execute(
        "CREATE TABLE items (id int PRIMARY KEY, unread int, name text, price int)",
        *(["ALTER TABLE items REPLICA IDENTITY FULL"] if fixture == "database" else []),
        "INSERT INTO items VALUES (1, 7, 'one', 70)",
    )

    async def scenario() -> None:
        wanted = [ReadItem("item", ("1",))]
        sections = {"views": {"item": VIEWS["item"]}, "cdc": {"schema_check_s": 0.05}}
        async with running(database, tmp_path, **sections) as runtime:  # type: ignore[arg-type]
            assert (await runtime.read(wanted)).answers[0].rows == b'[{"id":1,"name":"one"}]'
            database.execute("ALTER TABLE items DROP COLUMN unread")
            repair = runtime._parts.repair
            await until(lambda: repair.last and _columns_of(repair.last, "items") == 3)
            before = len(rounds)
            await until(lambda: len(rounds) > before + 2)
        async with running(database, tmp_path, **sections) as runtime:  # type: ignore[arg-type]
            assert (await runtime.read(wanted)).answers[0].rows == b'[{"id":1,"name":"one"}]'

    asyncio.run(scenario())


def _columns_of(look: Look, name: str) -> int:
    (found,) = (table for table in look.catalog.tables.values() if table.name.endswith(f".{name}"))
    return len(found.columns)
