"""Reads that cannot be filled yet go to the database itself; its answer has a version, or there is none."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, until

pytestmark = pytest.mark.postgres

COUNTS = (
    "SELECT p.id, p.name, COUNT(n.id) AS notes FROM people p LEFT JOIN notes n ON n.person = p.id "
    "WHERE p.name = :name GROUP BY p.id, p.name ORDER BY p.id"
)


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    """A service that follows `people`, and not yet `notes`."""
    database.execute(
        "CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL)",
        "CREATE TABLE notes (id int PRIMARY KEY, person int NOT NULL)",
        "ALTER TABLE people REPLICA IDENTITY FULL",
        "ALTER TABLE notes REPLICA IDENTITY FULL",
        "INSERT INTO people SELECT i, 'name ' || i % 5 FROM generate_series(1, 20) i",
        "INSERT INTO notes SELECT i, i % 20 + 1 FROM generate_series(1, 100) i",
    )
    views = {"people": "SELECT id, name FROM people WHERE id = :id"}
    with running_service(tmp_path / "service", database.url, views) as running:
        yield running


def test_while_a_transaction_is_open_on_a_table_that_joins_the_stream(
    service: RunningService, database: Database, connect: Callable[..., psycopg.Connection]
) -> None:
    writer = connect(autocommit=False)
    writer.execute("INSERT INTO notes VALUES (1000, 1)")
    assert service.put("counts", COUNTS).status_code == 201

    # The stream may never tell where that transaction ends, so what is read without it is not kept.
    without_it = expected(database)
    for _ in range(2):
        answer = service.read("counts", name="name 1")
        assert (answer.status_code, answer.json()["rows"]) == (200, without_it)
        assert "; hit" not in answer.headers["cache-status"]
    assert service.rows("people", id=1) == [{"id": 1, "name": "name 1"}]
    writer.commit()

    with_it = expected(database)
    answer = service.read("counts", name="name 1")
    assert (answer.status_code, answer.json()["rows"]) == (200, with_it)
    until(lambda: "; hit" in service.read("counts", name="name 1").headers["cache-status"])
    assert service.rows("counts", name="name 1") == with_it
    database.execute("DELETE FROM notes WHERE id = 1000", "INSERT INTO notes VALUES (2000, 6)")
    until(lambda: service.read("counts", name="name 1").json()["rows"] == expected(database))


def expected(database: Database) -> list[dict[str, object]]:
    """Return the database's present answer."""
    rows = database.query(COUNTS.replace(":name", "%s"), "name 1")
    return [dict(zip(("id", "name", "notes"), row, strict=True)) for row in rows]
