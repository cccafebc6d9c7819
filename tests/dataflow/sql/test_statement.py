"""SQL texts as the upstream runs them: parameters, lists, places, registered views, effects."""

import pytest

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql.effects import check_effects
from dataflow.sql.registered_views import expanded
from dataflow.sql.statement import statement_of

INT = SqlType("int4", "int4")
CATALOG = Catalog(
    {"public.stories": Table("public.stories", (Column("id", INT),))},
    registered={
        "hot": "SELECT id FROM stories WHERE id > :least;",
        "hotter": "SELECT id FROM hot -- more",
        "stories": "SELECT 1",
        "loop": "SELECT * FROM pool",
        "pool": "SELECT * FROM loop",
        "top-ten": "SELECT 1 AS id",
    },
)


@pytest.mark.parametrize(
    ("sql", "numbered", "names", "lists"),
    [
        ("SELECT :b, :a, :b", "SELECT $2, $1, $2", ("a", "b"), set()),
        ("SELECT ? , ?; ", "SELECT $1 , $2", ("p1", "p2"), set()),
        ("SELECT $2::int -- why :c", "SELECT $1::int", ("p2",), set()),
        ("SELECT data ? 'x', ':a' || b::text, $$:c$$", "SELECT data ? 'x', ':a' || b::text, $$:c$$", (), set()),
        ("SELECT 1 WHERE a IN (:x)", "SELECT 1 WHERE a = ANY ($1)", ("x",), {"x"}),
        ("SELECT 1 WHERE a not in ( :x )", "SELECT 1 WHERE a <> ALL ($1)", ("x",), {"x"}),
        ("SELECT 1 WHERE a = ANY(:x) AND b IN (:x)", "SELECT 1 WHERE a = ANY($1) AND b = ANY ($1)", ("x",), {"x"}),
        ("SELECT 1 WHERE a IN (:x) AND b = :x", "SELECT 1 WHERE a IN ($1) AND b = $1", ("x",), set()),
        ("SELECT 1 WHERE a IN (:x, :y)", "SELECT 1 WHERE a IN ($1, $2)", ("x", "y"), set()),
    ],
)
def test_numbered(sql: str, numbered: str, names: tuple[str, ...], lists: set[str]) -> None:
    statement = statement_of(sql)
    assert statement.numbered().text == numbered
    assert statement.names == names
    assert statement.lists == lists


def test_casts_and_places() -> None:
    sql = "SELECT :a FROM t WHERE b IN (:list) AND oops = :a"
    rendered = statement_of(sql).numbered({"a": "int4", "list": "text[]"})
    assert rendered.text == "SELECT ($1::int4) FROM t WHERE b = ANY (($2::text[])) AND oops = ($1::int4)"
    for word in ("SELECT", "FROM", "b = ANY", "AND", "oops"):
        assert sql[rendered.original(rendered.text.index(word)) :].startswith(word.split(" ")[0])


def test_each_occurrence_apart() -> None:
    assert statement_of("SELECT :a WHERE :a IS NULL").apart().text == "SELECT $1 WHERE $2 IS NULL"


def test_a_text_without_end() -> None:
    with pytest.raises(InvalidQuery, match="does not end"):
        statement_of("SELECT 'x")


@pytest.mark.parametrize(
    ("sql", "text", "views"),
    [
        ("SELECT id FROM hot", 'SELECT id FROM (SELECT id FROM stories WHERE id > :least\n) AS "hot"', {"hot"}),
        ("SELECT h.id FROM hot AS h", "SELECT h.id FROM (SELECT id FROM stories WHERE id > :least\n) AS h", {"hot"}),
        (
            "SELECT id FROM hotter",
            'SELECT id FROM (SELECT id FROM (SELECT id FROM stories WHERE id > :least\n) AS "hot" -- more\n)'
            ' AS "hotter"',
            {"hot", "hotter"},
        ),
        ('SELECT id FROM "top-ten"', 'SELECT id FROM (SELECT 1 AS id\n) AS "top-ten"', {"top-ten"}),
        # What the upstream has under a name, and common table expressions, come first.
        ("SELECT id FROM stories", "SELECT id FROM stories", set()),
        ("WITH hot AS (SELECT 1) SELECT * FROM hot", "WITH hot AS (SELECT 1) SELECT * FROM hot", set()),
        ("SELECT id FROM public.hot", "SELECT id FROM public.hot", set()),
    ],
)
def test_registered_views_are_put_in(sql: str, text: str, views: set[str]) -> None:
    found = expanded(sql, CATALOG)
    assert found.sql == text
    assert found.views == views


def test_registered_views_that_read_each_other() -> None:
    with pytest.raises(UnsupportedQuery, match="reads itself"):
        expanded("SELECT * FROM loop", CATALOG)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "CREATE TABLE t ()",
        "SET x = 1",
        "CALL p()",
        "EXPLAIN SELECT 1",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING a) SELECT a FROM x",
        "WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT a FROM x",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t FOR NO KEY UPDATE",
        "SELECT a FROM t FOR SHARE SKIP LOCKED",
        "SELECT nextval('s')",
        "SELECT pg_catalog.set_config('a', 'b', true)",
        "SELECT pg_advisory_xact_lock(1)",
        "SELECT pg_sleep(1)",
        'SELECT "pg_sleep"(1)',
        'SELECT pg_catalog."pg_sleep"(1)',
        'SELECT U&"pg\\005fsleep"(1)',
        "SELECT lo_unlink(1)",
        "SELECT dblink_exec('x')",
    ],
)
def test_what_does_more_than_read(sql: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        check_effects(sql)
    assert caught.value.span is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t",
        "(SELECT 1) UNION (SELECT 2)",
        "VALUES (1)",
        "TABLE t",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "SELECT substring(a FOR 3), t.update, t.delete FROM t",
        "SELECT 'FOR UPDATE', \"nextval\" FROM t",
        "SELECT lo_get(1)",
    ],
)
def test_what_only_reads(sql: str) -> None:
    check_effects(sql)
