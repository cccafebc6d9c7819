"""Description of statements without running them."""

import pytest

from dataflow.errors import InvalidQuery
from dataflow.sql.statement import statement_of
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.describe import describe
from service.engine.upstream.results import Described
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres


@pytest.fixture(autouse=True)
def _schema(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text, score numeric(6,2), at timestamptz)",
        "CREATE TABLE votes (story_id int, user_id int)",
        "CREATE VIEW scores AS SELECT s.id, count(*) AS votes FROM stories s JOIN votes v ON v.story_id = s.id"
        " GROUP BY s.id",
        "CREATE VIEW recent AS SELECT id FROM stories WHERE at > now()",
        "CREATE MATERIALIZED VIEW kept AS SELECT 1 AS one",
        "CREATE FUNCTION votes_of(int) RETURNS bigint LANGUAGE sql IMMUTABLE"
        " AS 'SELECT count(*) FROM votes WHERE story_id = $1'",
        "CREATE FUNCTION shown(stories) RETURNS text LANGUAGE sql STABLE AS 'SELECT $1.title || random()'",
    )


def described(database: Database, sql: str) -> Described:
    async def ask() -> Described:
        pool = PostgresPool(database.url)
        try:
            async with pool.connection() as connection:
                return await describe(connection, statement_of(sql))
        finally:
            await pool.close()

    return run(ask())


def test_columns_and_parameters(database: Database) -> None:
    found = described(database, "SELECT id, score AS s, title FROM stories WHERE id = :b AND title = :a")
    assert [(p.name, p.type.sql, p.many) for p in found.parameters] == [("a", "text", False), ("b", "int4", False)]
    assert [(name, t.sql) for name, t in found.output] == [("id", "int4"), ("s", "numeric"), ("title", "text")]
    assert found.text == "SELECT id, score AS s, title FROM stories WHERE id = ($2::int4) AND title = ($1::text)"
    assert found.tables == {"public.stories"}
    assert found.volatile is None


@pytest.mark.parametrize(
    ("sql", "parameters", "text"),
    [
        (
            "SELECT 1 FROM stories WHERE id IN (:ids) AND id NOT IN (:others)",
            [("ids", "int4", True), ("others", "int4", True)],
            "SELECT 1 FROM stories WHERE id = ANY (($1::int4[])) AND id <> ALL (($2::int4[]))",
        ),
        (
            "SELECT 1 FROM stories WHERE :p IS NULL OR id = :p",
            [("p", "int4", False)],
            "SELECT 1 FROM stories WHERE ($1::int4) IS NULL OR id = ($1::int4)",
        ),
        ("SELECT 1 LIMIT :n OFFSET ?", [("n", "int8", False), ("p1", "int8", False)], None),
        ("SELECT :a + 1, :a::int8", [("a", "int4", False)], None),
    ],
)
def test_types_of_parameters(
    database: Database, sql: str, parameters: list[tuple[str, str, bool]], text: str | None
) -> None:
    found = described(database, sql)
    assert [(p.name, p.type.sql, p.many) for p in found.parameters] == parameters
    if text is not None:
        assert found.text == text


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM scores WHERE false", {"public.stories", "public.votes"}),
        ("SELECT (SELECT count(*) FROM votes) WHERE EXISTS (SELECT FROM stories)", {"public.stories", "public.votes"}),
        ("WITH votes AS (SELECT 1) SELECT * FROM votes", set()),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r", set()),
    ],
)
def test_tables_through_views(database: Database, sql: str, tables: set[str]) -> None:
    found = described(database, sql)
    assert found.tables == tables
    assert found.volatile is None


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT id FROM stories WHERE at > now()", "NOW depends on the current time."),
        ("SELECT id FROM recent", "NOW depends on the current time."),
        ("SELECT current_date - 1", "CURRENT_DATE is the current time."),
        ("SELECT id FROM stories WHERE at > 'yesterday'", "'yesterday' is the current time"),
        ("SELECT user", "USER depends on the session."),
        ("SELECT random()", "RANDOM depends on more than its arguments."),
        ("SELECT votes_of(1)", "VOTES_OF is a user-defined function, IMMUTABLE and in the language sql"),
        ("SELECT s.shown FROM stories s", "SHOWN is a user-defined function"),
        ("SELECT one FROM kept", "public.kept is a materialized view"),
        ("SELECT relname FROM pg_class", "pg_catalog.pg_class is a system catalog"),
        ("SELECT datname FROM pg_database", "pg_catalog.pg_database is a system catalog"),
        ("SELECT table_name FROM information_schema.tables", "is a system catalog"),
        ("SELECT id, xmin FROM stories", "does not carry xmin."),
        ("SELECT id FROM stories s WHERE s.CTID = '(0,1)'", "does not carry ctid."),
        ('SELECT U&"table\\006fid" FROM stories', "does not carry tableoid."),
        ("SELECT 1 FROM stories WHERE at <@ '[2024-01-01,now)'::tstzrange", "is the current time"),
        ("SELECT 1 FROM stories WHERE at = ANY ('{2024-01-01,\"now\"}')", "is the current time"),
        ("SELECT '{[today,tomorrow)}'::tsmultirange FROM stories", "is the current time"),
        (
            "SELECT 1 FROM stories WHERE (id, at) IN (SELECT * FROM (VALUES (1, 'no'\n'w'::timestamptz)) v)",
            "is the current",
        ),
        ("SELECT U&'\\006eow'::date", "is the current time"),
        ("SELECT id FROM stories WHERE title LIKE 'now'::date::text", "is the current time"),
        ("SELECT 'stories'::regclass", "regclass reads the system catalogs."),
        ("SELECT id FROM stories TABLESAMPLE system (10)", "TABLESAMPLE reads rows at random."),
    ],
)
def test_what_the_stream_does_not_say_all_about(database: Database, sql: str, reason: str) -> None:
    assert reason in (described(database, sql).volatile or "")


