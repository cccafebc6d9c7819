"""All forms of statements that define something, on MariaDB under reads: every answer is right at its version, and has
what was there at the version that it was asked for, from the statement's own place in the log on."""

import json
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from cdc.mysql.position import position_of
from service.ground.version import parse_version
from tests.fixtures.mariadb import MariaDatabase, MariaDbServer, start_mariadb
from tests.fixtures.service import LIMIT_S, RunningService, running_service, until
from tests.integration.mariadb_statements import CASES, Case

if TYPE_CHECKING:
    import pymysql

pytestmark = pytest.mark.mariadb

#: Answers that are none: being planned anew, broken with a reason, or refused by the database.
NO_ANSWER = (503, 504)
TOKEN = "Upquery-Min-Version"
#: An answer: its rows; None is an error.
Rows = list[list[Any]] | None
Read = tuple[str, int | str]


@dataclass
class Site:
    """A service over a database, and all that is known of what its answers are at which place in the log."""

    service: RunningService
    #: What the statements are run on, and what the answers are compared with.
    connection: "pymysql.Connection[Any]"
    beside: "pymysql.Connection[Any]"
    client: HTTPConnection
    other_client: HTTPConnection
    sql: dict[str, str] = field(default_factory=dict)
    places: list[int] = field(default_factory=list)
    answers: dict[Read, list[Rows]] = field(default_factory=dict)
    #: What readers were answered: the read, how many statements had been noted, the version and the rows.
    heard: list[tuple[Read, int, int | None, Rows]] = field(default_factory=list)

    @contextmanager
    def made(self, case: Case) -> Iterator[list[Read]]:
        """A form's tables and views; what is read of them, all of which is answered once."""
        self.sql = {name: sql for name, (sql, _) in case.views().items()}
        reads = [(view, key) for view, (_, keys) in case.views().items() for key in keys]
        self.execute(*case.setup())
        for view, sql in self.sql.items():
            self.service.put(view, sql).raise_for_status()
        for read in reads:
            until(lambda read=read: self.service.read(read[0], k=read[1]).status_code == 200)
        yield reads
        for view in self.sql:
            self.service.call("DELETE", f"/v1/catalog/views/{view}").raise_for_status()
        self.execute(*case.teardown())

    def execute(self, *statements: str) -> None:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def run(self, case: Case, reads: list[Read]) -> list[str]:
        """Runs a form's statements, and reads after each; what is wrong."""
        self.note(reads)
        wrong: list[str] = []
        for statement in case.statements():
            with self.reading(reads):
                self.execute(statement)
            token = self.note(reads)
            for read in reads:
                found = self.ask(self.client, read, token)
                if found is not None and found[1] != self.answers[read][-1] and not self.expires(read):
                    wrong.append(f"{statement}: {read}: {found[1]}, not {self.answers[read][-1]}")
        for read, noted, version, rows in self.heard:
            expected = self.answers[read][noted - 1 : noted + 1]
            if version is not None:
                expected = [self.answers[read][bisect_right(self.places, version) - 1]]
            if rows not in expected and not ((version is None or version >= self.places[1]) and self.expires(read)):
                wrong.append(f"{case.form.statements}: {read} at {version}: {rows}, not {expected}")
        self.places, self.answers, self.heard = [], {}, []
        return wrong

    def expires(self, read: Read) -> bool:
        """Return whether a table is one by now that cannot be followed: answers are then as old as their ttl."""
        return bool(self.service.view(read[0])["tier"] == "ttl")

    def note(self, reads: list[Read]) -> str:
        """The database's answers as of now; the place of its log as a token."""
        with self.beside.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            file, offset, *_ = cursor.fetchone() or ()
            for read in reads:
                self.answers.setdefault(read, []).append(self.expected(cursor, read))
            self.places.append(position_of(file, offset))
        return f"{file}:{offset}"

    def expected(self, cursor: "pymysql.cursors.Cursor", read: Read) -> Rows:
        """The database's own answer."""
        import pymysql

        view, key = read
        try:
            cursor.execute(self.sql[view].replace(":k", "%s"), [key])
        except pymysql.err.MySQLError:
            return None
        return sorted(map(list, cursor.fetchall()), key=repr)

    def ask(self, client: HTTPConnection, read: Read, token: str | None = None) -> tuple[int | None, Rows] | None:
        """The version and the rows of the service's answer; None if it has none.

        An answer of the database itself, while the view is planned again, has no version."""
        client.request("GET", f"/v1/views/{read[0]}?k={read[1]}", headers={TOKEN: token} if token else {})
        response = client.getresponse()
        text = response.read()
        # An enum may have lost a label that is asked for: it is none of its values then. The database may have no
        # answer either, as of a table without its tablespace.
        if response.status in NO_ANSWER or b":parameter_type" in text or b":query_failed" in text:
            return None
        assert response.status == 200, text
        body = json.loads(text)
        rows = sorted((list(row.values()) for row in body["rows"]), key=repr)
        return version_of(body), rows

    @contextmanager
    def reading(self, reads: list[Read]) -> Iterator[None]:
        """Reads while the block runs, which is one statement."""
        done, noted = threading.Event(), len(self.places)

        def read_on() -> None:
            for read in cycle(reads):
                found = self.ask(self.other_client, read)
                if found is not None:
                    self.heard.append((read, noted, *found))
                if done.is_set():
                    return

        reader = threading.Thread(target=read_on)
        reader.start()
        try:
            yield
        finally:
            done.set()
            reader.join()


