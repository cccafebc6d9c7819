"""Consistency for clients that name a version they wrote or saw: they read their own writes, and answers never go back.

Two API workers over PostgreSQL and over MariaDB, each with all kinds of views: answers that are stored, forwarded, run
again, or too large to be kept.
"""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from load.plain_http import PlainClient
from load.workloads.own_writes import (
    INSERT,
    SCHEMA,
    SQL,
    UPDATE,
    VIEW,
    Author,
    Pairs,
    PostgresAuthor,
    fill_sql,
)
from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.mariadb import MariaDatabase, MariaDbServer
from tests.fixtures.postgres import Database, empty_database
from tests.fixtures.service import RunningService

if TYPE_CHECKING:
    import pymysql

COUNTERS = 10
PAIRS = 200
WORKERS = 2
#: Connections that are spread over the workers; who gets which is the system's choice.
CONNECTIONS = 6
#: Another view of the same rows, by which way it is answered: its SQL, and its options.
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "forwarding": (SQL, {"on_miss": "forward"}),
    "current": (SQL, {"max_lag_ms": 1, "on_lag": "forward"}),
    "large": (
        "SELECT c.id, c.n, l.id AS entry FROM counters c LEFT JOIN ledger l ON l.counter = c.id WHERE c.id = :id",
        {"limit_rows": 1},
    ),
    "patient": (SQL, {"max_lag_ms": 1, "on_lag": "wait"}),
    "again": (
        "SELECT c.id, c.n, (SELECT COUNT(*) FROM ledger l WHERE l.counter = c.id AND l.id > -c.n) AS entries"
        " FROM counters c WHERE c.id = :id AND c.n >= 0 ORDER BY abs(c.n - 5)",
        {},
    ),
}


class MariaAuthor:
    """The token is the transaction's global id."""

    def __init__(self, connection: "pymysql.Connection[Any]") -> None:
        self._connection = connection

    def write(self, counter: int, entry: int) -> str:
        with self._connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(UPDATE, [counter])
            cursor.execute(INSERT, [entry, counter])
            cursor.execute("COMMIT")
            cursor.execute("SELECT @@last_gtid")
            ((token,),) = cursor.fetchall()
        return str(token)


