"""Changes of rows, or of the stream's contents, that the stream does not report: views are right again soon."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {
    "item": "SELECT id, name, price FROM items WHERE id = :id",
    "other": "SELECT id, name FROM others WHERE id = :id",
}


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    database.execute(
        "CREATE TABLE items (id int PRIMARY KEY, name text, price int)",
        "CREATE TABLE others (id int PRIMARY KEY, name text)",
        "INSERT INTO items SELECT i, 'item ' || i, i FROM generate_series(1, 9) i",
        "INSERT INTO others SELECT i, 'other ' || i FROM generate_series(1, 9) i",
    )
    with running_service(tmp_path / "service", database.url, VIEWS, cdc={"set_replica_identity": True}) as running:
        yield running


def is_right(service: RunningService, database: Database) -> bool:
    """Return whether the view answers what the database does."""
    response = service.read("item", id=3)
    expected = database.query(VIEWS["item"].replace(":id", "3"))
    return response.status_code == 200 and [tuple(row.values()) for row in response.json()["rows"]] == expected


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE items ALTER COLUMN name TYPE text USING upper(name)",),
        ("ALTER TABLE items ALTER COLUMN price TYPE int USING price * 10",),
        (
            "ALTER PUBLICATION upquery SET (publish = 'insert')",
            "UPDATE items SET name = 'unpublished' WHERE id = 3",
            "ALTER PUBLICATION upquery SET (publish = 'insert, update, delete, truncate')",
        ),
        (
            "ALTER PUBLICATION upquery DROP TABLE items",
            "UPDATE items SET name = 'backfilled' WHERE id = 3",
            "ALTER PUBLICATION upquery ADD TABLE items",
        ),
        (
            "ALTER PUBLICATION upquery SET TABLE others",
            "DELETE FROM items WHERE id = 3",
            "ALTER PUBLICATION upquery ADD TABLE items",
        ),
    ],
)
def test_it_is_noticed(service: RunningService, database: Database, statements: tuple[str, ...]) -> None:
    service.rows("item", id=3)
    service.rows("other", id=3)
    database.execute(*statements)
    until(lambda: is_right(service, database))
    database.execute("UPDATE items SET price = price + 1")
    until(lambda: is_right(service, database))
    assert service.stats()["counters"]["engine_failures"] == 0


def test_a_generated_column_gets_another_expression(database: Database, tmp_path: Path) -> None:
    database.require(18, "publishing generated columns")
    database.execute(
        "CREATE TABLE items (id int PRIMARY KEY, price int, total int GENERATED ALWAYS AS (price * 2) STORED)",
        "INSERT INTO items SELECT i, i FROM generate_series(1, 9) i",
    )
    view = {"total": "SELECT id, total FROM items WHERE id = :id"}
    with running_service(tmp_path / "service", database.url, view, cdc={"set_replica_identity": True}) as service:
        assert service.rows("total", id=3) == [{"id": 3, "total": 6}]
        database.execute("ALTER TABLE items ALTER COLUMN total SET EXPRESSION AS (price * 3)")
        until(lambda: service.read("total", id=3).json().get("rows") == [{"id": 3, "total": 9}])
        assert service.stats()["counters"]["engine_failures"] == 0


def test_a_label_that_a_type_gets_concerns_its_views_only(database: Database, tmp_path: Path) -> None:
    """Rows may have it before anybody knows where it is among the others."""
    database.execute(
        "CREATE TYPE mood AS ENUM ('low', 'high')",
        "CREATE TABLE people (id int PRIMARY KEY, team int, mood mood)",
        "INSERT INTO people SELECT i, i % 2, 'high' FROM generate_series(1, 9) i",
        "CREATE TABLE teams (id int PRIMARY KEY, name text)",
        "CREATE EXTENSION fuzzystrmatch",
    )
    views = {
        "moods": "SELECT id, mood FROM people WHERE team = :team ORDER BY mood, id",
        "all_moods": "SELECT id, mood FROM people ORDER BY mood, id",
        "refreshed": "SELECT id, mood, soundex(mood::text) AS s FROM people WHERE team = :team ORDER BY mood, id",
        "team": "SELECT id, name FROM teams WHERE id = :id",
    }
    reads: dict[str, dict[str, int]] = {"moods": {"team": 1}, "all_moods": {}, "refreshed": {"team": 1}}
    with running_service(tmp_path / "service", database.url, views, cdc={"set_replica_identity": True}) as service:
        for view, parameters in reads.items():
            service.rows(view, **parameters)
        service.rows("team", id=1)
        database.execute("ALTER TYPE mood ADD VALUE 'mid' BEFORE 'high'")
        database.execute("UPDATE people SET mood = 'mid' WHERE id IN (5, 7)")

        def are_right() -> bool:
            answers = {view: service.read(view, **parameters) for view, parameters in reads.items()}
            return all(
                answer.status_code == 200
                and [tuple(row.values()) for row in answer.json()["rows"]]
                == database.query(views[view].replace(":team", "1"))
                for view, answer in answers.items()
            )

        until(are_right)
        assert "hit" in service.read("team", id=1).headers["cache-status"]
        assert service.stats()["counters"]["engine_failures"] == 0


def test_operations_that_are_left_out_break_views_until_they_are_published(
    service: RunningService, database: Database
) -> None:
    service.rows("item", id=3)
    database.execute("ALTER PUBLICATION upquery SET (publish = 'insert')")
    until(lambda: service.view("item")["status"] == "broken" or service.view("item")["tier"] != "incremental")
    assert "omits some operations" in str(service.view("item")["reason"])
    database.execute("UPDATE items SET name = 'unpublished' WHERE id = 3")
    database.execute("ALTER PUBLICATION upquery SET (publish = 'insert, update, delete, truncate')")
    until(lambda: service.view("item")["status"] == "ready")
    until(lambda: is_right(service, database))


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE others",
        "VACUUM FULL items",
        "ALTER TABLE items ALTER COLUMN price SET DEFAULT 7",
        "ALTER TABLE items ADD COLUMN more text DEFAULT 'x'",
        "ANALYZE items",
        "CREATE INDEX more ON items (price)",
    ],
)
def test_what_changes_nothing_evicts_nothing(service: RunningService, database: Database, statement: str) -> None:
    service.rows("item", id=3)
    database.execute(statement)
    # The catalog has been looked at when this is known.
    database.execute("DROP TABLE others")
    until(lambda: service.view("other")["status"] == "broken")
    assert "hit" in service.read("item", id=3).headers["cache-status"]
    assert service.view("item")["status"] == "ready"
