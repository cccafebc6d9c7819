"""The change stream of a real server: what transactions become."""

import psycopg
import pytest

from cdc.change import TableChange
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run, streaming

pytestmark = pytest.mark.postgres

ITEMS = ("CREATE TABLE items (id int4 PRIMARY KEY, name text, body text)", "ALTER TABLE items REPLICA IDENTITY FULL")
TABLE = "public.items"


def test_inserts_updates_and_deletes(database: Database) -> None:
    """Old and new rows, in commit order, with the ids and ends of their transactions."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(
                "INSERT INTO items VALUES (1, 'a', 'x'), (2, NULL, '')",
                "UPDATE items SET id = 3, name = 'b' WHERE id = 1",
                "DELETE FROM items WHERE id = 2",
                "UPDATE items SET name = name",
            )
            first, second, third = await stream.catch_up()
            assert first.tables == {TABLE: TableChange([], [("1", "a", "x"), ("2", None, "")])}
            assert second.tables == {TABLE: TableChange([("1", "a", "x")], [("3", "b", "x")])}
            assert third.tables == {TABLE: TableChange([("2", None, "")], [])}
            assert stream.started is not None
            assert first.id < second.id < third.id
            assert stream.started.position < first.end < second.end < third.end <= stream.position
            assert not stream.started.snapshot.sees(first.id, first.end)

    run(check())


def test_rows_of_one_transaction_cancel(database: Database) -> None:
    """Savepoints, rows that come and go, and updates back: only what is left is told."""
    database.execute(*ITEMS, "INSERT INTO items VALUES (1, 'old', '')")

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            with psycopg.connect(database.url) as connection:
                connection.execute("INSERT INTO items VALUES (2, 'gone', '')")
                connection.execute("SAVEPOINT s")
                connection.execute("INSERT INTO items VALUES (3, 'rolled back', '')")
                connection.execute("ROLLBACK TO s")
                connection.execute("SAVEPOINT t")
                connection.execute("INSERT INTO items VALUES (4, 'kept', '')")
                connection.execute("UPDATE items SET name = 'new' WHERE id = 1")
                connection.execute("UPDATE items SET name = 'newer' WHERE id = 1")
                connection.execute("DELETE FROM items WHERE id = 2")
            with psycopg.connect(database.url) as connection:
                connection.execute("INSERT INTO items VALUES (9, 'never', '')")
                connection.rollback()
            (only,) = await stream.catch_up()
            change = only.tables[TABLE]
            assert change.removed == [("1", "old", "")]
            assert sorted(change.added) == [("1", "newer", ""), ("4", "kept", "")]

    run(check())


def test_unchanged_large_values(database: Database) -> None:
    """An update that leaves a large value alone does not send it: it is taken from the old row."""
    database.execute(*ITEMS, "ALTER TABLE items ALTER body SET STORAGE EXTERNAL")
    large = "x" * 20_000

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            database.execute(
                f"INSERT INTO items VALUES (1, 'a', '{large}')", "UPDATE items SET name = 'b'", "DELETE FROM items"
            )
            _, update, delete = await stream.catch_up()
            assert update.tables[TABLE] == TableChange([("1", "a", large)], [("1", "b", large)])
            assert delete.tables[TABLE] == TableChange([("1", "b", large)], [])

    run(check())


def test_truncate(database: Database) -> None:
    """A TRUNCATE says so; of its transaction only what came afterwards counts."""
    database.execute(*ITEMS, "INSERT INTO items VALUES (1, 'a', '')")

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            with psycopg.connect(database.url) as connection:
                connection.execute("INSERT INTO items VALUES (2, 'b', '')")
                connection.execute("TRUNCATE items")
                connection.execute("INSERT INTO items VALUES (3, 'c', ''), (4, 'd', '')")
                connection.execute("DELETE FROM items WHERE id = 4")
            (only,) = await stream.catch_up()
            assert only.tables == {TABLE: TableChange([], [("3", "c", "")], truncated=True)}

    run(check())


def test_a_huge_transaction_is_not_held(database: Database) -> None:
    """Above the limit only the names of its tables are known; the next transaction is whole again."""
    database.execute(*ITEMS, "CREATE TABLE others (id int4)", "ALTER TABLE others REPLICA IDENTITY FULL")

    async def check() -> None:
        async with streaming(database, TABLE, "public.others", max_transaction_rows=100) as stream:
            with psycopg.connect(database.url) as connection:
                connection.execute("INSERT INTO items SELECT i, 'n', '' FROM generate_series(1, 500) i")
                connection.execute("INSERT INTO others VALUES (1)")
            database.execute("DELETE FROM others")
            huge, small = await stream.catch_up()
            assert huge.tables == {TABLE: TableChange(overflow=True), "public.others": TableChange(overflow=True)}
            assert small.tables == {"public.others": TableChange([("1",)], [])}

    run(check())


def test_tables_that_nobody_follows(database: Database) -> None:
    """They are not delivered, but the stream moves past them."""
    database.execute(*ITEMS, "CREATE TABLE others (id int4)", "ALTER TABLE others REPLICA IDENTITY FULL")

    async def check() -> None:
        async with streaming(database, TABLE, "public.others") as stream:
            del stream.layouts["public.others"]
            before = stream.position
            database.execute("INSERT INTO others VALUES (1)")
            assert await stream.catch_up() == []
            assert stream.position > before

    run(check())


def test_odd_names(database: Database) -> None:
    """Names that need quotes, and a keyword, are one spelling everywhere."""
    database.execute(
        'CREATE SCHEMA "My Schema"',
        'CREATE TABLE "My Schema"."Odd ""Table""" ("A b" int4, "select" text)',
        'ALTER TABLE "My Schema"."Odd ""Table""" REPLICA IDENTITY FULL',
        'CREATE TABLE public.order ("user" int4)',
        "ALTER TABLE public.order REPLICA IDENTITY FULL",
    )
    odd, keyword = '"My Schema"."Odd ""Table"""', 'public."order"'

    async def check() -> None:
        async with streaming(database, odd, keyword) as stream:
            database.execute(f"INSERT INTO {odd} VALUES (1, 'x')", f"INSERT INTO {keyword} VALUES (2)")
            first, second = await stream.catch_up()
            assert first.tables == {odd: TableChange([], [("1", "x")])}
            assert second.tables == {keyword: TableChange([], [("2",)])}

    run(check())
