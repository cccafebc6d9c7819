"""Effects of statements of the log on tables: each form of the grammars of MariaDB 10.11 and MySQL 8."""

import pytest

from cdc.mysql.events import QueryEvent
from cdc.mysql.statements import statement_of
from cdc.mysql.table_effects import EVERY_TABLE, EffectKind, TableEffect
from cdc.mysql.tokens import ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES

T, U, X = ("shop", "t"), ("shop", "u"), ("x", "u")
SHIFT, REWRITE, ALTER, REPLACE = (
    TableEffect(T, kind) for kind in (EffectKind.SHIFT, EffectKind.REWRITE, EffectKind.ALTER, EffectKind.REPLACE)
)
U_REPLACED, X_REPLACED = TableEffect(U, EffectKind.REPLACE), TableEffect(X, EffectKind.REPLACE)


def unlike(*keys: str) -> TableEffect:
    """Unique keys of `T` of these names, if there are such, are gone or others."""
    return TableEffect(T, EffectKind.UNIQUE, keys)


def altered(*columns: str) -> TableEffect:
    """These columns of `T` are gone or of another kind."""
    return TableEffect(T, EffectKind.ALTER, columns)


#: Parts of ALTER TABLE, and their effects on `T`.
PARTS: dict[str, list[TableEffect]] = {
    # Columns
    "ADD COLUMN b int": [],
    "ADD b int DEFAULT 3 COMMENT 'first, after'": [],
    "ADD COLUMN IF NOT EXISTS b int": [],
    "ADD (b int, c varchar(3) DEFAULT ',')": [],
    "ADD COLUMN (b int, `after` int)": [],
    "ADD COLUMN `after` int": [],
    "ADD b int FIRST": [SHIFT],
    "ADD COLUMN b int COMMENT 'x' AFTER a": [SHIFT],
    "ADD COLUMN b int GENERATED ALWAYS AS (a + 1) STORED AFTER `first`": [SHIFT],
    "ADD COLUMN b int REFERENCES u (id) ON DELETE CASCADE": [ALTER],
    "ADD COLUMN b int INVISIBLE": [],
    "ADD system int": [],
    "DROP a": [SHIFT, altered("a")],
    "DROP COLUMN IF EXISTS a RESTRICT": [SHIFT, altered("a")],
    "DROP COLUMN `key`": [SHIFT, altered("key")],
    "DROP COLUMN a CASCADE": [SHIFT, altered("a")],
    "MODIFY a decimal(3,1)": [REWRITE, altered("a")],
    "MODIFY COLUMN IF EXISTS a int NOT NULL DEFAULT '#' AFTER b": [REWRITE, SHIFT, altered("a")],
    "MODIFY a int COMMENT 'see #12' FIRST": [REWRITE, SHIFT, altered("a")],
    "MODIFY a varchar(3) CHARACTER SET latin1 COLLATE latin1_bin": [REWRITE, altered("a")],
    "MODIFY a int REFERENCES u (id) ON UPDATE SET NULL": [REWRITE, ALTER, altered("a")],
    "CHANGE a b int": [REWRITE, altered("a")],
    "CHANGE COLUMN IF EXISTS `a``` `b c` int FIRST": [REWRITE, SHIFT, altered("a`")],
    "RENAME COLUMN a TO b": [altered("a")],
    "RENAME COLUMN IF EXISTS a TO b": [altered("a")],
    "ALTER a SET DEFAULT 3": [],
    "ALTER COLUMN IF EXISTS a SET DEFAULT (1 + 2)": [],
    "ALTER COLUMN a DROP DEFAULT": [],
    "ALTER COLUMN a SET INVISIBLE": [altered("a")],
    # Keys and constraints
    "ADD INDEX (a)": [],
    "ADD KEY IF NOT EXISTS k USING BTREE (a DESC, b(3)) COMMENT 'after'": [],
    "ADD UNIQUE INDEX k (a)": [],
    "ADD FULLTEXT KEY k (a) WITH PARSER ngram": [],
    "ADD SPATIAL INDEX (a)": [],
    "ADD VECTOR INDEX (a) M=6": [],
    "ADD CONSTRAINT c UNIQUE KEY (a)": [],
    "ADD CONSTRAINT IF NOT EXISTS c CHECK (a > 3)": [],
    "ADD CHECK (a > 3) NOT ENFORCED": [],
    "ADD FOREIGN KEY (a) REFERENCES u (id)": [],
    "ADD CONSTRAINT f FOREIGN KEY IF NOT EXISTS i (a) REFERENCES x.u (id) MATCH FULL ON DELETE RESTRICT": [],
    "ADD CONSTRAINT FOREIGN KEY (a) REFERENCES u (id) ON DELETE CASCADE ON UPDATE NO ACTION": [ALTER],
    "ADD FOREIGN KEY (a) REFERENCES u (id) ON UPDATE SET NULL": [ALTER],
    "ADD PRIMARY KEY (a)": [REWRITE],
    "ADD CONSTRAINT p PRIMARY KEY USING HASH (a)": [REWRITE],
    "DROP INDEX IF EXISTS i": [unlike("i")],
    "DROP KEY i": [unlike("i")],
    "DROP PRIMARY KEY": [unlike("PRIMARY")],
    "DROP FOREIGN KEY IF EXISTS f": [],
    "DROP CONSTRAINT IF EXISTS c": [unlike("c")],
    "DROP CHECK c": [],
    "RENAME INDEX a TO b": [unlike("a")],
    "RENAME KEY a TO b": [unlike("a")],
    "ALTER INDEX i NOT IGNORED": [],
    "ALTER KEY IF EXISTS i IGNORED": [],
    "ALTER INDEX i INVISIBLE": [],
    "ALTER CHECK c NOT ENFORCED": [],
    "ALTER CONSTRAINT c ENFORCED": [],
    "DISABLE KEYS": [],
    "ENABLE KEYS": [],
    # The table
    "RENAME u": [REPLACE, U_REPLACED],
    "RENAME TO x.u": [REPLACE, X_REPLACED],
    "RENAME AS `u`": [REPLACE, U_REPLACED],
    "RENAME = u": [REPLACE, U_REPLACED],
    "CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin": [ALTER],
    "CONVERT TO CHARSET utf8mb4": [ALTER],
    "DEFAULT CHARACTER SET = utf8mb4 COLLATE utf8mb4_bin": [],
    "CHARSET latin1": [],
    "DEFAULT COLLATE utf8mb4_bin": [],
    "FORCE": [],
    "ORDER BY a, b DESC, c ASC": [],
    "ALGORITHM = INPLACE": [],
    "ALGORITHM DEFAULT": [],
    "LOCK NONE": [],
    "WITH VALIDATION": [],
    "WITHOUT VALIDATION": [],
    "SECONDARY_LOAD": [],
    "SECONDARY_UNLOAD": [],
    "ADD SYSTEM VERSIONING": [ALTER],
    "DROP SYSTEM VERSIONING": [ALTER],
    "ADD PERIOD FOR SYSTEM_TIME (a, b)": [ALTER],
    "ADD PERIOD FOR p (a, b)": [ALTER],
    "DROP PERIOD FOR SYSTEM_TIME": [ALTER],
    "WITH SYSTEM VERSIONING": [ALTER],
    "DISCARD TABLESPACE": [ALTER],
    "IMPORT TABLESPACE": [ALTER],
    # Options
    "ENGINE = InnoDB": [],
    "ENGINE 'innodb' ROW_FORMAT = COMPRESSED KEY_BLOCK_SIZE 8": [],
    "ENGINE = BLACKHOLE": [ALTER],
    "COMMENT 'x' ENGINE BLACKHOLE": [ALTER],
    "COMMENT = 'see #12, -- and /* that'": [],
    "AUTO_INCREMENT = 7 AVG_ROW_LENGTH 3 CHECKSUM = 1 TABLE_CHECKSUM 1 DELAY_KEY_WRITE 1 INSERT_METHOD LAST": [],
    "MAX_ROWS 3 MIN_ROWS 1 PACK_KEYS DEFAULT PASSWORD 'x' CONNECTION = 'y' TRANSACTIONAL = 1 PAGE_CHECKSUM 0": [],
    "STATS_AUTO_RECALC 1 STATS_PERSISTENT DEFAULT STATS_SAMPLE_PAGES = 3 COMPRESSION 'zlib'": [],
    "ENCRYPTED = YES ENCRYPTION_KEY_ID = 3 ENCRYPTION 'Y' PAGE_COMPRESSED 1 PAGE_COMPRESSION_LEVEL 3": [],
    "ENGINE_ATTRIBUTE '{}' SECONDARY_ENGINE_ATTRIBUTE = '{}' SECONDARY_ENGINE = NULL AUTOEXTEND_SIZE 4M": [],
    "DATA DIRECTORY = '/a' INDEX DIRECTORY '/b' TABLESPACE s STORAGE DISK": [],
    "SEQUENCE = 1": [ALTER],
    "`unheard` = 'of'": [ALTER],
    # Partitions
    "PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (3), PARTITION q VALUES LESS THAN MAXVALUE)": [],
    "ENGINE = InnoDB PARTITION BY HASH (a) PARTITIONS 3": [],
    "REMOVE PARTITIONING": [],
    "FORCE REMOVE PARTITIONING": [],
    "UPGRADE PARTITIONING": [],
}
#: Commands that are a whole ALTER TABLE, for MySQL behind its ALGORITHM and LOCK.
COMMANDS: dict[str, list[TableEffect]] = {
    "": [],
    "ADD PARTITION (PARTITION p VALUES LESS THAN (3), PARTITION q VALUES LESS THAN (4))": [],
    "ADD PARTITION IF NOT EXISTS PARTITIONS 2": [],
    "COALESCE PARTITION 2": [],
    "REORGANIZE PARTITION": [],
    "REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (3))": [],
    "REBUILD PARTITION p, q": [],
    "OPTIMIZE PARTITION ALL": [],
    "ANALYZE PARTITION p, q": [],
    "CHECK PARTITION p, q FOR UPGRADE": [],
    "REPAIR PARTITION p, q": [],
    "DROP PARTITION IF EXISTS p, q": [REWRITE],
    "TRUNCATE PARTITION ALL": [REWRITE],
    "DISCARD PARTITION p, q TABLESPACE": [REWRITE],
    "IMPORT PARTITION ALL TABLESPACE": [REWRITE],
    "EXCHANGE PARTITION p WITH TABLE u": [REWRITE, TableEffect(U, EffectKind.REWRITE)],
    "EXCHANGE PARTITION `p` WITH TABLE x.`u` WITHOUT VALIDATION": [REWRITE, TableEffect(X, EffectKind.REWRITE)],
    "EXCHANGE PARTITION p WITH TABLE u WITH VALIDATION": [REWRITE, TableEffect(U, EffectKind.REWRITE)],
    "CONVERT PARTITION p TO TABLE x.u": [REWRITE, X_REPLACED],
    "CONVERT TABLE u TO PARTITION p VALUES LESS THAN (3)": [U_REPLACED, REWRITE],
    "CONVERT TABLE x.u TO PARTITION p VALUES LESS THAN (3) WITHOUT VALIDATION": [
        X_REPLACED,
        REWRITE,
    ],
}
BEFORE_TABLES = ["ALTER TABLE t", "alter online table if exists shop.t wait 5", "ALTER TABLE `shop` . `t` NOWAIT"]


