"""DDL that changes a followed table, what the stream carries of it, or what a view of it answers: the forms of ALTER
TABLE and their kin, in the order of PostgreSQL's manual. Each has a schema of its own, ``{s}``, and views by id."""

from dataclasses import dataclass

TABLE = (
    "CREATE TABLE {s}.t (id int PRIMARY KEY, a text NOT NULL, n numeric(10,2))",
    "INSERT INTO {s}.t VALUES (1, 'one', 1.25), (2, 'two', 2.50)",
    "ALTER TABLE {s}.t REPLICA IDENTITY FULL",
)
ROW = "SELECT id, a, n FROM {s}.t WHERE id = :id"
#: Kept incrementally, and run again when something changes.
VIEWS = {"kept": ROW, "refresh": ROW}
KEPT = (("kept", ROW),)
WHOLE_ROW = {
    "refresh": "SELECT id, to_jsonb(t) ->> 'c' AS c, (to_jsonb(t) - 'n')::text AS whole FROM {s}.t t WHERE id = :id"
}
TYPED = (
    "CREATE TYPE {s}.mood AS ENUM ('sad', 'ok')",
    "CREATE DOMAIN {s}.feeling AS {s}.mood",
    "CREATE TYPE {s}.pair AS (l int, r {s}.mood)",
    "CREATE TABLE {s}.t (id int PRIMARY KEY, m {s}.mood, f {s}.feeling, p {s}.pair)",
    "INSERT INTO {s}.t VALUES (1, 'ok', 'ok', '(1,ok)'), (2, 'sad', NULL, NULL)",
    "ALTER TABLE {s}.t REPLICA IDENTITY FULL",
)
TYPED_ROW = "SELECT id, m, f, p FROM {s}.t WHERE id = :id"
ORDERED = {
    "kept": "SELECT id, m FROM {s}.t WHERE id > :id ORDER BY m, id LIMIT 3",
    "row": TYPED_ROW,
    "refresh": TYPED_ROW,
}
VIEWED = (*TABLE, "CREATE VIEW {s}.v AS SELECT id, a FROM {s}.t", "CREATE VIEW {s}.w AS SELECT id, a FROM {s}.v")
OVER_VIEWS = dict.fromkeys(("kept", "refresh"), "SELECT id, a FROM {s}.w WHERE id = :id")
CHANGE = "UPDATE {s}.t SET a = a || '!', n = n + 1"


@dataclass(frozen=True)
class Form:
    """`ddl`, each statement a transaction; `then`: a change afterwards, if the table is still there."""

    name: str
    ddl: tuple[str, ...]
    setup: tuple[str, ...] = TABLE
    views: tuple[tuple[str, str], ...] = tuple(VIEWS.items())
    then: str | None = CHANGE
    since: int = 14


def _table(name: str, *actions: str, **more: object) -> Form:
    return Form(name, tuple(f"ALTER TABLE {{s}}.t {action}" for action in actions), **more)  # type: ignore[arg-type]


def _typed(name: str, *ddl: str) -> Form:
    return Form(name, ddl, TYPED, tuple(ORDERED.items()), "INSERT INTO {s}.t (id) VALUES (9)")


def _viewed(name: str, *ddl: str) -> Form:
    return Form(name, ddl, VIEWED, tuple(OVER_VIEWS.items()))


_GENERATED = (
    "CREATE TABLE {s}.t (id int PRIMARY KEY, a text, n int, g int GENERATED ALWAYS AS (n * 2) STORED)",
    "INSERT INTO {s}.t VALUES (1, 'one', 1), (2, 'two', 2)",
    "ALTER TABLE {s}.t REPLICA IDENTITY FULL",
)
_OF_GENERATED = tuple(dict.fromkeys(VIEWS, "SELECT id, g FROM {s}.t WHERE id = :id").items())
_UNREAD = (
    "CREATE TABLE {s}.t (id int PRIMARY KEY, unread int, a text NOT NULL, n numeric(10,2))",
    "INSERT INTO {s}.t VALUES (1, 7, 'one', 1.25), (2, 7, 'two', 2.50)",
    *TABLE[2:],
)
_FUNCTION = "CREATE OR REPLACE FUNCTION {{s}}.f(text) RETURNS text IMMUTABLE STRICT LANGUAGE internal AS '{}'"