@dataclass
class Site:
    """A running service, and how its database is written to."""

    service: RunningService
    database: Database | MariaDatabase
    entries: Iterator[int]

    @contextmanager
    def author(self) -> Iterator[Author]:
        """A writer with a connection of its own."""
        if isinstance(self.database, Database):
            with psycopg.connect(self.database.url, autocommit=True) as connection:
                yield PostgresAuthor(connection)
        else:
            with closing(self.database.connect()) as maria:
                yield MariaAuthor(maria)

    def written(self, counter: int) -> int:
        """How often a counter has been counted up."""
        ((n,),) = self.database.query("SELECT n FROM counters WHERE id = %s", counter)
        return int(n)

    @contextmanager
    def clients(self) -> Iterator[list[httpx.Client]]:
        """Each with a connection of its own, which stays with one worker."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(httpx.Client(base_url=self.service.http, timeout=30)) for _ in range(CONNECTIONS)
            ]


@contextmanager
def serving(directory: Path, database: Database | MariaDatabase) -> Iterator[Site]:

    database.execute(*SCHEMA, fill_sql(COUNTERS))
    service = RunningService(
        directory, database.url, {VIEW: SQL}, http={"workers": WORKERS}, cdc={"set_replica_identity": True}
    )
    try:
        service.start()
        for name, (sql, options) in OTHERS.items():
            put = service.call("PUT", f"/v1/catalog/views/{name}", json={"sql": sql, **options})
            assert put.status_code == 201, put.text
        yield Site(service, database, count(1_000_000))
    finally:
        service.discard()


@pytest.fixture(scope="module")
def postgres_site(postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with empty_database(postgres_server) as database, serving(tmp_path_factory.mktemp("postgres"), database) as site:
        yield site


@pytest.fixture(scope="module")
def mariadb_site(mariadb_server: MariaDbServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    database = MariaDatabase("tokens", mariadb_server.url("tokens"), mariadb_server)
    MariaDatabase("", mariadb_server.url(""), mariadb_server).execute("CREATE DATABASE tokens")
    with serving(tmp_path_factory.mktemp("mariadb"), database) as site:
        yield site
    database.execute("DROP DATABASE tokens")


BOTH = [
    pytest.param("postgres_site", marks=pytest.mark.postgres),
    pytest.param("mariadb_site", marks=pytest.mark.mariadb),
]


@pytest.fixture(params=BOTH)
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    return found


def test_own_writes_are_read_with_their_token(site: Site) -> None:
    with site.author() as author, ExitStack() as stack:
        clients = [stack.enter_context(PlainClient(site.service.http)) for _ in range(CONNECTIONS)]
        pairs = Pairs(author, clients, COUNTERS)
        found = pairs.run(PAIRS, with_token=True)
    assert (found.pairs, found.missed, found.torn) == (PAIRS, 0, 0)


@pytest.mark.parametrize("view", OTHERS)
def test_own_writes_are_read_however_the_view_is_answered(site: Site, view: str) -> None:
    with site.author() as author, site.clients() as clients:
        for number in range(20):
            counter = number % 3
            token = author.write(counter, next(site.entries))
            headers = {"Upquery-Min-Version": token, "Prefer": "wait=10"}
            reply = clients[number % CONNECTIONS].get(f"/v1/views/{view}", params={"id": counter}, headers=headers)
            assert reply.status_code == 200, reply.text
            assert reply.json()["rows"][0]["n"] == site.written(counter), reply.headers


def test_own_writes_are_read_in_batches_and_by_new_subscribers(site: Site) -> None:
    with site.author() as author, site.clients() as clients:
        for number in range(10):
            headers = {"Upquery-Min-Version": author.write(1, next(site.entries)), "Prefer": "wait=10"}
            n = site.written(1)
            client = clients[number % CONNECTIONS]
            keys = client.post(f"/v1/views/{VIEW}/query", json={"keys": [{"id": 1}, {"id": 2}]}, headers=headers)
            assert keys.json()["results"][0]["rows"][0]["n"] == n
            reads = [{"view": name, "params": {"id": 1}} for name in (VIEW, "again")]
            many = client.post("/v1/read", json={"reads": reads}, headers=headers)
            assert [result["rows"][0]["n"] for result in many.json()["results"]] == [n, n]
            events = {**headers, "Accept": "text/event-stream"}
            with client.stream("GET", f"/v1/views/{VIEW}?id=1", headers=events) as stream:
                data = next(line for line in stream.iter_lines() if line.startswith("data:"))
            assert f'"n":{n},' in data


class Writing(threading.Thread):
    """Counts one counter up while it may. Each entry makes the counter's keys longer: however slow the machine is, they
    must not outgrow it."""

    def __init__(self, site: Site) -> None:
        super().__init__(daemon=True)
        self._site = site
        self._ended = threading.Event()
        self._allowed = threading.Semaphore(0)
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            with self._site.author() as author:
                while not self._ended.wait(0.005):
                    if self._allowed.acquire(timeout=0.1):
                        author.write(7, next(self._site.entries))
        except Exception as error:  # Told by `__exit__`.
            self.failure = error

    def allow(self, writes: int) -> None:
        """Lets it write so often more."""
        self._allowed.release(writes)

    def __enter__(self) -> "Writing":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()
        assert self.failure is None, self.failure


def answered(client: httpx.Client, path: str, headers: dict[str, str]) -> httpx.Response:
    """The answer of a client that tries again when it is told to: writes may cross a forwarded read each time."""
    for _ in range(20):
        reply = client.get(path, headers=headers)
        if reply.status_code not in (503, 504) or not reply.json()["retryable"]:
            break
    assert reply.status_code == 200, reply.text
    return reply


def test_nothing_goes_backwards_for_who_sends_the_last_version(site: Site) -> None:
    """One client, any worker, any view, keys that are there and keys that were just evicted."""
    views = [VIEW, *OTHERS]
    with site.clients() as clients, Writing(site) as writing:
        version, n, seen = "", 0, set()
        for number in range(84):
            writing.allow(10)
            if number % 10 == 5:
                site.service.call("POST", "/v1/evict", json={"view": views[number // 10 % len(views)]})
            headers = {"Upquery-Min-Version": version, "Prefer": "wait=10"} if version else {}
            reply = answered(clients[number % CONNECTIONS], f"/v1/views/{views[number % len(views)]}?id=7", headers)
            seen.add(reply.headers["cache-status"])
            row = reply.json()["rows"][0]
            assert row["n"] >= n, (number, reply.headers)
            newer = reply.json()["version"]
            # The database's own answer past the store is exact at no version that is known: a token follows it.
            assert (newer is None) == (reply.headers["cache-status"] == "upquery; fwd=stale"), reply.headers
            newer = newer or clients[number % CONNECTIONS].post("/v1/checkpoint").json()["version"]
            assert _place(newer) >= _place(version), (number, reply.headers)
            version, n = newer, row["n"]
    assert {"upquery; hit", "upquery; fwd=miss; stored", "upquery; fwd=stale", "upquery; fwd=bypass"} <= seen


def _place(version: str) -> tuple[int, ...]:
    """Return a value that orders the versions of one database."""
    kind, _, place = version.partition(":")
    if not kind:
        return (0, 0)
    return tuple(int(part, 16 if kind == "pg" else 10) for part in place.replace("/", ":").split(":"))


# ── Global ids ───────────────────────────────────────────────────────────────────────────────────────────────────────


def ask(site: Site, minimum: str, wait_s: float = 10.0) -> httpx.Response:
    headers = {"Upquery-Min-Version": minimum, "Prefer": f"wait={wait_s}"}
    return site.service.read(VIEW, headers=headers, id=1)


@pytest.mark.mariadb
def test_global_ids_of_several_domains(mariadb_site: Site) -> None:
    with closing(mariadb_site.database.connect()) as connection, connection.cursor() as cursor:
        for domain in (0, 7, 0):
            cursor.execute(f"SET SESSION gtid_domain_id = {domain}")
            cursor.execute("UPDATE counters SET n = n + 1 WHERE id = 1")
        cursor.execute("SELECT @@gtid_binlog_pos, @@last_gtid")
        ((everything, last),) = cursor.fetchall()
    assert len(str(everything).split(",")) == 2
    for minimum in (everything, last):
        reply = ask(mariadb_site, str(minimum))
        assert reply.status_code == 200, reply.text
        assert reply.json()["rows"][0]["n"] == mariadb_site.written(1)


@pytest.mark.mariadb
def test_a_transaction_of_another_table_is_reached_too(mariadb_site: Site) -> None:
    with closing(mariadb_site.database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE unrelated (id int PRIMARY KEY)")
        cursor.execute("INSERT INTO unrelated VALUES (1)")
        cursor.execute("SELECT @@last_gtid")
        ((last,),) = cursor.fetchall()
    assert ask(mariadb_site, str(last)).status_code == 200


@pytest.mark.mariadb
@pytest.mark.parametrize(
    ("minimum", "status", "code", "word"),
    [
        ("0-1-999999999", 504, "version_timeout", "not reached"),
        ("55-1-1", 504, "version_timeout", "not reached"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7", 400, "bad_request", "MySQL"),
        ("0-1-99999999999999999999", 400, "bad_request", "global transaction ids"),
        ("0/16B3748", 400, "bad_request", "another kind of database"),
        ("0-1", 400, "bad_request", "not a version"),
    ],
)
def test_what_cannot_be_reached(mariadb_site: Site, minimum: str, status: int, code: str, word: str) -> None:
    reply = ask(mariadb_site, minimum, 0.1)
    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert word in reply.json()["detail"]


@pytest.mark.postgres
@pytest.mark.parametrize("minimum", ["0-1-42", "3e11fa47-71ca-11e1-9e33-c80aa9429562:7", "mysql:1:4"])
def test_postgresql_has_no_global_ids(postgres_site: Site, minimum: str) -> None:
    reply = ask(postgres_site, minimum, 0.1)
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_request")


@pytest.mark.postgres
def test_a_position_that_the_log_has_not_got_to(postgres_site: Site) -> None:
    reply = ask(postgres_site, "FFFF/0")
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_request")
    assert "log ends at" in reply.json()["detail"]