def effects_of(text: str, sql_mode: int = 0) -> list[TableEffect]:
    """The effects of a statement that changes no rows."""
    statement = statement_of(QueryEvent("shop", text, sql_mode))
    assert not statement.changes_rows
    return list(statement.effects)


@pytest.mark.parametrize("before", BEFORE_TABLES)
@pytest.mark.parametrize("part", [*PARTS, *COMMANDS])
def test_alter_table(before: str, part: str) -> None:
    """Each part by itself."""
    assert effects_of(f"{before} {part}") == {**PARTS, **COMMANDS}[part]


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("other", "effect"), [("DROP z", altered("z")), ("ADD y int AFTER z", SHIFT), ("RENAME TO x.v", REPLACE)]
)
def test_sequences_of_parts(part: str, other: str, effect: TableEffect) -> None:
    """Parts hide none before or behind them. (Nothing follows partitioning.)"""
    texts = [f"ALTER TABLE t {other}, {part}"]
    if "PARTITION" not in part:
        texts.append(f"ALTER TABLE t {part}, /* and */ LOCK=NONE, {other}")
    for text in texts:
        found = effects_of(text)
        named = {column for e in found for column in e.columns}
        for wanted in [effect, *PARTS[part]]:
            assert wanted in found or (wanted.columns and named.issuperset(wanted.columns))


