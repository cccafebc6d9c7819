"""Changes of rows by foreign keys, which MariaDB's log lacks: what the stream derives from those of referenced rows."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cdc.change import UNKNOWN, ChangedRow, TableChange
from tests.fixtures.binlogs import BinlogStream, following
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run
from tests.service.engine.databases.mysql.upstreams import asked

pytestmark = pytest.mark.mariadb

Connect = Callable[..., Any]
PARENTS = "CREATE TABLE parents (id int PRIMARY KEY, code varchar(9) UNIQUE, name varchar(9))"
CHILDREN = (
    "CREATE TABLE children (id int PRIMARY KEY, parent int, name varchar(9),"
    " CONSTRAINT f FOREIGN KEY (parent) REFERENCES parents (id) {})"
)
ROWS = (
    "INSERT INTO parents VALUES (1, 'a', 'x'), (2, 'b', 'y')",
    "INSERT INTO children VALUES (7, 1, 'x'), (8, 2, 'y')",
)
U = UNKNOWN


async def follow(stream: BinlogStream, *tables: str) -> None:
    """Follow tables with their layouts in the catalog, foreign keys included."""
    names = [stream.name(table) for table in tables]
    found = await asyncio.to_thread(asked, stream.database, lambda session: session.load_layouts(names))
    stream.layouts.update(found)


def implied(database: MariaDatabase, table: str, *statements: str, row_image: str = "FULL") -> list[ChangedRow] | None:
    """Return what the statements imply of the only table that is followed; None if any row may have changed."""

    async def check() -> list[ChangedRow] | None:
        async with following(database) as stream:
            await follow(stream, table)
            database.execute(f"SET binlog_row_image = {row_image}", *statements)
            changes = [t.tables[stream.name(table)] for t in await stream.catch_up()]
            if any(change.overflow for change in changes):
                return None
            return [row for change in changes for row in change.implied]

    return run(check())


@pytest.mark.parametrize("row_image", ["FULL", "MINIMAL", "NOBLOB"])
@pytest.mark.parametrize(
    ("rules", "statement", "rows"),
    [
        ("ON DELETE CASCADE", "DELETE FROM parents WHERE id = 1", [(U, "1", U)]),
        ("ON DELETE CASCADE", "DELETE FROM parents", [(U, "1", U), (U, "2", U)]),
        ("ON DELETE CASCADE", "REPLACE INTO parents VALUES (1, 'a', 'x')", [(U, "1", U)]),
        ("ON DELETE CASCADE", "REPLACE INTO parents VALUES (3, 'a', 'x')", [(U, "1", U)]),
        ("ON DELETE CASCADE", "REPLACE INTO parents (code, id) VALUES ('a', 3)", [(U, "1", U)]),
        ("ON DELETE CASCADE", "INSERT INTO parents VALUES (3, 'c', 'x')", []),
        ("ON DELETE CASCADE", "UPDATE parents SET name = 'z'", []),
        ("ON DELETE CASCADE ON UPDATE CASCADE", "UPDATE parents SET name = 'z'", []),
        ("ON UPDATE CASCADE", "UPDATE parents SET id = 5, name = 'z' WHERE id = 1", [(U, "1", U), (U, "5", U)]),
        ("ON UPDATE SET NULL", "UPDATE parents SET id = 5 WHERE id = 1", [(U, "1", U), (U, None, U)]),
        (
            "ON UPDATE CASCADE",
            "INSERT INTO parents VALUES (1, 'a', '') ON DUPLICATE KEY UPDATE id = 6",
            [(U, "1", U), (U, "6", U)],
        ),
        ("ON DELETE SET NULL", "DELETE FROM parents WHERE id = 2", [(U, "2", U), (U, None, U)]),
        ("ON DELETE RESTRICT", "INSERT INTO parents VALUES (3, 'c', 'x')", []),
    ],
)
def test_keys_of_one_column(
    mariadb: MariaDatabase, rules: str, statement: str, rows: list[ChangedRow], row_image: str
) -> None:
    """Rows before and after, by the values of the key."""
    mariadb.execute(PARENTS, CHILDREN.format(rules), *ROWS)
    assert implied(mariadb, "children", statement, row_image=row_image) == rows


@pytest.mark.parametrize("row_image", ["FULL", "MINIMAL"])
@pytest.mark.parametrize(
    ("columns", "statement", "rows"),
    [
        # By a key that is not the primary key: MINIMAL lacks it.
        (
            "code varchar(20) REFERENCES parents (code) ON DELETE CASCADE",
            "DELETE FROM parents WHERE id = 1",
            [(U, "a")],
        ),
        (
            "code varchar(9) REFERENCES parents (code) ON UPDATE CASCADE",
            "UPDATE parents SET code = 'z' WHERE id = 1",
            [(U, "a"), (U, "z")],
        ),
        ("code varchar(9) REFERENCES parents (code) ON UPDATE CASCADE", "UPDATE parents SET name = 'z'", []),
        # Texts of another type may differ.
        ("code char(9) REFERENCES parents (code) ON DELETE CASCADE", "DELETE FROM parents WHERE id = 1", None),
    ],
)
def test_other_keys(
    mariadb: MariaDatabase, columns: str, statement: str, rows: list[ChangedRow] | None, row_image: str
) -> None:
    mariadb.execute(PARENTS, f"CREATE TABLE children (id int PRIMARY KEY, {columns})", *ROWS[:1])
    if row_image == "MINIMAL" and rows:
        rows = None
    assert implied(mariadb, "children", statement, row_image=row_image) == rows


def test_keys_of_several_columns(mariadb: MariaDatabase) -> None:
    """A grandchild by a part of the child's key: what it shares with the parent's is known."""
    mariadb.execute(
        "CREATE TABLE sites (id int PRIMARY KEY)",
        "CREATE TABLE posts (site int, id int, PRIMARY KEY (site, id),"
        " FOREIGN KEY (site) REFERENCES sites (id) ON DELETE CASCADE)",
        "CREATE TABLE likes (id int PRIMARY KEY, post int, site int,"
        " FOREIGN KEY (site, post) REFERENCES posts (site, id) ON DELETE SET NULL ON UPDATE CASCADE)",
        "INSERT INTO sites VALUES (1), (2)",
        "INSERT INTO posts VALUES (1, 1), (1, 2), (2, 1)",
        "INSERT INTO likes VALUES (1, 1, 1), (2, 1, 2)",
    )
    assert implied(mariadb, "likes", "DELETE FROM sites WHERE id = 1") == [(U, U, "1"), (U, None, None)]
    assert mariadb.query("SELECT * FROM likes") == [(1, None, None), (2, 1, 2)]
    assert implied(mariadb, "likes", "UPDATE posts SET id = 9 WHERE site = 2") == [(U, "1", "2"), (U, "9", "2")]
    assert implied(mariadb, "likes", "DELETE FROM posts") == [(U, "9", "2"), (U, None, None)]


def test_unknown_keys_of_children(mariadb: MariaDatabase) -> None:
    """Grandchildren by a column that the parent's change does not tell, and a table that refers to itself."""
    mariadb.execute(
        PARENTS,
        CHILDREN.format("ON DELETE CASCADE"),
        "CREATE TABLE toys (id int PRIMARY KEY, child int REFERENCES children (id) ON DELETE CASCADE,"
        " inside int REFERENCES toys (id) ON DELETE SET NULL)",
        *ROWS,
        "INSERT INTO toys VALUES (1, 7, NULL), (2, 8, 1), (3, NULL, 2)",
    )
    assert implied(mariadb, "toys", "DELETE FROM children WHERE id = 7") is None
    assert mariadb.query("SELECT * FROM toys") == [(2, 8, None), (3, None, 2)]
    assert implied(mariadb, "toys", "DELETE FROM toys WHERE id = 2") == [(U, U, "2"), (U, U, None)]
    assert implied(mariadb, "toys", "DELETE FROM parents WHERE id = 1") is None


