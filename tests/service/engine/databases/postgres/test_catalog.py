"""The catalog as PostgreSQL has it."""

import pytest

from cdc.change import TableLayout
from cdc.column_type import ColumnType
from cdc.postgres.names import quote_identifier
from dataflow.schema import Catalog, Column, Spread, SqlType, UpstreamView
from service.engine.databases.postgres.catalog import load_catalog, load_layouts
from service.engine.databases.postgres.connect import PostgresPool
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres


def catalog_of(database: Database) -> Catalog:
    async def load() -> Catalog:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                return await load_catalog(connection)
        finally:
            await pool.close()

    return run(load())


def layouts_of(database: Database, *tables: str, publication: str | None = None) -> dict[str, TableLayout]:
    async def load() -> dict[str, TableLayout]:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                return await load_layouts(connection, tables, publication=publication)
        finally:
            await pool.close()

    return run(load())


def test_names_are_quoted_as_the_server_does_it(database: Database) -> None:
    words = database.query(
        "SELECT word, quote_ident(word) FROM (SELECT word FROM pg_get_keywords() UNION VALUES ('plain_1'), ('Upper'),"
        " ('1st'), ('a b'), ('é'), ('with\"quote'), ('')) w"
    )
    assert {word: quote_identifier(word) for word, _ in words} == dict(words)


def test_a_table_without_columns_has_a_layout(database: Database) -> None:
    database.execute("CREATE TABLE zero ()", "CREATE TABLE dropped (a int)", "ALTER TABLE dropped DROP COLUMN a")
    layouts = layouts_of(database, "public.zero", "public.dropped", "public.gone")
    assert {name: layout.columns for name, layout in layouts.items()} == {"public.zero": (), "public.dropped": ()}


def test_types(database: Database) -> None:
    """Base types, enums, arrays, domains as what they are over, and everything else as text."""
    database.execute(
        "CREATE TYPE mood AS ENUM ('b', 'a')",
        'CREATE SCHEMA "Odd"',
        'CREATE TYPE "Odd"."T t" AS (x int4)',
        "CREATE DOMAIN score AS numeric(5,2) CHECK (VALUE > 0)",
        "CREATE DOMAIN moods AS mood[]",
        'CREATE TABLE t (a int8 NOT NULL, b text, c mood, d int4[], e score, f moods, g bit(3), h "char", '
        'i "Odd"."T t", j text COLLATE "C", k money[], l inet, m varchar(3), n char(2))',
    )
    table = catalog_of(database).tables["public.t"]
    mood = SqlType("mood", "public.mood", "enum", labels=("b", "a"))
    assert {column.name: column.type for column in table.columns} == {
        "a": SqlType("int8", "int8"),
        "b": SqlType("text", "text", folding="simple"),
        "c": mood,
        "d": SqlType("int4", "int4[]", "array", SqlType("int4", "int4")),
        "e": SqlType("numeric", "numeric"),
        "f": SqlType("mood", "public.mood[]", "array", mood),
        "g": SqlType("bit", 'pg_catalog."bit"', "other"),
        "h": SqlType("char", 'pg_catalog."char"', "other"),
        "i": SqlType("T t", 'public."T t"'.replace("public", '"Odd"'), "other"),
        "j": SqlType("text", "text", folding="ascii"),
        "k": SqlType("money", 'pg_catalog."money"[]', "other", SqlType("money", 'pg_catalog."money"', "other")),
        "l": SqlType("inet", 'pg_catalog."inet"', "other"),
        "m": SqlType("varchar", "varchar", folding="simple"),
        "n": SqlType("bpchar", "bpchar(2)", folding="simple"),
    }
    assert [column.not_null for column in table.columns] == [True] + [False] * 13


def test_every_type_can_be_cast_to_as_written(database: Database) -> None:
    """A lookup casts its keys: ``$1::T[]`` must be that type, and not what SQL's grammar makes of the word."""
    database.execute("CREATE TYPE mood AS ENUM ('a')", 'CREATE TABLE t (a int8, b bit(3), c "char", d mood, e char(4))')
    for column in catalog_of(database).tables["public.t"].columns:
        written = column.type.sql
        query = f"SELECT pg_typeof(NULL::{written}), pg_typeof({column.name}), NULL::{written}[] IS NULL FROM t"
        database.execute("TRUNCATE t", "INSERT INTO t VALUES (NULL)")
        (row,) = database.query(query)
        assert row[0] == row[1]


def test_collations(database: Database) -> None:
    """Collations that order texts by their bytes are known."""
    database.require(17, "the builtin collation provider")
    database.execute(
        "CREATE COLLATION folded (provider = builtin, locale = 'C.UTF-8')",
        "CREATE COLLATION german (provider = libc, locale = 'C.utf8')",
        'CREATE TABLE t (a text, b text COLLATE "POSIX", c text COLLATE folded, d text[] COLLATE "C",'
        " e text COLLATE german)",
    )
    columns = catalog_of(database).tables["public.t"].columns
    assert [column.type.collation for column in columns] == ["bytes"] * 5


def test_a_database_of_another_encoding_does_not_order_by_our_bytes(database: Database) -> None:
    """Only in UTF-8 are the server's bytes ours."""
    database.execute(f"CREATE DATABASE {database.name}_latin1 ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    other = Database(
        f"{database.name}_latin1", database.server.database_url(f"{database.name}_latin1"), database.server
    )
    other.execute("CREATE TABLE t (a text)")
    try:
        assert catalog_of(other).tables["public.t"].columns[0].type.collation == "deterministic"
    finally:
        database.execute(f"DROP DATABASE {other.name} WITH (FORCE)")


