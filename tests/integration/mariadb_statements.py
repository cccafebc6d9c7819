"""Statements of MariaDB that define something, and may change what a view answers: one `Form` for each form of them.

After the MariaDB manual's and the MySQL manual's grammars of ALTER TABLE (its specifications one by one), CREATE, DROP,
RENAME and TRUNCATE. A form has tables of its own: `t`, `u` (like `t`) and `v`, a view of `t`; `parts` and `spare`, if
it is about partitions; in a database of its own, if it is about that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_COLUMNS = (
    "id int NOT NULL, a int, b int, name varchar(20), e enum('x','y'), un int NOT NULL,"
    " g int AS (a * 2) STORED, PRIMARY KEY (id), UNIQUE KEY un (un), KEY plain (b)"
)
_ROWS = "(1, 10, 20, 'one', 'x', 1), (2, 11, 21, 'Two', 'y', 2), (3, 10, 22, 'three', 'x', 3)"
_OTHER_ROWS = "(1, 70, 80, 'uno', 'y', 4), (3, 71, 81, 'tre', 'x', 5)"
_INSERTED = "(id, a, b, name, e, un)"
_SPARE = "id int NOT NULL, a int, PRIMARY KEY (id)"

#: Tables and views of the database, by name, in the order in which they are made.
_TABLES = {
    "t": (f"CREATE TABLE {{t}} ({_COLUMNS})", f"INSERT INTO {{t}} {_INSERTED} VALUES {_ROWS}"),
    "u": (f"CREATE TABLE {{u}} ({_COLUMNS})", f"INSERT INTO {{u}} {_INSERTED} VALUES {_OTHER_ROWS}"),
    "inner": ("CREATE VIEW {inner} AS SELECT id, a, b FROM {t}",),
    "v": ("CREATE VIEW {v} AS SELECT id, a, b FROM {inner} WHERE a > 0",),
}
_PARTITIONED = {
    "t": (
        f"CREATE TABLE {{t}} ({_SPARE}) PARTITION BY RANGE (id)"
        " (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20))",
        "INSERT INTO {t} VALUES (1, 10), (2, 11), (3, 10)",
    ),
    "u": (f"CREATE TABLE {{u}} ({_SPARE})", "INSERT INTO {u} VALUES (4, 12), (3, 13)"),
}
#: Views that are read, by name, and the parameters that they are read with.
_VIEWS = {
    "row": ("SELECT id, a, b, name, e, g FROM {t} WHERE id = :k", (1, 3)),
    "few": ("SELECT id, un FROM {t} WHERE id = :k", (3,)),
    "label": ("SELECT e, COUNT(*) AS n, MAX(b) AS m FROM {t} WHERE e = :k GROUP BY e", ("x", "y")),
    "again": ("SELECT id, name, SOUNDEX(name) AS s, b, g FROM {t} WHERE id <= :k ORDER BY id", (3,)),
    "distinct": ("SELECT DISTINCT un, name FROM {t} WHERE a = :k", (10,)),
    "keyed": ("SELECT DISTINCT id, name FROM {t} WHERE a = :k", (10,)),
    "joined": ("SELECT DISTINCT t.id, u.name FROM {t} t LEFT JOIN {u} u ON u.un = t.un + 3 WHERE t.id = :k", (1,)),
    "through": ("SELECT id, a, b FROM {v} WHERE id = :k", (1, 3)),
    "throughagain": ("SELECT id, SOUNDEX(a) AS s FROM {v} WHERE id <= :k ORDER BY id", (3,)),
    "other": ("SELECT id, a FROM {u} WHERE id = :k", (1, 3)),
}
_PARTITIONED_VIEWS = {
    "count": ("SELECT a, COUNT(*) AS n FROM {t} WHERE a = :k GROUP BY a", (10,)),
    "again": ("SELECT id, SOUNDEX(a) AS s FROM {t} WHERE id <= :k ORDER BY id", (3,)),
    "other": ("SELECT id, a FROM {u} WHERE id = :k", (3, 4)),
}


@dataclass(frozen=True, slots=True)
class Form:
    """Statements, after each of which every answer is right; ``;`` between them."""

    statements: str
    views: tuple[str, ...]
    partitioned: bool = False
    #: In a database of its own.
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A form with its number."""

    number: int
    form: Form

    @property
    def database(self) -> str:
        """The database of its tables, if it is its own."""
        return f"apart_{self.number}" if self.form.apart else ""

    def filled(self, text: str) -> str:
        """A statement with its names."""
        dot = f"{self.database}." if self.database else ""
        text = text.replace("{n}", str(self.number)).replace("{db}", self.database)
        for name in ("t", "u", "v", "w", "x", "inner"):
            text = text.replace("{" + name + "}", f"{dot}{name}{self.number}")
        return text

    def setup(self) -> Iterator[str]:
        """Makes what it is about."""
        if self.form.apart:
            yield f"CREATE DATABASE {self.database}"
        made = _PARTITIONED if self.form.partitioned else _TABLES
        used = " ".join([self.form.statements, *(sql for sql, _ in self._views().values())])
        for name, statements in made.items():
            if name == "t" or f"{{{name}}}" in used or (name == "inner" and "{v}" in used):
                yield from map(self.filled, statements)

    def teardown(self) -> Iterator[str]:
        """Drops what there may be."""
        if self.form.apart:
            yield f"DROP DATABASE IF EXISTS {self.database}"
        else:
            names = ", ".join(f"{name}{self.number}" for name in ("t", "u", "v", "w", "x", "inner"))
            yield from (f"DROP TABLE IF EXISTS {names}", f"DROP VIEW IF EXISTS {names}")

    def _views(self) -> dict[str, tuple[str, tuple[int | str, ...]]]:
        views = _PARTITIONED_VIEWS if self.form.partitioned else _VIEWS
        return {name: views[name] for name in self.form.views}

    def statements(self) -> list[str]:
        """Its statements."""
        return [self.filled(statement.strip()) for statement in self.form.statements.split(";;")]

    def views(self) -> dict[str, tuple[str, tuple[int | str, ...]]]:
        """Its views' SQL and parameters, by name."""
        return {f"{name}_{self.number}": (self.filled(sql), keys) for name, (sql, keys) in self._views().items()}


