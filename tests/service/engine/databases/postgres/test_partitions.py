"""Partitioned tables: their definitions, layouts, findings and remedies."""

import pytest

from cdc.change import Partition
from service.engine.databases.postgres.checks import check_schema, check_tables, repair_identity
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.publication import ensure_published
from service.engine.upstream.identities import FULL
from service.engine.upstream.results import Finding
from tests.fixtures.postgres import Database
from tests.fixtures.streams import PUBLICATION, run
from tests.service.engine.databases.postgres.test_catalog import catalog_of, layouts_of

pytestmark = pytest.mark.postgres

ROOT = "CREATE TABLE t (id int, at date, n float8, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)"
OLD = "CREATE TABLE t_old PARTITION OF t FOR VALUES FROM (MINVALUE) TO ('2026-01-01')"
NEW = (
    "CREATE TABLE t_new PARTITION OF t FOR VALUES FROM ('2026-01-01') TO (MAXVALUE) PARTITION BY HASH (id)",
    "CREATE TABLE other (n float8, gone int, at date NOT NULL, id int NOT NULL)",
    "ALTER TABLE other DROP COLUMN gone",
    "ALTER TABLE t_new ATTACH PARTITION other FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
)
PUBLISHED = "CREATE PUBLICATION upquery FOR TABLE t"


def findings(database: Database, *, whole_rows: bool = False, captured: bool = False) -> list[Finding]:
    async def check() -> list[Finding]:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                return await check_tables(
                    connection, PUBLICATION, ["public.t"], whole_rows=whole_rows, captured=captured
                )
        finally:
            await pool.close()

    return run(check())


def publish(database: Database, *tables: str) -> list[str]:
    async def ensure() -> list[str]:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                return await ensure_published(connection, PUBLICATION, tables)
        finally:
            await pool.close()

    return run(ensure())


def notices(database: Database, *changes: str) -> list[str]:
    """Make changes and return the reasons for which the table does not match its former layout."""
    layouts = layouts_of(database, "public.t", publication=PUBLICATION)
    database.execute(*changes)

    async def check() -> list[str]:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                return [notice.reason for notice in await check_schema(connection, layouts, PUBLICATION)]
        finally:
            await pool.close()

    return run(check())


def test_layout(database: Database) -> None:
    """Lists the leaves of the tree, each with its own order of columns."""
    database.execute(ROOT, OLD, *NEW, "CREATE TABLE plain (id int)")
    layouts = layouts_of(database, "public.t", "public.plain")
    oids = dict(database.query("SELECT relname::text, oid::int8 FROM pg_class"))
    assert layouts["public.t"].partitions == tuple(
        sorted(
            (Partition(oids["t_old"], ("id", "at", "n")), Partition(oids["other"], ("n", "at", "id"))),
            key=lambda each: each.table_id,
        )
    )
    assert layouts["public.t"].table_id == oids["t"]
    assert layouts["public.plain"].partitions is None
    database.execute("DROP TABLE t", ROOT)
    assert layouts_of(database, "public.t")["public.t"].partitions == ()


def test_definition(database: Database) -> None:
    """Rows are those of all leaves; old rows are known as far as those of every leaf are."""
    rows = "INSERT INTO t SELECT i, date '2025-12-22' + i % 20, i % 5 FROM generate_series(1, 1000) i"
    database.execute(ROOT, OLD, *NEW, rows)
    database.execute("ANALYZE t, t_old, other")
    table = catalog_of(database).tables["public.t"]
    assert (table.keys, table.identity, table.estimated_rows) == (((0, 1),), (0, 1), 1000)
    assert table.spreads[2].mean == pytest.approx(200)
    database.execute("ALTER TABLE t_old REPLICA IDENTITY FULL")
    assert catalog_of(database).tables["public.t"].identity == (0, 1)
    database.execute("ALTER TABLE other REPLICA IDENTITY FULL")
    assert catalog_of(database).tables["public.t"].identity is None


def test_statistics_of_an_emptied_table(database: Database) -> None:
    """The root keeps them when partitions are truncated."""
    database.execute(ROOT, OLD, "INSERT INTO t SELECT i, '2025-01-01', 1 FROM generate_series(1, 1000) i", "ANALYZE t")
    database.execute("TRUNCATE t")
    table = catalog_of(database).tables["public.t"]
    assert (table.estimated_rows, table.spreads) == (0, {})


def test_a_partitioned_table_is_published_with_later_partitions(database: Database) -> None:
    database.execute(ROOT, OLD)
    assert [(f.code, f.fatal) for f in findings(database)] == [("publication", False)]
    assert publish(database, "public.t") == ["public.t"]
    database.execute(*NEW)
    assert findings(database) == []
    assert publish(database, "public.t", "public.t_old", "public.other") == []


@pytest.mark.parametrize("publication", ["FOR ALL TABLES", "FOR TABLES IN SCHEMA public"])
def test_a_publication_of_everything(database: Database, publication: str) -> None:
    if "SCHEMA" in publication:
        database.require(15, "publications of schemas")
    database.execute(ROOT, OLD, f"CREATE PUBLICATION upquery {publication}")
    assert (findings(database), publish(database, "public.t")) == ([], [])