def version_of(body: dict[str, Any]) -> int | None:
    """The version of an answer, if it has one."""
    return None if body["version"] is None else parse_version(body["version"])


def http(service: RunningService) -> HTTPConnection:
    """A connection to the service."""
    return HTTPConnection(urlsplit(service.http).netloc, timeout=LIMIT_S)


@contextmanager
def site(tmp_path: Path, server: MariaDbServer, check_s: float) -> Iterator[Site]:
    """A service without views, and an empty database."""
    with closing(server.connect(init_command="SET lock_wait_timeout = 20")) as connection:
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE forms")
            cursor.execute("USE forms")
        with (
            running_service(tmp_path / "service", server.url("forms"), cdc={"schema_check_s": check_s}) as service,
            closing(server.connect("forms")) as beside,
            closing(http(service)) as one,
            closing(http(service)) as two,
        ):
            yield Site(service, connection, beside, one, two)


@pytest.mark.parametrize(
    ("metadata", "check_s", "cases"),
    [("FULL", 3600.0, CASES), ("NO_LOG", 0.05, [case for case in CASES if "few" in case.form.views])],
)
def test_answers_after_a_statement(tmp_path: Path, metadata: str, check_s: float, cases: Sequence[Case]) -> None:
    """The log alone tells the change; or it does not name columns, and the catalog is read, too."""
    server = start_mariadb({"binlog_row_metadata": metadata})
    try:
        with site(tmp_path, server, check_s) as found:
            wrong: list[str] = []
            for case in cases:
                with found.made(case) as reads:
                    wrong += found.run(case, reads)
                    if not case.number and metadata == "FULL":
                        assert {found.service.view(view)["status"] for view in case.views()} == {"ready"}
            assert wrong == []
            assert found.service.stats()["counters"]["engine_failures"] == 0
    finally:
        server.discard()


VIEWS = {
    "row": "SELECT id, name FROM items WHERE id = :id",
    "again": "SELECT id, SOUNDEX(name) AS name FROM items WHERE id = :id",
}
WAITING = "SELECT 1 FROM information_schema.processlist WHERE state = 'Waiting for table metadata lock'"


@pytest.mark.parametrize(
    "statement",
    [
        "RENAME TABLE items TO gone, others TO items",
        "ALTER TABLE parted EXCHANGE PARTITION p WITH TABLE items",
    ],
)
def test_a_table_that_is_swapped_behind_a_snapshot(mariadb: MariaDatabase, tmp_path: Path, statement: str) -> None:
    """Rows of a table that replaced another after the snapshot are no answer at the snapshot's version."""
    columns = "(id int PRIMARY KEY, name varchar(9))"
    mariadb.execute(
        *(f"CREATE TABLE {table} {columns}" for table in ("items", "others")),
        f"CREATE TABLE parted {columns} PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))",
        "INSERT INTO items VALUES (1, 'old')",
        "INSERT INTO others VALUES (1, 'new')",
        "INSERT INTO parted VALUES (1, 'new')",
    )
    with (
        running_service(tmp_path / "service", mariadb.url, VIEWS, cdc={"schema_check_s": 3600.0}) as service,
        closing(mariadb.connect(autocommit=False)) as holding,
        ThreadPoolExecutor(5) as threads,
    ):
        with holding.cursor() as cursor:
            cursor.execute("SELECT * FROM items")
        swapping = threads.submit(mariadb.execute, statement)
        until(lambda: len(mariadb.query(WAITING)) == 1)
        reads = [threads.submit(service.read, name, id=1) for name in VIEWS]
        until(lambda: len(mariadb.query(WAITING)) >= 3)
        holding.commit()
        swapping.result()
        ((file, offset, *_),) = mariadb.query("SHOW MASTER STATUS")
        for reading in reads:
            response = reading.result()
            if response.status_code not in NO_ANSWER:
                version = version_of(response.json())
                assert version is None or version >= position_of(file, offset), response.json()
                assert [row["name"] for row in response.json()["rows"]] in (["new"], ["N000"])
