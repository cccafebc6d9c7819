"""Tables that change under the stream of MariaDB: what is told, and what goes on."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from cdc.change import SchemaNotice, TableChange
from tests.fixtures.binlogs import following
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run

pytestmark = pytest.mark.mariadb

ITEMS = "CREATE TABLE items (id int, name text, price int)"


@contextmanager
def setting(database: MariaDatabase, name: str, value: str) -> Iterator[None]:
    """A global variable, for a while."""
    ((before,),) = database.query(f"SELECT @@GLOBAL.{name}")
    database.execute(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        database.execute(f"SET GLOBAL {name} = '{before}'")


@pytest.mark.parametrize("metadata", ["'FULL'", "'MINIMAL'", "'NO_LOG'"])
def test_nothing_to_tell(mariadb: MariaDatabase, metadata: str) -> None:
    """New columns, keys, comments and defaults change nothing for those who follow."""
    mariadb.execute(ITEMS)

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            mariadb.execute(
                "ALTER TABLE items ADD COLUMN more text DEFAULT 'm', ADD INDEX by_price (price)",
                "CREATE INDEX more ON items (price)",
                "ALTER TABLE items COMMENT 'drop column', ALTER COLUMN price SET DEFAULT 3, AUTO_INCREMENT = 7",
                "ALTER TABLE items ADD UNIQUE KEY (id), ENGINE = InnoDB, ALGORITHM = COPY",
                "DROP INDEX more ON items",
                "ANALYZE TABLE items",
                "OPTIMIZE TABLE items",
                "CREATE TABLE IF NOT EXISTS items (x int)",
                "CREATE VIEW seen AS SELECT * FROM items",
                "INSERT INTO items VALUES (1, 'a', 5, 'more')",
            )
            assert await stream.changes("items") == [([], [("1", "a", "5")])]
            assert stream.notices == []

    with setting(mariadb, "binlog_row_metadata", metadata):
        run(check())


@pytest.mark.parametrize(
    ("statement", "columns", "row"),
    [
        ("ALTER TABLE items DROP COLUMN name", ("name",), ("1", None, "5")),
        ("ALTER TABLE items RENAME COLUMN name TO title", ("name",), ("1", None, "5")),
        ("ALTER TABLE items CHANGE name title text FIRST", ("name",), ("1", None, "5")),
        ("ALTER TABLE items MODIFY COLUMN price decimal(10,2)", ("price",), ("1", "a", None)),
        ("ALTER TABLE items MODIFY price int unsigned", ("price",), ("1", "a", None)),
        ("ALTER TABLE items MODIFY name text CHARACTER SET latin1", ("name",), ("1", None, "5")),
    ],
)
def test_changed_columns(
    mariadb: MariaDatabase, statement: str, columns: tuple[str, ...], row: tuple[str | None, ...]
) -> None:
    """They are named before any row that has them; rows go on coming for whoever does not use them."""
    mariadb.execute(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            mariadb.execute(statement)
            # Other columns may be generated from one whose type is another.
            rewritten = [TableChange(overflow=True)] if "RENAME" not in statement and "DROP" not in statement else []
            assert [t.tables[stream.name("items")] for t in await stream.catch_up()] == rewritten
            assert [(notice.table, notice.columns) for notice in stream.notices] == [(stream.name("items"), columns)]
            mariadb.execute("DELETE FROM items")
            assert await stream.changes("items") == [([row], [])]
            assert len(stream.notices) == 1
            stream.follow("items")
            mariadb.execute(
                "INSERT INTO items SELECT 2, 2" if "DROP" in statement else "INSERT INTO items SELECT 2, 2, 2"
            )
            (((removed, added)),) = await stream.changes("items")
            assert removed == []
            assert None not in added[0]
            assert len(stream.notices) == 1

    run(check())


def test_an_alter_that_was_not_logged(mariadb: MariaDatabase) -> None:
    """Rows that look different say so themselves."""
    mariadb.execute("CREATE TABLE t (a int, b varchar(3), c enum('x','y'), d text CHARACTER SET latin1, e int, f int)")

    async def check() -> None:
        async with following(mariadb, "t") as stream:
            with closing(mariadb.connect()) as connection, connection.cursor() as cursor:
                cursor.execute("SET sql_log_bin = 0")
                cursor.execute(
                    "ALTER TABLE t MODIFY a bigint, MODIFY c enum('y','x'), MODIFY d text CHARACTER SET utf8mb4,"
                    " MODIFY e int unsigned, RENAME COLUMN f TO g"
                )
            mariadb.execute("INSERT INTO t VALUES (1, 'b', 'x', 'd', 5, 6)")
            assert await stream.changes("t") == [([], [(None, "b", None, None, None, None)])]
            assert [notice.columns for notice in stream.notices] == [("a", "c", "d", "e", "f")]

    run(check())


@pytest.mark.parametrize("metadata", ["'MINIMAL'", "'NO_LOG'"])
@pytest.mark.parametrize("statement", ["DROP COLUMN name", "MODIFY price int FIRST", "ADD COLUMN more int AFTER id"])
def test_places_of_columns_that_are_not_known(mariadb: MariaDatabase, metadata: str, statement: str) -> None:
    """Without names in the log nothing is guessed: no row is delivered until the table is followed anew."""
    mariadb.execute(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            mariadb.execute(f"ALTER TABLE items {statement}", "DELETE FROM items")
            assert all(t.tables[stream.name("items")].overflow for t in await stream.catch_up())
            assert stream.notices[-1].columns == ()
            assert "binlog_row_metadata" in stream.notices[-1].reason
            stream.follow("items")
            mariadb.execute("INSERT INTO items (id, price) VALUES (2, 3)")
            assert len(await stream.changes("items")) == 1

    with setting(mariadb, "binlog_row_metadata", metadata):
        run(check())


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP TABLE items", ITEMS],
        ["RENAME TABLE items TO away", ITEMS],
        ["ALTER TABLE items RENAME TO away", ITEMS],
        [f"CREATE OR REPLACE {ITEMS.removeprefix('CREATE ')}"],
        ["CREATE TABLE new LIKE items", "RENAME TABLE items TO old, new TO items"],
        ["ALTER TABLE items CONVERT TO CHARACTER SET latin1"],
        ["ALTER TABLE items ADD SYSTEM VERSIONING"],
    ],
)
def test_another_table(mariadb: MariaDatabase, statements: list[str]) -> None:
    """Another table under the same name is another table, until it is followed as what it is now."""
    mariadb.execute(ITEMS)

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            mariadb.execute(*statements, "INSERT INTO items VALUES (1, 'a', 5)")
            assert await stream.catch_up() == []
            assert {(notice.table, notice.columns) for notice in stream.notices} == {(stream.name("items"), ())}
            mariadb.execute("DELETE FROM items")
            stream.follow("items")
            mariadb.execute("INSERT INTO items VALUES (2, 'b', 6)")
            ((removed, added),) = await stream.changes("items")
            assert removed == []
            assert added[0][:3] == ("2", "b", "6")

    run(check())


def test_a_database_is_dropped(mariadb: MariaDatabase) -> None:
    """And all of its tables."""
    mariadb.execute(ITEMS, "CREATE TABLE more (id int)")

    async def check() -> None:
        async with following(mariadb, "items", "more") as stream:
            with closing(mariadb.server.connect()) as connection, connection.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {mariadb.name}")
                cursor.execute(f"CREATE DATABASE {mariadb.name}")
            await stream.catch_up()
            assert {notice.table for notice in stream.notices} == {stream.name("items"), stream.name("more")}

    run(check())


def test_partitions(mariadb: MariaDatabase) -> None:
    """Rows that go with their partition are not in the log, nor are those that come with one."""
    mariadb.execute(
        "CREATE TABLE t (id int) PARTITION BY RANGE (id)"
        " (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN (20))",
        "CREATE TABLE spare (id int)",
        "CREATE TABLE part (id int)",
    )

    async def check() -> None:
        async with following(mariadb, "t", "spare", "part") as stream:
            mariadb.execute(
                "ALTER TABLE t TRUNCATE PARTITION a",
                "ALTER TABLE t DROP PARTITION a",
                "ALTER TABLE t EXCHANGE PARTITION b WITH TABLE spare",
                "ALTER TABLE t ADD PARTITION (PARTITION c VALUES LESS THAN (30))",
                "ALTER TABLE t CONVERT TABLE part TO PARTITION d VALUES LESS THAN (40)",
            )
            t, spare, part = map(stream.name, ("t", "spare", "part"))
            changed = TableChange(overflow=True)
            wanted = [{t: changed}, {t: changed}, {t: changed, spare: changed}, {t: changed}]
            assert [transaction.tables for transaction in await stream.catch_up()] == wanted
            assert {(notice.table, notice.columns) for notice in stream.notices} == {(part, ())}

    run(check())


@pytest.mark.parametrize(
    "part",
    [
        "MODIFY COLUMN qty int COMMENT 'see ticket #12' AFTER id",
        "MODIFY qty int DEFAULT '1' COMMENT '-- ' AFTER id",
        "COMMENT '/*', MODIFY qty int COMMENT \"#\" AFTER id, COMMENT '*/'",
        "COMMENT = 'it''s #1', MODIFY qty int AFTER id",
        "COMMENT = '\\\\' COMMENT '#', MODIFY qty int AFTER id",
        "MODIFY qty int COMMENT 'a\\'#' AFTER id",
    ],
)
def test_strings_hide_nothing(mariadb: MariaDatabase, part: str) -> None:
    """Columns that are moved by a statement with a comment's sign in a string are not read by their old places."""
    mariadb.execute("CREATE TABLE items (id int, price int, qty int)")

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            mariadb.execute(f"ALTER TABLE items {part}", "INSERT INTO items (id, price, qty) VALUES (1, 300, 3)")
            assert all(t.tables[stream.name("items")].overflow for t in await stream.catch_up())
            assert stream.notices[-1].columns == ()

    with setting(mariadb, "binlog_row_metadata", "'NO_LOG'"):
        run(check())


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE SEQUENCE items",
        "ALTER TABLE items ADD FOREIGN KEY (id) REFERENCES parents (id) ON DELETE CASCADE",
        "SET STATEMENT lock_wait_timeout = 3 FOR DROP TABLE items",
        "ALTER TABLE other COMMENT 'x', RENAME TO older",
        "RENAME TABLE items TO `größe`, `größe` TO items",
        "DROP TABLE `größe`, items",
        "CREATE OR REPLACE DATABASE {}",
    ],
)
@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
def test_statements_that_concern_a_table(mariadb: MariaDatabase, statement: str, charset: str) -> None:
    """All that a statement redefines is followed anew, whatever its words, and its client's character set."""
    mariadb.execute(
        "CREATE TABLE parents (id int PRIMARY KEY)", "CREATE TABLE items (id int)", "CREATE TABLE other (id int)"
    )
    if "DROP TABLE `" in statement:
        mariadb.execute("CREATE TABLE `größe` (id int)")

    async def check() -> None:
        async with following(mariadb, "items", "other") as stream:
            with closing(mariadb.connect(charset=charset)) as connection, connection.cursor() as cursor:
                cursor.execute(statement.format(mariadb.name))
            await stream.catch_up()
            concerned = {stream.name("other" if "other" in statement else "items")}
            assert concerned <= {notice.table for notice in stream.notices if not notice.columns}

    run(check())


