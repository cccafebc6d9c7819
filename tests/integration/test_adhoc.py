"""Queries that name no view, over a real PostgreSQL: the answers are the database's, whoever gives them."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest

from service.demo.postgres_server import EmbeddedPostgres
from service.demo.views import VIEWS
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until
from tests.fuzz_api.site import demo_database

pytestmark = pytest.mark.postgres

#: Beside the demo's: what queries may mean.
OTHERS = {
    "some_stories": "SELECT id, title FROM stories WHERE id IN (:ids)",
    "titles": "SELECT id, title FROM stories WHERE author = :a AND id > :above ORDER BY id LIMIT :n",
    "kept": "SELECT id, score FROM stories WHERE removed = false AND author = 'user1' AND score >= :least",
    # Kept by running it again: only equal words tell.
    "ranked": "SELECT id, random() < 2 AS yes, title FROM stories WHERE author = :author ORDER BY id",
    "near": "SELECT s.id, (SELECT bit_or(c.id) FROM comments c WHERE c.story_id = s.id AND c.author = :who) AS said"
    " FROM stories s WHERE s.author = :author ORDER BY s.id",
}
#: Queries like the views', and like them but for one thing. ``{x}`` is a value.
QUERIES = [
    *(re.sub(r":(\w+)", r"{\1}", view.sql) for view in VIEWS),
    *(re.sub(r"(?<!:):(\w+)", r"{\1}", sql) for name, sql in OTHERS.items() if name not in ("some_stories", "ranked")),
    "SELECT x.id, x.title, x.author, COUNT(y.user_id) AS votes FROM stories AS x LEFT OUTER JOIN public.votes y"
    " ON y.story_id = x.id WHERE x.id = {id} GROUP BY x.id, x.title, x.author",
    "SELECT s.id, s.title, s.author AS writer, COUNT(v.user_id) AS votes FROM stories s LEFT JOIN votes v"
    " ON v.story_id = s.id WHERE s.id = {id} GROUP BY s.id, s.title, s.author",
    "SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes FROM stories s LEFT JOIN votes v"
    " ON v.story_id = s.id AND v.value = 1 WHERE s.id = {id} GROUP BY s.id, s.title, s.author",
    "SELECT s.id, s.title, s.author, COUNT(v.user_id) AS votes FROM stories s JOIN votes v"
    " ON v.story_id = s.id WHERE s.id = {id} GROUP BY s.id, s.title, s.author",
    "SELECT id, title FROM stories WHERE id IN ({id}, {id}, {id}) ORDER BY id",
    "SELECT id, title FROM stories WHERE author = {author} AND id > {id} ORDER BY id DESC LIMIT {n}",
    "SELECT id, title FROM stories WHERE author = {author} OR id > {id} ORDER BY id LIMIT {n}",
    "SELECT id, title FROM stories WHERE id BETWEEN {id} AND {id} ORDER BY id",
    "SELECT id, score FROM stories WHERE removed = false AND author = 'user2' AND score >= {least} ORDER BY id",
    "SELECT count(*) AS n, max(title) AS last FROM stories WHERE author = {author} HAVING count(*) > {n}",
    "SELECT DISTINCT author FROM stories WHERE id < {id} UNION SELECT name FROM tags WHERE name = {tag} ORDER BY 1",
]
_VALUES: dict[str, list[str]] = {
    "id": ["1", "2", "3", "7", "60", "61", "-1", "7.0", "7.5", "99999999999", "'7'"],
    "author": ["'user1'", "'user2'", "'user3'", "'nobody'", "''", "'it''s'", "'x'' OR 1=1 --'", "'é /* '"],
    "tag": ["'databases'", "'python'", "'none'"],
    "n": ["0", "1", "3", "25"],
    "least": ["-3", "0", "2", "1.5"],
}
_VALUES |= {"story_id": _VALUES["id"], "name": _VALUES["author"], "a": _VALUES["author"], "above": _VALUES["id"]}
_VALUES |= {"who": _VALUES["author"]}
_WORD = re.compile(r"'(?:[^']|'')*'|(?:GROUP|ORDER) BY|\w+(?:\.\d+)?|[<>=!]+|::|\S")
_GAPS = [" ", " ", " ", "\n", "\t ", " /* it's a /comment */ ", " -- 'so\n"]


@pytest.fixture(scope="module")
def database(postgres_server: EmbeddedPostgres) -> Iterator[Database]:
    with demo_database(postgres_server) as site:
        yield site


@pytest.fixture(scope="module")
def service(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    views = {view.name: view.sql.strip() for view in VIEWS} | OTHERS
    settings = {"enabled": True, "install_after": 3, "unused_s": 1000.0, "limit_rows": 500}
    with running_service(tmp_path_factory.mktemp("adhoc"), database.url, views, adhoc=settings) as running:
        yield running


def ask(service: RunningService, sql: str, params: Any = None, **headers: str) -> httpx.Response:
    body = {"sql": sql} if params is None else {"sql": sql, "params": params}
    return HTTP.post(f"{service.http}/v1/query", json=body, headers=headers)


def respelt(sql: str, chance: random.Random) -> str:
    """Another spelling."""
    parts: list[str] = []
    for word in _WORD.findall(sql):
        plain = word[0] != "'" and chance.random() < 0.5
        parts += [word.swapcase() if plain else word, chance.choice(_GAPS)]
    return "".join(parts).replace("{", "").replace("}", "")


def expected(connection: psycopg.Connection, sql: str) -> tuple[list[dict[str, Any]] | None, str]:
    """Return the database's present answer (None: it refuses), and a version that includes it."""
    try:
        rows = connection.execute(f"SELECT row_to_json(q)::text FROM ({sql}\n) q".encode()).fetchall()
    except psycopg.Error:
        return None, ""
    found = [json.loads(text.replace('+00:00"', 'Z"')) for (text,) in rows]
    version = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
    return found, str(version[0]) if version else ""