def _forms(views: str, *statements: str, partitioned: bool = False, apart: bool = False) -> list[Form]:
    return [Form(text, tuple(views.split()), partitioned, apart) for text in statements]


_DUPLICATE = "INSERT INTO {t} (id, a, b, name, e, un) VALUES (1, 10, 20, 'one', 'x', 1)"
_DUPLICATE_UNIQUE = "INSERT INTO {t} (id, a, b, name, e, un) VALUES (7, 10, 20, 'one', 'x', 1)"
_UPDATE = "UPDATE {t} SET a = a + 1, name = 'new' WHERE id = 3"

#: Statements after which all answers are those of before.
_HARMLESS = ";; ".join(
    [
        "ALTER TABLE {t} ADD COLUMN more int DEFAULT 7",
        "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS more int",
        "ALTER TABLE {t} ADD COLUMN (m2 int, m3 text)",
        _UPDATE,
        "ALTER TABLE {t} ADD INDEX i (a), ADD UNIQUE KEY iu (id, a)",
        "ALTER TABLE {t} ADD FULLTEXT KEY f (name)",
        "ALTER TABLE {t} DROP INDEX f",
        "CREATE INDEX j ON {t} (a, b)",
        "ALTER TABLE {t} ADD CHECK (id > 0)",
        "ALTER TABLE {t} ADD CONSTRAINT c1 CHECK (id > 0)",
        "ALTER TABLE {t} DROP CONSTRAINT c1",
        "ALTER TABLE {t} ALTER COLUMN a SET DEFAULT 5",
        "ALTER TABLE {t} ALTER a DROP DEFAULT",
        _UPDATE,
        "ALTER TABLE {t} ALTER INDEX plain IGNORED",
        "ALTER TABLE {t} DISABLE KEYS",
        "ALTER TABLE {t} ENABLE KEYS",
        "ALTER TABLE {t} ORDER BY a",
        "ALTER TABLE {t} COMMENT 'drop column a', AUTO_INCREMENT = 90",
        "ALTER TABLE {t} DEFAULT CHARACTER SET latin1 COLLATE latin1_bin",
        "ALTER TABLE {t} ENGINE = InnoDB",
        "ALTER TABLE {t} FORCE, ALGORITHM = COPY",
        "ALTER TABLE {t} ADD COLUMN m4 int, ALGORITHM = INPLACE, LOCK = NONE",
        "ALTER TABLE {t} ROW_FORMAT = DYNAMIC",
        _UPDATE,
        "ANALYZE TABLE {t}",
        "OPTIMIZE TABLE {t}",
        "CHECK TABLE {t}",
        "REPAIR TABLE {t}",
        "FLUSH TABLES {t}",
        "CREATE TABLE IF NOT EXISTS {t} (z int)",
        "CREATE VIEW IF NOT EXISTS {v} AS SELECT 1 AS id",
        "CREATE TRIGGER trigger{n} BEFORE UPDATE ON {t} FOR EACH ROW SET NEW.b = NEW.b + 5",
        _UPDATE,
        "DROP TRIGGER trigger{n}",
        "CREATE TEMPORARY TABLE {t} (z int)",
        "DROP TEMPORARY TABLE {t}",
        "CREATE TABLE {x} LIKE {t}",
        "RENAME TABLE {x} TO {w}",
        "DROP TABLE {w}",
        "DROP TABLE IF EXISTS {x}",
        _UPDATE,
        "CREATE FUNCTION fun{n}() RETURNS int DETERMINISTIC RETURN 7",
        "DROP FUNCTION fun{n}",
        "DO SLEEP(0)",
        "ALTER TABLE {t} DROP COLUMN more, DROP COLUMN m2",
        _UPDATE,
        "DELETE FROM {t} WHERE id = 3",
    ]
)

