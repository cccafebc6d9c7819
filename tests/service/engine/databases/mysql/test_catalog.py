"""The catalog as MariaDB has it."""

import pytest

from cdc.change import TableLayout
from cdc.column_type import ColumnType
from dataflow.schema import Catalog, Spread
from dataflow.types.addresses import INET4, INET6
from dataflow.types.documents import MARIADB_JSON
from dataflow.types.integers import UINT8
from dataflow.types.labels import ENUM, SET
from dataflow.types.mysql_dates import DATE, DATETIME, TIME, TIMESTAMP
from dataflow.types.scalars import MYSQL_UUID
from service.engine.databases.mysql.sql_text import unqualified
from tests.fixtures.mariadb import MariaDatabase
from tests.service.engine.databases.mysql.upstreams import asked

pytestmark = pytest.mark.mariadb


def catalog_of(database: MariaDatabase) -> Catalog:
    return asked(database, lambda session: session.load_catalog())


def test_databases(mariadb: MariaDatabase) -> None:
    """Other databases are loaded only if a text names them, in whatever case and quotes, or a view of these does."""
    others = [f"{mariadb.name}_{suffix}" for suffix in ("named", "seen", "far", "`odd`")]
    written = ["`" + name.replace("`", "``") + "`" for name in others]
    named, seen, far, odd = written
    for name in written:
        mariadb.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id int PRIMARY KEY)")
    try:
        mariadb.execute(
            "CREATE TABLE t (id int)",
            f"CREATE VIEW {named}.v AS SELECT * FROM {seen}.t",
            f"CREATE VIEW {seen}.w AS SELECT (SELECT MAX(id) FROM {far}.t) AS m",
        )

        def found(*texts: str) -> set[str]:
            catalog = asked(mariadb, lambda session: session.load_catalog(texts))
            return {unqualified(name)[0] for name in (*catalog.tables, *catalog.views)}

        own = mariadb.name
        assert found() == found("SELECT id FROM t", "SELECT nowhere.a FROM mysql.user") == {own}
        assert found(f"SELECT * FROM {far} . t") == found(f"SELECT * FROM {others[2].upper()}.t") == {own, others[2]}
        assert found(f"SELECT * FROM {odd}.t") == {own, others[3]}
        assert found("SELECT 1", f"SELECT * FROM {named}.v") == {own, *others[:3]}
    finally:
        for name in written:
            mariadb.execute(f"DROP DATABASE {name}")


def layouts_of(database: MariaDatabase, *tables: str) -> dict[str, TableLayout]:
    return asked(database, lambda session: session.load_layouts([f"{database.name}.{table}" for table in tables]))


TYPES = {
    "tinyint": ("int2", "tinyint"),
    "boolean": ("int2", "tinyint"),
    "tinyint unsigned": ("int2", "tinyint unsigned"),
    "smallint": ("int2", "smallint"),
    "smallint(3) unsigned": ("int4", "smallint unsigned"),
    "mediumint": ("int4", "mediumint"),
    "mediumint unsigned": ("int4", "mediumint unsigned"),
    "int(5)": ("int4", "int"),
    "int unsigned zerofill": ("int8", "int unsigned zerofill"),
    "decimal(8,2) zerofill": ("numeric", "decimal(8,2) zerofill"),
    "bigint": ("int8", "bigint"),
    "bigint unsigned": (UINT8, "bigint unsigned"),
    "bit(5)": (UINT8, "bit(5)"),
    "year": ("int2", "year"),
    "decimal(10,3)": ("numeric", "decimal(10,3)"),
    "decimal(8) unsigned": ("numeric", "decimal(8,0)"),
    "float": ("float4", "float"),
    "double(8,3)": ("float8", "double"),
    "char(4)": ("varchar", "char"),
    "varchar(5)": ("varchar", "varchar"),
    "mediumtext": ("text", "mediumtext"),
    "binary(3)": ("bytea", "binary"),
    "blob": ("bytea", "blob"),
    "date": (DATE, "date"),
    "datetime": (DATETIME, "datetime"),
    "datetime(3)": (DATETIME, "datetime(3)"),
    "timestamp(6)": (TIMESTAMP, "timestamp(6)"),
    "time(2)": (TIME, "time(2)"),
    "json": (MARIADB_JSON, "json"),
    "uuid": (MYSQL_UUID, "uuid"),
    "inet4": (INET4, "inet4"),
    "inet6": (INET6, "inet6"),
    "point": ("point", "point"),
}


def test_types(mariadb: MariaDatabase) -> None:
    """By PostgreSQL's names where values print and compare alike."""
    columns = ", ".join(f"c{i} {written} NULL" for i, written in enumerate(TYPES))
    mariadb.execute(f"CREATE TABLE t ({columns}) COLLATE utf8mb4_nopad_bin")
    table = catalog_of(mariadb).tables[f"{mariadb.name}.t"]
    assert [(c.type.name, c.type.sql) for c in table.columns] == list(TYPES.values())
    assert {c.type.collation for c in table.columns} == {"bytes", "utf8mb4_bin"}
    assert [c.type.kind for c in table.columns if c.type.kind != "base"] == ["other"]
    kinds = layouts_of(mariadb, "t")[f"{mariadb.name}.t"].column_types
    found = dict(zip(TYPES, kinds, strict=True))
    assert found["int unsigned zerofill"] == ColumnType("int", unsigned=True)
    assert found["bit(5)"] == ColumnType("bit", 5)
    assert found["decimal(10,3)"] == ColumnType("decimal", precision=10, scale=3)
    assert found["char(4)"] == ColumnType("char", 4, charset="utf8mb4")
    assert found["binary(3)"] == ColumnType("binary", 3)
    assert found["timestamp(6)"] == ColumnType("timestamp", precision=6)
    assert found["json"].name == "json"


