"""Transactions of MariaDB in the change stream, on a real server."""

from collections.abc import Callable
from typing import Any

import pytest

from cdc.change import StreamLost, TableChange
from cdc.mysql.position import BinlogSnapshot, position_of
from tests.fixtures.binlogs import BinlogStream, following
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run

pytestmark = pytest.mark.mariadb

ITEMS = "CREATE TABLE items (id int PRIMARY KEY, name varchar(20), price int)"
Connect = Callable[..., Any]


def test_rows(mariadb: MariaDatabase) -> None:
    """Added, changed, removed; a statement of several rows is one transaction, as is one of several statements."""
    mariadb.execute(ITEMS)

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            mariadb.execute(
                "INSERT INTO items VALUES (1, 'a', 5), (2, NULL, NULL)",
                "UPDATE items SET price = price + 1 WHERE id = 1",
                "DELETE FROM items",
            )
            assert await stream.changes("items") == [
                ([], [("1", "a", "5"), ("2", None, None)]),
                ([("1", "a", "5")], [("1", "a", "6")]),
                ([("1", "a", "6"), ("2", None, None)], []),
            ]

    run(check())


def test_what_comes_and_goes_within_a_transaction(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    """Rows are from before the transaction or from after it; a transaction that changes nothing is none."""
    mariadb.execute(ITEMS, "INSERT INTO items VALUES (1, 'a', 5)")

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            writer = mariadb_connect(autocommit=False).cursor()
            for statement in (
                "INSERT INTO items VALUES (2, 'b', 6)",
                "UPDATE items SET price = 7",
                "DELETE FROM items WHERE id = 2",
                "COMMIT",
                "UPDATE items SET price = 8",
                "UPDATE items SET price = 7",
                "COMMIT",
                "UPDATE items SET price = 9",
                "ROLLBACK",
            ):
                writer.execute(statement)
            assert await stream.changes("items") == [([("1", "a", "5")], [("1", "a", "7")])]

    run(check())


def test_only_followed_tables(mariadb: MariaDatabase) -> None:
    """Others move the position."""
    mariadb.execute(ITEMS, "CREATE TABLE other (id int)", "CREATE DATABASE IF NOT EXISTS elsewhere")

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            before = stream.position
            mariadb.execute("INSERT INTO other VALUES (1)", f"CREATE OR REPLACE TABLE elsewhere.{'items'} (id int)")
            mariadb.execute("INSERT INTO elsewhere.items VALUES (1)")
            assert await stream.catch_up() == []
            assert stream.position > before
            stream.follow("other")
            mariadb.execute("INSERT INTO other VALUES (2)")
            assert await stream.changes("other") == [([], [("2",)])]
            del stream.layouts[stream.name("items")]
            mariadb.execute("INSERT INTO items VALUES (1, 'a', 5)")
            assert await stream.catch_up() == []

    run(check())
    mariadb.execute("DROP DATABASE elsewhere")


def test_names_that_are_not_plain(mariadb: MariaDatabase) -> None:
    """Tables and columns may be called anything."""
    mariadb.execute("CREATE TABLE `my ``items` (`a b` int, `ü` int)")

    async def check() -> None:
        async with following(mariadb, "my `items") as stream:
            mariadb.execute("INSERT INTO `my ``items` VALUES (1, 2)", "TRUNCATE `my ``items`")
            (inserted, truncated) = await stream.catch_up()
            (name,) = inserted.tables
            assert name == f"{mariadb.name}.`my ``items`"
            assert truncated.tables[name] == TableChange(truncated=True)

    run(check())


def test_savepoints(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    """Changes rolled back to a savepoint are not in the log."""
    mariadb.execute(ITEMS, "CREATE TABLE plain (id int) ENGINE=MyISAM")

    async def check() -> None:
        async with following(mariadb, "items", "plain") as stream:
            writer = mariadb_connect(autocommit=False).cursor()
            for statement in (
                "INSERT INTO items VALUES (1, 'a', 5)",
                "SAVEPOINT s",
                "INSERT INTO items VALUES (2, 'b', 6)",
                "ROLLBACK TO s",
                "INSERT INTO items VALUES (3, 'c', 7)",
                "COMMIT",
            ):
                writer.execute(statement)
            assert await stream.changes("items") == [([], [("1", "a", "5"), ("3", "c", "7")])]
            for statement in (
                "INSERT INTO items VALUES (4, 'd', 5)",
                "SAVEPOINT s",
                "INSERT INTO items VALUES (5, 'e', 6)",
                "INSERT INTO plain VALUES (1)",
                "ROLLBACK TO s",
                "COMMIT",
            ):
                writer.execute(statement)
            found = await stream.catch_up()
            name = stream.name("items")
            (last,) = [t.tables[name] for t in found if name in t.tables]
            assert last.overflow or last.added == [("4", "d", "5")]

    run(check())


def test_tables_without_transactions(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    """Their changes come when they are made, and stay when the transaction is rolled back."""
    mariadb.execute(ITEMS, "CREATE TABLE plain (id int) ENGINE=MyISAM", "CREATE TABLE aria (id int) ENGINE=Aria")

    async def check() -> None:
        async with following(mariadb, "items", "plain", "aria") as stream:
            writer = mariadb_connect(autocommit=False).cursor()
            for statement in (
                "INSERT INTO items VALUES (1, 'a', 5)",
                "INSERT INTO plain VALUES (1)",
                "INSERT INTO aria VALUES (1)",
                "ROLLBACK",
            ):
                writer.execute(statement)
            found = await stream.catch_up()
            assert [change.added for t in found for change in t.tables.values() if not change.overflow] == [
                [("1",)],
                [("1",)],
            ]

    run(check())


def test_truncate(mariadb: MariaDatabase) -> None:
    """TRUNCATE is in the stream, at its place."""
    mariadb.execute(ITEMS)

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            mariadb.execute("INSERT INTO items VALUES (1, 'a', 5)", "TRUNCATE TABLE items")
            mariadb.execute(f"/* all */ truncate {mariadb.name}.items", "INSERT INTO items VALUES (2, 'b', 6)")
            name = stream.name("items")
            assert [t.tables[name] for t in await stream.catch_up()] == [
                TableChange([], [("1", "a", "5")]),
                TableChange(truncated=True),
                TableChange(truncated=True),
                TableChange([], [("2", "b", "6")]),
            ]
            assert stream.notices == []

    run(check())


def test_xa(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    """A prepared transaction counts where it is committed, whoever does that; one rolled back never."""
    mariadb.execute(ITEMS)

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            first = mariadb_connect()
            writer = first.cursor()
            for statement in (
                "XA START 'one', 'b', 7",
                "INSERT INTO items VALUES (1, 'a', 5)",
                "XA END 'one', 'b', 7",
                "XA PREPARE 'one', 'b', 7",
            ):
                writer.execute(statement)
            assert await stream.catch_up() == []
            first.close()
            mariadb.execute("INSERT INTO items VALUES (2, 'b', 6)")
            mariadb.execute("XA COMMIT 'one', 'b', 7")
            found = await stream.changes("items")
            assert found == [([], [("2", "b", "6")]), ([], [("1", "a", "5")])]
            writer = mariadb_connect().cursor()
            for name, ends in (
                ("two", ["XA PREPARE 'two'", "XA ROLLBACK 'two'"]),
                ("three", ["XA COMMIT 'three' ONE PHASE"]),
            ):
                for statement in (
                    f"XA START '{name}'",
                    "INSERT INTO items VALUES (3, 'c', 7)",
                    f"XA END '{name}'",
                    *ends,
                ):
                    writer.execute(statement)
            assert await stream.changes("items") == [([], [("3", "c", "7")])]

    run(check())


def test_xa_prepared_before_the_stream(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    """Its changes cannot be known: the stream ends, and a new one starts."""
    mariadb.execute(ITEMS)
    writer = mariadb_connect().cursor()
    for statement in ("XA START 'x'", "INSERT INTO items VALUES (1, 'a', 5)", "XA END 'x'", "XA PREPARE 'x'"):
        writer.execute(statement)

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            writer.execute("XA COMMIT 'x'")
            with pytest.raises(StreamLost, match="XA transaction") as raised:
                await stream.catch_up()
            assert raised.value.retryable

    run(check())


def test_xa_of_a_table_followed_in_between(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    """Its rows went by unread when it was prepared: anything may have changed."""
    mariadb.execute(ITEMS, "CREATE TABLE other (id int)")

    async def check() -> None:
        async with following(mariadb, "other") as stream:
            writer = mariadb_connect().cursor()
            for statement in ("XA START 'y'", "INSERT INTO items VALUES (1, 'a', 5)", "XA END 'y'", "XA PREPARE 'y'"):
                writer.execute(statement)
            assert await stream.catch_up() == []
            stream.follow("items")
            writer.execute("XA COMMIT 'y'")
            (only,) = await stream.catch_up()
            assert only.tables == {stream.name("items"): TableChange(overflow=True)}

    run(check())


def test_cascades_are_not_in_the_log(mariadb: MariaDatabase) -> None:
    """Children that a foreign key changes have no events: whoever follows them cannot go by the stream."""
    mariadb.execute(
        "CREATE TABLE parents (id int PRIMARY KEY)",
        "CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents (id) ON DELETE CASCADE)",
        "INSERT INTO parents VALUES (1)",
        "INSERT INTO children VALUES (1, 1)",
    )

    async def check() -> None:
        async with following(mariadb, "parents", "children") as stream:
            mariadb.execute("DELETE FROM parents")
            (only,) = await stream.catch_up()
            assert only.tables == {stream.name("parents"): TableChange([("1",)], [])}
            assert mariadb.query("SELECT * FROM children") == []

    run(check())


def test_triggers_generated_and_invisible_columns_and_partitions(mariadb: MariaDatabase) -> None:
    """All of these are in the log as rows."""
    mariadb.execute(
        "CREATE TABLE items (id int PRIMARY KEY, a int, b int AS (a * 2) VIRTUAL, c int AS (a * 3) STORED,"
        " d int INVISIBLE DEFAULT 4) PARTITION BY HASH (id) PARTITIONS 3",
        "CREATE TABLE log (what int)",
        "CREATE TRIGGER t AFTER INSERT ON items FOR EACH ROW INSERT INTO log VALUES (NEW.a)",
    )

    async def check() -> None:
        async with following(mariadb, "items", "log") as stream:
            mariadb.execute("INSERT INTO items (id, a) VALUES (1, 5)", "UPDATE items SET a = 6, id = 2")
            inserted, updated = await stream.catch_up()
            assert inserted.tables == {
                stream.name("items"): TableChange([], [("1", "5", "10", "15", "4")]),
                stream.name("log"): TableChange([], [("5",)]),
            }
            assert updated.tables == {
                stream.name("items"): TableChange([("1", "5", "10", "15", "4")], [("2", "6", "12", "18", "4")])
            }

    run(check())


def test_large_transactions(mariadb: MariaDatabase) -> None:
    """Above the limit only the tables are named."""
    mariadb.execute(ITEMS)

    async def check() -> None:
        async with following(mariadb, "items", max_transaction_rows=1000) as stream:
            mariadb.execute(
                "INSERT INTO items SELECT seq, 'x', 1 FROM seq_1_to_1000",
                "INSERT INTO items SELECT seq, 'x', 1 FROM seq_1001_to_50000",
                "INSERT INTO items VALUES (0, 'z', 0)",
            )
            name = stream.name("items")
            first, second, third = [t.tables[name] for t in await stream.catch_up()]
            assert len(first.added) == 1000
            assert second == TableChange(overflow=True)
            assert third.added == [("0", "z", "0")]

    run(check())


def test_large_rows(mariadb: MariaDatabase) -> None:
    """Packets above 16 MB come in pieces."""
    mariadb.execute("CREATE TABLE t (id int, v longtext)", "SET GLOBAL max_allowed_packet = 100000000")

    async def check() -> None:
        async with following(mariadb, "t") as stream:
            mariadb.execute("INSERT INTO t VALUES (1, REPEAT('x', 40000000))", "INSERT INTO t VALUES (2, 'y')")
            (first, second) = await stream.changes("t")
            assert first[1][0][1] == "x" * 40_000_000
            assert second[1] == [("2", "y")]

    run(check())


def test_compressed_events(mariadb: MariaDatabase) -> None:
    """The server may compress what it logs."""
    mariadb.execute("CREATE TABLE t (id int, v text)", "SET GLOBAL log_bin_compress = ON")
    try:

        async def check() -> None:
            async with following(mariadb, "t") as stream:
                mariadb.execute(
                    "INSERT INTO t VALUES (1, REPEAT('x', 5000))",
                    "UPDATE t SET id = 2",
                    "DELETE FROM t",
                    f"CREATE TABLE other (id int) COMMENT '{'c' * 900}'",
                )
                text = "x" * 5000
                assert await stream.changes("t") == [
                    ([], [("1", text)]),
                    ([("1", text)], [("2", text)]),
                    ([("2", text)], []),
                ]

        run(check())
    finally:
        mariadb.execute("SET GLOBAL log_bin_compress = OFF")


def test_a_snapshot_is_where_it_says(mariadb: MariaDatabase, mariadb_connect: Connect) -> None:
    """The stream begins where a snapshot is, and reaches any later one's without a push."""
    mariadb.execute(ITEMS)

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            assert stream.started is not None
            assert stream.started.snapshot == BinlogSnapshot(stream.started.position)
            for statement in ("INSERT INTO items VALUES (1, 'a', 5)", "FLUSH BINARY LOGS", "DELETE FROM items"):
                mariadb.execute(statement)
                # The server itself writes to a new file a little later.
                while stream.position < (bound := _snapshot(mariadb_connect)):
                    await stream.next()
                assert stream.position == bound

    run(check())


def _snapshot(connect: Connect) -> int:
    reader = connect().cursor()
    reader.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
    reader.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
    found = dict(reader.fetchall())
    return position_of(found["Binlog_snapshot_file"], int(found["Binlog_snapshot_position"]))


def test_asking_an_idle_stream(mariadb: MariaDatabase) -> None:
    mariadb.execute(ITEMS)

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            await stream.catch_up()
            for _ in range(3):
                stream.source.request_position()
                batch = await stream.next()
                assert (batch.transactions, batch.position) == ([], stream.position)

    run(check())


def test_statements_instead_of_rows(mariadb: MariaDatabase) -> None:
    """A session that logs statements ends the stream if it changes a followed table, else it makes all doubtful."""
    mariadb.execute(ITEMS, "CREATE TABLE other (id int)")

    async def check() -> None:
        async with following(mariadb, "items") as stream:
            mariadb.execute("SET STATEMENT binlog_format = 'STATEMENT' FOR INSERT INTO other VALUES (1)")
            (only,) = await stream.catch_up()
            assert only.tables == {stream.name("items"): TableChange(overflow=True)}
            await _lost_by_statement(stream)

    run(check())


async def _lost_by_statement(stream: BinlogStream) -> None:
    stream.database.execute("SET STATEMENT binlog_format = 'STATEMENT' FOR INSERT INTO items VALUES (1, 'a', 5)")
    with pytest.raises(StreamLost, match="as a statement") as raised:
        await stream.catch_up()
    assert raised.value.retryable
    assert "binlog_format" in (raised.value.hint or "")
