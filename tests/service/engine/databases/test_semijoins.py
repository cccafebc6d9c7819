"""Semijoins on real databases: a semijoin brings what a lookup by its keys brings, alone and in a round."""

from collections import Counter
from dataclasses import replace

import pytest

from dataflow.engine.engine import Engine
from dataflow.engine.events import InstallView, Read, StreamStarted
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.types import ReadId, ViewId
from service.engine.databases.drivers import open_upstream
from service.engine.upstream.results import UNLIMITED, LookupRows
from service.engine.upstream.upstream import Upstream
from service.settings.stack import Settings
from tests.dataflow.engine.site import Now
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.streams import LIMIT_S, run

SCHEMA = (
    "CREATE TABLE shelves (id int PRIMARY KEY, room varchar(20), label varchar(20), height numeric(6,2), day date)",
    "CREATE TABLE books (id int PRIMARY KEY, shelf int, label varchar(20), height numeric(6,2), day date, title text)",
    "CREATE INDEX a ON books (shelf)",
    "CREATE INDEX b ON books (label, day)",
    "CREATE INDEX c ON books (height)",
    "INSERT INTO shelves VALUES (1, 'red', 'a', 1.50, '2026-01-01'), (2, 'red', 'b''\"\\\\', 2, '2026-01-02'),"
    " (3, 'red', NULL, NULL, NULL), (4, 'red', 'A', 1.5, '2026-01-01'), (5, 'red', 'empty', 9, '2026-01-05'),"
    " (6, 'blue', 'c', 3, '2026-01-06')",
    "INSERT INTO books VALUES (1, 1, 'a', 1.5, '2026-01-01', 'one'), (2, 1, 'a', 1.50, '2026-01-01', NULL),"
    " (3, 2, 'b''\"\\\\', 2, '2026-01-02', 'two'), (4, 4, 'A', 7, '2026-01-01', ''), (5, 6, 'c', 3, '2026-01-06', 'x'),"
    " (6, NULL, NULL, NULL, NULL, 'nowhere')",
)
#: With the number of keys that are found, by dialect: MariaDB's collation takes a and A for one.
VIEWS = {
    "SELECT s.id, b.title FROM shelves s JOIN books b ON b.shelf = s.id WHERE s.room = :room": (5, 5),
    "SELECT s.id, b.id AS b FROM shelves s LEFT JOIN books b ON b.label = s.label WHERE s.room = :room": (4, 3),
    "SELECT s.id, b.id AS b FROM shelves s JOIN books b ON b.height = s.height WHERE s.room = :room": (3, 3),
    "SELECT s.id, b.id AS b FROM shelves s JOIN books b ON b.label = s.label AND b.day = s.day"
    " WHERE s.room = :room AND s.id < 5": (3, 2),
    "SELECT s.id, COUNT(b.id) AS n, MAX(b.height) AS h FROM shelves s LEFT JOIN books b ON b.shelf = s.id"
    " WHERE s.room = :room GROUP BY s.id": (5, 5),
}


def semijoin_of(sql: str, catalog: Catalog) -> Lookup:
    """The semijoin of a miss of key `red`."""
    engine = Engine(catalog)
    engine.step(StreamStarted(0, Now()))
    engine.step(InstallView(ViewId(1), plan_view("view", sql, catalog)))
    effects = engine.step(Read(ReadId(1), ((ViewId(1), ("red",), None),)))
    (found,) = [effect for effect in effects if isinstance(effect, Lookup) and effect.semijoin is not None]
    return found


async def check(upstream: Upstream, found: LookupRows | None, asked: Lookup, catalog: Catalog, keys: int) -> None:
    assert found is not None
    node_keys = {key for key in found.keys if None not in key}
    by_keys = replace(asked, semijoin=None, keys=tuple(node_keys))
    expected = await upstream.lookups.run(by_keys, catalog)
    assert Counter(found.rows) == Counter(expected.rows)
    assert found.rows
    # Of one height in two texts, both may come.
    assert keys <= len(node_keys) <= keys + 1


def compare(url: str, dialect: int) -> None:
    async def compare_all() -> None:
        upstream = open_upstream(Settings(upstream={"url": url}))  # type: ignore[arg-type]
        try:
            async with upstream.session() as session:
                catalog = await session.load_catalog()
            asked = {semijoin_of(sql, catalog): keys[dialect] for sql, keys in VIEWS.items()}
            lookups = list(asked)
            together = await upstream.lookups.run_round(lookups, catalog, UNLIMITED, LIMIT_S)
            for lookup, found in zip(lookups, together, strict=True):
                alone = await upstream.lookups.run(lookup, catalog)
                for each in (found, alone):
                    await check(upstream, each, lookup, catalog, asked[lookup])
        finally:
            await upstream.close()

    run(compare_all())


@pytest.mark.postgres
def test_postgres(database: Database) -> None:
    database.execute(*(statement.replace("\\\\", "\\") for statement in SCHEMA))
    compare(database.url, 0)


@pytest.mark.mariadb
def test_mariadb(mariadb: MariaDatabase) -> None:
    mariadb.execute(*SCHEMA)
    compare(mariadb.url, 1)
