"""Tables that change under the stream: what is told, and what goes on."""

import psycopg
import pytest

from cdc.change import UNKNOWN, SchemaNotice, TableChange
from service.engine.databases.postgres.catalog import load_catalog
from service.engine.databases.postgres.checks import check_schema
from service.engine.databases.postgres.schema_marks import MARKING
from tests.fixtures.postgres import Database
from tests.fixtures.streams import PUBLICATION, Stream, run, streaming

pytestmark = pytest.mark.postgres

ITEMS = ("CREATE TABLE items (id int4, name text, price int4)", "ALTER TABLE items REPLICA IDENTITY FULL")
TABLE = "public.items"


async def _told_by_catalog(stream: Stream) -> list[SchemaNotice]:
    async with stream.pool.connection() as connection:
        return await check_schema(connection, stream.layouts, PUBLICATION)


def test_nothing_to_tell(database: Database) -> None:
    """A new column, an index or a comment change nothing for those who follow."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(
                "ALTER TABLE items ADD COLUMN more text DEFAULT 'm'",
                "CREATE INDEX ON items (name)",
                "INSERT INTO items VALUES (1, 'a', 5, 'more')",
            )
            (only,) = await stream.catch_up()
            assert only.tables[TABLE].added == [("1", "a", "5")]
            assert stream.notices == []
            assert await _told_by_catalog(stream) == []

    run(check())


@pytest.mark.parametrize(
    ("statement", "columns", "row"),
    [
        ("ALTER TABLE items DROP COLUMN name", ("name",), ("1", None, "5")),
        ("ALTER TABLE items RENAME COLUMN name TO title", ("name",), ("1", None, "5")),
        ("ALTER TABLE items ALTER COLUMN price TYPE numeric(10,2)", ("price",), ("1", "a", "5.00")),
    ],
)
def test_changed_columns(
    database: Database, statement: str, columns: tuple[str, ...], row: tuple[str | None, ...]
) -> None:
    """They are named before any row that has them; rows go on coming for whoever does not use them."""
    database.execute(*ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(statement, "DELETE FROM items", "DELETE FROM items")
            (only,) = await stream.catch_up()
            assert only.tables == {TABLE: TableChange([row], [])}
            (notice,) = stream.notices
            assert (notice.table, notice.columns) == (TABLE, columns)
            (found,) = await _told_by_catalog(stream)
            assert found == notice

    run(check())


def test_columns_that_swap_names(database: Database) -> None:
    """Equal names and types in another order are other columns."""
    database.execute("CREATE TABLE items (id int4, a text, b text)", "ALTER TABLE items REPLICA IDENTITY FULL")

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(
                "ALTER TABLE items RENAME COLUMN a TO c",
                "ALTER TABLE items RENAME COLUMN b TO a",
                "ALTER TABLE items RENAME COLUMN c TO b",
                "INSERT INTO items VALUES (1, 'x', 'y')",
            )
            await stream.catch_up()
            assert stream.notices[0].columns == ("id", "a", "b")
            assert (await _told_by_catalog(stream))[0].columns == ("a", "b")

    run(check())


def test_replica_identity_removed(database: Database) -> None:
    """Rows of a table without an identity are not delivered; the notice has the statement that repairs it."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute("INSERT INTO items VALUES (1, 'a', 5)", "ALTER TABLE items REPLICA IDENTITY NOTHING")
            database.execute("INSERT INTO items VALUES (2, 'b', 6)")
            assert [t.tables[TABLE].added for t in await stream.catch_up()] == [[("1", "a", "5")]]
            (notice,) = stream.notices
            assert notice.columns == ()
            assert notice.reason.endswith("Run: ALTER TABLE public.items REPLICA IDENTITY FULL;")
            assert await _told_by_catalog(stream) == [notice]

            database.execute("ALTER TABLE items REPLICA IDENTITY FULL", "INSERT INTO items VALUES (3, 'c', 7)")
            (again,) = await stream.catch_up()
            assert again.tables[TABLE].added == [("3", "c", "7")]

    run(check())