@pytest.mark.parametrize("command", [c for c in COMMANDS if c])
def test_commands_behind_modifiers(command: str) -> None:
    """MySQL: ALGORITHM, LOCK and VALIDATION may come before a command about partitions."""
    assert effects_of(f"ALTER TABLE t ALGORITHM=COPY, LOCK=SHARED, {command}") == COMMANDS[command]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "# a comment",
        "CREATE VIEW IF NOT EXISTS v AS SELECT 1",
        "CREATE DEFINER=`a`@`b` TRIGGER t BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
        "DROP TRIGGER IF EXISTS t",
        "CREATE TEMPORARY TABLE t (a int)",
        "CREATE OR REPLACE TEMPORARY TABLE t (a int)",
        "DROP TEMPORARY TABLE t",
        "DROP /*!40005 TEMPORARY */ TABLE t",
        "DROP TEMPORARY TABLE IF EXISTS `t` /* generated by server */",
        "CREATE UNIQUE INDEX i ON t (a) WAIT 3 ALGORITHM=NOCOPY",
        "CREATE FULLTEXT INDEX i ON t (a)",
        "CREATE SPATIAL INDEX i ON t (a)",
        "CREATE ONLINE INDEX i ON t (a)",
        "CREATE DATABASE IF NOT EXISTS y CHARACTER SET utf8",
        "CREATE SCHEMA y",
        "ALTER SCHEMA y COLLATE utf8mb4_bin",
        "ALTER DATABASE shop CHARACTER SET latin1",
        "ALTER DATABASE COMMENT 'x'",
        "ALTER DATABASE y READ ONLY = 1",
        "CREATE TABLE IF NOT EXISTS t (a int)",
        "CREATE SEQUENCE IF NOT EXISTS s",
        "ALTER SEQUENCE s RESTART 3",
        "CREATE PROCEDURE p() BEGIN DROP TABLE t; END",
        "CREATE FUNCTION f() RETURNS int RETURN 1",
        "DROP PROCEDURE p",
        "CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'x'",
        "DROP FUNCTION f",
        "ALTER FUNCTION f COMMENT 'x'",
        "CREATE EVENT e ON SCHEDULE EVERY 1 HOUR DO DROP TABLE t",
        "ALTER EVENT e RENAME TO t",
        "DROP EVENT e",
        "CREATE OR REPLACE PACKAGE BODY p AS END",
        "DROP PACKAGE p",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql",
        "CREATE TABLESPACE s ADD DATAFILE 'x'",
        "DROP UNDO TABLESPACE s",
        "ALTER TABLESPACE s RENAME TO t",
        "CREATE LOGFILE GROUP g ADD UNDOFILE 'x'",
        "CREATE RESOURCE GROUP g TYPE = USER",
        "ALTER INSTANCE RELOAD TLS",
        "CREATE SPATIAL REFERENCE SYSTEM 4 NAME 'x'",
        "CREATE USER a",
        "CREATE OR REPLACE ROLE a",
        "ALTER USER a",
        "DROP USER a",
        "RENAME USER a TO b",
        "GRANT ALL ON t TO a",
        "REVOKE ALL ON t FROM a",
        "SET PASSWORD = 'x'",
        "ANALYZE TABLE t",
        "OPTIMIZE TABLE t",
        "CHECK TABLE t",
        "FLUSH TABLES",
        "SET @a = 'DROP TABLE t'",
        "SET STATEMENT a = 1 FOR FLUSH TABLES",
        "/*! SET @a = 1 */",
        "UNLOCK TABLES",
        "INSTALL SONAME 'x'",
        "ALTER IGNORE PROCEDURE p COMMENT 'x'",
    ],
)
def test_nothing(text: str) -> None:
    """Statements that leave the rows of tables as they are."""
    assert effects_of(text) == []