def test_together_with_what_is_logged(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    """Rows of the log and of keys, of a parent that is followed too; a parent that is inserted again."""
    mariadb.execute(PARENTS, CHILDREN.format("ON DELETE CASCADE"), *ROWS)

    async def check() -> None:
        async with following(mariadb) as stream:
            await follow(stream, "parents", "children")
            writer = mariadb_connect(autocommit=False).cursor()
            for statement in (
                "UPDATE children SET parent = 2 WHERE id = 7",
                "DELETE FROM parents WHERE id = 2",
                "INSERT INTO parents VALUES (2, 'b', 'y')",
                "INSERT INTO children VALUES (7, 2, 'z')",
                "COMMIT",
            ):
                writer.execute(statement)
            (only,) = await stream.catch_up()
            rows = [("7", "2", "x"), ("7", "2", "z")]
            assert only.tables == {stream.name("children"): TableChange([("7", "1", "x")], rows, implied=[(U, "2", U)])}

    run(check())


def test_limits(mariadb: MariaDatabase) -> None:
    """Implied rows count; beyond the limit any row may have changed."""
    mariadb.execute(PARENTS, CHILDREN.format("ON DELETE CASCADE"), *ROWS)
    mariadb.execute("INSERT INTO parents SELECT seq, seq, '' FROM seq_10_to_200")

    async def check() -> None:
        async with following(mariadb, max_transaction_rows=100) as stream:
            await follow(stream, "children")
            mariadb.execute("DELETE FROM parents WHERE id < 50")
            mariadb.execute("DELETE FROM parents")
            first, second = await stream.catch_up()
            assert len(first.tables[stream.name("children")].implied) == 42
            assert second.tables == {stream.name("children"): TableChange(overflow=True)}

    run(check())


@pytest.mark.parametrize("metadata", ["FULL", "NO_LOG"])
@pytest.mark.parametrize(
    ("statement", "is_noticed"),
    [
        ("RENAME TABLE parents TO others", True),
        ("ALTER TABLE parents RENAME others", True),
        ("ALTER TABLE parents RENAME COLUMN id TO number", True),
        ("ALTER TABLE parents CHANGE id number int", True),
        ("ALTER TABLE parents ADD COLUMN first int FIRST", True),
        ("ALTER TABLE parents ADD FOREIGN KEY (code) REFERENCES codes (code) ON UPDATE CASCADE", True),
        ("ALTER TABLE parents ADD COLUMN last int", False),
        ("ALTER TABLE parents DROP COLUMN name", True),
        ("CREATE INDEX more ON parents (name)", False),
    ],
)
def test_alterations_of_ancestors(mariadb: MariaDatabase, statement: str, is_noticed: bool, metadata: str) -> None:
    """The keys that lead to a table may be others afterwards, so it is followed anew; meanwhile it has no rows."""
    mariadb.execute(
        f"SET GLOBAL binlog_row_metadata = '{metadata}'",
        "CREATE TABLE codes (code varchar(9) PRIMARY KEY)",
        PARENTS,
        CHILDREN.format("ON DELETE CASCADE"),
        "INSERT INTO codes VALUES ('a'), ('b')",
        *ROWS,
    )

    async def check() -> None:
        async with following(mariadb) as stream:
            await follow(stream, "children")
            mariadb.execute(statement)
            table = "others" if "others" in statement else "parents"
            key = "number" if "number" in statement else "id"
            mariadb.execute(f"DELETE FROM {table} WHERE {key} = 1")
            found = await stream.catch_up()
            if is_noticed:
                assert ([notice.table for notice in stream.notices], found) == ([stream.name("children")], [])
                await follow(stream, "children")
                mariadb.execute("INSERT INTO codes VALUES ('x')")
                await stream.catch_up()
                mariadb.execute(f"DELETE FROM {table} WHERE {key} = 2")
                found = await stream.catch_up()
            assert [t.tables[stream.name("children")].implied for t in found] == [[(U, "2" if is_noticed else "1", U)]]

    try:
        run(check())
    finally:
        mariadb.execute("SET GLOBAL binlog_row_metadata = 'FULL'")


def test_xa_of_a_table_followed_in_between(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    mariadb.execute(PARENTS, CHILDREN.format("ON DELETE CASCADE"), *ROWS)

    async def check() -> None:
        async with following(mariadb) as stream:
            writer = mariadb_connect().cursor()
            for statement in ("XA START 'y'", "DELETE FROM parents WHERE id = 1", "XA END 'y'", "XA PREPARE 'y'"):
                writer.execute(statement)
            assert await stream.catch_up() == []
            await follow(stream, "children")
            writer.execute("XA COMMIT 'y'")
            (only,) = await stream.catch_up()
            assert only.tables == {stream.name("children"): TableChange(overflow=True)}

    run(check())
