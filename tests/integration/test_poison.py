"""Values that PostgreSQL takes and Python does not like: they concern who reads them, and nobody else."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {
    "other": "SELECT id, name FROM people WHERE id = :id",
    "total": "SELECT sum(amount)::text AS total FROM payments WHERE account = :account",
    "by_document": "SELECT document::text, count(*) AS n FROM payments WHERE account = :account GROUP BY document",
}
#: Digits of more than CPython turns into an integer by itself, and documents deeper than it recurses.
POISON = {
    "digits": "INSERT INTO payments VALUES (1, ('1' || repeat('0', 5000))::numeric, '1')",
    "depth": "INSERT INTO payments VALUES (1, 1, (repeat('[', 2000) || repeat(']', 2000))::jsonb)",
}


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    database.execute(
        "CREATE TABLE people (id int PRIMARY KEY, name text)",
        "INSERT INTO people SELECT i, 'name ' || i FROM generate_series(1, 20) i",
        "CREATE TABLE payments (account int, amount numeric, document jsonb)",
        "INSERT INTO payments SELECT i % 5, i, to_jsonb(i % 3) FROM generate_series(1, 40) i",
    )
    with running_service(tmp_path / "service", database.url, VIEWS, cdc={"set_replica_identity": True}) as running:
        yield running


@pytest.mark.parametrize("value", POISON)
@pytest.mark.parametrize("read_before", [False, True])
def test_a_row_concerns_its_own_view_only(
    service: RunningService, database: Database, value: str, *, read_before: bool
) -> None:
    for id_ in range(1, 21):
        service.rows("other", id=id_)
    if read_before:
        for view in ("total", "by_document"):
            service.rows(view, account=1)
    database.execute(POISON[value])
    ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
    headers = {"Upquery-Min-Version": position, "Prefer": "wait=20"}
    for _ in range(3):
        for view, sql in VIEWS.items():
            if view != "other":
                answer = service.read(view, headers=headers, account=1)
                assert answer.status_code == 200, answer.text
                expected = database.query(sql.replace(":account", "1"))
                assert sorted(tuple(row.values()) for row in answer.json()["rows"]) == sorted(expected)
    for id_ in range(1, 21):
        assert "hit" in service.read("other", headers=headers, id=id_).headers["cache-status"]
    assert service.stats()["counters"]["engine_failures"] == 0
    database.execute("DELETE FROM payments WHERE length(amount::text) > 1000 OR length(document::text) > 1000")
    until(lambda: service.view("total")["status"] == service.view("by_document")["status"] == "ready")
