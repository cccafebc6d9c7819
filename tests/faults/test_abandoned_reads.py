"""Reads whose readers have gone: their statements are ended at the server, and hold nothing."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import psycopg
import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service, until

#: How long a miss may wait. A statement may take much longer.
TIMEOUT_S, STATEMENT_TIMEOUT_S = 1.0, 60.0
#: How long the patient ones wait.
PATIENCE_S = 28.0
#: Of those who come and go.
READERS = 6
#: Until a statement has ended: on an idle machine about 1.5 s after its last reader has gone.
GONE_S = 15.0
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "partial": ("SELECT id, n FROM votes WHERE story = :story", {}),
    "counted": ("SELECT min(id) AS id, max(n) AS n FROM votes WHERE story = :story GROUP BY story", {}),
    "forwarded": ("SELECT id, n FROM votes WHERE story = :story", {"on_miss": "forward"}),
    "ordered": ("SELECT id, n FROM votes WHERE story = :story ORDER BY n DESC, id", {}),
    "refreshed": ("SELECT id, n, {random}() AS chance FROM votes WHERE story = :story", {}),
}
TABLES = (
    "CREATE TABLE votes (id int PRIMARY KEY, story int NOT NULL, n int NOT NULL)",
    "INSERT INTO votes VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0), (5, 5, 0)",
)
SQL = "SELECT v.id, v.n FROM votes v WHERE v.story = 3 AND v.id < 100"
WAYS = (*VIEWS, "query")
OURS_WAITING = "application_name = 'upquery' AND wait_event_type = 'Lock'"


@dataclass(frozen=True, slots=True)
class Site:
    """A service, whose table can be locked."""

    service: RunningService
    #: The function of random numbers.
    random: str
    locked: Callable[[], AbstractContextManager[None]]
    #: Statements of the service that wait for the lock.
    waiting: Callable[[], int]
    write: Callable[[str], None]

    def ask(self, way: str, story: int, wait_s: float = 0.0, *, n: int | None = None) -> int:
        """The status of an answer, whose row is checked; 0 if it has another `n`."""
        headers = {"Prefer": f"wait={wait_s:g}"}
        if way == "query":
            story = 3
            answer = HTTP.post(f"{self.service.http}/v1/query", json={"sql": SQL}, headers=headers)
        else:
            answer = self.service.read(way, headers, story=story)
        if answer.status_code == 200:
            (row,) = answer.json()["rows"]
            assert row["id"] == story, (way, row)
            return 200 if n in (None, row["n"]) else 0
        return answer.status_code

    def leave(self, way: str, story: int, others: int = 0) -> None:
        """Returns when readers have left a statement of this story that waits, beside `others` that wait for longer."""

        def leaves() -> bool:
            """On a busy machine a reader may leave before its statement has begun."""
            with ThreadPoolExecutor(1) as pool:
                reader = pool.submit(self.ask, way, story)
                state = until(lambda: (self.waiting() > others and "waits") or (reader.done() and "has left"))
            assert reader.result() == 504
            return state == "waits"

        until(leaves)

    def abandoned(self) -> int:
        """Statements that were ended since nobody waited for them any more."""
        return int(self.service.stats()["counters"]["abandoned_statements"])

    def begin(self) -> None:
        """Views, nothing of which is in memory. What is read from a table is kept from when that joined the stream."""
        self.service.forget()
        for name, (sql, options) in VIEWS.items():
            body = {"sql": sql.format(random=self.random), **options}
            assert self.service.call("PUT", f"/v1/catalog/views/{name}", json=body).is_success
        until(lambda: self.service.hits("partial", story=5) and self.service.hits("forwarded", story=5))


@contextmanager
def postgres_site(database: Database, directory: Path) -> Iterator[Site]:
    """Over PostgreSQL."""
    database.execute(*TABLES)

    @contextmanager
    def locked() -> Iterator[None]:
        with psycopg.connect(database.url) as connection:
            connection.execute("LOCK TABLE votes")
            yield
            connection.rollback()

    waiting = f"SELECT count(*) FROM pg_stat_activity WHERE {OURS_WAITING}"
    with service_over(database.url, directory, cdc={"set_replica_identity": True, "schema_check_s": 60}) as service:
        yield Site(service, "random", locked, lambda: database.query(waiting)[0][0], database.execute)


@contextmanager
def mariadb_site(database: MariaDatabase, directory: Path) -> Iterator[Site]:
    """Over MariaDB."""
    database.execute(*TABLES)

    @contextmanager
    def locked() -> Iterator[None]:
        with database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("LOCK TABLES votes WRITE")
            yield
            cursor.execute("UNLOCK TABLES")

    which = f"db = '{database.name}' AND state LIKE 'Waiting for table%'"
    waiting = f"SELECT count(*) FROM information_schema.processlist WHERE {which}"
    with service_over(database.url, directory, cdc={"schema_check_s": 60}) as service:
        yield Site(service, "rand", locked, lambda: database.query(waiting)[0][0], database.execute)


@contextmanager
def service_over(url: str, directory: Path, **sections: Any) -> Iterator[RunningService]:
    """A service whose readers are far less patient than its statements."""
    settings: dict[str, Any] = {
        "http": {"read_timeout_s": TIMEOUT_S},
        "upstream": {"statement_timeout_s": STATEMENT_TIMEOUT_S},
        "adhoc": {"enabled": True, "install_after": 0},
    }
    with running_service(directory, url, **settings, **sections) as service:
        yield service


@pytest.fixture(scope="module")
def postgres(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with postgres_site(module_database, tmp_path_factory.mktemp("abandoned") / "service") as site:
        yield site


@pytest.fixture(scope="module")
def maria(module_mariadb: MariaDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with mariadb_site(module_mariadb, tmp_path_factory.mktemp("abandoned") / "service") as site:
        yield site


DATABASES = [
    pytest.param(name, marks=getattr(pytest.mark, mark))
    for name, mark in (("postgres", "postgres"), ("maria", "mariadb"))
]


@pytest.fixture(params=DATABASES)
def site(request: pytest.FixtureRequest) -> Site:
    """Over either database."""
    found: Site = request.getfixturevalue(request.param)
    found.begin()
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_statement_ends_after_its_reader(site: Site, way: str) -> None:
    before = site.abandoned()
    with site.locked():
        site.leave(way, 3)
        until(lambda: not site.waiting(), GONE_S)
        assert site.abandoned() > before
    until(lambda: site.ask(way, 3) == 200)


@pytest.mark.parametrize("way", ["partial", "forwarded", "refreshed"])
def test_whoever_else_waits_is_answered(site: Site, way: str) -> None:
    """Others who waited, too, have gone long before; so has what was asked for nobody else."""
    with ThreadPoolExecutor(2) as pool, site.locked():
        stays = pool.submit(site.ask, way, 3, PATIENCE_S)
        until(site.waiting)
        before = site.abandoned()
        leaves = pool.submit(site.ask, way, 3)
        site.leave(way, 4, others=1)
        assert leaves.result() == 504
        until(lambda: site.abandoned() > before, GONE_S)
        assert site.waiting()
        assert not stays.done()
    assert stays.result() == 200


def test_a_subscription_waits_on(postgres: Site, module_database: Database) -> None:
    """Although those who fill it for it give up like readers: of an ordered key only they know how much is wanted."""
    postgres.begin()
    service, before = postgres.service, postgres.abandoned()
    oldest = f"SELECT max(now() - query_start) > '{10 * TIMEOUT_S} s' FROM pg_stat_activity WHERE {OURS_WAITING}"
    with HTTP.stream("GET", f"{service.http}/v1/views/ordered/subscribe", params={"story": 3}) as events:
        lines = events.iter_lines()
        assert any("snapshot" in line for line in lines)
        with postgres.locked():
            service.call("POST", "/v1/evict", json={"view": "ordered", "keys": [{"story": "3"}]}).raise_for_status()
            until(postgres.waiting)
            until(lambda: module_database.query(oldest)[0][0])
            assert postgres.abandoned() == before
        until(lambda: service.hits("ordered", story=3))


def test_readers_who_come_and_go(site: Site) -> None:
    """Some come back just when their statements are ended. What they are answered then is right, and stays right."""
    stopped = Event()

    def impatient(seed: int) -> None:
        random = Random(seed)
        while not stopped.is_set():
            assert site.ask(random.choice(WAYS), random.randint(1, 5)) in (200, 503, 504)

    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(impatient, seed) for seed in range(READERS)]
        try:
            for _ in range(3):
                wanted = site.abandoned() + 5
                with site.locked():
                    until(lambda wanted=wanted: site.abandoned() >= wanted, 2 * GONE_S)
                site.write("UPDATE votes SET n = n + 1")
                # Who asks meanwhile tries it, until it answers again.
                until(lambda: not site.service.view("partial")["resting_tables"])
        finally:
            stopped.set()
        for reader in readers:
            reader.result()
    for way in WAYS:
        until(lambda way=way: site.ask(way, 3, PATIENCE_S, n=3) == 200)
