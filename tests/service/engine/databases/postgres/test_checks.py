"""Each finding names what is wrong and the statement that repairs it; the statement does."""

import time
from types import SimpleNamespace

import psycopg
import pytest

from service.engine.databases.postgres.checks import check_server, check_tables, repair_identity
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.publication import ensure_published
from service.engine.upstream.results import Finding, UpstreamError
from tests.fixtures.postgres import Database
from tests.fixtures.streams import PUBLICATION, run

pytestmark = pytest.mark.postgres


def findings(database: Database, *tables: str, user: str = "postgres", whole_rows: bool = False) -> list[Finding]:
    """Return the findings of the tables; without any, of the server."""

    async def check() -> list[Finding]:
        pool = PostgresPool(database.url.replace("postgres@", f"{user}@"))
        try:
            async with pool.connection() as connection:
                if tables:
                    return await check_tables(connection, PUBLICATION, tables, whole_rows=whole_rows)
                return await check_server(connection, PUBLICATION)
        finally:
            await pool.close()

    return run(check())


def fatal(database: Database, *tables: str, user: str = "postgres") -> list[tuple[str, str | None]]:
    return [(finding.code, finding.fix) for finding in findings(database, *tables, user=user) if finding.fatal]


def test_nothing_wrong(database: Database) -> None:
    """A server made for it, and a table made for it."""
    database.execute("CREATE TABLE t (a int4)", "ALTER TABLE t REPLICA IDENTITY FULL")
    assert findings(database) == []
    (warning,) = findings(database, "public.t")
    assert (warning.code, warning.fatal) == ("publication", False)
    assert warning.fix == "ALTER PUBLICATION upquery ADD TABLE public.t;"
    database.execute("CREATE PUBLICATION upquery FOR ALL TABLES")
    assert findings(database, "public.t") == []


@pytest.mark.parametrize(("ahead_s", "where"), [(5.0, " s behind this machine"), (-5.0, " s ahead of this machine")])
def test_another_clock(database: Database, monkeypatch: pytest.MonkeyPatch, ahead_s: float, where: str) -> None:
    now_s = time.time() + ahead_s
    monkeypatch.setattr("service.engine.upstream.clock_check.time", SimpleNamespace(time=lambda: now_s))
    (warning,) = findings(database)
    assert (warning.code, warning.fatal) == ("clock", False)
    assert where in warning.reason


