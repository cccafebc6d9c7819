"""A change that is said to make no answer stale changes none: against the server, with random rows and changes."""

import random

import psycopg
import pytest

from dataflow.engine.events import TableDelta
from dataflow.engine.invalidation import invalidators_of
from dataflow.schema import Catalog
from dataflow.state.coverage import Coverage
from dataflow.types import Key, Row
from service.engine.databases.postgres.catalog import load_catalog
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.upstream import PostgresSession
from service.engine.views.planner import Planning, TableChecks
from service.engine.views.registry import Definition, Origin, Tier, ViewOptions, ViewPlan
from service.engine.views.tables import TableRefusedError
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres

SCHEMA = (
    "CREATE TABLE s (id int, author int, score int)",
    "CREATE TABLE v (story int, voter int, vote int)",
    "CREATE VIEW good AS SELECT s.id, s.author, sum(v.vote) AS votes FROM s JOIN v ON v.story = s.id AND v.vote > 0"
    " WHERE s.score IS DISTINCT FROM 2 GROUP BY s.id, s.author",
)
QUERIES = (
    "SELECT author, score FROM s WHERE id = :p",
    "SELECT s.id, v.vote FROM s LEFT JOIN v ON v.story = s.id AND v.vote = 1 WHERE s.id = :p AND s.score > 0",
    "SELECT s.id, v.vote FROM s LEFT JOIN v ON v.story = s.id WHERE v.vote IS NULL AND s.author = :p",
    "SELECT s.id, v.vote FROM s LEFT JOIN v ON v.story = s.id AND s.score = 1 WHERE s.author = :p",
    "SELECT id, (SELECT count(*) FROM s, (SELECT FROM v WHERE v.story = s.author) x WHERE s.author = :p) FROM s",
    "SELECT s.id, v.vote FROM s RIGHT JOIN v ON v.story = s.id AND s.score = 1 WHERE v.voter = :p",
    "SELECT s.id, s.score, v.vote FROM s FULL JOIN v ON v.story = s.id AND v.voter = s.author"
    " WHERE s.score = 1 AND v.vote < 2 OR s.author = :p",
    "SELECT s.id, v.vote FROM s FULL JOIN v ON v.story = s.id WHERE s.score > 0 AND coalesce(v.vote, 1) = 1",
    "SELECT (SELECT count(*) FROM v WHERE v.story = s.id AND v.vote = 1) FROM s WHERE s.author = :p",
    "SELECT id FROM s WHERE s.author = :p AND NOT EXISTS (SELECT FROM v WHERE v.story = s.id AND v.voter = s.author)",
    "SELECT id FROM s WHERE score NOT IN (SELECT vote FROM v WHERE voter = :p)",
    "SELECT a.id, b.id FROM s a JOIN s b ON b.author = a.id AND b.score = 1 WHERE a.id = :p",
    "SELECT x.n, s.id FROM s, LATERAL (SELECT count(*) AS n FROM v WHERE v.story = s.id AND v.vote > 0) x"
    " WHERE s.id = :p",
    "WITH v AS (SELECT story FROM v WHERE vote = 1) SELECT s.id, v.story FROM s LEFT JOIN v ON v.story = s.id"
    " WHERE s.author = :p",
    "SELECT id FROM s WHERE author = :p EXCEPT SELECT story FROM v WHERE vote = 2",
    "SELECT id, rank() OVER (PARTITION BY author ORDER BY score, id) FROM s WHERE score > 0 ORDER BY id, 2",
    "SELECT votes FROM good WHERE id = :p",
    "SELECT count(*), sum(score) FROM s WHERE author = :p HAVING count(*) > 1",
    "SELECT s FROM s WHERE id = :p",
    "SELECT DISTINCT author FROM s JOIN v ON voter = author WHERE v.vote = :p",
    "SELECT s.id, w.voter FROM s LEFT JOIN (v JOIN v w ON w.voter = v.voter AND w.vote = 1) ON v.story = s.id"
    " WHERE s.id = :p",
    "SELECT id FROM s WHERE author = :p ORDER BY score DESC NULLS LAST, id LIMIT 1",
    "SELECT :p::int + count(*) FROM s WHERE score = 1",
    "SELECT s.id FROM s JOIN v ON v.story = s.id JOIN s t ON t.id = v.voter WHERE v.story = :p AND t.score > 0",
)
KEYS = (0, 1, 2, 3)