@pytest.mark.parametrize(
    ("text", "effects"),
    [
        ("TRUNCATE t", [TableEffect(T, EffectKind.TRUNCATE)]),
        *(
            (text, [TableEffect(T, EffectKind.VIEW)])
            for text in (
                "CREATE VIEW t AS SELECT 1",
                "CREATE OR REPLACE ALGORITHM=MERGE VIEW shop.t AS SELECT 1",
                "CREATE DEFINER=`a`@`%` SQL SECURITY DEFINER VIEW `t` (a, b) AS SELECT 1, 2",
                "ALTER VIEW t AS SELECT 1",
                "ALTER DEFINER=a SQL SECURITY INVOKER VIEW t AS SELECT 1",
                "DROP VIEW IF EXISTS t RESTRICT",
            )
        ),
        ("DROP VIEW t, x.u", [TableEffect(T, EffectKind.VIEW), TableEffect(X, EffectKind.VIEW)]),
        *(
            (text, [unlike("i")])
            for text in (
                "DROP INDEX i ON t",
                "DROP INDEX IF EXISTS i ON shop.t NOWAIT",
                "DROP INDEX `i` ON t LOCK=NONE",
                "CREATE OR REPLACE INDEX IF NOT EXISTS i ON t (a)",
                "CREATE OR REPLACE UNIQUE INDEX i USING BTREE ON t (a)",
            )
        ),
        ("truncate table `other`.`a``b` wait 3", [TableEffect(("other", "a`b"), EffectKind.TRUNCATE)]),
        ("TRUNCATE TABLE .t NOWAIT;", [TableEffect(T, EffectKind.TRUNCATE)]),
        ("/* app */ TRUNCATE TABLE -- all\n t", [TableEffect(T, EffectKind.TRUNCATE)]),
        ("/*!50000 TRUNCATE */ t", [TableEffect(T, EffectKind.TRUNCATE)]),
        ("/*M!100500 TRUNCATE*/t", [TableEffect(T, EffectKind.TRUNCATE)]),
        ("DROP TABLE IF EXISTS `t`, x.u /* by server */", [REPLACE, X_REPLACED]),
        ("DROP TABLES t NOWAIT RESTRICT", [REPLACE]),
        ("DROP TABLE t CASCADE;", [REPLACE]),
        ("DROP SEQUENCE t", [REPLACE]),
        ("DROP DATABASE IF EXISTS `x`", [TableEffect(("x", None), EffectKind.REPLACE)]),
        ("DROP SCHEMA x", [TableEffect(("x", None), EffectKind.REPLACE)]),
        ("CREATE OR REPLACE DATABASE x CHARACTER SET utf8", [TableEffect(("x", None), EffectKind.REPLACE)]),
        ("CREATE OR REPLACE SCHEMA x", [TableEffect(("x", None), EffectKind.REPLACE)]),
        ("CREATE TABLE t (a int) ENGINE=InnoDB", [REPLACE]),
        ("CREATE TABLE t LIKE u", [REPLACE]),
        ("CREATE TABLE t (LIKE u)", [REPLACE]),
        ("CREATE TABLE t SELECT * FROM u", [REPLACE]),
        ("CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL\n) START TRANSACTION", [REPLACE]),
        ("CREATE OR REPLACE TABLE x.u (a int)", [X_REPLACED]),
        ("CREATE OR REPLACE SEQUENCE t", [REPLACE]),
        ("CREATE SEQUENCE x.u", [X_REPLACED]),
        (
            "RENAME TABLE t TO u, x.u WAIT 5 TO t",
            [REPLACE, U_REPLACED, X_REPLACED, REPLACE],
        ),
        ("RENAME TABLES IF EXISTS t NOWAIT TO x.u", [REPLACE, X_REPLACED]),
        (
            "RENAME TABLE t TO a, u TO t, a TO u",
            [
                REPLACE,
                TableEffect(("shop", "a"), EffectKind.REPLACE),
                U_REPLACED,
                REPLACE,
                TableEffect(("shop", "a"), EffectKind.REPLACE),
                U_REPLACED,
            ],
        ),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", [REWRITE]),
        ("ALTER ONLINE IGNORE TABLE t DROP a", [REWRITE, SHIFT, altered("a")]),
        ("ALTER TABLE t MODIFY a int, DROP `b`, CHANGE c d int", [REWRITE, SHIFT, altered("a", "b", "c")]),
        ("ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", [altered("a", "b")]),
        (
            "ALTER TABLE t ADD b int, RENAME TO u, DROP c",
            [REPLACE, U_REPLACED, SHIFT, altered("c")],
        ),
        ("ALTER TABLE t ORDER BY a, b DESC, DROP c", [SHIFT, altered("c")]),
        ("ALTER TABLE t /*!50100 PARTITION BY HASH (a) */", []),
        ("ALTER TABLE t COMMENT='x' /*! , DROP a */", [SHIFT, altered("a")]),
        ("SET STATEMENT max_statement_time = 3, x = 'FOR' FOR TRUNCATE t", [TableEffect(T, EffectKind.TRUNCATE)]),
        ("SET STATEMENT x = SUBSTRING('a' FROM 1 FOR 1) FOR TRUNCATE t", [TableEffect(T, EffectKind.TRUNCATE)]),
    ],
)
def test_effects(text: str, effects: list[TableEffect]) -> None:
    """Statements after which rows or columns are no longer what they were."""
    assert effects_of(text) == effects


