"""A view that is put right after its table was made answers from then on: what it was planned with is nothing new."""

from pathlib import Path

import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import running_service, until

#: The table that goes shows that the catalog was looked at since.
OLD, NEW = "CREATE TABLE old (id int PRIMARY KEY)", "CREATE TABLE fresh (id int PRIMARY KEY, n int)"
SQL = "SELECT id, n FROM fresh WHERE id = :id"


@pytest.mark.postgres
def test_postgres(database: Database, tmp_path: Path) -> None:
    check(database, tmp_path)


@pytest.mark.mariadb
def test_mariadb(mariadb: MariaDatabase, tmp_path: Path) -> None:
    check(mariadb, tmp_path)


def check(database: Database | MariaDatabase, directory: Path) -> None:
    """Puts a view of a table that no look has seen."""
    database.execute(OLD)
    old = {"old": "SELECT id FROM old WHERE id = :id"}
    with running_service(directory / "service", database.url, old, cdc={"set_replica_identity": True}) as service:
        service.rows("old", id=1)
        database.execute(NEW, "INSERT INTO fresh VALUES (1, 10)")
        views = {"kept": {}, "refreshed": {"tier": "refresh"}}
        for name, options in views.items():
            put = service.call("PUT", f"/v1/catalog/views/{name}", json={"sql": SQL, **options})
            assert put.status_code == 201, put.text
            assert service.rows(name, id=1) == [{"id": 1, "n": 10}]
        database.execute("DROP TABLE old")
        until(lambda: service.view("old")["status"] == "broken")
        for name in views:
            assert service.hits(name, id=1)
        assert "view is repaired" not in service.log.read_text()
