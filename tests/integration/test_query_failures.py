"""A query that fails on its data says so: one code in all ways of answering, and never after the data is repaired."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until

#: Of an answer: status, code, whether it may be retried, whether it says when, detail.
Said = tuple[int, str | None, bool | None, bool, str]


@dataclass(frozen=True, slots=True)
class Cause:
    """A column of ``t`` that cannot be computed for group 1 once `poison` ran, and what the database says then."""

    column: str
    poison: str
    message: str


REPAIR = "UPDATE t SET n = 5, b = 1, s = '5' WHERE g = 1"
CAUSES = {
    "division": Cause("sum(10 / n)", "UPDATE t SET n = 0 WHERE g = 1", "division by zero"),
    "overflow": Cause("max(n + 1)", "UPDATE t SET n = 2147483647 WHERE g = 1", "integer out of range"),
    "sum": Cause("sum(b)::bigint", "UPDATE t SET b = 9223372036854775807 WHERE g = 1", "bigint out of range"),
    "key": Cause("json_object_agg(s, n)", "UPDATE t SET s = NULL WHERE g = 1", "null"),
    "syntax": Cause("max(s::int)", "UPDATE t SET s = 'x' WHERE g = 1", "invalid input syntax for type integer"),
    "rows": Cause(
        "(SELECT max(t.n) FROM u WHERE u.n <= max(t.n))", "UPDATE t SET n = 9 WHERE g = 1", "more than one row"
    ),
    "raised": Cause("max(checked(n))", "UPDATE t SET n = 0 WHERE g = 1", "this is not a price"),
}
MARIA_CAUSES = {
    "overflow": Cause("max(b + 1)", "UPDATE t SET b = 9223372036854775807 WHERE g = 1", "BIGINT value is out of range"),
    "exp": Cause("max(exp(n))", "UPDATE t SET n = 1000 WHERE g = 1", "DOUBLE value is out of range"),
    "rows": Cause("(SELECT u.n FROM u WHERE u.n <= max(t.n))", "UPDATE t SET n = 9 WHERE g = 1", "more than 1 row"),
    "raised": Cause("max(checked(n))", "UPDATE t SET n = 0 WHERE g = 1", "this is not a price"),
}
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, g int NOT NULL, n int, b bigint, s varchar(20))",
    "CREATE TABLE u (n int PRIMARY KEY)",
    "INSERT INTO t VALUES (1, 1, 5, 1, '5'), (2, 1, 5, 1, '6'), (3, 2, 5, 1, '7')",
    "INSERT INTO u VALUES (2), (7)",
)
WAYS: dict[str, dict[str, Any]] = {
    "partial": {},
    "full": {"materialization": "full"},
    "refresh": {"tier": "refresh"},
    "forward": {"on_miss": "forward"},
}


class Site:
    """A service over ``t``, and views of one cause."""

    def __init__(
        self, service: RunningService, cause: Cause, execute: Callable[[str], Any], version: Callable[[], str]
    ) -> None:
        self.cause = cause
        self.service = service
        self.execute = execute
        self.version = version

    def put(self) -> list[str]:
        """A view for each way in which the database lets it be kept; their names."""
        self.service.forget()
        names = []
        for way, options in WAYS.items():
            body = {"sql": sql(self.cause), "ttl": 0.1, **options}
            response = self.service.call("PUT", f"/v1/catalog/views/{way}", json=body)
            if response.status_code < 300:
                names.append(way)
            else:
                assert way in ("full", "refresh"), response.text
        for name in names:
            until(lambda name=name: self.service.view(name)["status"] == "ready")
        return names

    def expect(self, names: list[str], group: int, expected: Said) -> None:
        """Every way of asking answers so, with all that is committed; what expires, in a moment."""
        headers = {"Upquery-Min-Version": self.version(), "Prefer": "wait=20"}
        for name in names:
            view = f"{self.service.http}/v1/views/{name}"
            expires = self.service.view(name)["tier"] == "ttl"

            def read(view: str = view) -> Said:
                return said(HTTP.get(view, params={"g": group}, headers=headers), expected)

            def keys(view: str = view) -> Said:
                return said(HTTP.post(f"{view}/query", json={"keys": [{"g": group}]}, headers=headers), expected)

            def poll(view: str = view) -> Said:
                return said(HTTP.get(f"{view}/subscribe", params={"g": group, "live": "poll"}), expected)

            for way in (read, read, keys, poll):
                if expires or way is poll:
                    until(lambda way=way: way() == expected)
                assert way() == expected, (name, way.__name__)
        reads = [{"view": name, "params": {"g": group}} for name in names]
        batch = HTTP.post(f"{self.service.http}/v1/read", json={"reads": reads}, headers=headers)
        assert said(batch, expected) == expected
        # Other words than the views'.
        text = sql(self.cause).replace(":g", str(group)).replace("g, ", "g AS other, ")
        found = HTTP.post(f"{self.service.http}/v1/query", json={"sql": text}, headers=headers)
        assert said(found, expected) == expected


def sql(cause: Cause) -> str:
    return f"SELECT g, {cause.column} AS x FROM t WHERE g = :g GROUP BY g"


def said(answer: httpx.Response, expected: Said) -> Said:
    """The detail is cut down to what is expected of it."""
    problem = answer.json()
    detail = str(problem.get("detail", ""))
    return (
        answer.status_code,
        problem.get("code"),
        problem.get("retryable"),
        "retry-after" in answer.headers,
        expected[-1] if expected[-1] in detail else detail,
    )


def check(site: Site) -> None:
    """Reads before, while and after the data makes the query fail."""
    names = site.put()
    with_rows = (200, None, None, False, "")
    failing = (422, "query_failed", False, False, site.cause.message)
    for group in (1, 2):
        site.expect(names, group, with_rows)
    site.execute(site.cause.poison)
    site.expect(names, 1, failing)
    site.expect([name for name in names if name != "full"], 2, with_rows)
    site.execute(REPAIR)
    site.expect(names, 1, with_rows)
    until(lambda: {site.service.view(name)["status"] for name in names} == {"ready"})


@pytest.fixture(scope="module")
def postgres_service(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    directory = tmp_path_factory.mktemp("failures") / "service"
    settings = {"cdc": {"set_replica_identity": True}, "adhoc": {"enabled": True, "install_after": 0}}
    with running_service(directory, module_database.url, **settings) as running:
        yield running


@pytest.mark.postgres
@pytest.mark.parametrize("name", CAUSES)
def test_postgres(postgres_service: RunningService, module_database: Database, name: str) -> None:
    module_database.clear()
    module_database.execute(
        *TABLES,
        "CREATE FUNCTION checked(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN"
        " IF n = 0 THEN RAISE EXCEPTION 'this is not a price'; END IF; RETURN n; END $$",
    )

    def version() -> str:
        ((position,),) = module_database.query("SELECT pg_current_wal_insert_lsn()::text")
        return str(position)

    check(Site(postgres_service, CAUSES[name], module_database.execute, version))


@pytest.mark.postgres
def test_text_that_is_no_value_of_a_parameter(postgres_service: RunningService, module_database: Database) -> None:
    module_database.clear()
    module_database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, at inet, during int4range, mac macaddr, bits bit(3), spot point)",
        "INSERT INTO t VALUES (1, '10.0.0.1', '[1,5)', '08:00:2b:01:02:03', '101', '(1,2)')",
    )
    postgres_service.forget()
    for column, value in {"at": "10.0.0.1", "during": "[1,5)", "mac": "08:00:2b:01:02:03", "bits": "101"}.items():
        for way, options in WAYS.items():
            if way == "full":
                continue
            body = {"sql": f"SELECT id FROM t WHERE {column} = :given", **options}
            name = f"{column}_{way}"
            assert postgres_service.call("PUT", f"/v1/catalog/views/{name}", json=body).status_code < 300
            for _ in range(2):
                assert postgres_service.rows(name, given=value) == [{"id": 1}]
                wrong = postgres_service.read(name, given="[x")
                assert (wrong.status_code, wrong.json()["code"]) == (422, "parameter_type"), wrong.text


@pytest.mark.mariadb
def test_mariadb(mariadb: MariaDatabase, tmp_path: Path) -> None:
    mariadb.execute(
        "CREATE FUNCTION checked(n int) RETURNS int READS SQL DATA BEGIN IF n = 0 THEN"
        " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'this is not a price'; END IF; RETURN n; END"
    )

    def version() -> str:
        return str(mariadb.query("SELECT @@GLOBAL.gtid_binlog_pos")[0][0])

    with running_service(tmp_path / "service", mariadb.url, adhoc={"enabled": True, "install_after": 0}) as running:
        for cause in MARIA_CAUSES.values():
            running.forget()
            mariadb.execute("DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS u", *TABLES)
            check(Site(running, cause, mariadb.execute, version))