def write(connection: psycopg.Connection, chance: random.Random) -> None:
    story, user = chance.randint(1, 62), f"user{chance.randint(1, 9)}"
    connection.execute("UPDATE stories SET score = score + %s WHERE id = %s", [chance.randint(-2, 3), story])
    connection.execute("DELETE FROM votes WHERE story_id = %s AND user_id = %s", [story, user])
    connection.execute(
        "INSERT INTO votes (story_id, user_id, value) SELECT id, %s, 1 FROM stories WHERE id = %s", [user, story]
    )
    connection.execute("UPDATE stories SET author = %s, removed = NOT removed WHERE id = %s", [user, story % 5])


def in_order(sql: str, rows: list[dict[str, Any]]) -> list[Any]:
    """The rows, sorted if the query leaves their order open."""
    texts = [json.dumps(row) for row in rows]
    return texts if "order by" in sql.lower() else sorted(texts)


@pytest.mark.parametrize("seed", range(2))
def test_whoever_answers_the_answer_is_the_databases(service: RunningService, database: Database, seed: int) -> None:
    chance = random.Random(seed)
    answered: Counter[str] = Counter()
    with psycopg.connect(database.url, autocommit=True) as connection:
        for _ in range(120):
            if chance.random() < 0.3:
                write(connection, chance)
            query = chance.choice(QUERIES)
            sql = re.sub(r"\{(\w+)\}", lambda found: chance.choice(_VALUES[found[1]]), query).strip()
            asked = respelt(sql, chance)
            rows, version = expected(connection, sql)
            headers = {"upquery-min-version": version, "prefer": "wait=20"} if version else {}
            response = ask(service, asked, **headers)
            if rows is None:
                assert response.status_code == 422, (asked, response.text)
                continue
            assert response.status_code == 200, (asked, response.text)
            by = response.headers.get("upquery-view", "")
            assert in_order(sql, response.json()["rows"]) == in_order(sql, rows), (by, asked)
            answered["adhoc" if by.startswith("adhoc_") else by] += 1
    assert {"", "adhoc", "story_with_votes", "titles"} <= answered.keys(), answered


