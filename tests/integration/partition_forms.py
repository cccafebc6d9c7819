"""DDL on partitions of a table that views read, as `schema_forms` has it for other tables."""

from tests.integration.schema_forms import CHANGE, VIEWS, Form

#: The second partition has another order of columns, and one that was dropped.
_TABLE = (
    "CREATE TABLE {s}.t (id int PRIMARY KEY, a text NOT NULL, n numeric(10,2)) PARTITION BY RANGE (id)",
    "CREATE TABLE {s}.low PARTITION OF {s}.t FOR VALUES FROM (0) TO (2)",
    "CREATE TABLE {s}.high (n numeric(10,2), gone int, id int NOT NULL, a text NOT NULL)",
    "ALTER TABLE {s}.high DROP COLUMN gone",
    "ALTER TABLE {s}.t ATTACH PARTITION {s}.high FOR VALUES FROM (2) TO (4)",
    "CREATE TABLE {s}.other (id int PRIMARY KEY, a text NOT NULL, n numeric(10,2))",
    "INSERT INTO {s}.other VALUES (2, 'other', 20), (3, 'three', 30)",
    "INSERT INTO {s}.t VALUES (1, 'one', 1.25), (2, 'two', 2.50)",
)
_VIEWS = {**VIEWS, "total": "SELECT count(*) AS c, sum(n) AS s, min(a) AS a FROM {s}.t WHERE id >= :id"}
#: A view of a partition beside those of its table.
_VIEWS_OF_BOTH = {**_VIEWS, "leaf": "SELECT id, a, n FROM {s}.high WHERE id = :id"}
_DETACH = "ALTER TABLE {s}.t DETACH PARTITION {s}.high"
_TREE = (
    "CREATE TABLE {s}.tree (LIKE {s}.t INCLUDING ALL) PARTITION BY LIST (id)",
    "CREATE TABLE {s}.leaf PARTITION OF {s}.tree FOR VALUES IN (2)",
    "CREATE TABLE {s}.others PARTITION OF {s}.tree DEFAULT",
)


def _form(name: str, *ddl: str, then: str | None = CHANGE, views: dict[str, str] = _VIEWS) -> Form:
    return Form(name, ddl, _TABLE, tuple(views.items()), then)


FORMS = [
    _form(
        "create a partition",
        "CREATE TABLE {s}.later PARTITION OF {s}.t FOR VALUES FROM (4) TO (8)",
        "INSERT INTO {s}.t VALUES (4, 'four', 4), (5, 'five', 5)",
    ),
    _form(
        "create a partition and fill it in one transaction",
        "CREATE TABLE {s}.later PARTITION OF {s}.t DEFAULT; INSERT INTO {s}.t VALUES (7, 'seven', 7)",
        then="DELETE FROM {s}.t WHERE id = 7",
    ),
    _form("detach a partition", _DETACH, "UPDATE {s}.high SET a = 'apart'"),
    _form("detach a partition concurrently", f"{_DETACH} CONCURRENTLY", "UPDATE {s}.high SET a = 'apart'"),
    _form(
        "detach a partition that is read by itself, too",
        "UPDATE {s}.t SET a = a || '?'",
        _DETACH,
        "UPDATE {s}.high SET a = 'apart'",
        views=_VIEWS_OF_BOTH,
    ),
    _form(
        "truncate a partition that is read by itself, too",
        "TRUNCATE {s}.high",
        "INSERT INTO {s}.high (id, a) VALUES (2, 'again')",
        views=_VIEWS_OF_BOTH,
    ),
    _form("drop a partition", "DROP TABLE {s}.high"),
    _form("truncate a partition", "TRUNCATE {s}.high", then="INSERT INTO {s}.t VALUES (2, 'again', 2)"),
    _form("truncate all partitions", "TRUNCATE {s}.t", then="INSERT INTO {s}.t VALUES (2, 'again', 2)"),
    _form(
        "attach a partition with rows",
        _DETACH,
        "ALTER TABLE {s}.t ATTACH PARTITION {s}.other FOR VALUES FROM (2) TO (4)",
    ),
    _form(
        "exchange a partition in one transaction",
        f"{_DETACH}; ALTER TABLE {{s}}.t ATTACH PARTITION {{s}}.other FOR VALUES FROM (2) TO (4);"
        " UPDATE {s}.t SET a = a || '?'; DROP TABLE {s}.high",
    ),
    _form(
        "attach a partitioned table",
        _DETACH,
        *_TREE,
        "ALTER TABLE {s}.t ATTACH PARTITION {s}.tree FOR VALUES FROM (2) TO (4)",
        "INSERT INTO {s}.t VALUES (2, 'leaf', 2), (3, 'others', 3)",
    ),
    _form(
        "split a partition",
        _DETACH,
        "CREATE TABLE {s}.two PARTITION OF {s}.t FOR VALUES FROM (2) TO (3)",
        "CREATE TABLE {s}.three PARTITION OF {s}.t FOR VALUES FROM (3) TO (4)",
        "INSERT INTO {s}.t SELECT id, a, n FROM {s}.high",
    ),
    _form("move rows to other partitions", "UPDATE {s}.t SET id = 0 WHERE id = 2", "UPDATE {s}.t SET id = id + 2"),
    _form("rename a partition", "ALTER TABLE {s}.high RENAME TO higher"),
    _form("rewrite a partition", "VACUUM FULL {s}.high", "CLUSTER {s}.low USING low_pkey"),
    _form("add a column to all partitions", "ALTER TABLE {s}.t ADD COLUMN c int DEFAULT 5"),
    _form("rename a column of all partitions", "ALTER TABLE {s}.t RENAME COLUMN n TO m", then=None),
    _form(
        "swap names of columns of all partitions",
        "ALTER TABLE {s}.t ADD COLUMN b text DEFAULT 'b'",
        "ALTER TABLE {s}.t RENAME COLUMN a TO x; ALTER TABLE {s}.t RENAME COLUMN b TO a",
    ),
    _form("alter a type in all partitions", "ALTER TABLE {s}.t ALTER COLUMN n TYPE numeric(12,4)"),
    _form("change the identity of a partition", "ALTER TABLE {s}.high REPLICA IDENTITY DEFAULT", CHANGE),
    _form(
        "make a partition unlogged for a moment", "ALTER TABLE {s}.high SET UNLOGGED", "ALTER TABLE {s}.high SET LOGGED"
    ),
    _form(
        "a table that is partitioned no longer",
        "ALTER TABLE {s}.t RENAME TO old; CREATE TABLE {s}.t AS SELECT * FROM {s}.old;"
        " ALTER TABLE {s}.t ADD PRIMARY KEY (id)",
    ),
]
