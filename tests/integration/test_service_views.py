"""Views of a running service over a real PostgreSQL: read, changed, replaced, dropped, kept over a restart."""

from collections.abc import Iterator

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until

pytestmark = pytest.mark.postgres

STORY = "SELECT id, title FROM stories WHERE id = :id"
BY_AUTHOR = "SELECT id, title FROM stories WHERE author = :author"


STORIES = (
    "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL, author text)",
    "ALTER TABLE stories REPLICA IDENTITY FULL",
)


@pytest.fixture(scope="module")
def running(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    module_database.execute(*STORIES)
    directory = tmp_path_factory.mktemp("views") / "service"
    with running_service(directory, module_database.url, {"story": STORY}) as running:
        yield running


@pytest.fixture
def database(module_database: Database, running: RunningService) -> Database:  # noqa: ARG001
    """The stories that the configuration's view reads, and tables that are made anew."""
    module_database.execute(
        "TRUNCATE stories",
        "INSERT INTO stories SELECT i, 'title ' || i, 'author ' || i % 3 FROM generate_series(1, 30) i",
        "DROP TABLE IF EXISTS notes, voted",
        "CREATE TABLE notes (id int PRIMARY KEY, body text)",
    )
    return module_database


@pytest.fixture
def service(running: RunningService, database: Database) -> RunningService:
    """With the configuration's view only, none of whose keys is kept, over the rows as they are made."""
    running.forget()
    assert running.read("story", headers=checkpoint(database), id=0).json()["rows"] == []
    return running


def checkpoint(database: Database) -> dict[str, str]:
    """Headers of a read that wants all that is committed now."""
    ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
    return {"Upquery-Min-Version": position, "Prefer": "wait=20"}


def test_a_miss_then_a_hit_without_upstream_statement(service: RunningService) -> None:
    first = service.read("story", id=7)
    assert first.json()["rows"] == [{"id": 7, "title": "title 7"}]
    assert "fwd=miss" in first.headers["cache-status"]
    lookups = service.stats()["counters"]["lookups"]
    second = service.read("story", id=7)
    assert "hit" in second.headers["cache-status"]
    assert second.json()["rows"] == first.json()["rows"]
    assert service.stats()["counters"]["lookups"] == lookups


def test_a_write_is_seen_at_its_version(service: RunningService, database: Database) -> None:
    before = service.read("story", id=7)
    database.execute("UPDATE stories SET title = 'new' WHERE id = 7")
    after = service.read("story", headers=checkpoint(database), id=7)
    assert after.status_code == 200, after.text
    assert after.json()["rows"] == [{"id": 7, "title": "new"}]
    high, low = (int(part, 16) for part in before.json()["version"].removeprefix("pg:").split("/"))
    new_high, new_low = (int(part, 16) for part in after.json()["version"].removeprefix("pg:").split("/"))
    assert (new_high, new_low) > (high, low)


def test_rows_that_move_between_keys(service: RunningService, database: Database) -> None:
    assert service.put("by_author", BY_AUTHOR).status_code == 201
    old, new = len(service.rows("by_author", author="author 0")), len(service.rows("by_author", author="author 1"))
    database.execute("UPDATE stories SET author = 'author 1' WHERE id = 3")
    wanted = checkpoint(database)
    assert len(service.read("by_author", headers=wanted, author="author 0").json()["rows"]) == old - 1
    assert len(service.read("by_author", headers=wanted, author="author 1").json()["rows"]) == new + 1


def test_put_replace_and_drop(service: RunningService) -> None:
    assert service.put("extra", STORY).status_code == 201
    assert service.put("extra", STORY).status_code == 200
    assert service.put("extra", BY_AUTHOR, **{"If-None-Match": "*"}).json()["code"] == "view_exists"
    assert service.rows("extra", id=1) == [{"id": 1, "title": "title 1"}]
    assert service.put("extra", BY_AUTHOR).status_code == 200
    assert service.view("extra")["sql"] == BY_AUTHOR
    until(lambda: service.read("extra", author="author 1").status_code == 200)
    assert len(service.rows("extra", author="author 1")) == 10
    assert service.call("DELETE", "/v1/catalog/views/extra").status_code == 204
    assert service.call("DELETE", "/v1/catalog/views/extra").status_code == 404
    assert service.read("extra", author="author 1").status_code == 404


def test_views_of_the_configuration_are_not_changed_over_http(service: RunningService) -> None:
    response = service.put("story", BY_AUTHOR)
    assert response.status_code == 409
    assert "configuration" in response.json()["detail"]
    assert service.call("DELETE", "/v1/catalog/views/story").status_code == 409


def test_a_table_without_replica_identity_is_refused_with_the_statement(
    service: RunningService, database: Database
) -> None:
    """Answers that expire need no changes, and no identity."""
    database.execute("CREATE TABLE lines (id int, body text)", "INSERT INTO lines VALUES (1, 'x')")
    sql = "SELECT id, body FROM lines WHERE id = :id"
    refused = service.put("line", sql)
    assert refused.status_code == 422, refused.text
    assert "ALTER TABLE public.lines REPLICA IDENTITY FULL" in refused.json()["hint"]
    expiring = service.call("PUT", "/v1/catalog/views/line_for_a_while", json={"sql": sql, "tier": "ttl"})
    assert expiring.status_code == 201, expiring.text
    assert service.rows("line_for_a_while", id=1) == [{"id": 1, "body": "x"}]
    database.execute("ALTER TABLE lines REPLICA IDENTITY FULL")
    assert service.put("line", sql).status_code == 201
    assert service.rows("line", id=1) == [{"id": 1, "body": "x"}]


def test_a_table_is_followed_by_its_primary_key(service: RunningService, database: Database) -> None:
    assert service.put("note", "SELECT id, body FROM notes WHERE id = :id").status_code == 201
    counted = service.put("notes_by_body", "SELECT body, count(*) AS n FROM notes WHERE body = :body GROUP BY body")
    assert (counted.status_code, counted.json()["tier"]) == (201, "incremental")
    for statement, notes in [
        ("INSERT INTO notes VALUES (1, 'x'), (2, 'x')", 2),
        ("UPDATE notes SET body = 'y' WHERE id = 1", 1),
        ("DELETE FROM notes WHERE id = 2", 0),
    ]:
        database.execute(statement)
        ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
        answer = service.read("notes_by_body", {"Upquery-Min-Version": position, "Prefer": "wait=25"}, body="x")
        assert answer.json()["rows"] == ([{"body": "x", "n": notes}] if notes else []), statement


VOTED = "SELECT story, value FROM voted WHERE voter = :voter AND story IN (:stories)"
ONE_VOTE = "SELECT value FROM voted WHERE voter = :voter AND story = :story"


def test_parameters_that_pick_rows_of_a_key(service: RunningService, database: Database) -> None:
    database.execute(
        "CREATE TABLE voted (voter int, story int, value int, PRIMARY KEY (voter, story))",
        "ALTER TABLE voted REPLICA IDENTITY FULL",
        "INSERT INTO voted SELECT v, s, v + s FROM generate_series(1, 40) v, generate_series(1, 20) s"
        " WHERE s % 4 = v % 4",
        "ANALYZE voted",
    )
    for name, sql in (("voted", VOTED), ("one_vote", ONE_VOTE)):
        assert service.put(name, sql).status_code == 201
        assert [p["name"] for p in service.view(name)["parameters"]] in (["stories", "voter"], ["story", "voter"])
    # Until the new table has joined the stream, the upstream answers, and the key is filled beside that.
    until(lambda: service.hits("one_vote", voter=3, story=7))
    assert service.rows("one_vote", voter=3, story=7) == [{"value": 10}]
    lookups = service.view("one_vote")["counters"]["lookups"]
    assert service.rows("one_vote", voter=3, story=8) == []
    assert service.rows("one_vote", voter=3, story=3) == [{"value": 6}]
    assert service.view("one_vote")["counters"]["lookups"] == lookups
    again = service.read("one_vote", voter=3, story=7)
    unchanged = service.read("one_vote", voter=3, story=7, headers={"If-None-Match": again.headers["etag"]})
    assert (again.json()["rows"], unchanged.status_code) == ([{"value": 10}], 304)
    keys = [{"voter": 3, "story": 3}, {"voter": 3, "story": 4}, {"voter": None, "story": 3}]
    results = HTTP.post(f"{service.http}/v1/views/one_vote/query", json={"keys": keys}).json()["results"]
    assert [result["rows"] for result in results] == [[{"value": 6}], [], []]
    several = service.read("voted", voter=2, stories=[2, 3, 6, 6, 99]).json()["rows"]
    assert sorted(row["story"] for row in several) == [2, 6]
    database.execute("DELETE FROM voted WHERE voter = 2 AND story = 2", "INSERT INTO voted VALUES (2, 3, 0), (3, 4, 1)")
    wanted = checkpoint(database)
    after = service.read("voted", headers=wanted, voter=2, stories=[2, 3, 6]).json()["rows"]
    assert sorted(row["story"] for row in after) == [3, 6]
    assert service.read("one_vote", headers=wanted, voter=3, story=4).json()["rows"] == [{"value": 1}]


@pytest.mark.parametrize(
    ("sql", "codes"),
    [
        ("SELECT id FROM stories WHERE id = :id; SELECT 1", {"view_invalid"}),
        ("DELETE FROM stories", {"view_invalid"}),
        ("SELECT id FROM nowhere WHERE id = :id", {"view_invalid"}),
        ("SELECT nothing FROM stories WHERE id = :id", {"view_invalid"}),
        ("SELECT FROM WHERE", {"view_invalid"}),
    ],
)
def test_sql_that_cannot_be_a_view(service: RunningService, sql: str, codes: set[str]) -> None:
    response = service.put("wrong", sql)
    problem = response.json()
    assert response.status_code == 422, response.text
    assert response.headers["content-type"].startswith("application/problem+json")
    assert problem["code"] in codes
    assert problem["detail"]
    assert problem["line"] == 1
    assert problem["excerpt"] in sql
    assert "Traceback" not in response.text
    assert service.view("wrong")["code"] == "view_not_found"
    assert service.rows("story", id=1) == [{"id": 1, "title": "title 1"}]


def test_a_view_without_parameters_is_kept_whole(service: RunningService, database: Database) -> None:
    put = service.put("per_author", "SELECT author, count(*) AS stories FROM stories GROUP BY author ORDER BY author")
    assert put.status_code in (201, 202), put.text
    until(lambda: service.view("per_author")["status"] == "ready")
    assert service.view("per_author")["materialization"] == "full"
    assert service.rows("per_author") == [{"author": f"author {i}", "stories": 10} for i in range(3)]
    database.execute("DELETE FROM stories WHERE author = 'author 0'")
    left = service.read("per_author", headers=checkpoint(database)).json()["rows"]
    assert left == [{"author": f"author {i}", "stories": 10} for i in (1, 2)]


def test_http_views_survive_a_restart(service: RunningService) -> None:
    assert service.put("by_author", BY_AUTHOR).status_code == 201
    assert service.stop() == 0
    service.start()
    assert {v["name"] for v in service.call("GET", "/v1/catalog/views").json()["views"]} == {"story", "by_author"}
    assert len(service.rows("by_author", author="author 1")) == 10


def test_explain(service: RunningService) -> None:
    plan = service.call("GET", "/v1/catalog/views/story/plan").json()
    assert plan["materialization"] == "partial"
    assert any("SELECT" in lookup for node in plan["nodes"] for lookup in node["lookups"])
    text = service.call("POST", "/v1/catalog/plan", json={"sql": BY_AUTHOR}, headers={"Accept": "text/plain"}).text
    assert "no index of public.stories" in text, text
    dot = service.call("GET", "/v1/graph", headers={"Accept": "text/vnd.graphviz"}).text
    assert dot.startswith("digraph")


def test_evicted_keys_are_filled_again(service: RunningService) -> None:
    service.rows("story", id=5)
    evicted = service.call("POST", "/v1/evict", json={"view": "story", "keys": [{"id": "5"}]})
    assert evicted.json()["keys"] == 1
    assert "fwd=miss" in service.read("story", id=5).headers["cache-status"]
    wrong = service.call("POST", "/v1/evict", json={"view": "story", "keys": [{"id": "five"}]})
    assert wrong.json()["code"] == "parameter_type"


def test_metrics_and_health(service: RunningService) -> None:
    service.put("measured", STORY)
    service.rows("measured", id=5)
    metrics = service.call("GET", "/metrics").text
    assert "upquery_engine_up 1.0" in metrics
    once = 'upquery_view_reads_total{outcome="misses",view="measured"} 1.0'
    until(lambda: once in service.call("GET", "/metrics").text)
    assert service.call("GET", "/livez").status_code == 200
    assert service.call("GET", "/readyz?strict=1").json()["broken"] == {}
    assert service.call("GET", "/openapi.json").json()["openapi"].startswith("3.1")
    assert service.call("GET", "/nothing").json()["code"] == "not_found"