@pytest.mark.parametrize(
    ("text", "sql_mode", "effects"),
    [
        ("ALTER TABLE t MODIFY COLUMN a INT COMMENT 'see ticket #12' AFTER id", 0, [REWRITE, SHIFT, altered("a")]),
        ("ALTER TABLE t MODIFY a text DEFAULT '#ffffff' AFTER id", 0, [REWRITE, SHIFT, altered("a")]),
        ("ALTER TABLE t COMMENT = 'see #12', DROP COLUMN a", 0, [SHIFT, altered("a")]),
        ("ALTER TABLE t COMMENT = 'a -- b', DROP COLUMN a", 0, [SHIFT, altered("a")]),
        ("ALTER TABLE t COMMENT = '/*', DROP COLUMN a, COMMENT = '*/'", 0, [SHIFT, altered("a")]),
        ('ALTER TABLE t COMMENT="#", RENAME TO u', 0, [REPLACE, U_REPLACED]),
        ("ALTER TABLE `#` COMMENT='#1', FORCE", 0, []),
        ("ALTER TABLE t COMMENT 'a\\', DROP a, COMMENT \\''", 0, []),
        ("ALTER TABLE t COMMENT 'a\\', DROP a, COMMENT '\\'", NO_BACKSLASH_ESCAPES, [SHIFT, altered("a")]),
        ("ALTER TABLE t COMMENT 'it''s', DROP a", 0, [SHIFT, altered("a")]),
        ("ALTER TABLE t DROP `a'`, COMMENT ', DROP b'", 0, [SHIFT, altered("a'")]),
        ('TRUNCATE "t"', ANSI_QUOTES, [TableEffect(T, EffectKind.TRUNCATE)]),
        ('ALTER TABLE "t" DROP "a\\", COMMENT \'"\'', ANSI_QUOTES, [SHIFT, altered("a\\")]),
        ("TRUNCATE [t]", MSSQL, [TableEffect(T, EffectKind.TRUNCATE)]),
        ("ALTER TABLE t # COMMENT '\n DROP a", 0, [SHIFT, altered("a")]),
        ("ALTER TABLE t --\n DROP a", 0, [SHIFT, altered("a")]),
    ],
)
def test_strings_and_comments(text: str, sql_mode: int, effects: list[TableEffect]) -> None:
    """Neither hides the rest of a statement."""
    assert effects_of(text, sql_mode) == effects


