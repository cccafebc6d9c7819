"""Each finding names what is wrong and the statement that repairs it; the statement does."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from cdc.change import SchemaNotice
from service.engine.databases.mysql.checks import check_tables, check_zero_dates
from service.engine.upstream.results import Finding
from tests.fixtures.mariadb import MariaDatabase, start_mariadb
from tests.service.engine.databases.mysql.upstreams import asked

pytestmark = pytest.mark.mariadb


def findings(database: MariaDatabase | str, *tables: str) -> list[Finding]:
    """Return the findings of the tables; without any, of the server."""
    if not tables:
        return asked(database, lambda session: session.check_server())
    assert isinstance(database, MariaDatabase)
    return asked(database, lambda session: session.check_tables([f"{database.name}.{table}" for table in tables]))


def fatal(database: MariaDatabase, *tables: str) -> list[tuple[str, str | None]]:
    return [(finding.code, finding.fix) for finding in findings(database, *tables) if finding.fatal]


def run_fix(database: MariaDatabase, finding: Finding) -> None:
    assert finding.fix is not None
    database.execute(finding.fix.partition(" --")[0])


def test_nothing_wrong(mariadb: MariaDatabase) -> None:
    """A server made for it; tables, also partitioned and generated ones."""
    mariadb.execute(
        "CREATE TABLE t (a int PRIMARY KEY, b int AS (a + 1) VIRTUAL, c int AS (a + 2) STORED)",
        "CREATE TABLE p (a int PRIMARY KEY) PARTITION BY HASH (a) PARTITIONS 2",
        "CREATE TABLE c (a int PRIMARY KEY REFERENCES t (a))",
    )
    assert findings(mariadb) == []
    assert findings(mariadb, "t", "p", "c") == []


def test_another_clock(mariadb: MariaDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = time.time() - 60
    monkeypatch.setattr("service.engine.upstream.clock_check.time", SimpleNamespace(time=lambda: now_s))
    (warning,) = findings(mariadb)
    assert (warning.code, warning.fatal) == ("clock", False)
    assert " s ahead of this machine's" in warning.reason


@pytest.fixture
def minimal(mariadb: MariaDatabase) -> Iterator[MariaDatabase]:
    """Logs less than is needed."""
    settings = {"binlog_row_image": "MINIMAL", "binlog_format": "MIXED", "binlog_row_metadata": "NO_LOG"}
    mariadb.execute(*(f"SET GLOBAL {name} = '{value}'" for name, value in settings.items()))
    yield mariadb
    mariadb.execute(
        "SET GLOBAL binlog_row_image = 'FULL', GLOBAL binlog_format = 'ROW', GLOBAL binlog_row_metadata = 'FULL'"
    )


def test_what_the_log_has(minimal: MariaDatabase) -> None:
    found = findings(minimal)
    assert [(f.code, f.fatal) for f in found] == [
        ("binlog_format", True),
        ("row_image", False),
        ("binlog_row_metadata", False),
    ]
    for finding in found:
        run_fix(minimal, finding)
    assert findings(minimal) == []


@pytest.fixture
def lax(mariadb: MariaDatabase) -> Iterator[MariaDatabase]:
    """Stores zero dates, as servers do that nobody told otherwise."""
    ((modes,),) = mariadb.query("SELECT @@global.sql_mode")
    yield mariadb
    mariadb.execute(f"SET GLOBAL sql_mode = '{modes}'")


def test_zero_dates_that_events_do_not_tell(lax: MariaDatabase) -> None:
    def found() -> list[Finding]:
        return asked(lax, lambda session: check_zero_dates(session.wire))  # type: ignore[attr-defined]

    (finding,) = found()
    assert "NO_ZERO_DATE and NO_ZERO_IN_DATE" in finding.reason
    assert not finding.fatal
    run_fix(lax, finding)
    assert found() == []


def test_no_log_at_all() -> None:
    server = start_mariadb({"skip_log_bin": "1", "log_bin": "0"})
    try:
        assert [finding.code for finding in findings(server.url("mysql"))] == ["log_bin"]
    finally:
        server.discard()


def test_rights(mariadb: MariaDatabase) -> None:
    """Rights to read the log and tables are found, also those of roles."""
    mariadb.execute(
        "CREATE OR REPLACE USER guest@127.0.0.1",
        "CREATE OR REPLACE ROLE follower",
        "CREATE TABLE t (a int)",
        "GRANT follower TO guest@127.0.0.1",
        "SET DEFAULT ROLE follower FOR guest@127.0.0.1",
        f"GRANT CREATE ON {mariadb.name}.* TO guest@127.0.0.1",
    )
    guest = MariaDatabase(mariadb.name, mariadb.url.replace("root@", "guest@"), mariadb.server)
    (finding,) = findings(guest)
    assert finding.code == "snapshot_role"
    assert finding.fix == "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'guest'@'127.0.0.1';"
    mariadb.execute("GRANT REPLICATION SLAVE ON *.* TO guest@127.0.0.1")
    (finding,) = findings(guest)
    assert finding.fix == "GRANT REPLICATION CLIENT ON *.* TO 'guest'@'127.0.0.1';"
    mariadb.execute("GRANT BINLOG MONITOR ON *.* TO follower")
    assert findings(guest) == []
    (finding,) = findings(guest, "t")
    assert (finding.code, finding.fix) == ("rights", f"GRANT SELECT ON `{mariadb.name}`.`t` TO 'guest'@'127.0.0.1';")
    run_fix(mariadb, finding)
    assert findings(guest, "t") == []
    mariadb.execute("DROP USER guest@127.0.0.1", "DROP ROLE follower")


@pytest.mark.parametrize(
    ("statements", "reason", "repairable"),
    [
        (["CREATE TABLE t (a int) ENGINE = MyISAM"], "is a table of the engine MyISAM", True),
        (["CREATE TABLE t (a int) ENGINE = MEMORY"], "is a table of the engine MEMORY", True),
        (["CREATE VIEW t AS SELECT 1 AS a"], "is a view", False),
        (["CREATE SEQUENCE t"], "is a sequence", False),
        (["CREATE TABLE t (a int) WITH SYSTEM VERSIONING"], "is system-versioned", False),
        (["CREATE TABLE t (a int, b int INVISIBLE)"], "has invisible columns", False),
        (
            [
                "CREATE TABLE p (id int PRIMARY KEY) WITH SYSTEM VERSIONING",
                "CREATE TABLE t (id int PRIMARY KEY, p int, CONSTRAINT f FOREIGN KEY (p) REFERENCES p (id)"
                " ON DELETE CASCADE)",
            ],
            "has rows that the foreign key f ON DELETE CASCADE to p changes: these changes are not in the binary log",
            True,
        ),
        (
            [
                "SET foreign_key_checks = 0",
                "CREATE TABLE t (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
            ],
            "has rows that change with those of test_",
            False,
        ),
        (["CREATE TABLE t (a text CHARACTER SET big5)"], "character set big5 is not supported", False),
    ],
)
def test_what_is_not_streamed(mariadb: MariaDatabase, statements: list[str], reason: str, repairable: bool) -> None:
    """Each with the statement that changes it, where there is one."""
    mariadb.execute(*statements)
    (finding,) = findings(mariadb, "t")
    assert (finding.code, finding.table, finding.fatal) == ("not_streamed", f"{mariadb.name}.t", True)
    assert reason in finding.reason
    if repairable:
        run_fix(mariadb, finding)
        assert findings(mariadb, "t") == []
    else:
        assert finding.fix is None


KEYS = (
    "CREATE TABLE p (id int PRIMARY KEY)",
    "CREATE TABLE t (id int PRIMARY KEY, p int, CONSTRAINT f FOREIGN KEY (p) REFERENCES p (id)"
    " ON UPDATE CASCADE ON DELETE SET NULL)",
    "CREATE TABLE u (id int PRIMARY KEY, t int, CONSTRAINT g FOREIGN KEY (t) REFERENCES t (id)"
    " ON UPDATE RESTRICT ON DELETE CASCADE)",
    "CREATE TABLE v (id int PRIMARY KEY, u int, CONSTRAINT h FOREIGN KEY (u) REFERENCES u (id) ON DELETE CASCADE)",
)


def test_what_foreign_keys_change(mariadb: MariaDatabase) -> None:
    """The consequences of foreign keys for a table that is followed."""
    mariadb.execute(*KEYS)
    own, child, grandchild = findings(mariadb, "t", "u", "v")
    assert {(f.code, f.fatal, f.fix) for f in (own, child, grandchild)} == {("cascades", False, None)}
    assert own.reason == (
        f"The changes that f ON UPDATE CASCADE and ON DELETE SET NULL to p makes to {mariadb.name}.t are not in the "
        "binary log. A change of a referenced row evicts the results that the changed rows may be part of."
    )
    assert child.reason.endswith("evicts the results that the changed rows may be part of.")
    assert grandchild.reason.endswith(f"; one of {mariadb.name}.t, all results of the table.")
    assert findings(mariadb, "p") == []


def test_foreign_keys_over_kafka(mariadb: MariaDatabase) -> None:
    """Streams other than the log derive nothing."""
    mariadb.execute(*KEYS)
    name = f"{mariadb.name}.u"
    found = asked(mariadb, lambda session: check_tables(session.wire, [name], session.flavour, follows_keys=False))  # type: ignore[attr-defined]
    assert [(f.code, f.fatal) for f in found] == [("not_streamed", True)]
    assert "the foreign key g ON DELETE CASCADE to t changes" in found[0].reason
    run_fix(mariadb, found[0])


def test_a_table_that_is_not_there(mariadb: MariaDatabase) -> None:
    assert fatal(mariadb, "nothing") == [("missing", None)]


@pytest.mark.parametrize(
    ("alteration", "notices"),
    [
        ("ALTER TABLE t ADD COLUMN more int", []),
        ("ALTER TABLE t DROP COLUMN b", ["b"]),
        ("ALTER TABLE t MODIFY b varchar(9)", ["b", "b"]),
        ("ALTER TABLE t CHANGE b renamed int", ["b"]),
        ("ALTER TABLE t MODIFY c enum('x', 'y', 'z')", ["c", "c"]),
        ("ALTER TABLE t MODIFY d varchar(5) COLLATE utf8mb4_general_ci NOT NULL", ["d"]),
        ("ALTER TABLE t MODIFY d varchar(5) COLLATE utf8mb4_bin NULL", ["d"]),
        ("ALTER TABLE t DROP PRIMARY KEY", [None]),
        ("ALTER TABLE t ENGINE = MyISAM", [None]),
        ("DROP TABLE t", [None]),
        ("ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES t (a) ON DELETE CASCADE", [None]),
        ("ALTER TABLE t ADD FOREIGN KEY (b) REFERENCES t (a)", []),
    ],
)
def test_what_changes(mariadb: MariaDatabase, alteration: str, notices: list[str | None]) -> None:
    """A followed table that is no longer what it was taken for is told of, column by column if it can be."""
    mariadb.execute(
        "CREATE TABLE t (a int PRIMARY KEY, b int, c enum('x', 'y'), d varchar(5) COLLATE utf8mb4_bin NOT NULL)"
    )
    name = f"{mariadb.name}.t"
    layouts = asked(mariadb, lambda session: session.load_layouts([name]))
    tables = asked(mariadb, lambda session: session.load_catalog()).tables

    def check() -> list[SchemaNotice]:
        async def ask(session):  # type: ignore[no-untyped-def]
            return await session.check_schema(layouts, {name: tables[name]}, await session.load_catalog())

        return asked(mariadb, ask)

    assert check() == []
    mariadb.execute(alteration)
    found = check()
    assert [notice.columns for notice in found] == [(column,) if column else () for column in notices]
    assert {notice.table for notice in found} <= {name}