def test_parameters_are_those_of_the_text(service: RunningService) -> None:
    for sql, params in [
        ("SELECT id, title FROM stories WHERE id IN (:mine)", {"mine": [1, "2"]}),
        ("SELECT id, title FROM stories WHERE id IN (1, 2)", None),
        ("select t.id, t.title from stories t where t.id in (?)", [[2, 1]]),
    ]:
        response = ask(service, sql, params)
        assert response.headers["upquery-view"] == "some_stories"
        assert sorted(row["id"] for row in response.json()["rows"]) == [1, 2]
    # Run by the database.
    response = ask(service, "SELECT id + :n AS m FROM stories WHERE id = :n", {"n": 3})
    assert "upquery-view" not in response.headers
    assert response.json()["rows"] == [{"m": 6}]
    wrong: list[tuple[Any, str, str]] = [
        ({}, "parameter_missing", "mine"),
        ({"mine": 1, "ids": 2}, "parameter_unknown", "ids"),
        ({"mine": "x"}, "parameter_type", "mine"),
        ([1], "parameter_missing", "mine"),
    ]
    for given, code, name in wrong:
        problem = ask(service, "SELECT id, title FROM stories WHERE id IN (:mine)", given).json()
        assert (problem["code"], problem["parameter"]) == (code, name)


def test_equal_words_tell_which_refreshed_view_is_meant(service: RunningService) -> None:
    assert service.view("near")["tier"] == "refresh"
    sql = re.sub(r":(\w+)", "'user3'", OTHERS["near"])
    response = ask(service, sql.replace(" ", "\n "))
    assert response.headers["upquery-view"] == "near"
    assert response.json()["rows"] == service.rows("near", who="user3", author="user3")
    # What expires is not the database's answer of now.
    assert service.view("ranked")["tier"] == "ttl"
    assert "upquery-view" not in ask(service, OTHERS["ranked"].replace(":author", "'user3'")).headers


def test_a_constant_of_a_view_is_that_constant(service: RunningService) -> None:
    sql = OTHERS["kept"].replace(":least", "0")
    assert ask(service, sql).headers["upquery-view"] == "kept"
    for other in (
        sql.replace("user1", "user2"),
        sql.replace("false", "true"),
        sql.replace("score FROM", "author FROM"),
    ):
        assert ask(service, other).headers.get("upquery-view", "") != "kept"


def test_the_document_does_not_name_views_of_queries(service: RunningService) -> None:
    sql = "SELECT name FROM tags WHERE name = 'python'"
    until(lambda: ask(service, sql).headers.get("upquery-view", "").startswith("adhoc_"))
    name = ask(service, sql).headers["upquery-view"]
    assert service.view(name)["origin"] == "adhoc"
    assert f"/v1/views/{name}" not in HTTP.get(f"{service.http}/openapi.json").json()["paths"]


HOSTILE = [
    f"SELECT {'(' * 4000}1{')' * 4000}",
    f"SELECT {'CASE WHEN true THEN ' * 700}1{' END' * 700}",
    f"{'SELECT * FROM (' * 300}SELECT 1 AS a{') AS t' * 300}",
    f"SELECT {'NOT ' * 4900}true",
    f"SELECT {'- ' * 9000}1",
    "SELECT 1 AS a WHERE " + " OR ".join(["1 = 1"] * 1990),
]
REFUSED = [
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE stories",
    "DROP TABLE stories",
    "DELETE FROM stories",
    "INSERT INTO tags (name) VALUES ('x')",
    "UPDATE stories SET score = 0",
    "TRUNCATE stories",
    "WITH gone AS (DELETE FROM stories RETURNING id) SELECT id FROM gone",
    "WITH x AS (INSERT INTO tags (name) VALUES ('y') RETURNING 1) SELECT * FROM x",
    "SELECT id INTO copied FROM stories",
    "CREATE TABLE copied AS SELECT id FROM stories",
    "SELECT id FROM stories FOR UPDATE",
    "SELECT id FROM stories WHERE id = 1 FOR NO KEY UPDATE SKIP LOCKED",
    "COPY stories TO STDOUT",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SET statement_timeout = 0",
    "SET ROLE postgres",
    "RESET ALL",
    "BEGIN",
    "COMMIT",
    "LOCK TABLE stories",
    "LISTEN x",
    "NOTIFY x",
    "EXPLAIN ANALYZE DELETE FROM stories",
    "CALL f()",
    "DO $$ BEGIN DELETE FROM stories; END $$",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "SELECT pg_sleep(10)",
    "SELECT pg_catalog.pg_sleep(10)",
    'SELECT "pg_sleep"(10)',
    'SELECT pg_catalog."pg_sleep" (10)',
    'SELECT U&"pg\\005fsleep"(10)',
    "SELECT PG_SLEEP(10)",
    "SELECT pg_sleep/**/(10)",
    "SELECT id FROM stories, pg_sleep(10)",
    "SELECT nextval('stories_id_seq')",
    "SELECT set_config('statement_timeout', '0', false)",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_terminate_backend(1)",
    "SELECT dblink('', 'DELETE FROM stories')",
    "SELECT query_to_xml('DELETE FROM stories', true, true, '')",
    "SELECT word FROM ts_stat('SELECT to_tsvector(''simple'', pg_sleep(10)::text)')",
    "SELECT ts_rewrite('a', 'SELECT ''a''::tsquery, pg_sleep(10)::text::tsquery')",
    'SELECT word FROM "ts_stat"($$SELECT to_tsvector(pg_sleep(10)::text)$$)',
    "SELECT pg_nextoid('pg_class', 'oid', 'pg_class_oid_index')",
    "SELECT pg_sync_replication_slots()",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('.')",
    "SELECT id, title FROM stories WHERE id IN (1) /* /* */ OR true -- */",
    "SELECT id, title FROM stories WHERE id IN (1) --\r OR true /*\n*/",
    "SELECT 1 FROM nothing",
    "SELECT 1 FROM some_stories",
    "SELECT 'unfinished",
    "SELECT 1 /* unfinished",
    "SELECT $$unfinished",
    "SELECT 1 \0",
    "VALUES (1)",
    "",
    " ; ",
    "-- nothing",
    "SELECT 1/0",
    "SELECT 'x'::int",
    *HOSTILE,
]


