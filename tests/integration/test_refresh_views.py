"""Views that are not kept incrementally, through the service: fresh after a write, stale by as little as may be."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until

pytestmark = pytest.mark.postgres

#: No plan keeps a recursive query.
THREAD = (
    "WITH RECURSIVE thread AS (SELECT id, parent, body, 0 AS depth FROM comments WHERE id = :root AND NOT deleted"
    " UNION ALL SELECT c.id, c.parent, c.body, t.depth + 1 FROM comments c JOIN thread t ON c.parent = t.id"
    " WHERE NOT c.deleted) SELECT id, body, depth FROM thread ORDER BY depth, id"
)
#: One key's story is its own; what is not shown does not count.
VARIANCE = "SELECT count(*) AS n, var_pop(score::float8) AS spread FROM comments WHERE story = :story AND NOT deleted"


@pytest.fixture(scope="module")
def running(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with running_service(tmp_path_factory.mktemp("refresh") / "service", module_database.url) as running:
        yield running


@pytest.fixture
def database(module_database: Database) -> Database:
    module_database.clear()
    module_database.execute(
        "CREATE TABLE comments (id int PRIMARY KEY, parent int, story int, body text, score int, deleted bool NOT NULL,"
        " note text)",
        "ALTER TABLE comments REPLICA IDENTITY FULL",
        "INSERT INTO comments SELECT i, NULLIF(i / 2, 0), i % 3, 'body ' || i, i, false FROM generate_series(1, 15) i",
        "CREATE UNLOGGED TABLE visits (n int)",
        "INSERT INTO visits VALUES (1)",
    )
    return module_database


@pytest.fixture
def service(running: RunningService, database: Database) -> RunningService:  # noqa: ARG001
    """Without views, over the tables as they are made."""
    running.forget()
    return running


def fresh(database: Database) -> dict[str, str]:
    """Headers of a read that wants all that is committed now."""
    ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
    return {"Upquery-Min-Version": position, "Prefer": "wait=20"}


def put(service: RunningService, name: str, sql: str, **options: Any) -> dict[str, Any]:
    response = service.call("PUT", f"/v1/catalog/views/{name}", json={"sql": sql, **options})
    assert response.status_code in (201, 202), response.text
    state: dict[str, Any] = response.json()
    return state


def refreshes(service: RunningService) -> int:
    return int(service.stats()["counters"]["refreshes"])


def test_stale_then_fresh(service: RunningService, database: Database) -> None:
    state = put(service, "thread", THREAD)
    assert state["tier"] == "refresh"
    assert state["materialization"] is None
    assert state["reason"]
    assert state["parameters"] == [{"name": "root", "type": "int4"}]
    first = service.rows("thread", root=4)
    assert [row["id"] for row in first] == [4, 8, 9]
    assert service.hits("thread", root=4)
    database.execute("INSERT INTO comments VALUES (20, 9, 1, 'new', 0, false)")
    after = service.read("thread", headers=fresh(database), root=4)
    assert [row["id"] for row in after.json()["rows"]] == [4, 8, 9, 20]
    assert service.hits("thread", root=4)


def test_stale_for_a_while_and_never_at_a_wrong_version(service: RunningService, database: Database) -> None:
    put(service, "thread", THREAD, stale_while_refresh=60)
    service.rows("thread", root=4)
    assert service.hits("thread", root=4)
    seen = set()
    for n in range(20, 60):
        database.execute(f"INSERT INTO comments VALUES ({n}, 9, 1, 'new', 0, false)")
        ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
        answer = service.read("thread", root=4)
        rows, version = answer.json()["rows"], answer.json()["version"]
        if lsn(version) >= lsn(position):
            assert rows[-1]["id"] == n
        assert int(answer.headers["upquery-age-ms"]) < 60_000
        seen.add(answer.headers["cache-status"])
    assert "upquery; hit; detail=stale" in seen
    # Who wants what is committed gets it.
    assert service.read("thread", headers=fresh(database), root=4).json()["rows"][-1]["id"] == 59
    until(lambda: service.rows("thread", root=4)[-1]["id"] == 59)


def lsn(text: str) -> int:
    """A position of PostgreSQL as a number."""
    high, low = text.removeprefix("pg:").split("/")
    return (int(high, 16) << 32) + int(low, 16)


def test_a_change_that_does_not_matter_is_none(service: RunningService, database: Database) -> None:
    assert put(service, "spread", VARIANCE)["tier"] == "refresh"
    service.rows("spread", story=1)
    service.rows("spread", story=2)
    before = refreshes(service)
    database.execute(
        # Another key, a column that is not read, a row that the filter drops before and after, one that comes and goes.
        "UPDATE comments SET score = 100 WHERE story = 0",
        "UPDATE comments SET note = 'x', body = 'y'",
        "INSERT INTO comments VALUES (30, NULL, 1, 'gone', 5, true)",
        "UPDATE comments SET score = 6 WHERE id = 30",
        "BEGIN; INSERT INTO comments VALUES (31, NULL, 1, '', 5, false); DELETE FROM comments WHERE id = 31; COMMIT",
    )
    answer = service.read("spread", headers=fresh(database), story=1)
    assert "; hit" in answer.headers["cache-status"]
    assert refreshes(service) == before
    database.execute("UPDATE comments SET deleted = false WHERE id = 30")
    # It may be there by now: what was read since it was fetched is fetched again at once.
    changed = service.read("spread", headers=fresh(database), story=1)
    assert changed.json()["rows"][0]["n"] == answer.json()["rows"][0]["n"] + 1
    assert service.hits("spread", story=2)
    assert refreshes(service) == before + 1


def test_truncate_makes_everything_stale(service: RunningService, database: Database) -> None:
    put(service, "spread", VARIANCE)
    assert service.rows("spread", story=1)[0]["n"] == 5
    database.execute("TRUNCATE comments")
    assert service.read("spread", headers=fresh(database), story=1).json()["rows"] == [{"n": 0, "spread": None}]


def test_an_answer_that_expires(service: RunningService, database: Database) -> None:
    state = put(service, "visits", "SELECT n FROM visits", ttl=0.3)
    assert state["tier"] == "ttl"
    assert state["ttl"] == 0.3
    assert "unlogged" in state["reason"]
    assert service.rows("visits") == [{"n": 1}]
    database.execute("UPDATE visits SET n = 2")
    until(lambda: service.rows("visits") == [{"n": 2}])
    assert put(service, "clock", "SELECT now() > '2020-01-01' AS later", ttl=60)["tier"] == "ttl"
    assert service.rows("clock") == [{"later": True}]
    assert service.hits("clock")


def test_null_lists_and_pages(service: RunningService) -> None:
    put(service, "either", "SELECT id FROM comments WHERE :story IS NULL OR story = :story ORDER BY id", tier="refresh")
    put(service, "listed", "SELECT id FROM comments WHERE id IN (:ids) ORDER BY id DESC", tier="refresh")
    everything = service.read("either", None, **{"story:null": ""}).json()["rows"]
    assert len(everything) == 15
    assert service.hits("either", **{"story:null": ""})
    assert len(service.rows("either", story=0)) == 5
    page = service.read("either", story=0, limit=2).json()
    assert [row["id"] for row in page["rows"]] == [3, 6]
    rest = service.read("either", story=0, after=page["next"]).json()
    assert [row["id"] for row in rest["rows"]] == [9, 12, 15]
    assert [row["id"] for row in service.rows("listed", ids=[3, 5, 99])] == [5, 3]


def test_refreshed_and_incremental_views_at_one_version(service: RunningService, database: Database) -> None:
    put(service, "spread", VARIANCE)
    assert put(service, "plain", "SELECT id FROM comments WHERE story = :story")["tier"] == "incremental"
    for n in range(40, 43):
        reads = [{"view": view, "params": {"story": 1}} for view in ("spread", "plain")]
        wanted = fresh(database)
        answer = HTTP.post(f"{service.http}/v1/read", json={"reads": reads}, headers=wanted)
        assert answer.status_code == 200, answer.text
        spread, plain = answer.json()["results"]
        assert spread["rows"][0]["n"] == len(plain["rows"])
        database.execute(f"INSERT INTO comments VALUES ({n}, NULL, 1, '', 1, false)")


def test_the_user_decides(service: RunningService) -> None:
    sql = "SELECT id, body FROM comments WHERE story = :story ORDER BY id"
    assert put(service, "a", sql)["tier"] == "incremental"
    assert put(service, "b", sql, tier="refresh")["tier"] == "refresh"
    assert put(service, "c", sql, tier="ttl")["ttl"] == 10
    whole = put(service, "d", sql, materialization="full")
    assert whole["materialization"] == "full"
    until(lambda: service.view("d")["status"] == "ready")
    answers = [service.rows(view, story=2) for view in "abcd"]
    assert answers.count(answers[0]) == 4
    refused = service.call("PUT", "/v1/catalog/views/e", json={"sql": "SELECT now()", "tier": "refresh"})
    assert refused.json()["code"] == "view_unsupported"
    assert "NOW" in refused.json()["detail"]
    refused = service.call("PUT", "/v1/catalog/views/e", json={"sql": THREAD, "tier": "incremental"})
    assert refused.json()["code"] == "view_unsupported"


def test_errors_say_what_and_where(service: RunningService) -> None:
    def refused(sql: str) -> dict[str, Any]:
        response = service.put("bad", sql)
        assert response.status_code == 422, response.text
        problem: dict[str, Any] = response.json()
        return problem

    assert refused("SELECT var_pop(scor) FROM comments")["excerpt"] == "scor"
    assert "Cast it" in refused("SELECT 1 WHERE :p IS NULL")["hint"]
    for sql in (
        "DELETE FROM comments",
        "WITH d AS (DELETE FROM comments RETURNING id) SELECT id FROM d",
        "SELECT id FROM comments FOR UPDATE",
        "SELECT nextval('s')",
        "SELECT set_config('TimeZone', 'x', false)",
        "SELECT pg_advisory_lock(1)",
        "SET x = 1",
        "SELECT 1; SELECT 2",
    ):
        assert refused(sql)["code"] == "view_invalid"
    assert service.call("GET", "/v1/catalog/views/bad").status_code == 404


def test_a_function_that_writes_fails_and_changes_nothing(service: RunningService, database: Database) -> None:
    database.execute(
        "CREATE FUNCTION wipe() RETURNS int LANGUAGE plpgsql AS 'BEGIN DELETE FROM comments; RETURN 1; END'",
        "CREATE FUNCTION elsewhere() RETURNS text LANGUAGE plpgsql"
        " AS $$BEGIN RETURN set_config('TimeZone', 'America/New_York', false); END$$",
    )
    assert put(service, "wipe", "SELECT wipe() AS x")["tier"] == "ttl"
    assert service.read("wipe").status_code == 503
    assert database.query("SELECT count(*) FROM comments") == [(15,)]
    put(service, "elsewhere", "SELECT elsewhere() AS x", ttl=0.01)
    put(service, "noon", "SELECT TIMESTAMPTZ '2020-01-01 12:00Z' AS at, random() AS r", ttl=0.01)
    for _ in range(20):
        service.rows("elsewhere")
        assert service.rows("noon")[0]["at"] == "2020-01-01T12:00:00Z"


def test_a_registered_view_in_from(service: RunningService) -> None:
    put(service, "kept", "SELECT id, story, score FROM comments WHERE NOT deleted")
    put(service, "reader", "SELECT story, var_pop(score::float8) AS spread FROM kept GROUP BY story ORDER BY story")
    assert len(service.rows("reader")) == 3
    in_use = service.call("DELETE", "/v1/catalog/views/kept")
    assert in_use.status_code == 409
    assert in_use.json()["code"] == "view_in_use"
    assert service.call("DELETE", "/v1/catalog/views/reader").status_code == 204
    assert service.call("DELETE", "/v1/catalog/views/kept").status_code == 204


def test_a_column_that_goes_breaks_and_mends(service: RunningService, database: Database) -> None:
    put(service, "spread", VARIANCE)
    service.rows("spread", story=1)
    database.execute("ALTER TABLE comments DROP COLUMN note")
    assert len(service.rows("spread", story=1)) == 1
    database.execute("ALTER TABLE comments RENAME COLUMN score TO points")
    until(lambda: service.view("spread")["status"] == "broken")
    database.execute("ALTER TABLE comments RENAME COLUMN points TO score")
    until(lambda: service.view("spread")["status"] == "ready")
    assert service.rows("spread", story=1)[0]["n"] == 5


def test_a_restart_knows_the_options(service: RunningService) -> None:
    put(service, "visits", "SELECT n FROM visits", ttl=3)
    put(service, "thread", THREAD)
    service.stop()
    service.start()
    assert service.view("visits")["ttl"] == 3
    assert [row["id"] for row in service.rows("thread", root=4)] == [4, 8, 9]


def test_what_explain_says(service: RunningService) -> None:
    plan = service.call("POST", "/v1/catalog/plan", json={"sql": VARIANCE}).json()
    assert plan["tier"] == "refresh"
    assert plan["materialization"] is None
    assert plan["reads"][0]["table"] == "public.comments"
    assert service.call("POST", "/v1/catalog/plan", json={"sql": "SELECT n FROM visits"}).json()["tier"] == "ttl"
    put(service, "spread", VARIANCE)
    assert service.call("GET", "/v1/catalog/views/spread/plan").json()["tier"] == "refresh"


def test_another_definition_of_a_view_that_is_read(service: RunningService, database: Database) -> None:
    database.execute("CREATE VIEW shown AS SELECT story, score FROM comments WHERE NOT deleted")
    put(service, "spread", "SELECT var_pop(score::float8) AS spread, count(*) AS n FROM shown WHERE story = :story")
    assert service.rows("spread", story=1)[0]["n"] == 5
    database.execute("CREATE OR REPLACE VIEW shown AS SELECT story, score FROM comments WHERE score > 100")
    until(lambda: service.read("spread", story=1).json().get("rows", [{}])[0].get("n") == 0)
    database.execute("UPDATE comments SET score = 200 WHERE id = 1")
    assert service.read("spread", headers=fresh(database), story=1).json()["rows"][0]["n"] == 1
    put(service, "base", "SELECT story, score FROM comments")
    put(service, "reader", "SELECT var_pop(score::float8) AS spread, count(*) AS n FROM base")
    assert service.rows("reader")[0]["n"] == 15
    assert service.put("base", "SELECT story, score FROM comments WHERE story = 0").status_code == 202
    until(lambda: service.rows("reader")[0]["n"] == 5)
    assert service.put("base", "SELECT story FROM comments").json()["code"] == "view_in_use"
    assert service.rows("reader")[0]["n"] == 5


def test_more_columns_than_there_were(service: RunningService, database: Database) -> None:
    put(service, "visits", "SELECT * FROM visits", ttl=0.01)
    assert service.rows("visits") == [{"n": 1}]
    database.execute("ALTER TABLE visits ADD COLUMN m text DEFAULT 'x'")
    until(lambda: service.read("visits").json().get("rows") == [{"n": 1, "m": "x"}])


def test_a_value_that_the_database_refuses_breaks_nothing(service: RunningService) -> None:
    put(service, "configured", "SELECT to_tsvector(:config::regconfig, 'one') AS words", ttl=60)
    assert service.rows("configured", config="simple") == [{"words": "'one':1"}]
    refused = service.read("configured", None, config="nothing")
    assert refused.status_code >= 400
    assert service.hits("configured", config="simple")