def test_rights_that_only_help(database: Database) -> None:
    """Such a finding does not prevent the start, and disappears with the grant."""
    name = f"reader_{database.name}"
    database.execute(f"CREATE ROLE {name} LOGIN REPLICATION", f"GRANT CREATE ON DATABASE {database.name} TO {name}")
    try:
        (warning,) = findings(database, user=name)
        assert (warning.code, warning.fatal) == ("backends", False)
        assert warning.fix is not None
        database.execute(warning.fix)
        assert findings(database, user=name) == []
    finally:
        database.execute(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def repair(database: Database, finding: Finding, user: str = "postgres") -> None:
    """Run the service's own way to set an identity."""

    async def go() -> None:
        pool = PostgresPool(database.url.replace("postgres@", f"{user}@"))
        try:
            async with pool.connection() as connection:
                await repair_identity(connection, finding)
        finally:
            await pool.close()

    run(go())


@pytest.mark.parametrize(
    ("statements", "reason", "identity"),
    [
        (["CREATE TABLE t (a int4, b int4)"], "public.t has no primary key and no other replica identity, so", "FULL"),
        (
            ["CREATE TABLE t (a int4 NOT NULL UNIQUE, b int4)"],
            "public.t has no primary key and no other replica identity, so",
            "USING INDEX t_a_key",
        ),
        (
            ["CREATE TABLE t (a int4 PRIMARY KEY, b int4)", "ALTER TABLE t REPLICA IDENTITY NOTHING"],
            "The replica identity of public.t is NOTHING, so",
            "DEFAULT",
        ),
        (
            ["CREATE TABLE t (a int4, b int4)", "ALTER TABLE t REPLICA IDENTITY NOTHING"],
            "The replica identity of public.t is NOTHING, so",
            "FULL",
        ),
        (
            [
                "CREATE TABLE t (a int4 PRIMARY KEY, b int4 NOT NULL UNIQUE)",
                "ALTER TABLE t REPLICA IDENTITY USING INDEX t_b_key",
                "ALTER TABLE t DROP CONSTRAINT t_b_key",
            ],
            "The index of the replica identity of public.t was dropped or is not valid, so",
            "DEFAULT",
        ),
        (
            ["CREATE TABLE t (a int4 PRIMARY KEY DEFERRABLE, b int4)"],
            "The primary key of public.t is DEFERRABLE, which excludes it from being the replica identity, so",
            "FULL",
        ),
        (
            [
                "CREATE TABLE t (a int4 PRIMARY KEY DEFERRABLE, b int4 NOT NULL, c int4 NOT NULL)",
                'CREATE UNIQUE INDEX "A ""b""" ON t (c, b) INCLUDE (a)',
                # None of these can be one.
                "CREATE UNIQUE INDEX ON t (b) WHERE c > 0",
                "CREATE UNIQUE INDEX ON t ((b + 1))",
                "CREATE INDEX ON t (b)",
                "ALTER TABLE t ADD d int4 UNIQUE, ADD e int4 NOT NULL DEFAULT 0 UNIQUE DEFERRABLE",
            ],
            "The primary key of public.t is DEFERRABLE, which excludes it from being the replica identity, so",
            'USING INDEX "A ""b"""',
        ),
    ],
)
def test_a_table_without_replica_identity(
    database: Database, statements: list[str], reason: str, identity: str
) -> None:
    """The finding has the real reason; its remedy is the least, for a table that is created in any way."""
    database.execute(*statements, "CREATE PUBLICATION upquery FOR ALL TABLES")
    (finding,) = findings(database, "public.t")
    assert (finding.code, finding.fatal) == ("replica_identity", True)
    assert finding.reason == f"{reason} a publication would make its updates and deletes fail."
    assert finding.fix == f"ALTER TABLE public.t REPLICA IDENTITY {identity};"
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        database.execute("UPDATE t SET b = b")
    repair(database, finding)
    assert findings(database, "public.t") == []
    database.execute("UPDATE t SET b = b")


def test_readers_that_need_whole_rows(database: Database) -> None:
    """Nothing less than FULL is a remedy."""
    database.execute("CREATE TABLE t (a int4 PRIMARY KEY)", "CREATE PUBLICATION upquery FOR ALL TABLES")
    (finding,) = findings(database, "public.t", whole_rows=True)
    assert not finding.fatal
    assert finding.reason.startswith("The replica identity of public.t is (a): ")
    assert finding.fix == "ALTER TABLE public.t REPLICA IDENTITY FULL;"
    database.execute("ALTER TABLE t REPLICA IDENTITY NOTHING")
    (finding,) = findings(database, "public.t", whole_rows=True)
    assert (finding.fatal, finding.fix) == (True, "ALTER TABLE public.t REPLICA IDENTITY FULL;")


def test_replica_identity_of_somebody_else_s_table(database: Database) -> None:
    """The error names the owner."""
    database.execute("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN", "CREATE TABLE t (a int4)")
    (finding,) = (each for each in findings(database, "public.t") if each.code == "replica_identity")
    with pytest.raises(UpstreamError) as refused:
        repair(database, finding, "guest")
    assert refused.value.code == "denied"
    assert "ALTER TABLE public.t REPLICA IDENTITY FULL;" in str(refused.value)


FULL = "ALTER TABLE t REPLICA IDENTITY FULL"


@pytest.mark.parametrize(
    ("statements", "word"),
    [
        (["CREATE VIEW t AS SELECT 1 AS a"], "view"),
        (["CREATE MATERIALIZED VIEW t AS SELECT 1 AS a"], "materialized view"),
        (["CREATE TABLE t (a int4) PARTITION BY LIST (a)"], "partitioned"),
        (["CREATE UNLOGGED TABLE t (a int4)", FULL], "SET LOGGED"),
        (["CREATE TABLE t (a int4)", FULL, "CREATE TABLE child () INHERITS (t)"], "child tables"),
        (["CREATE TABLE t (a int4, b int4 GENERATED ALWAYS AS (a + 1) VIRTUAL)", FULL], "virtual generated columns"),
        (
            ["CREATE TABLE t (a int4, b int4 GENERATED ALWAYS AS (a + 1) STORED)", FULL, "CREATE PUBLICATION upquery"],
            "generated columns (b)",
        ),
        (["CREATE TABLE t (a int4)", FULL, "CREATE PUBLICATION upquery FOR TABLE t WHERE (a > 0)"], "only some rows"),
        (["CREATE TABLE t (a int4, b int4)", FULL, "CREATE PUBLICATION upquery FOR TABLE t (a)"], "only some rows"),
        (
            [
                "CREATE TABLE r (a int4) PARTITION BY LIST (a)",
                "CREATE TABLE t PARTITION OF r FOR VALUES IN (1)",
                FULL,
                "CREATE PUBLICATION upquery FOR TABLE r, t WITH (publish_via_partition_root)",
            ],
            "publishes partitions as their root",
        ),
    ],
)
def test_what_the_stream_does_not_carry(database: Database, statements: list[str], word: str) -> None:
    """Each kind of table gets its reason."""
    if "VIRTUAL" in statements[0]:
        database.require(18, "virtual generated columns")
    database.execute(*statements)
    told = [finding for finding in findings(database, "public.t") if finding.fatal]
    assert {finding.code for finding in told} <= {"not_streamed", "replica_identity"}
    assert any(word in f"{finding.reason} {finding.fix}" for finding in told)


def test_stored_generated_columns_come_with_a_publication_of_ours(database: Database) -> None:
    """From PostgreSQL 18 on they are in the stream if the publication says so."""
    database.require(18, "publishing generated columns")
    database.execute("CREATE TABLE t (a int4, b int4 GENERATED ALWAYS AS (a + 1) STORED)", FULL)
    assert fatal(database, "public.t") == []

    async def publish() -> list[str]:
        pool = PostgresPool(database.url)
        async with pool.connection() as connection:
            added = await ensure_published(connection, PUBLICATION, ["public.t"])
            assert await ensure_published(connection, PUBLICATION, ["public.t"]) == []
        await pool.close()
        return added

    assert run(publish()) == ["public.t"]
    assert fatal(database, "public.t") == []


def test_rights_and_row_security(database: Database) -> None:
    """The stream would show rows that the role may not read."""
    database.execute("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN", "CREATE TABLE t (a int4)", FULL)
    assert fatal(database, "public.t", user="guest") == [("rights", "GRANT SELECT ON public.t TO CURRENT_USER;")]
    database.execute("GRANT SELECT ON t TO guest", "ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    assert fatal(database, "public.t", user="guest") == [("not_streamed", "Use a role with BYPASSRLS.")]
    assert fatal(database, "public.t") == []
    assert fatal(database, "public.nothing") == [("missing", None)]


def test_role_and_publication(database: Database) -> None:
    """A role that may neither replicate nor publish."""
    database.execute("DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN")
    told = dict(fatal(database, user="guest"))
    assert told["replication_role"] == "ALTER ROLE guest REPLICATION; -- as a superuser"
    assert "CREATE PUBLICATION upquery" in (told["publication"] or "")
    database.execute("CREATE PUBLICATION upquery WITH (publish = 'insert')")
    told = dict(fatal(database))
    database.execute(told["publication"] or "")
    assert fatal(database) == []