@pytest.mark.parametrize(
    ("statements", "reason", "fix"),
    [
        (["CREATE TABLE t (id int) PARTITION BY LIST (id)"], "has no primary key", None),
        (["CREATE TABLE t (id int PRIMARY KEY DEFERRABLE) PARTITION BY LIST (id)"], "DEFERRABLE", None),
        (
            [ROOT, OLD, "ALTER TABLE t_old REPLICA IDENTITY NOTHING"],
            "The replica identity of public.t_old, a partition of public.t, lacks columns of the primary key.",
            "ALTER TABLE public.t_old REPLICA IDENTITY DEFAULT;",
        ),
        (
            [
                ROOT,
                OLD,
                "CREATE UNIQUE INDEX one ON t_old (id)",
                "ALTER TABLE t_old REPLICA IDENTITY USING INDEX one",
            ],
            "lacks columns of the primary key",
            "ALTER TABLE public.t_old REPLICA IDENTITY DEFAULT;",
        ),
        (
            [ROOT, OLD, "ALTER TABLE t_old SET UNLOGGED", PUBLISHED],
            "its changes are not logged",
            "ALTER TABLE public.t_old SET LOGGED;",
        ),
        (
            [ROOT, OLD, f"{PUBLISHED} WITH (publish_via_partition_root)"],
            "publishes partitions as their root, and then not their TRUNCATE: public.t.",
            "ALTER PUBLICATION upquery SET (publish_via_partition_root = false);",
        ),
        (
            [ROOT, OLD, f"{PUBLISHED} WITH (publish = 'insert')"],
            "omits some operations",
            "ALTER PUBLICATION upquery SET (publish = 'insert, update, delete, truncate');",
        ),
        (
            [ROOT, OLD, f"{PUBLISHED}, t_old WHERE (id > 1)"],
            "upquery publishes only some rows or columns of public.t_old, a partition of public.t.",
            "ALTER PUBLICATION upquery DROP TABLE public.t_old;",
        ),
    ],
)
def test_partitions_that_cannot_be_followed(
    database: Database, statements: list[str], reason: str, fix: str | None
) -> None:
    database.execute(*statements)
    (found,) = (finding for finding in findings(database) if finding.fatal)
    assert reason in found.reason
    assert (found.table, found.fix) == ("public.t", fix)
    if fix is not None:
        database.execute(fix)
        assert not [finding for finding in findings(database) if finding.fatal]


def test_over_a_connector(database: Database) -> None:
    """Partitions have topics of their own."""
    database.execute(ROOT, OLD)
    assert "topics of their own" in next(f.reason for f in findings(database, captured=True) if f.fatal)


def test_whole_rows(database: Database) -> None:
    """One statement gives every partition full identity."""
    database.execute(ROOT, OLD, *NEW, PUBLISHED)
    (finding,) = findings(database, whole_rows=True)
    assert (finding.code, finding.fix) == ("replica_identity", FULL.statement("public.t", partitioned=True))

    async def repair() -> None:
        pool = PostgresPool(database.url)
        async with pool.connection() as connection:
            await repair_identity(connection, finding)
        await pool.close()

    run(repair())
    assert findings(database, whole_rows=True) == []
    assert catalog_of(database).tables["public.t"].identity is None


def test_notices(database: Database) -> None:
    """Other partitions are another table; other names, or a rewrite, of the same are not."""
    database.execute(ROOT, OLD, *NEW, PUBLISHED)
    assert notices(database, "ALTER TABLE t_old RENAME TO older", "VACUUM FULL other") == []
    partitions = ["Partitions of public.t were created, attached, detached or dropped."]
    assert notices(database, "ALTER TABLE t DETACH PARTITION older") == partitions
    attach = "ALTER TABLE t ATTACH PARTITION older FOR VALUES FROM (MINVALUE) TO ('2026-01-01')"
    assert notices(database, attach) == partitions
    (reason,) = notices(database, "ALTER TABLE older REPLICA IDENTITY NOTHING")
    assert "public.older, a partition of public.t" in reason


def test_what_left_the_stream_for_a_while(database: Database) -> None:
    """A partition, or the schema: nothing but the rows of the catalog tells."""
    database.execute(ROOT, OLD, *NEW, "CREATE PUBLICATION upquery FOR TABLE t")
    old = "ATTACH PARTITION t_old FOR VALUES FROM (MINVALUE) TO ('2026-01-01')"
    new = "ATTACH PARTITION t_new FOR VALUES FROM ('2026-01-01') TO (MAXVALUE)"
    assert notices(database, "UPDATE t SET n = 1", "ANALYZE t", "CREATE TABLE elsewhere (id int)") == []
    for partition, attach in (("t_old", old), ("t_new", new)):
        (reason,) = notices(database, f"ALTER TABLE t DETACH PARTITION {partition}", f"ALTER TABLE t {attach}")
        assert reason == "The publication or the partitions of public.t have changed; changes may be missing."
    if database.version >= 15:
        database.execute("DROP PUBLICATION upquery", "CREATE PUBLICATION upquery FOR TABLES IN SCHEMA public")
        (reason,) = notices(
            database,
            *[f"ALTER PUBLICATION upquery {word} TABLES IN SCHEMA public" for word in ("DROP", "ADD")],
        )
        assert "changes may be missing" in reason