def test_labels(mariadb: MariaDatabase) -> None:
    """Labels are those declared, whatever characters they contain."""
    mariadb.execute(
        "CREATE TABLE t (a enum('x', 'it''s', 'a,b', '\"', 'c\\\\d', '', 'ž') NOT NULL, b set('p', 'q r'))"
        " COLLATE utf8mb4_bin"
    )
    a, b = (column.type for column in catalog_of(mariadb).tables[f"{mariadb.name}.t"].columns)
    assert (a.name, a.kind, a.labels) == (ENUM, "enum", ("x", "it's", "a,b", '"', "c\\d", "", "ž"))
    assert (b.name, b.kind, b.labels) == (SET, "base", ("p", "q r"))
    assert a.collation == b.collation == "utf8mb4_bin"
    kinds = layouts_of(mariadb, "t")[f"{mariadb.name}.t"].column_types
    assert kinds[0] == ColumnType("enum", labels=a.labels, charset="utf8mb4")


def test_collations(mariadb: MariaDatabase) -> None:
    """Those that are known carry their weights; by others nothing is compared."""
    mariadb.execute(
        "CREATE TABLE t (a text COLLATE utf8mb4_bin, b text COLLATE utf8mb4_czech_ci,"
        " c varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci)"
    )
    catalog = catalog_of(mariadb)
    a, b, c = (column.type for column in catalog.tables[f"{mariadb.name}.t"].columns)
    assert a.weights is not None
    assert (a.collation, a.weights.normal("a  ")) == ("utf8mb4_bin", "a")
    assert (b.collation, b.weights) == ("nondeterministic", None)
    assert c.weights is not None
    assert c.weights.normal("É") == c.weights.normal("e")
    assert catalog.text.collation == "utf8mb4_general_ci"
    assert catalog.dialect == "mariadb"


def test_keys_and_indexes(mariadb: MariaDatabase) -> None:
    """Keys hold for every row; indexes say what can be looked up, as far as they have whole columns."""
    mariadb.execute(
        "CREATE TABLE p (x int PRIMARY KEY)",
        "CREATE TABLE t (a int NOT NULL, b int NOT NULL, c int, d varchar(30) NOT NULL, e text,"
        " UNIQUE u (b, a), UNIQUE (c), UNIQUE (d(10)), KEY m (c, d(5), a), KEY n (d), FULLTEXT (e), PRIMARY KEY (a),"
        " FOREIGN KEY (c) REFERENCES p (x))",
    )
    table = catalog_of(mariadb).tables[f"{mariadb.name}.t"]
    assert table.keys == ((0,), (1, 0))
    assert sorted(table.indexes) == [(0,), (1, 0), (2,), (2,), (3,)]
    assert [column.not_null for column in table.columns] == [True, True, False, True, False]


def test_how_many_rows_have_the_same_value(mariadb: MariaDatabase) -> None:
    mariadb.execute(
        "CREATE TABLE t (id int PRIMARY KEY, grp int NOT NULL, KEY (grp)) STATS_SAMPLE_PAGES=100",
        "INSERT INTO t SELECT seq, seq % 5 FROM seq_1_to_1000",
        "ANALYZE TABLE t",
    )
    table = catalog_of(mariadb).tables[f"{mariadb.name}.t"]
    assert table.estimated_rows == 1000
    # MariaDB's InnoDB says that there are twice as many values.
    assert table.spreads == {0: Spread(1, 1), 1: Spread(100, 100)}


def test_names_and_views(mariadb: MariaDatabase) -> None:
    """Every table that may be read, in any database that is named; views with their definitions."""
    other = f"{mariadb.name}_other"
    mariadb.execute(
        f"CREATE DATABASE {other}",
        f"CREATE TABLE {other}.`my table` (`a b` int)",
        "CREATE TABLE t (id int, n int)",
        "CREATE VIEW v AS SELECT id AS i, SUM(n) AS s FROM t GROUP BY id",
    )
    try:
        catalog = asked(mariadb, lambda session: session.load_catalog([f"SELECT * FROM {other}.`my table`"]))
        layouts = asked(mariadb, lambda session: session.load_layouts([f"{other}.`my table`", f"{other}.gone"]))
    finally:
        mariadb.execute(f"DROP DATABASE {other}")
    assert catalog.search_path == (mariadb.name,)
    assert catalog.tables[f"{other}.`my table`"].columns[0].name == "a b"
    view = catalog.views[f"{mariadb.name}.v"]
    assert [column.name for column in view.columns] == ["i", "s"]
    assert f"from `{mariadb.name}`.`t` group by" in view.sql
    assert view.name not in catalog.tables
    assert not any(name.startswith(("mysql.", "information_schema.", "sys.")) for name in catalog.tables)
    (layout,) = layouts.values()
    assert (layout.columns, layout.since > 0) == (("a b",), True)