def test_keys_and_indexes(database: Database) -> None:
    """Keys hold for every row, at once; indexes say what can be looked up."""
    database.execute(
        "CREATE TABLE t (gone int4, a int4 NOT NULL, b int4 NOT NULL, c int4, d int4 NOT NULL, e text,"
        " f int4 NOT NULL)",
        "ALTER TABLE t DROP COLUMN gone",
        "CREATE UNIQUE INDEX ON t (d) WHERE c > 0",
        "CREATE UNIQUE INDEX ON t (b, a) INCLUDE (c)",
        "CREATE UNIQUE INDEX ON t (c)",
        "CREATE UNIQUE INDEX ON t (lower(e))",
        "CREATE INDEX ON t (e, lower(e), a)",
        "ALTER TABLE t ADD UNIQUE (f) DEFERRABLE",
        "ALTER TABLE t ADD PRIMARY KEY (a)",
    )
    table = catalog_of(database).tables["public.t"]
    assert [column.name for column in table.columns] == ["a", "b", "c", "d", "e", "f"]
    assert table.keys == ((0,), (1, 0))
    assert sorted(table.indexes) == [(0,), (1, 0), (2,), (4,), (5,)]


def test_how_many_rows_have_the_same_value(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id int4 PRIMARY KEY, gone int4, grp int4, rare int4, void int4)",
        "ALTER TABLE t DROP COLUMN gone",
        "INSERT INTO t SELECT n, CASE WHEN n <= 400 THEN 0 ELSE n % 5 END, CASE WHEN n <= 10 THEN 1 END, NULL"
        " FROM generate_series(1, 1000) AS n",
        "CREATE TABLE unknown (id int4)",
    )
    assert catalog_of(database).tables["public.t"].spreads == {}
    database.execute("ANALYZE t")
    spreads = catalog_of(database).tables["public.t"].spreads
    assert spreads == {
        0: Spread(1, 1),
        1: Spread(200, pytest.approx(520)),
        2: Spread(pytest.approx(10), pytest.approx(10)),
    }


def test_names_sizes_and_search_path(database: Database) -> None:
    """Everything that can be read from, by qualified name; an estimate once there is one."""
    database.execute(
        'CREATE SCHEMA "S"',
        'CREATE TABLE "S"."T" (a int4)',
        "CREATE VIEW v AS SELECT 1 AS a",
        "CREATE TABLE t (a int4)",
        "INSERT INTO t SELECT generate_series(1, 1000)",
        "ANALYZE t",
        f'ALTER DATABASE "{database.name}" SET search_path = "S", public',
    )
    catalog = catalog_of(database)
    assert set(catalog.tables) == {'"S"."T"', "public.t"}
    assert catalog.views["public.v"] == UpstreamView(
        "public.v", " SELECT 1 AS a;", (Column("a", SqlType("int4", "int4")),)
    )
    assert catalog.search_path == ("S", "public")
    assert catalog.tables["public.t"].estimated_rows == 1000
    assert catalog.tables['"S"."T"'].estimated_rows == -1


def test_an_unvalidated_not_null_is_none(database: Database) -> None:
    """PostgreSQL 18 can have a NOT NULL that old rows do not keep."""
    database.require(18, "NOT NULL … NOT VALID")
    database.execute(
        "CREATE TABLE t (a int4)", "ALTER TABLE t ADD CONSTRAINT n NOT NULL a NOT VALID", "CREATE UNIQUE INDEX ON t (a)"
    )
    table = catalog_of(database).tables["public.t"]
    assert (table.columns[0].not_null, table.keys) == (False, ())


def test_layouts(database: Database) -> None:
    """Columns, identities, and the position from which on they hold."""
    database.execute("CREATE TABLE t (gone int4, a int4, b varchar(3))", "ALTER TABLE t DROP COLUMN gone")
    oid = database.query("SELECT 't'::regclass::oid::int8")[0][0]
    found = layouts_of(database, "public.t", "public.nothing")
    assert found == {"public.t": TableLayout(("a", "b"), oid, ((23, -1), (1043, 7)), (2, 3))}
    assert found["public.t"].since > 0


def test_layouts_can_say_what_columns_are_for_sources_that_print_values(database: Database) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN price AS numeric(10,2)",
        "CREATE TABLE things (a numeric(12,-2), b price, c timestamptz(3), d time, e varchar(9), f bit(5), g mood[], "
        "h int[], i numeric)",
    )

    async def ask() -> TableLayout:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                return (await load_layouts(connection, ["public.things"], with_column_types=True))["public.things"]
        finally:
            await pool.close()

    assert run(ask()).column_types == (
        ColumnType("numeric", precision=12, scale=-2),
        ColumnType("numeric", precision=10, scale=2),
        ColumnType("timestamptz", precision=3),
        ColumnType("time", precision=6),
        ColumnType("varchar", length=9),
        ColumnType("bit", length=5),
        ColumnType("_mood", element=ColumnType("mood", labels=("sad", "ok"))),
        ColumnType("_int4", element=ColumnType("int4")),
        ColumnType("numeric"),
    )
