"""Migrations under load: while a table is altered, its views are read 200 times a second and a writer writes to it.

Every answer is a 200 and no version goes back, except where a view's own column is gone: that is an error with the
column's name, which can be asked again while the view is planned anew. Views that do not read what was altered are
answered from memory throughout.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest

from service.engine.databases.postgres.schema_marks import MARKING
from service.ground.version import parse_version
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import LIMIT_S, RunningService, running_service, until

KEYS = ("1", "2")
OK = 200
READERS = 2
READS_PER_S = 200
#: Passes of each reader over all views when a migration is over.
PASSES_AFTER = 5
COLUMNS = "(id int PRIMARY KEY, name varchar(40) NOT NULL, n int NOT NULL, kind varchar(9), small int, extra text)"
ROWS = "(1, 'a', 0, '1', 1, 'x'), (2, 'b', 0, '1', 2, 'x'), (3, 'c', 0, '2', 3, 'x')"
VIEWS = {
    "names": "SELECT id, name FROM {t} WHERE id = :id",
    "smalls": "SELECT id, small FROM {t} WHERE id = :id",
    "counts": "SELECT kind, count(name) AS c FROM {t} WHERE kind = :id GROUP BY kind",
    "numbers": "SELECT id, n FROM {t} WHERE id = :id",
    "sums": "SELECT kind, sum(n) AS n FROM {t} WHERE kind = :id GROUP BY kind",
    "rows": "SELECT * FROM {t} WHERE id = :id",
    "all": "SELECT id, small FROM {t} ORDER BY id",
}


@dataclass(frozen=True)
class Migration:
    """Statements, each a transaction; `affected`: views that are planned anew; `losing`: those whose column is gone
    until they are; `broken`: those that stay without it."""

    name: str
    statements: tuple[str, ...]
    affected: frozenset[str] = frozenset()
    losing: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()


def migration(name: str, *statements: str, affected: str = "", losing: str = "", broken: str = "") -> Migration:
    return Migration(
        name, statements, frozenset(affected.split()), frozenset(losing.split()), frozenset(broken.split())
    )


EVERY = " ".join(VIEWS)
SWAP = (
    "BEGIN; CREATE TABLE {t}_next (LIKE {t} INCLUDING ALL); {identity} INSERT INTO {t}_next SELECT * FROM {t};"
    " ALTER TABLE {t} RENAME TO {t}_old; ALTER TABLE {t}_next RENAME TO {t}; COMMIT"
)
FULL = "ALTER TABLE {t}_next REPLICA IDENTITY FULL;"
ON_POSTGRES = [
    migration("add a column", "ALTER TABLE {t} ADD COLUMN added int"),
    migration("add a column with values", "ALTER TABLE {t} ADD COLUMN added uuid DEFAULT gen_random_uuid()"),
    migration("create an index", "CREATE INDEX ON {t} (name)"),
    migration("drop an index", "CREATE INDEX {t}_i ON {t} (name)", "DROP INDEX {t}_i"),
    migration("int to bigint", "ALTER TABLE {t} ALTER small TYPE bigint", affected="smalls rows all"),
    migration("longer varchar", "ALTER TABLE {t} ALTER name TYPE varchar(80)"),
    migration("varchar to text", "ALTER TABLE {t} ALTER name TYPE text"),
    migration("drop a column", "ALTER TABLE {t} DROP COLUMN extra", affected="rows", losing="rows"),
    migration(
        "rename a column",
        "ALTER TABLE {t} RENAME COLUMN small TO tiny",
        affected="smalls rows all",
        losing="smalls rows all",
        broken="smalls all",
    ),
    migration(
        "rename back",
        "ALTER TABLE {t} RENAME COLUMN small TO tiny",
        "ALTER TABLE {t} RENAME COLUMN tiny TO small",
        affected="smalls rows all",
        losing="smalls rows all",
    ),
    migration("drop not null", "ALTER TABLE {t} ALTER name DROP NOT NULL", affected="counts"),
    migration(
        "drop not null and rewrite",
        "ALTER TABLE {t} ALTER name DROP NOT NULL, ALTER small TYPE int USING small + 1",
        affected="smalls rows names counts all",
    ),
    migration("set not null", "ALTER TABLE {t} ALTER kind SET NOT NULL"),
    migration("swap tables", SWAP.replace("{identity}", FULL), affected=EVERY),
]
#: Of tables that are followed by their primary key.
BY_KEY = [
    *ON_POSTGRES[:-1],
    migration("swap tables", SWAP.replace("{identity}", ""), affected=EVERY),
    migration("identity", "ALTER TABLE {t} REPLICA IDENTITY FULL", affected=EVERY),
    migration(
        "identity and back",
        "ALTER TABLE {t} REPLICA IDENTITY FULL",
        "ALTER TABLE {t} REPLICA IDENTITY DEFAULT",
        affected=EVERY,
    ),
]
ON_MARIADB = [
    migration("add a column", "ALTER TABLE {t} ADD COLUMN added int DEFAULT 5"),
    migration("create an index", "CREATE INDEX i ON {t} (name)"),
    migration("int to bigint", "ALTER TABLE {t} MODIFY small bigint", affected=EVERY),
    migration("longer varchar", "ALTER TABLE {t} MODIFY name varchar(80) NOT NULL", affected=EVERY),
    migration("drop a column", "ALTER TABLE {t} DROP COLUMN extra", affected=EVERY, losing="rows"),
    migration(
        "rename a column",
        "ALTER TABLE {t} CHANGE small tiny int",
        affected=EVERY,
        losing="smalls rows all",
        broken="smalls all",
    ),
    migration("drop not null", "ALTER TABLE {t} MODIFY name varchar(40) NULL", affected=EVERY),
    migration(
        "swap tables",
        "CREATE TABLE {t}_next LIKE {t}",
        "INSERT INTO {t}_next SELECT * FROM {t}",
        "RENAME TABLE {t} TO {t}_old, {t}_next TO {t}",
        affected=EVERY,
    ),
]


def parameters_of(view: str, key: str) -> dict[str, str]:
    """Returns the parameters of a view; ``all`` is fully materialized and has none."""
    return {} if view == "all" else {"id": key}


class Reader(threading.Thread):
    """Reads all views of a table in turn until `stop`, its share of `READS_PER_S`; a slow answer is made up for.

    *State*: `passes`, passes over all views so far; `reads`, answers to all; `wrong`, what must not be.
    """

    def __init__(self, service: RunningService, table: str, change: Migration) -> None:
        super().__init__()
        self.passes = 0
        self.reads = 0
        self.wrong: list[str] = []
        self._ended = threading.Event()
        self._service = service
        self._table = table
        self._change = change
        self._newest: dict[str, tuple[int, int]] = {}

    def run(self) -> None:
        began_s = time.monotonic()
        # A client of httpx takes more time for a read than the service.
        with closing(HTTPConnection(urlsplit(self._service.http).netloc, timeout=LIMIT_S)) as http:
            while not self._ended.is_set():
                for view in VIEWS:
                    for key in KEYS:
                        self._read(http, view, key)
                        self.reads += 1
                        due_s = began_s + self.reads * READERS / READS_PER_S
                        self._ended.wait(max(0.0, due_s - time.monotonic()))
                self.passes += 1

    def _read(self, http: HTTPConnection, view: str, key: str) -> None:
        http.request("GET", f"/v1/views/{view}_{self._table}?{urlencode(parameters_of(view, key))}")
        reply = http.getresponse()
        said = json.loads(reply.read())
        is_answer = reply.status == OK
        problem = self._check_answer(reply, said, view, key) if is_answer else self._check_problem(reply, said, view)
        if problem is not None:
            self.wrong.append(f"{self._change.name}: {view}: {problem}: {said} {reply.getheaders()}")

    def _check_answer(self, reply: HTTPResponse, said: dict[str, Any], view: str, key: str) -> str | None:
        hit = "; hit" in (reply.getheader("cache-status") or "")
        if not hit and view not in self._change.affected:
            return "not answered from memory"
        version = said["version"]
        before = self._newest.get(f"{view} {key}", (0, 0))
        position = before[0] if version is None else parse_version(version)
        n = max((int(row.get("n", 0)) for row in said["rows"]), default=0)
        self._newest[f"{view} {key}"] = position, n
        return None if (position, n) >= before and n >= before[1] else f"older than {before}"

    def _check_problem(self, reply: HTTPResponse, said: dict[str, Any], view: str) -> str | None:
        if view not in self._change.losing:
            return "refused"
        if said["code"] == "view_building":
            return None if said["retryable"] and reply.getheader("retry-after") else "not to be asked again"
        if view not in self._change.broken or said["code"] != "view_broken":
            return "refused for good"
        return None if "small" in said["detail"] and "Register" in said["hint"] else "does not say what to do"

    def stop(self) -> None:
        self._ended.set()
        self.join(LIMIT_S)


@dataclass
class Site:
    """A service with the views of one table for each migration."""

    service: RunningService
    #: Runs statements, each in a transaction.
    execute: Callable[..., None]
    #: The rows of a query, with %s for a parameter.
    query: Callable[..., list[tuple[Any, ...]]]
    #: Adds one to `n` in all rows of a table, again and again.
    write: Callable[[str, threading.Event], None]
    wrong: list[str] = field(default_factory=list)

    def migrate(self, table: str, change: Migration) -> None:
        """Runs a migration under the readers and a writer."""
        for view in VIEWS:
            for key in KEYS:
                until(lambda view=view, key=key: self.service.hits(f"{view}_{table}", **parameters_of(view, key)))
        readers = [Reader(self.service, table, change) for _ in range(READERS)]
        ended = threading.Event()
        writer = threading.Thread(target=self.write, args=(table, ended))
        for thread in (*readers, writer):
            thread.start()
        try:
            until(lambda: all(reader.passes for reader in readers))
            for statement in change.statements:
                self.execute(statement.format(t=table))
            beats = self._heartbeats()
            until(lambda: self._heartbeats() >= beats + 2)
            until(lambda: self._is_over(table, change))
            before = [reader.passes for reader in readers]
            until(lambda: all(r.passes >= n + PASSES_AFTER for r, n in zip(readers, before, strict=True)))
        finally:
            ended.set()
            writer.join(LIMIT_S)
            for reader in readers:
                reader.stop()
        self.wrong += [wrong for reader in readers for wrong in reader.wrong]
        for view in VIEWS.keys() - change.broken:
            for key in KEYS:
                until(lambda view=view, key=key: self._is_exact(view, table, key))

    def _heartbeats(self) -> int:
        return int(self.service.stats()["counters"]["heartbeats"])

    def _is_over(self, table: str, change: Migration) -> bool:
        """Returns whether each view is ready and has what is read of it, or is broken."""
        for view in VIEWS:
            name = f"{view}_{table}"
            status = self.service.view(name)["status"]
            if status != ("broken" if view in change.broken else "ready"):
                return False
            if status == "ready" and not all(self.service.hits(name, **parameters_of(view, key)) for key in KEYS):
                return False
        return True

    def _is_exact(self, view: str, table: str, key: str) -> bool:
        # A view with * has the columns of when it was planned.
        reply = self.service.read(f"{view}_{table}", **parameters_of(view, key))
        rows = reply.json()["rows"]
        names = ", ".join(rows[0])
        expected = self.query(
            f"SELECT {names} FROM ({VIEWS[view].format(t=table).replace(':id', '%s')}) q",
            *parameters_of(view, key).values(),
        )
        return [[_text(value) for value in row.values()] for row in rows] == [list(map(_text, row)) for row in expected]


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


@contextmanager
def site(
    directory: Path, database: Database | MariaDatabase, changes: list[Migration], **sections: Any
) -> Iterator[Site]:
    """All of these are to be migrated, a table each."""
    views = {}
    for number in range(len(changes)):
        table = f"t{number}"
        database.execute(f"CREATE TABLE {table} {COLUMNS}", f"INSERT INTO {table} VALUES {ROWS}")
        views |= {f"{view}_{table}": sql.format(t=table) for view, sql in VIEWS.items()}

    def write(table: str, ended: threading.Event) -> None:
        connecting = (
            psycopg.connect(database.url, autocommit=True) if isinstance(database, Database) else database.connect()
        )
        with closing(connecting) as connection, closing(connection.cursor()) as cursor:
            while not ended.wait(0.02):
                cursor.execute(f"UPDATE {table} SET n = n + 1")

    with running_service(directory, database.url, views, **sections) as service:
        yield Site(service, database.execute, database.query, write)


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("marked", "full", "changes"),
    [(True, True, ON_POSTGRES), (False, True, ON_POSTGRES), (True, False, BY_KEY)],
    ids=["marked", "unmarked", "by key"],
)
def test_migrations(database: Database, tmp_path: Path, *, marked: bool, full: bool, changes: list[Migration]) -> None:
    database.execute(*MARKING if marked else ())
    cdc = {"set_replica_identity": full, "schema_check_s": 5}
    with site(tmp_path / "service", database, changes, cdc=cdc) as place:
        for number, change in enumerate(changes):
            place.migrate(f"t{number}", change)
        assert place.wrong == []
        assert place.service.stats()["counters"]["engine_failures"] == 0


@pytest.mark.mariadb
def test_migrations_of_mariadb(mariadb: MariaDatabase, tmp_path: Path) -> None:
    with site(tmp_path / "service", mariadb, ON_MARIADB) as place:
        for number, change in enumerate(ON_MARIADB):
            place.migrate(f"t{number}", change)
        assert place.wrong == []
        assert place.service.stats()["counters"]["engine_failures"] == 0


@pytest.mark.postgres
def test_a_broken_view_is_repaired_by_undoing_the_change(database: Database, tmp_path: Path) -> None:
    """And by registering it anew."""
    cdc = {"set_replica_identity": True}
    with site(tmp_path / "service", database, ON_POSTGRES[:1], cdc=cdc) as place:
        service = place.service
        until(lambda: service.hits("smalls_t0", id=1))
        for repaired in (True, False):
            place.execute("ALTER TABLE t0 RENAME small TO tiny")
            until(lambda: service.view("smalls_t0")["status"] == "broken")
            refused = service.read("smalls_t0", id=1)
            said = refused.json()
            assert (refused.status_code, said["code"], said["retryable"]) == (503, "view_broken", False)
            assert 'no column "small"' in said["detail"]
            assert "retry-after" not in refused.headers
            broken = {"smalls_t0", "all_t0"}
            until(lambda broken=broken: service.call("GET", "/readyz").json()["broken"].keys() == broken)
            if repaired:
                place.execute("ALTER TABLE t0 RENAME tiny TO small")
                until(lambda: service.view("smalls_t0")["status"] == "ready")
                until(lambda: service.hits("smalls_t0", id=1))
        place.execute("UPDATE t0 SET tiny = 7")
        until(lambda: service.read("rows_t0", id=1).json().get("rows", [{}])[0].get("tiny") == 7)


@pytest.mark.postgres
def test_a_swapped_table_that_cannot_be_followed_is_answered_by_the_database(
    database: Database, tmp_path: Path
) -> None:
    """Until it can be: views find it by its name."""
    with site(tmp_path / "service", database, ON_POSTGRES[:1], cdc={"set_replica_identity": False}) as place:
        service = place.service
        place.execute("ALTER TABLE t0 REPLICA IDENTITY FULL")
        until(lambda: service.view("rows_t0")["status"] == "ready")
        until(lambda: service.hits("rows_t0", id=1))
        place.execute(SWAP.format(t="t0", identity="").replace("INCLUDING ALL", "INCLUDING ALL EXCLUDING INDEXES"))
        until(lambda: service.view("rows_t0")["status"] == "outdated")
        for n in (5, 6):
            place.execute(
                f"UPDATE t0_old SET n = 99; ALTER TABLE t0 REPLICA IDENTITY FULL; UPDATE t0 SET n = {n}; "
                "ALTER TABLE t0 REPLICA IDENTITY DEFAULT"
            )
            answer = service.read("rows_t0", id=1).json()
            assert (answer["rows"][0]["n"], answer["version"]) == (n, None)
        until(lambda: "REPLICA IDENTITY FULL" in service.call("GET", "/readyz").json()["outdated"]["rows_t0"])
        place.execute("ALTER TABLE t0 REPLICA IDENTITY FULL")
        until(lambda: service.view("rows_t0")["status"] == "ready")
        until(lambda: service.hits("rows_t0", id=1))
        place.execute("UPDATE t0 SET n = 7")
        until(lambda: service.rows("rows_t0", id=1)[0]["n"] == 7)


@pytest.mark.postgres
def test_one_table_is_altered_again_and_again(database: Database, tmp_path: Path) -> None:
    """Its rows grow by what is altered; a view that reads none of it is answered from memory throughout."""
    change = migration(
        "many",
        *(
            statement
            for n in range(4)
            for statement in (
                f"ALTER TABLE {{t}} ALTER small TYPE {'bigint' if n % 2 else 'numeric'}",
                f"ALTER TABLE {{t}} ADD COLUMN added{n} int DEFAULT {n}",
                f"UPDATE {{t}} SET small = small + 1, extra = '{n}'",
                "ALTER TABLE {t} RENAME COLUMN extra TO other",
                "ALTER TABLE {t} RENAME COLUMN other TO extra",
            )
        ),
        affected="smalls rows all",
        losing="rows",
    )
    database.execute(*MARKING)
    with site(tmp_path / "service", database, [change], cdc={"set_replica_identity": True}) as place:
        place.migrate("t0", change)
        assert place.wrong == []
        assert place.service.put("late", "SELECT id, added3, small FROM t0 WHERE id = :id").is_success
        place.execute("UPDATE t0 SET added3 = 9, small = 3")
        until(lambda: place.service.rows("late", id=1) == [{"id": 1, "added3": 9, "small": 3}])
        assert place.service.stats()["counters"]["engine_failures"] == 0


@pytest.mark.postgres
def test_a_transaction_that_stays_open_delays_no_read(database: Database, tmp_path: Path) -> None:
    """Rows of the altered table are not stored before it has ended: until then the database answers."""
    database.execute("CREATE TABLE others (id int)")
    with (
        site(tmp_path / "service", database, ON_POSTGRES[:1], cdc={"set_replica_identity": True}) as place,
        psycopg.connect(database.url) as long,
    ):
        service = place.service
        until(lambda: service.hits("smalls_t0", id=1) and service.hits("names_t0", id=1))
        long.execute("INSERT INTO others VALUES (1)")
        before = service.stats()["counters"]["reads_failed"]
        place.execute("ALTER TABLE t0 ALTER small TYPE bigint", "UPDATE t0 SET small = 5000000000 WHERE id = 1")
        until(lambda: service.view("smalls_t0")["status"] == "ready")
        for _ in range(3):
            assert service.rows("smalls_t0", id=1) == [{"id": 1, "small": 5000000000}]
            assert service.hits("names_t0", id=1)
            assert not service.hits("smalls_t0", id=2)
        assert service.stats()["counters"]["reads_failed"] == before
        long.commit()
        until(lambda: service.hits("smalls_t0", id=1))
