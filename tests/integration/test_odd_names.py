"""Tables and columns whose names, or lack of columns, SQL treats in a way of its own."""

from pathlib import Path

import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import running_service

LONG = "é" * 31 + "xy" + "é" * 5
VIEWS = {
    "reserved": 'SELECT id, "order" FROM "user"."select" WHERE id = :id',
    "whole": 'SELECT count(*) AS n FROM "user"."select"',
    # No plan keeps a variance of floats.
    "refreshed": 'SELECT var_pop("order"::float8) > 0 AS spread, max("order") AS most FROM "user"."select"'
    " WHERE id = :id",
    "without_columns": "SELECT count(*) AS n FROM zero",
    "long_alias": f'SELECT id, note AS "{LONG}" FROM notes WHERE id = :id',
    "long_alias_inside": f'SELECT max(s."{LONG}") AS note FROM (SELECT id, note AS "{LONG}z" FROM notes) s'
    " WHERE s.id = :id",
    "long_column": f'SELECT "{LONG}", var_pop(id::float8) > 0 AS spread FROM long WHERE id = :id GROUP BY "{LONG}"',
}


@pytest.mark.postgres
def test_postgres(database: Database, tmp_path: Path) -> None:
    database.execute(
        'CREATE SCHEMA "user"',
        'CREATE TABLE "user"."select" (id int PRIMARY KEY, "order" int)',
        'INSERT INTO "user"."select" VALUES (1, 10)',
        "CREATE TABLE zero ()",
        "INSERT INTO zero DEFAULT VALUES",
        "CREATE TABLE notes (id int PRIMARY KEY, note text)",
        "INSERT INTO notes VALUES (1, 'first')",
        f'CREATE TABLE long (id int PRIMARY KEY, "{LONG}" text)',
        "INSERT INTO long VALUES (1, 'first')",
    )
    with running_service(tmp_path / "service", database.url, VIEWS, cdc={"set_replica_identity": True}) as service:

        def compare() -> None:
            ((position,),) = database.query("SELECT pg_current_wal_insert_lsn()::text")
            headers = {"Upquery-Min-Version": position, "Prefer": "wait=20"}
            for name, sql in VIEWS.items():
                given = {"id": 1} if ":id" in sql else {}
                for _ in range(2):
                    answer = service.read(name, headers=headers, **given)
                    assert answer.status_code == 200, (name, answer.text)
                    ((expected,),) = database.query(f"SELECT row_to_json(q) FROM ({sql.replace(':id', '1')}) q")
                    assert answer.json()["rows"] == [expected], name

        compare()
        database.execute(
            'UPDATE "user"."select" SET "order" = 11',
            'INSERT INTO "user"."select" VALUES (2, 20)',
            "INSERT INTO zero DEFAULT VALUES",
            "UPDATE notes SET note = 'second'",
            f"UPDATE long SET \"{LONG}\" = 'second'",
        )
        compare()


@pytest.mark.mariadb
def test_mariadb(mariadb: MariaDatabase, tmp_path: Path) -> None:
    mariadb.execute(
        "CREATE DATABASE `order`",
        "CREATE TABLE `order`.`select` (id int PRIMARY KEY, n int)",
        "INSERT INTO `order`.`select` VALUES (1, 10)",
    )
    views = {
        "keyed": "SELECT id, n FROM `order`.`select` WHERE id = :id",
        "whole": "SELECT COUNT(*) AS c FROM `order`.`select`",
        "again": "SELECT n, RAND() < 2 AS yes FROM `order`.`select`",
    }
    try:
        with running_service(tmp_path / "service", mariadb.url, views) as service:
            assert service.rows("keyed", id=1) == [{"id": 1, "n": 10}]
            assert service.rows("whole") == [{"c": 1}]
            assert [row["n"] for row in service.rows("again")] == [10]
    finally:
        mariadb.execute("DROP DATABASE `order`")