FORMS = (
    *_forms("row few label distinct again through joined", _HARMLESS),
    # ── ALTER TABLE: columns ──
    *_forms(
        "few label again",
        "ALTER TABLE {t} ADD COLUMN z int DEFAULT 9 FIRST;; " + _UPDATE,
        "ALTER TABLE {t} ADD COLUMN z int DEFAULT 9 AFTER id;; " + _UPDATE,
        "ALTER TABLE {t} DROP COLUMN a, DROP COLUMN g",
        "ALTER TABLE {t} DROP COLUMN g, ADD COLUMN g int AS (a * 3) STORED;; " + _UPDATE,
        "ALTER TABLE {t} DROP a, DROP g, ADD a int DEFAULT 4 AFTER id, ADD g int",
        "ALTER TABLE {t} MODIFY g int AS (a * 3) STORED",
        "ALTER TABLE {t} MODIFY g int;; UPDATE {t} SET a = 5 WHERE id = 1",
        "ALTER TABLE {t} MODIFY a bigint unsigned AFTER name;; " + _UPDATE,
        "ALTER TABLE {t} CHANGE COLUMN a b int, CHANGE b a int;; " + _UPDATE,
        "ALTER TABLE {t} RENAME COLUMN b TO c, RENAME COLUMN name TO b",
        "ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a;; " + _UPDATE,
        "ALTER TABLE {t} MODIFY e enum('y','x');; UPDATE {t} SET e = 'y' WHERE id = 1",
        "ALTER TABLE {t} MODIFY e enum('x','y','z');; UPDATE {t} SET e = 'z' WHERE id = 1",
        "SET STATEMENT sql_mode = '' FOR ALTER TABLE {t} MODIFY e enum('y', 'z')",
        "SET STATEMENT sql_mode = '' FOR ALTER TABLE {t} MODIFY name varchar(2)",
        "ALTER TABLE {t} MODIFY name varchar(20) CHARACTER SET latin1 COLLATE latin1_bin;; " + _UPDATE,
        "ALTER TABLE {t} MODIFY name varchar(20) INVISIBLE",
        "ALTER TABLE {t} MODIFY un int NULL;; UPDATE {t} SET un = NULL",
        "ALTER TABLE {t} CONVERT TO CHARACTER SET latin1;; " + _UPDATE,
        "SET SESSION binlog_alter_two_phase = 1;; ALTER TABLE {t} DROP COLUMN b, ADD COLUMN b int;; "
        "SET SESSION binlog_alter_two_phase = 0",
    ),
    # ── ALTER TABLE, CREATE and DROP INDEX: keys and constraints ──
    *_forms(
        "distinct keyed",
        "ALTER TABLE {t} DROP PRIMARY KEY;; " + _DUPLICATE.replace(", 1)", ", 9)"),
        "ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (un);; " + _DUPLICATE.replace(", 1)", ", 9)"),
        "ALTER TABLE {t} DROP INDEX un;; " + _DUPLICATE_UNIQUE,
        "ALTER TABLE {t} DROP KEY IF EXISTS un;; " + _DUPLICATE_UNIQUE,
        "ALTER TABLE {t} DROP CONSTRAINT un;; " + _DUPLICATE_UNIQUE,
        "DROP INDEX un ON {t};; " + _DUPLICATE_UNIQUE,
        "DROP INDEX IF EXISTS `PRIMARY` ON {t};; " + _DUPLICATE.replace(", 1)", ", 9)"),
        "ALTER TABLE {t} RENAME INDEX un TO un2;; ALTER TABLE {t} DROP INDEX un2;; " + _DUPLICATE_UNIQUE,
        "CREATE OR REPLACE UNIQUE INDEX un ON {t} (un, id);; " + _DUPLICATE_UNIQUE,
        "CREATE OR REPLACE INDEX un ON {t} (un);; " + _DUPLICATE_UNIQUE,
        "ALTER TABLE {t} MODIFY name varchar(20) UNIQUE;; ALTER TABLE {t} DROP INDEX name",
        "DELETE FROM {t};; SET STATEMENT sql_mode = '' FOR ALTER TABLE {t} DROP PRIMARY KEY, MODIFY id int NULL;; "
        "INSERT INTO {t} (a, name, e, un) VALUES (10, NULL, 'x', 1);; "
        "SET STATEMENT sql_mode = '' FOR ALTER TABLE {t} ADD PRIMARY KEY (id)",
        "ALTER TABLE {t} DROP INDEX un;; " + _DUPLICATE_UNIQUE + ";; ALTER IGNORE TABLE {t} ADD UNIQUE KEY (un)",
        "DELETE FROM {t} WHERE id = 2;; "
        "ALTER TABLE {t} ADD CONSTRAINT fk{n} FOREIGN KEY (id) REFERENCES {u} (id) ON DELETE CASCADE;; "
        "DELETE FROM {u} WHERE id = 3",
        "DELETE FROM {t} WHERE id = 2;; ALTER TABLE {t} ADD FOREIGN KEY (id) REFERENCES {u} (id);; " + _UPDATE,
    ),
    *_forms("joined other", "ALTER TABLE {u} DROP KEY un;; INSERT INTO {u} (id, a, un, name) VALUES (9, 1, 4, 'due')"),
    # ── whole tables ──
    *_forms(
        "row again",
        "ALTER TABLE {t} ENGINE = MyISAM;; " + _UPDATE,
        "ALTER TABLE {t} ADD SYSTEM VERSIONING;; " + _UPDATE,
        "ALTER TABLE {t} MODIFY a int NOT NULL, ADD s date DEFAULT '2000-01-01', ADD f date DEFAULT '2001-01-01',"
        " ADD PERIOD FOR p(s, f);; DELETE FROM {t} FOR PORTION OF p FROM '2000-02-01' TO '2000-03-01' WHERE id = 9",
        "ALTER TABLE {t} DISCARD TABLESPACE",
        "ALTER TABLE {t} RENAME TO {x}",
        "ALTER TABLE {t} RENAME {x};; ALTER TABLE {u} RENAME AS {t}",
        "RENAME TABLE {t} TO {x}",
        "RENAME TABLE {t} TO {x}, {u} TO {t};; " + _UPDATE,
        "RENAME TABLE {t} TO {x}, {u} TO {t}, {x} TO {u};; " + _UPDATE,
        "RENAME TABLE IF EXISTS {x} WAIT 5 TO {w}, {t} TO {x}, {u} TO {t}",
        "DROP TABLE {t}",
        "DROP TABLE IF EXISTS {x}, {t}",
        "DROP TABLES {t}, {u}",
        "DROP TABLE {t};; RENAME TABLE {u} TO {t}",
        "CREATE OR REPLACE TABLE {t} LIKE {u};; INSERT INTO {t} (id, a, un) VALUES (1, 5, 6)",
        "CREATE OR REPLACE TABLE {t} AS SELECT * FROM {u}",
        "CREATE OR REPLACE TABLE {t} (id int, a int, name text) SELECT id, a, name FROM {u}",
        "DROP TABLE {t};; CREATE SEQUENCE {t}",
        "CREATE OR REPLACE SEQUENCE {t}",
        "TRUNCATE TABLE {t}",
        "TRUNCATE {t};; " + _DUPLICATE,
        "DROP TABLE {t};; CREATE VIEW {t} AS SELECT * FROM {u}",
        "ALTER TABLE {t} DROP INDEX un;; ALTER TABLE {t} ENGINE = InnoDB PARTITION BY HASH (id) PARTITIONS 3",
    ),
    # ── views ──
    *_forms(
        "through throughagain",
        "CREATE OR REPLACE VIEW {v} AS SELECT id, b AS a, a AS b FROM {t}",
        "CREATE OR REPLACE ALGORITHM = TEMPTABLE DEFINER = CURRENT_USER SQL SECURITY INVOKER VIEW {v}"
        " AS SELECT id, a, b FROM {u}",
        "ALTER VIEW {v} AS SELECT id, a + 1 AS a, b FROM {t}",
        "ALTER ALGORITHM = MERGE VIEW {v} (id, b, a) AS SELECT id, a, b FROM {t}",
        "CREATE OR REPLACE VIEW {inner} AS SELECT id, a, b FROM {t} WHERE id <> 3",
        "ALTER SQL SECURITY INVOKER VIEW {inner} AS SELECT id, a, b FROM {u}",
        "DROP VIEW {v}",
        "DROP VIEW IF EXISTS {x}, {inner}",
        "DROP VIEW {v};; CREATE TABLE {v} LIKE {u}",
        "DROP VIEW {v};; CREATE VIEW {v} AS SELECT id, b, a FROM {u}",
        "CREATE VIEW {w} AS SELECT id, a, b FROM {u};; RENAME TABLE {v} TO {x}, {w} TO {v}",
        "CREATE VIEW {w} AS SELECT id, a, b FROM {u};; RENAME TABLE {inner} TO {x}, {w} TO {inner}",
        "RENAME TABLE {v} TO {x};; CREATE TABLE {v} LIKE {u}",
    ),
    # ── ALTER TABLE: partitions ──
    *_forms(
        "count again other",
        "ALTER TABLE {t} ADD PARTITION (PARTITION p3 VALUES LESS THAN (30));; ALTER TABLE {t} ANALYZE PARTITION p0;; "
        "ALTER TABLE {t} CHECK PARTITION ALL;; ALTER TABLE {t} OPTIMIZE PARTITION p0;; "
        "ALTER TABLE {t} REBUILD PARTITION ALL;; ALTER TABLE {t} REPAIR PARTITION p1;; "
        "ALTER TABLE {t} REORGANIZE PARTITION p1 INTO"
        " (PARTITION a VALUES LESS THAN (3), PARTITION b VALUES LESS THAN (10));; "
        "UPDATE {t} SET a = 10;; ALTER TABLE {t} REMOVE PARTITIONING;; "
        "ALTER TABLE {t} PARTITION BY KEY (id) PARTITIONS 3;; ALTER TABLE {t} COALESCE PARTITION 1;; "
        "UPDATE {t} SET a = 11;; CREATE TABLE {x} LIKE {t};; ALTER TABLE {x} REMOVE PARTITIONING;; DROP TABLE {x};; "
        "DELETE FROM {t} WHERE id = 1",
        "ALTER TABLE {t} TRUNCATE PARTITION p1",
        "ALTER TABLE {t} TRUNCATE PARTITION ALL",
        "ALTER TABLE {t} DROP PARTITION p0",
        "ALTER TABLE {t} DROP PARTITION IF EXISTS p1, p2",
        "ALTER TABLE {t} EXCHANGE PARTITION p1 WITH TABLE {u};; DELETE FROM {u} WHERE id = 3",
        "DELETE FROM {u};; ALTER TABLE {t} EXCHANGE PARTITION p0 WITH TABLE {u}",
        "ALTER TABLE {t} CONVERT PARTITION p1 TO TABLE {x};; DROP TABLE {u};; RENAME TABLE {x} TO {u}",
        "UPDATE {u} SET id = id + 20;; ALTER TABLE {t} CONVERT TABLE {u} TO PARTITION p4 VALUES LESS THAN (30)",
        partitioned=True,
    ),
    # ── databases ──
    *_forms(
        "row through",
        "DROP DATABASE {db}",
        "CREATE OR REPLACE DATABASE {db}",
        "ALTER DATABASE {db} CHARACTER SET latin1 COMMENT 'drop table';; " + _UPDATE,
        "RENAME TABLE {t} TO t{n};; RENAME TABLE {u} TO {t}",
        "RENAME TABLE {db}.t{n} TO x{n}, {u} TO {db}.t{n};; DROP TABLE x{n}",
        apart=True,
    ),
)

CASES = tuple(Case(number, form) for number, form in enumerate(FORMS))