def test_what_does_more_than_read_is_refused(service: RunningService, database: Database) -> None:
    before = database.query("SELECT count(*), sum(score) FROM stories")
    for sql in REFUSED:
        response = ask(service, sql)
        if "\r" in sql:
            # Read as the database does, or not at all.
            assert response.status_code == 422 or len(response.json()["rows"]) > 1
            continue
        assert (response.status_code, response.headers["content-type"]) == (422, "application/problem+json"), sql
    assert "Traceback" not in service.log.read_text()
    assert database.query("SELECT count(*), sum(score) FROM stories") == before
    assert database.query("SELECT 1 FROM pg_class WHERE relname = 'copied'") == []
    assert database.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'") == []


def test_functions_that_write_cannot(service: RunningService, database: Database) -> None:
    database.execute(
        "CREATE FUNCTION harmless() RETURNS int LANGUAGE sql AS $$ DELETE FROM comments RETURNING 1 $$",
        "CREATE FUNCTION careless() RETURNS text LANGUAGE sql AS"
        " $$ SELECT set_config('search_path', 'nowhere', false) $$",
    )
    before = database.query("SELECT count(*) FROM comments")
    refused = ask(service, "SELECT harmless()")
    assert (refused.status_code, refused.json()["code"]) == (422, "query_invalid")
    assert database.query("SELECT count(*) FROM comments") == before
    for _ in range(4):
        # What it did to the session is gone with the transaction.
        assert ask(service, "SELECT careless()").status_code in (200, 422)
    assert ask(service, "SELECT count(*) AS n FROM comments WHERE id < 0 OR random() > 2").json()["rows"] == [{"n": 0}]


def test_large_and_slow_answers_are_bounded(service: RunningService, database: Database) -> None:
    assert ask(service, "SELECT n FROM generate_series(1, 500) n").status_code == 200
    patient = {"Prefer": "wait=30"}
    too_many = ask(service, "SELECT 1 AS n FROM generate_series(1, 9999) a, generate_series(1, 9999) b", **patient)
    assert (too_many.status_code, too_many.json()["code"]) == (413, "too_large")
    too_wide = ask(service, "SELECT repeat('x', 10000000) AS a FROM generate_series(1, 10) n", **patient)
    assert (too_wide.status_code, too_wide.json()["code"]) == (413, "too_large")
    slow = ask(service, "SELECT count(*) FROM generate_series(1, 1000000000) a, generate_series(1, 1000) b")
    assert (slow.status_code, slow.json()["code"]) == (504, "read_timeout")
    running = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%generate_series(1, 1000)%b'"
    until(lambda: not database.query(running))
