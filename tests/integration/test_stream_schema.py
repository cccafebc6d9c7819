"""Tables that change under the stream: what is told, and what goes on."""

import psycopg
import pytest

from cdc.change import SchemaNotice, TableChange
from service.upstream.postgres.catalog import load_catalog
from service.upstream.postgres.checks import check_schema
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
    """The same names and types in another order are other columns."""
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


@pytest.mark.parametrize("identity", ["DEFAULT", "NOTHING"])
def test_replica_identity_removed(database: Database, identity: str) -> None:
    """From the first row on that is not whole, no row is delivered; the notice has the statement that repairs it."""
    database.execute(*ITEMS, "ALTER TABLE items ADD PRIMARY KEY (id)")

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute("INSERT INTO items VALUES (1, 'a', 5)", f"ALTER TABLE items REPLICA IDENTITY {identity}")
            database.execute("INSERT INTO items VALUES (2, 'b', 6)")
            if identity == "DEFAULT":
                database.execute("UPDATE items SET id = id + 10", "DELETE FROM items")
            assert [t.tables[TABLE].added for t in await stream.catch_up()] == [[("1", "a", "5")]]
            (notice,) = stream.notices
            assert notice.columns == ()
            assert notice.reason.endswith("Run: ALTER TABLE public.items REPLICA IDENTITY FULL;")
            assert await _told_by_catalog(stream) == [notice]

            database.execute("ALTER TABLE items REPLICA IDENTITY FULL", "INSERT INTO items VALUES (3, 'c', 7)")
            (again,) = await stream.catch_up()
            assert again.tables[TABLE].added == [("3", "c", "7")]

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
            assert stream.notices == [SchemaNotice(TABLE, "public.items was dropped and created anew.")]
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
        ("ALTER TABLE items DROP CONSTRAINT items_parent_fkey", ()),
        ("ALTER TABLE items ALTER COLUMN name DROP NOT NULL", ("name",)),
        ("ALTER TYPE mood RENAME VALUE 'fine' TO 'good'", ("mood",)),
        ("ALTER TYPE mood ADD VALUE 'bad' BEFORE 'fine'", ("mood",)),
        ("ALTER TABLE items ALTER COLUMN name SET DEFAULT ''", None),
        ("ALTER TABLE items ADD UNIQUE (name)", None),
    ],
)
def test_promises_that_plans_rely_on(database: Database, statement: str, columns: tuple[str, ...] | None) -> None:
    """Keys, foreign keys, NOT NULL and labels that are gone are told; new ones are nobody's concern."""
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