def test_replica_identity_of_some_columns(database: Database) -> None:
    """Old rows have the identity's values only; unchanged TOASTed values are not in the new row."""
    database.execute("CREATE TABLE items (id int4 PRIMARY KEY, name text, price int4)")
    database.execute("ALTER TABLE items ALTER name SET STORAGE EXTERNAL")
    large = "x" * 10_000

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(f"INSERT INTO items VALUES (1, '{large}', 5), (2, 'b', 6)")
            (inserted,) = await stream.catch_up()
            assert inserted.tables[TABLE] == TableChange(added=[("1", large, "5"), ("2", "b", "6")])
            database.execute("UPDATE items SET price = 7; UPDATE items SET id = 3 WHERE id = 2")
            database.execute("DELETE FROM items WHERE id = 1")
            updated, deleted = await stream.catch_up()
            assert updated.tables[TABLE].partial == [
                (("1", UNKNOWN, UNKNOWN), ("1", UNKNOWN, "7")),
                (("2", UNKNOWN, UNKNOWN), ("3", "b", "7")),
            ]
            assert deleted.tables[TABLE].partial == [(("1", UNKNOWN, UNKNOWN), None)]
            assert stream.notices == []

    run(check())


def test_replica_identity_altered_within_a_transaction(database: Database) -> None:
    """Old rows have the columns of the identity of their time: with those of two, any row may have changed."""
    index = "ALTER TABLE items REPLICA IDENTITY USING INDEX items_name"
    update = "UPDATE items SET name = name || 'a', id = id - 9 WHERE id %% 9 = %s"
    primary, whole = (f"ALTER TABLE items REPLICA IDENTITY {identity}" for identity in ("DEFAULT", "FULL"))
    database.execute("CREATE TABLE items (id int4 PRIMARY KEY, name text NOT NULL, price int4)")
    database.execute("CREATE UNIQUE INDEX items_name ON items (name)")
    database.execute("INSERT INTO items SELECT i, 'n' || i, i FROM generate_series(1, 8) i")

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            for at, alterations in enumerate([[index], [primary], [whole], [primary], [index, whole]], start=1):
                with psycopg.connect(database.url) as connection:
                    connection.execute("UPDATE items SET id = -id WHERE id = %s", (at,))
                    for alteration in alterations:
                        connection.execute(alteration)
                        connection.execute(update, (-at,))
                (only,) = await stream.catch_up()
                assert only.tables == {TABLE: TableChange(overflow=True)}
            database.execute(primary, "DELETE FROM items WHERE id = 7", index, "DELETE FROM items WHERE name = 'n8'")
            seven, eight = await stream.catch_up()
            assert seven.tables[TABLE].partial == [(("7", UNKNOWN, UNKNOWN), None)]
            assert eight.tables[TABLE].partial == [((UNKNOWN, "n8", UNKNOWN), None)]
            assert stream.notices == []

    run(check())


def test_followed_anew_after_repair(database: Database) -> None:
    """Rows from before the layout was read are dropped without a word: they are in every lookup."""
    database.execute("CREATE TABLE items (id int4 PRIMARY KEY, name text, price int4)")

    async def check() -> None:
        async with streaming(database) as stream:
            database.execute(f"CREATE TABLE other (id int4); ALTER PUBLICATION {PUBLICATION} ADD TABLE items")
            database.execute("INSERT INTO items VALUES (1, 'a', 5)", "UPDATE items SET id = 2")
            database.execute("ALTER TABLE items REPLICA IDENTITY FULL")
            await stream.follow([TABLE])
            database.execute("UPDATE items SET name = 'b'")
            (only,) = await stream.catch_up()
            assert only.tables == {TABLE: TableChange([("2", "a", "5")], [("2", "b", "5")])}
            assert stream.notices == []

    run(check())


def test_dropped_and_created_anew(database: Database) -> None:
    """Another table under the same name is another table."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute("DROP TABLE items")
            assert await _told_by_catalog(stream) == [SchemaNotice(TABLE, "public.items was dropped or renamed.")]
            database.execute(*ITEMS, f"ALTER PUBLICATION {PUBLICATION} ADD TABLE items")
            database.execute("INSERT INTO items VALUES (1, 'a', 5)")
            assert await stream.catch_up() == []
            assert stream.notices == [SchemaNotice(TABLE, "public.items was dropped and created again.")]
            assert stream.notices[0] in await _told_by_catalog(stream)

    run(check())


def test_renamed(database: Database) -> None:
    """A table under another name is told by its identity."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute("ALTER TABLE items RENAME TO things", "INSERT INTO things VALUES (1, 'a', 5)")
            assert await stream.catch_up() == []
            assert stream.notices == [SchemaNotice(TABLE, "public.items was renamed to public.things.")]

    run(check())