#: What is installed goes on as it was planned.
UNREAD = _table("drop a column that no view reads", "DROP COLUMN unread", setup=_UNREAD)
FORMS = [
    UNREAD,
    _table("rename a column", "RENAME COLUMN n TO m", then=None),
    _table("swap names of columns", "ADD COLUMN b text DEFAULT 'b'", "RENAME COLUMN a TO x", "RENAME COLUMN b TO a"),
    _table("rename a constraint", "RENAME CONSTRAINT t_pkey TO key"),
    _table("rename", "RENAME TO gone", then=None),
    Form(
        "swap names of tables",
        (
            "CREATE TABLE {s}.next (LIKE {s}.t INCLUDING ALL)",
            "INSERT INTO {s}.next VALUES (1, 'next', 9)",
            "ALTER TABLE {s}.next REPLICA IDENTITY FULL",
            "ALTER TABLE {s}.t RENAME TO old",
            "ALTER TABLE {s}.next RENAME TO t",
        ),
    ),
    _table("set schema", "SET SCHEMA public", then=None),
    _table("add a column", "ADD COLUMN c int DEFAULT 5"),
    _table("add a column to whole rows", "ADD COLUMN c int DEFAULT 5", views=tuple(WHOLE_ROW.items())),
    _table("add a column that is computed", "ADD COLUMN c uuid DEFAULT gen_random_uuid()"),
    _table("drop a column", "DROP COLUMN n", then=None),
    _table("drop and add a column", "DROP COLUMN n", "ADD COLUMN n numeric(10,2) DEFAULT 7"),
    _table("set type, fewer digits", "ALTER COLUMN n TYPE numeric(10,1)"),
    _table("set type, another", "ALTER COLUMN n TYPE float8"),
    _table("set type, using", "ALTER COLUMN a TYPE text USING upper(a)"),
    _table("set type, collated", 'ALTER COLUMN a TYPE text COLLATE "C"'),
    _table("defaults", "ALTER COLUMN n SET DEFAULT 3", "ALTER COLUMN n DROP DEFAULT"),
    _table("drop not null", "ALTER COLUMN a DROP NOT NULL", then="UPDATE {s}.t SET a = NULL"),
    _table("set not null", "ALTER COLUMN n SET NOT NULL"),
    _table(
        "drop expression",
        "ALTER COLUMN g DROP EXPRESSION",
        setup=_GENERATED,
        views=_OF_GENERATED,
        then="UPDATE {s}.t SET g = 77",
        since=18,
    ),
    _table(
        "set expression",
        "ALTER COLUMN g SET EXPRESSION AS (n * 3)",
        setup=_GENERATED,
        views=_OF_GENERATED,
        then="UPDATE {s}.t SET n = n + 1",
        since=18,
    ),
    _table("identity", "ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY", "ALTER COLUMN id DROP IDENTITY"),
    _table(
        "storage",
        "ALTER COLUMN a SET STATISTICS 10",
        "ALTER COLUMN a SET (n_distinct = 5)",
        "ALTER COLUMN a SET STORAGE EXTERNAL",
        "SET (fillfactor = 70)",
        "SET TABLESPACE pg_default",
    ),
    _table("constraints", "ADD CONSTRAINT c CHECK (id > 0) NOT VALID", "VALIDATE CONSTRAINT c", "DROP CONSTRAINT c"),
    _table("drop the primary key", "DROP CONSTRAINT t_pkey", then="INSERT INTO {s}.t VALUES (1, 'again', 3)"),
    _table("triggers", "DISABLE TRIGGER ALL", "ENABLE TRIGGER ALL"),
    _table("row security", "ENABLE ROW LEVEL SECURITY", "FORCE ROW LEVEL SECURITY", "DISABLE ROW LEVEL SECURITY"),
    _table("cluster", "CLUSTER ON t_pkey", "SET WITHOUT CLUSTER"),
    Form(
        "unlogged for a moment",
        (
            "ALTER PUBLICATION upquery DROP TABLE {s}.t",
            "ALTER TABLE {s}.t SET UNLOGGED",
            "UPDATE {s}.t SET a = 'unlogged'",
            "ALTER TABLE {s}.t SET LOGGED",
            "ALTER PUBLICATION upquery ADD TABLE {s}.t",
        ),
    ),
    Form(
        "inherited",
        ("BEGIN; CREATE TABLE {s}.child () INHERITS ({s}.t); INSERT INTO {s}.child VALUES (1, 'child', 0); COMMIT",),
        views=KEPT,
        then=None,
    ),
    Form(
        "inherit",
        (
            "CREATE TABLE {s}.child (LIKE {s}.t INCLUDING ALL)",
            "INSERT INTO {s}.child VALUES (1, 'child', 0)",
            "ALTER TABLE {s}.child INHERIT {s}.t",
        ),
        views=KEPT,
        then=None,
    ),
    Form(
        "attach",
        (
            "CREATE TABLE {s}.whole (LIKE {s}.t) PARTITION BY LIST (id)",
            "ALTER TABLE {s}.whole ATTACH PARTITION {s}.t DEFAULT",
            "UPDATE {s}.whole SET a = 'partition'",
            "ALTER TABLE {s}.whole DETACH PARTITION {s}.t",
        ),
    ),
    _table("owner", "OWNER TO CURRENT_USER"),
    _table("replica identity", "REPLICA IDENTITY NOTHING", then=None),
    Form(
        "replica identity for a moment",
        (
            "ALTER TABLE {s}.t REPLICA IDENTITY DEFAULT",
            "UPDATE {s}.t SET a = 'by key'",
            "ALTER TABLE {s}.t REPLICA IDENTITY FULL",
        ),
    ),
    Form("drop a table", ("DROP TABLE {s}.t",), then=None),
    Form("create anew", ("DROP TABLE {s}.t", TABLE[0], "INSERT INTO {s}.t VALUES (1, 'anew', 0)", TABLE[2])),
    Form("drop the schema", ("DROP SCHEMA {s} CASCADE",), then=None),
    Form("rename the schema", ("ALTER SCHEMA {s} RENAME TO {s}_gone",), then=None),
    Form("truncate", ("TRUNCATE {s}.t", "INSERT INTO {s}.t VALUES (1, 'after', 0)")),
    Form("vacuum", ("VACUUM FULL {s}.t", "CLUSTER {s}.t USING t_pkey", "ANALYZE {s}.t")),
    Form("indexes", ("CREATE INDEX i ON {s}.t (a)", "REINDEX TABLE {s}.t", "DROP INDEX {s}.i")),
    Form(
        "several in one transaction",
        (
            "BEGIN; ALTER TABLE {s}.t ALTER a TYPE text USING lower(a) || '?';"
            "UPDATE {s}.t SET n = 5; ALTER TABLE {s}.t ALTER n TYPE numeric(10,1); COMMIT",
        ),
    ),
    _typed("add a label", "ALTER TYPE {s}.mood ADD VALUE 'better' AFTER 'sad'", "UPDATE {s}.t SET m = 'better'"),
    _typed("rename a label", "ALTER TYPE {s}.mood RENAME VALUE 'ok' TO 'fine'"),
    _typed("add an attribute", "ALTER TYPE {s}.pair ADD ATTRIBUTE more int"),
    _typed("drop an attribute", "ALTER TYPE {s}.pair DROP ATTRIBUTE l"),
    _typed("rename a type", "ALTER TYPE {s}.mood RENAME TO humour"),
    _typed(
        "domains", "ALTER DOMAIN {s}.feeling ADD CHECK (VALUE <> 'sad')", "ALTER DOMAIN {s}.feeling SET DEFAULT 'ok'"
    ),
    Form(
        "rename an attribute",
        ("ALTER TYPE {s}.pair RENAME ATTRIBUTE l TO k",),
        TYPED,
        (("refresh", "SELECT id, to_jsonb(p)::text AS p FROM {s}.t WHERE id = :id"),),
        None,
    ),
    _viewed("replace a view", "CREATE OR REPLACE VIEW {s}.v AS SELECT id, upper(a) AS a FROM {s}.t"),
    _viewed("replace the view above", "CREATE OR REPLACE VIEW {s}.w AS SELECT id, 'w' || a AS a FROM {s}.v"),
    _viewed("rename a column of a view", "ALTER VIEW {s}.w RENAME a TO b", "ALTER VIEW {s}.w RENAME b TO a"),
    _viewed("create a view anew", "DROP VIEW {s}.w", "CREATE VIEW {s}.w AS SELECT id, a || n AS a FROM {s}.t"),
    _viewed("rename below views", "ALTER TABLE {s}.t RENAME COLUMN a TO b", "ALTER TABLE {s}.t RENAME COLUMN b TO a"),
    Form(
        "replace a function",
        (_FUNCTION.format("lower"),),
        (*TABLE, _FUNCTION.format("upper")),
        (("refresh", "SELECT id, {s}.f(a) AS a FROM {s}.t WHERE id = :id"),),
    ),
    Form(
        "alter a text search configuration",
        ("ALTER TEXT SEARCH CONFIGURATION {s}.c ALTER MAPPING FOR asciiword WITH english_stem",),
        (*TABLE, "UPDATE {s}.t SET a = 'running'", "CREATE TEXT SEARCH CONFIGURATION {s}.c (COPY = simple)"),
        (("refresh", "SELECT id, to_tsvector('{s}.c', a)::text AS a FROM {s}.t WHERE id = :id"),),
        None,
    ),
    Form(
        "hide a table",
        (
            "CREATE SCHEMA IF NOT EXISTS {user}",
            "CREATE TABLE {user}.hidden_{s} (id int, a text)",
            "INSERT INTO {user}.hidden_{s} VALUES (1, 'the other')",
        ),
        (
            "CREATE TABLE public.hidden_{s} (id int PRIMARY KEY, a text)",
            "INSERT INTO public.hidden_{s} VALUES (1, 'a')",
            "ALTER TABLE public.hidden_{s} REPLICA IDENTITY FULL",
        ),
        tuple(dict.fromkeys(VIEWS, "SELECT id, a FROM hidden_{s} WHERE id = :id").items()),
        None,
    ),
    Form(
        "publish less for a moment",
        (
            "ALTER PUBLICATION upquery SET (publish = 'insert')",
            "UPDATE {s}.t SET a = 'unpublished'",
            "ALTER PUBLICATION upquery SET (publish = 'insert, update, delete, truncate')",
        ),
    ),
    Form(
        "unpublish for a moment",
        (
            "ALTER PUBLICATION upquery DROP TABLE {s}.t",
            "UPDATE {s}.t SET a = 'unpublished'",
            "ALTER PUBLICATION upquery ADD TABLE {s}.t",
        ),
    ),
    Form(
        "publish some rows for a moment",
        (
            "ALTER PUBLICATION upquery DROP TABLE {s}.t",
            "ALTER PUBLICATION upquery ADD TABLE {s}.t WHERE (id > 1)",
            "UPDATE {s}.t SET a = 'filtered'",
            "ALTER PUBLICATION upquery DROP TABLE {s}.t",
            "ALTER PUBLICATION upquery ADD TABLE {s}.t",
        ),
        since=15,
    ),
]
#: Those that no function, type or the like is changed by.
OF_TABLES = [form for form in FORMS if form.setup is TABLE and all("ALTER TABLE" in each for each in form.ddl)]