@pytest.mark.parametrize(
    ("table", "charset"), [("größe", "utf8mb4"), ("größe", "latin1"), ("大小", "gbk"), ("größe", "cp850")]
)
def test_names_of_a_client(mariadb: MariaDatabase, table: str, charset: str) -> None:
    """A name in another character set than UTF-8 may be that of any table."""
    mariadb.execute(f"CREATE TABLE `{table}` (id int, b int)")

    async def check() -> None:
        async with following(mariadb, table) as stream:
            with closing(mariadb.connect(charset="utf8mb4")) as connection, connection.cursor() as cursor:
                cursor.execute(f"SET NAMES {charset}")
                connection.encoding = charset.removesuffix("mb4")
                cursor.execute(f"ALTER TABLE `{table}` DROP COLUMN b")
            await stream.catch_up()
            assert stream.name(table) in {notice.table for notice in stream.notices}

    run(check())


@pytest.mark.parametrize(
    ("part", "rows"),
    [
        ("MODIFY b decimal(5,0)", [(None, 2, 4), (1, 1, 2)]),
        ("ADD PRIMARY KEY (a)", [(0, 2, 5), (1, 1, 3)]),
    ],
)
def test_values_that_change_with_others(mariadb: MariaDatabase, part: str, rows: list[tuple[object, ...]]) -> None:
    """Stored generated columns, and NULLs in a new primary key outside of strict mode, change without being named."""
    mariadb.execute(
        "CREATE TABLE t (a int, b decimal(5,1), g decimal(5,0) AS (b * 2) STORED)",
        "INSERT INTO t (a, b) VALUES (1, 1.4), (NULL, 2.3)",
    )

    async def check() -> None:
        async with following(mariadb, "t") as stream:
            mariadb.execute(f"SET STATEMENT sql_mode = '' FOR ALTER TABLE t {part}")
            assert [t.tables for t in await stream.catch_up()] == [{stream.name("t"): TableChange(overflow=True)}]
            assert mariadb.query("SELECT a, ROUND(b), g FROM t ORDER BY a") == rows

    run(check())