@pytest.mark.parametrize(
    "statement", [f"ALTER PUBLICATION {PUBLICATION} DROP TABLE items", f"DROP PUBLICATION {PUBLICATION}"]
)
def test_taken_out_of_the_publication(database: Database, statement: str) -> None:
    """Newer servers stream on without a word; the catalog tells."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(statement)
            (notice,) = await _told_by_catalog(stream)
            assert "is not in the publication upquery" in notice.reason

    run(check())


def test_schema_change_within_a_transaction(database: Database) -> None:
    """Rows before and after an ALTER of the same transaction are one change of one table."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            with psycopg.connect(database.url) as connection:
                connection.execute("INSERT INTO items VALUES (1, 'a', 5)")
                connection.execute("ALTER TABLE items ADD COLUMN more text")
                connection.execute("INSERT INTO items VALUES (2, 'b', 6, 'm')")
                connection.execute("DELETE FROM items WHERE id = 1")
            (only,) = await stream.catch_up()
            assert only.tables == {TABLE: TableChange([], [("2", "b", "6")])}

    run(check())


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("ALTER TABLE items DROP CONSTRAINT items_pkey CASCADE", ()),
        ("ALTER TABLE items DROP CONSTRAINT items_parent_fkey", None),
        ("ALTER TABLE items ALTER COLUMN name DROP NOT NULL", ("name",)),
        ("ALTER TYPE mood RENAME VALUE 'fine' TO 'good'", ("mood",)),
        ("ALTER TYPE mood ADD VALUE 'bad' BEFORE 'fine'", ("mood",)),
        ("ALTER TABLE items ALTER COLUMN name SET DEFAULT ''", None),
        ("ALTER TABLE items ADD UNIQUE (name)", None),
    ],
)
def test_promises_that_plans_rely_on(database: Database, statement: str, columns: tuple[str, ...] | None) -> None:
    """Keys, NOT NULL and labels that are gone are told; new ones, and foreign keys, are nobody's concern."""
    database.execute(
        "CREATE TYPE mood AS ENUM ('fine')",
        "CREATE TABLE items (id int4 PRIMARY KEY, name text NOT NULL, parent int4 REFERENCES items, mood mood)",
        "ALTER TABLE items REPLICA IDENTITY FULL",
    )

    async def check() -> None:
        async with streaming(database, TABLE) as stream, stream.pool.connection() as connection:
            tables = (await load_catalog(connection)).tables
            database.execute(statement)
            told = await check_schema(connection, stream.layouts, PUBLICATION, tables)
            assert ([] if columns is None else [columns]) == [notice.columns for notice in told][:1]

    run(check())


def test_marked_transactions_begin_batches(database: Database) -> None:
    """DDL and the rows of one transaction; those of temporary tables, and of what is rolled back, are not marked."""
    database.execute("CREATE TABLE items (id int4 PRIMARY KEY)", "ALTER TABLE items REPLICA IDENTITY FULL", *MARKING)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(
                "INSERT INTO items VALUES (1)",
                "BEGIN; INSERT INTO items VALUES (2); CREATE INDEX i ON items (id); COMMIT",
                "CREATE TABLE IF NOT EXISTS items ()",
                "COMMENT ON TABLE items IS 'rows'",
                "REINDEX TABLE items",
                "CREATE TEMP TABLE passing (id int); CREATE INDEX ON passing (id); DROP TABLE passing",
                "BEGIN; SAVEPOINT s; DROP INDEX i; ROLLBACK TO s; INSERT INTO items VALUES (3); COMMIT",
                "DROP INDEX i",
                "INSERT INTO items VALUES (4)",
            )
            found = []
            while len(found) < 4 or not found[-1][1]:
                batch = await stream.source.next_batch()
                rows = [t.tables[TABLE].added for t in batch.transactions]
                if rows or batch.altered is not None:
                    found.append((batch.altered is not None, rows))
            marked = [rows for altered, rows in found if altered]
            assert marked == [[[("2",)]], []]

    run(check())


def test_a_table_that_is_made_unlogged_is_told(database: Database) -> None:
    """Whatever it is by the time that anybody looks: what is changed meanwhile is in no log."""
    database.execute("CREATE TABLE items (id int4 PRIMARY KEY)", "ALTER TABLE items REPLICA IDENTITY FULL", *MARKING)
    database.execute(f"CREATE PUBLICATION {PUBLICATION} FOR ALL TABLES")

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute("VACUUM FULL items", "ALTER TABLE items ALTER id TYPE int8")
            await stream.catch_up()
            assert not stream.notices
            database.execute("ALTER TABLE items SET UNLOGGED", "ALTER TABLE items SET LOGGED")
            await stream.catch_up()
            assert {(n.table, n.columns, "unlogged" in n.reason) for n in stream.notices} == {(TABLE, (), True)}

    run(check())
