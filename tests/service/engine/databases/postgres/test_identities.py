"""Figures of the identities of tables: estimates of the log, compared with the log."""

import psycopg
import pytest

from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.identities import load_figures, load_identities
from service.engine.upstream.identities import RowFigures, TableIdentity
from tests.fixtures.postgres import Database
from tests.fixtures.service import until
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres

ROWS = 200


def loaded(database: Database) -> tuple[TableIdentity, RowFigures]:
    """Return the identity and the figures of the table t."""

    async def load() -> tuple[TableIdentity, RowFigures]:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                identities = await load_identities(connection, ["public.t", "public.missing"])
                figures = await load_figures(connection, ["public.t", "public.missing"])
                assert list(identities) == list(figures) == ["public.t"]
                return identities["public.t"], figures["public.t"]
        finally:
            await pool.close()

    return run(load())


def logged(database: Database, statement: str) -> float:
    """Return the bytes of log for each row."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        ((before,),) = connection.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
        connection.execute(statement.encode())
        ((after,),) = connection.execute("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", [before]).fetchall()
    return float(after) / ROWS


@pytest.mark.parametrize("parts", [1, 56, 640], ids=["narrow", "inline", "out_of_line"])
def test_the_log_of_whole_rows_is_estimated(database: Database, parts: int) -> None:
    """The log of a delete is all old values. Text of random digits compresses little."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int NOT NULL, b text)",
        f"INSERT INTO t SELECT i, i % 9, (SELECT string_agg(md5(i || '.' || j), '') FROM generate_series(1, {parts}) j)"
        f" FROM generate_series(1, {ROWS}) i",
    )
    figures = loaded(database)[1]
    assert (figures.widths, figures.unbounded) == ({}, {"b"}), "the table has not been analyzed"
    database.execute("ANALYZE t")
    figures = loaded(database)[1]
    delete = "BEGIN; DELETE FROM t; ROLLBACK"
    by_key = logged(database, delete)
    database.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    added = logged(database, delete) - by_key
    assert figures.out_of_line is not None
    assert (figures.out_of_line > 10_000) == (parts == 640)
    estimated = sum(figures.widths.values()) - figures.widths["id"] + figures.out_of_line
    assert estimated == pytest.approx(added, rel=0.3, abs=16)


def test_writes_are_counted_from_the_last_reset(database: Database) -> None:
    """The start of the count is unknown before."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 10)")
    assert loaded(database)[1].rate is None
    database.execute("SELECT pg_stat_reset()", "UPDATE t SET id = id + 100")
    assert until(lambda: loaded(database)[1].updates_and_deletes) == 10
    assert loaded(database)[1].rate is not None


def test_remains_of_a_concurrent_index_are_known(database: Database) -> None:
    """They are no identity."""
    database.execute("CREATE TABLE t (id int NOT NULL)", "INSERT INTO t VALUES (1), (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        database.execute("CREATE UNIQUE INDEX CONCURRENTLY made ON t (id)")
    identity = loaded(database)[0]
    assert (identity.invalid, identity.possible) == ({"made"}, ())