def test_rows_from_before_the_layout(mariadb: MariaDatabase) -> None:
    """They are dropped without a word: they are in every lookup."""
    mariadb.execute("CREATE TABLE other (id int)", "CREATE TABLE items (id int)")

    async def check() -> None:
        async with following(mariadb, "other") as stream:
            mariadb.execute(
                "INSERT INTO items VALUES (1)", "DROP TABLE items", ITEMS, "INSERT INTO items VALUES (1, 'a', 5)"
            )
            stream.follow("items")
            mariadb.execute("UPDATE items SET price = 6")
            assert await stream.changes("items") == [([("1", "a", "5")], [("1", "a", "6")])]
            assert stream.notices == []

    run(check())


def test_a_layout_that_is_old_when_it_comes(mariadb: MariaDatabase) -> None:
    """Statements between the layout and its table's joining are reported."""
    mariadb.execute("CREATE TABLE other (id int)", ITEMS)

    async def check() -> None:
        async with following(mariadb, "other") as stream:
            found = dict(stream.layouts)
            stream.follow("items")
            late, stream.layouts = stream.layouts, found
            mariadb.execute("ALTER TABLE items DROP COLUMN name")
            await stream.catch_up()
            stream.layouts = late
            mariadb.execute("INSERT INTO items VALUES (1, 5)")
            assert await stream.changes("items") == [([], [("1", None, "5")])]
            (notice,) = stream.notices
            assert notice == SchemaNotice(stream.name("items"), notice.reason, ("name",))

    run(check())