@pytest.mark.parametrize(
    "text",
    [
        "SOMETHING new",
        "CREATE CATALOG c",
        "DROP CATALOG c",
        "ALTER EXTERNAL TABLE t DROP a",
        "CREATE",
        "DROP TABLE",
        "DROP TABLE t u",
        "DROP TABLE 't'",
        "DROP TABLE t, ",
        "TRUNCATE TABLE t PARTITION p",
        "RENAME TABLE t u",
        "RENAME TABLE t TO u v",
        "RENAME SOMETHING t TO u",
        "ALTER TABLE",
        "ALTER TABLE t DO SOMETHING NEW",
        "ALTER TABLE t EXCHANGE ROWS WITH TABLE u",
        "ALTER TABLE t EXCHANGE PARTITION p, q WITH TABLE u",
        "ALTER TABLE t MERGE TABLE u",
        "ALTER TABLE t DROP a b",
        "ALTER TABLE t FORCE, FORCE u",
        "ALTER TABLE t CONVERT TO u",
        "ALTER TABLE t COMMENT 'a' 'b'",
        "ALTER TABLE t UNION = (u, v)",
        "ALTER TABLE t DROP a; DROP b",
        "ALTER TABLE t COMMENT 'a",
        "ALTER TABLE t DROP a /* b",
        "SET STATEMENT a = 1",
        "ALTER DATABASE `#mysql50#a-b` UPGRADE DATA DIRECTORY NAME",
        "DROP TABLE `\ufffd`",
        "\ufffd",
        "TRUNCATE \ufffd",
        "TRUNCATE t \x00",
        "ALTER DATABASE UPGRADE",
        "IMPORT TABLE FROM 'x'",
    ],
)
def test_anything(text: str) -> None:
    """Statements that are not understood may have done anything to any table."""
    assert effects_of(text) == [TableEffect(EVERY_TABLE, EffectKind.UNKNOWN)]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "update t set a = 1",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "CALL p()",
        "REPLACE INTO t VALUES (1)",
        "LOAD DATA INFILE 'a' INTO TABLE t",
        "SET STATEMENT x = 1 FOR DELETE FROM t",
        "SELECT f()",
        "/* SET */ INSERT INTO t VALUES (1)",
        "(SELECT 1)",
        "DO f()",
        "DELETE FROM t",
    ],
)
def test_changes_of_rows(text: str) -> None:
    """Statements that may change rows."""
    assert statement_of(QueryEvent("shop", text)).changes_rows
