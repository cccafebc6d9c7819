"""Foreign keys that the database has, calls valid, and did not check when rows came: they promise nothing."""

from pathlib import Path

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {
    "page": "SELECT s.id, s.title, COUNT(v.voter) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
    " WHERE s.author = :author GROUP BY s.id, s.title ORDER BY s.id",
    "voters": "SELECT s.id, v.voter FROM stories s JOIN votes v ON v.story_id = s.id WHERE s.author = :author"
    " ORDER BY s.id, v.voter",
}
#: Each loads the votes of one story before the story.
LOADS = (
    # A logical replication subscriber; a migration service.
    ("SET session_replication_role = replica", "INSERT INTO votes VALUES (1, 1), (1, 2)"),
    # pg_restore --disable-triggers
    (
        "ALTER TABLE votes DISABLE TRIGGER ALL",
        "INSERT INTO votes VALUES (2, 1), (2, 2), (2, 3)",
        "ALTER TABLE votes ENABLE TRIGGER ALL",
    ),
    (
        "ALTER TABLE votes DROP CONSTRAINT votes_story_id_fkey",
        "INSERT INTO votes VALUES (3, 1)",
        "ALTER TABLE votes ADD CONSTRAINT votes_story_id_fkey FOREIGN KEY (story_id) REFERENCES stories NOT VALID",
        "UPDATE pg_constraint SET convalidated = true WHERE conname = 'votes_story_id_fkey'",
    ),
)


def is_right(service: RunningService, database: Database, view: str) -> bool:
    expected = database.query(VIEWS[view].replace(":author", "'elena'"))
    return [tuple(row.values()) for row in service.rows(view, author="elena")] == expected


def test_a_new_row_may_have_children_already(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, author text, title text)",
        "CREATE TABLE votes (story_id int REFERENCES stories, voter int, PRIMARY KEY (story_id, voter))",
        "INSERT INTO stories VALUES (9, 'elena', 'the first')",
        "INSERT INTO votes VALUES (9, 1)",
    )
    for load in LOADS:
        database.execute(*load)
    with running_service(tmp_path / "service", database.url, VIEWS, cdc={"set_replica_identity": True}) as service:
        assert all(is_right(service, database, view) for view in VIEWS)
        database.execute("INSERT INTO stories SELECT i, 'elena', 'story ' || i FROM generate_series(1, 3) i")
        until(lambda: len(service.rows("page", author="elena")) == 4)
        assert all(is_right(service, database, view) for view in VIEWS)
        database.execute("INSERT INTO votes VALUES (2, 9), (9, 9)", "INSERT INTO stories VALUES (4, 'elena', 'last')")
        until(lambda: len(service.rows("page", author="elena")) == 5)
        assert all(is_right(service, database, view) for view in VIEWS)
        assert service.stats()["counters"]["engine_failures"] == 0