@pytest.mark.parametrize("seed", range(4))
def test_untouched_answers_do_not_change(database: Database, seed: int) -> None:
    database.execute(*SCHEMA)
    plans, catalog = planned(database)
    world = _World(database, catalog, random.Random(seed))
    narrow = 0
    try:
        for _ in range(60):
            before = [world.answers(plan) for plan in plans]
            table, delta = world.change()
            for plan, old in zip(plans, before, strict=True):
                touched = touched_keys(plan, table, delta)
                narrow += len(old) - len(touched)
                for key, new in world.answers(plan).items():
                    if key not in touched:
                        assert sorted(map(str, new)) == sorted(map(str, old[key])), (plan.view.sql, key, table, delta)
    finally:
        world.connection.close()
    # Most of the time, most keys are spared.
    assert narrow > 60 * len(QUERIES)


def planned(database: Database) -> tuple[list[ViewPlan], Catalog]:
    """Every query as a refreshed view."""

    async def plan() -> tuple[list[ViewPlan], Catalog]:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                session = PostgresSession(connection, "upquery")
                catalog = await load_catalog(connection)
                planning = Planning(catalog, TableChecks(_nothing_refused, catalog.tables))
                options = ViewOptions(tier=Tier.REFRESH)
                plans = [
                    await planning.plan(session, Definition(f"q{i}", sql, Origin.HTTP, options))
                    for i, sql in enumerate(QUERIES)
                ]
                return plans, catalog
        finally:
            await pool.close()

    return run(plan())


async def _nothing_refused(*_: object) -> dict[str, TableRefusedError]:
    raise AssertionError("all tables are followed")


def keys_of(plan: ViewPlan) -> list[Key]:
    return [(str(key),) for key in KEYS] if plan.view.parameters else [()]


def touched_keys(plan: ViewPlan, table: str, delta: TableDelta) -> set[Key]:
    among = Coverage(tuple(range(len(plan.view.parameters))))
    for key in keys_of(plan):
        among.add(key)
    touches = invalidators_of(plan.view).get(table, [])  # type: ignore[arg-type]
    return {key for touch in touches for key in touch.keys(delta, among)}


class _World:
    def __init__(self, database: Database, catalog: Catalog, choice: random.Random) -> None:
        self.connection = psycopg.connect(database.url, autocommit=True)
        self.random = choice
        self.columns = {name: [c.name for c in table.columns] for name, table in catalog.tables.items()}
        for _ in range(8):
            self.change(insert=True)

    def answers(self, plan: ViewPlan) -> dict[Key, list[tuple[object, ...]]]:
        sql = plan.sql.replace("%", "%%").replace("($1::int4)", "(%(p)s::int4)")
        return {key: self.connection.execute(sql, {"p": key[0] if key else None}).fetchall() for key in keys_of(plan)}

    def change(self, *, insert: bool = False) -> tuple[str, TableDelta]:
        """One transaction's change of one table: rows come, go, or become others."""
        table = self.random.choice(sorted(self.columns))
        removed: list[Row] = []
        added: list[Row] = []
        for _ in range(self.random.randint(1, 2)):
            rows = self.connection.execute(f"SELECT ctid::text, t.* FROM {table} t").fetchall()
            if rows and not insert and self.random.random() < 0.7:
                ctid, *old = self.random.choice(rows)
                self.connection.execute(f"DELETE FROM {table} WHERE ctid = %s", [ctid])
                removed.append(_texts(old))
                if self.random.random() < 0.4:
                    continue
                new = [self._value() if self.random.random() < 0.4 else value for value in old]
            else:
                new = [self._value() for _ in self.columns[table]]
            self.connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s)", new)
            added.append(_texts(new))
        return table, TableDelta(removed, added)

    def _value(self) -> int | None:
        return self.random.choice((0, 1, 1, 2, 3, None))


def _texts(values: list[int | None]) -> Row:
    return tuple(None if value is None else str(value) for value in values)
