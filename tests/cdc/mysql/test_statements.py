"""What statements of the log do to tables."""

import pytest

from cdc.mysql.events import Query
from cdc.mysql.statements import Did, Effect, statement_of

T = ("shop", "t")


@pytest.mark.parametrize(
    "text",
    [
        "", "CREATE VIEW v AS SELECT 1", "CREATE DEFINER=`a`@`b` TRIGGER t BEFORE INSERT ON t FOR EACH ROW SET @a = 1",
        "CREATE TEMPORARY TABLE t (a int)", "DROP TEMPORARY TABLE IF EXISTS t", "DROP /*!40005 TEMPORARY */ TABLE t",
        "CREATE UNIQUE INDEX i ON t (a)", "DROP INDEX i ON t", "ALTER DATABASE shop CHARACTER SET latin1",
        "CREATE TABLE IF NOT EXISTS t (a int)", "GRANT ALL ON t TO a", "ANALYZE TABLE t", "SET @a = 'DROP TABLE t'",
        "ALTER TABLE t ADD COLUMN b int", "ALTER TABLE t ADD b int DEFAULT 3, ADD INDEX (b), COMMENT = 'first, after'",
        "ALTER TABLE t ADD (b int, c varchar(3) DEFAULT ',')", "ALTER TABLE t ENGINE=InnoDB, LOCK=NONE",
        "ALTER TABLE t DROP INDEX i, DROP FOREIGN KEY f, DROP PRIMARY KEY, DROP CONSTRAINT c",
        "ALTER TABLE t RENAME INDEX a TO b", "ALTER TABLE t ALTER COLUMN a SET DEFAULT 3", "ALTER TABLE t FORCE",
        "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (3))", "ALTER TABLE t WAIT 3 ADD COLUMN b int",
        "ALTER TABLE t DISABLE KEYS", "RENAME USER a TO b", "# a comment\nFLUSH TABLES", "DROP FUNCTION f",
        "ALTER TABLE t ADD COLUMN `after` int, ADD COLUMN b int COMMENT 'FIRST'",
    ],
)  # fmt: skip
def test_nothing(text: str) -> None:
    """Definitions that leave rows as they are."""
    statement = statement_of(Query("shop", text))
    assert statement.effects == ()
    assert not statement.changes_rows


@pytest.mark.parametrize(
    ("text", "effects"),
    [
        ("TRUNCATE t", [Effect(T, Did.TRUNCATE)]),
        ("truncate table `other`.`a``b`", [Effect(("other", "a`b"), Did.TRUNCATE)]),
        ("/* app */ TRUNCATE TABLE -- all\n t", [Effect(T, Did.TRUNCATE)]),
        ("/*!50000 TRUNCATE */ t", [Effect(T, Did.TRUNCATE)]),
        ("DROP TABLE IF EXISTS `t`, x.u /* by server */", [Effect(T, Did.REPLACE), Effect(("x", "u"), Did.REPLACE)]),
        ("DROP DATABASE IF EXISTS `x`", [Effect(("x", None), Did.REPLACE)]),
        ("DROP SCHEMA x", [Effect(("x", None), Did.REPLACE)]),
        ("CREATE TABLE t LIKE u", [Effect(T, Did.REPLACE)]),
        ("CREATE OR REPLACE TABLE x.t (a int)", [Effect(("x", "t"), Did.REPLACE)]),
        ("RENAME TABLE t TO u, x.v WAIT 5 TO t", [
            Effect(T, Did.REPLACE), Effect(("shop", "u"), Did.REPLACE), Effect(("x", "v"), Did.REPLACE),
            Effect(T, Did.REPLACE),
        ]),
        ("ALTER TABLE t RENAME TO x.u", [Effect(T, Did.REPLACE), Effect(("x", "u"), Did.REPLACE)]),
        ("ALTER TABLE t RENAME u", [Effect(T, Did.REPLACE), Effect(("shop", "u"), Did.REPLACE)]),
        ("ALTER TABLE t DROP COLUMN IF EXISTS a", [Effect(T, Did.SHIFT), Effect(T, Did.ALTER, ("a",))]),
        ("ALTER ONLINE TABLE t DROP a, ADD b int", [Effect(T, Did.SHIFT), Effect(T, Did.ALTER, ("a",))]),
        ("ALTER TABLE t MODIFY a decimal(3,1), CHANGE `b` c int", [Effect(T, Did.ALTER, ("a", "b"))]),
        ("ALTER TABLE t MODIFY a int FIRST", [Effect(T, Did.SHIFT), Effect(T, Did.ALTER, ("a",))]),
        ("ALTER TABLE t ADD COLUMN b int AFTER a", [Effect(T, Did.SHIFT)]),
        ("ALTER TABLE t RENAME COLUMN a TO b", [Effect(T, Did.ALTER, ("a",))]),
        ("ALTER TABLE t CONVERT TO CHARACTER SET latin1", [Effect(T, Did.ALTER)]),
        ("ALTER TABLE t ADD SYSTEM VERSIONING", [Effect(T, Did.ALTER)]),
        ("ALTER TABLE t DO SOMETHING NEW", [Effect(T, Did.ALTER)]),
        ("ALTER IGNORE TABLE t ADD UNIQUE (a)", [Effect(T, Did.REWRITE)]),
        ("ALTER TABLE t DROP PARTITION p", [Effect(T, Did.REWRITE)]),
        ("ALTER TABLE t DISCARD TABLESPACE", [Effect(T, Did.ALTER)]),
        ("SET STATEMENT max_statement_time = 3, x = 'FOR' FOR TRUNCATE t", [Effect(T, Did.TRUNCATE)]),
    ],
)  # fmt: skip
def test_effects(text: str, effects: list[Effect]) -> None:
    """What rows and columns are no longer what they were."""
    statement = statement_of(Query("shop", text))
    assert list(statement.effects) == effects
    assert not statement.changes_rows


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)", "update t set a = 1", "WITH x AS (SELECT 1) DELETE FROM t", "CALL p()",
        "REPLACE INTO t VALUES (1)", "LOAD DATA INFILE 'a' INTO TABLE t", "SET STATEMENT x = 1 FOR DELETE FROM t",
        "SELECT f()", "SOMETHING new", "/* SET */ INSERT INTO t VALUES (1)", "(SELECT 1)",
    ],
)  # fmt: skip
def test_changes_of_rows(text: str) -> None:
    """And whatever is not known."""
    assert statement_of(Query("shop", text)).changes_rows