def test_casts_of_the_database_may_read_tables(database: Database) -> None:
    database.execute(
        "CREATE TYPE price AS (amount int)",
        "CREATE FUNCTION priced(int) RETURNS price LANGUAGE sql STABLE"
        " AS 'SELECT ROW($1 * max(user_id))::price FROM votes'",
        "CREATE CAST (int AS price) WITH FUNCTION priced(int) AS IMPLICIT",
        "CREATE TABLE goods (id int, costs price[])",
    )
    for sql in (
        "SELECT (id::price).amount FROM stories",
        'SELECT CAST(id AS public."price") FROM stories',
        "SELECT count(*) FROM goods WHERE costs IS NULL",
    ):
        assert "The cast from integer to price" in (described(database, sql).volatile or "")
    assert described(database, "SELECT id::text FROM stories").volatile is None
    database.execute(
        "CREATE FUNCTION counted(jsonb) RETURNS date LANGUAGE sql STABLE AS 'SELECT max(at)::date FROM stories'",
        "CREATE CAST (jsonb AS date) WITH FUNCTION counted(jsonb)",
    )
    found = described(database, "SELECT to_jsonb(id)::date FROM stories").volatile
    assert "The cast from jsonb to date" in (found or "")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT to_char(at, 'YYYY'), date_trunc('day', at), extract(year FROM at) FROM stories",
        "SELECT id FROM stories WHERE title LIKE '%now%'",
        "SELECT jsonb_agg(s.title ORDER BY id), string_agg(title, ','), count(*) FILTER (WHERE id > 1) FROM stories s",
        "SELECT row_number() OVER (ORDER BY id), lag(title) OVER (ORDER BY id) FROM stories",
        'SELECT t.user FROM (SELECT 1 AS "user") t',
    ],
)
def test_what_depends_on_tables_and_pinned_settings_only(database: Database, sql: str) -> None:
    assert described(database, sql).volatile is None


@pytest.mark.parametrize(
    ("sql", "reason", "where"),
    [
        ("SELECT nope FROM stories WHERE id = :id", 'column "nope" does not exist', "nope"),
        ("SELECT id FROM stories WHERE id = :id AND titel = 'x'", 'column "titel" does not exist', "titel"),
        ("SELECT id FROM stories WHERE id IN (:ids) AND titel = 'x'", 'column "titel" does not exist', "titel"),
        ("SELECT 1 WHERE :p IS NULL", "The type of the parameter :p cannot be inferred", ":p"),
        ("SELECT id FROM stories WHERE :p IS NULL AND nope = :p", 'column "nope" does not exist', "nope"),
        ("SELEC 1", "syntax error", "SELEC"),
    ],
)
def test_errors_say_where(database: Database, sql: str, reason: str, where: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        described(database, sql)
    assert reason in caught.value.reason
    assert caught.value.span is not None
    assert sql[caught.value.span.start : caught.value.span.end] == where


def test_a_statement_without_columns(database: Database) -> None:
    with pytest.raises(InvalidQuery, match="gives no columns"):
        described(database, "DELETE FROM stories")


@pytest.mark.parametrize(
    "call", ["pg_sync_replication_slots()", "pg_stat_file('x')", "\"ts_stat\"('SELECT 1')", "stories_id()"]
)
def test_what_the_server_says_is_volatile_is_not_called(database: Database, call: str) -> None:
    if call.startswith("pg_sync"):
        database.require(17, "the function")
    database.execute(
        "CREATE FUNCTION stories_id() RETURNS float8 LANGUAGE internal VOLATILE AS 'drandom'",
        "CREATE VIEW asleep AS SELECT id FROM stories WHERE id < stories_id()",
    )
    for sql in (f"SELECT {call}", f"SELECT id FROM stories WHERE EXISTS (SELECT {call})", "SELECT id FROM asleep"):
        with pytest.raises(InvalidQuery, match="VOLATILE"):
            described(database, sql)
