"""Attacks by clients and rows on a service that others read, and their effect on hits, misses and writes.

    python -m tests.integration.attacks --seconds 5

prints how long the others' requests took before and during each attack. The first rows are of a process that only takes
processor time, as the attackers' does beside what it asks for; both have the lowest priority.
"""

import argparse
import multiprocessing
import os
import socket
import struct
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import httpx
import psycopg

from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.service import HTTP, RunningService, running_service

_FORK = multiprocessing.get_context("fork")
PEOPLE = 200
ACCOUNTS = 200_000
#: What attackers ask for may be done after everything else of the machine.
_ATTACKER_WAITS_S = 120.0
#: One account has very many rows.
MANY = 30_000
TABLES = [
    "CREATE TABLE people (id int PRIMARY KEY, n int NOT NULL)",
    f"INSERT INTO people SELECT i, 0 FROM generate_series(1, {PEOPLE}) i",
    "CREATE TABLE entries (id int PRIMARY KEY, account int NOT NULL)",
    f"INSERT INTO entries SELECT i, i FROM generate_series(1, {ACCOUNTS}) i",
    "CREATE INDEX ON entries (account)",
    "CREATE TABLE payments (account int, amount numeric, document jsonb, body text)",
    "INSERT INTO payments SELECT i % 5, i, to_jsonb(i % 3), 'x' FROM generate_series(1, 40) i",
    "CREATE TABLE large (k int, filler text)",
    f"INSERT INTO large SELECT 1, 'some text that takes room ' || i FROM generate_series(1, {MANY}) i",
    "CREATE INDEX ON large (k)",
    *(f"ALTER TABLE {table} REPLICA IDENTITY FULL" for table in ("people", "entries", "payments", "large")),
]
#: The others', then those that are attacked.
VIEWS = {
    "person": "SELECT id, n FROM people WHERE id = :id",
    "account": "SELECT account, count(*) AS n FROM entries WHERE account = :account GROUP BY account",
    "total": "SELECT sum(amount)::text AS total FROM payments WHERE account = :account",
    "by_document": "SELECT document::text AS d, count(*) AS n FROM payments WHERE account = :account GROUP BY document",
    "having": "SELECT account, amount::text AS a FROM payments WHERE document = :document::jsonb",
    "like": "SELECT amount::text AS a FROM payments WHERE account = :account AND body LIKE '%foo%bar%baz%'",
    "matching": "SELECT amount::text AS a FROM payments WHERE account = :account AND body ~ '^(a+)+$'",
    "many": "SELECT filler FROM large WHERE k = :k",
}
SETTINGS = {
    "adhoc": {"enabled": True, "install_after": 3},
    "log": {"format": "json"},
    "engine": {"memory": "128MiB"},
}


def nested(depth: int) -> str:
    """Subqueries in FROM."""
    sql = "SELECT id FROM people"
    for n in range(depth):
        sql = f"SELECT id FROM ({sql}) q{n}"
    return sql


#: Texts that cost whoever reads them with a recursive parser.
HOSTILE_SQL = {
    "ors": "SELECT id FROM people WHERE " + " OR ".join(["id=1"] * 2000),
    "parentheses": f"SELECT {'(' * 4000}1{')' * 4000}",
    "cases": f"SELECT {'CASE WHEN id=1 THEN ' * 700}1{' END' * 700} FROM people",
    "subqueries": nested(300),
    "fewer_subqueries": nested(80),
    "list": f"SELECT id FROM people WHERE id IN ({','.join(['1'] * 9900)})",
    "shorter_list": f"SELECT id FROM people WHERE id IN ({','.join(map(str, range(100_000, 102_700)))})",
    "unions": " UNION ALL ".join(["SELECT id FROM people"] * 1000),
    "short_unions": " UNION ".join(["SELECT 1"] * 900),
    "joins": f"SELECT 1 FROM people {' '.join(f'JOIN people b{n} USING (id)' for n in range(500))}",
    "fewer_joins": f"SELECT 1 FROM people {' '.join(f'JOIN people b{n} USING (id)' for n in range(100))}",
    "sum": f"SELECT {'+'.join(['1'] * 9900)}",
    "shorter_sum": f"SELECT {'+'.join(['id'] * 900)} AS n FROM people",
    "nots": f"SELECT 1 WHERE {'NOT ' * 4900}true",
    "casts": f"SELECT 1{'::int' * 900}",
    "dots": f"SELECT a{'.a' * 9900}",
    "minuses": f"SELECT {'- ' * 900}1",
    "arrays": f"SELECT {'ARRAY[' * 90}1{']' * 90}",
    "exists": f"SELECT 1 WHERE {'EXISTS (SELECT 1 WHERE ' * 95}true{')' * 95}",
    "comments": "SELECT 1 " + "/*" * 9900,
    "with": f"WITH {', '.join(f'a{n} AS (SELECT 1)' for n in range(400))} SELECT 1",
}


@dataclass
class Site:
    """A service with its database, and what its answers to attackers were."""

    service: RunningService
    database: Database
    statuses: Counter[int] = field(default_factory=Counter)

    def read(self, view: str, headers: dict[str, str] | None = None, **parameters: object) -> httpx.Response:
        """An attacker's read."""
        response = self.service.read(view, headers, **parameters)
        self.statuses[response.status_code] += 1
        return response

    def post(self, path: str, body: object, *, admin: bool = False) -> httpx.Response:
        """An attacker's POST."""
        url = (self.service.admin if admin else self.service.http) + path
        response = HTTP.post(url, json=body, timeout=_ATTACKER_WAITS_S)
        self.statuses[response.status_code] += 1
        return response

    def send(self, *pieces: bytes) -> bytes:
        """Whatever bytes, on a connection of their own; what comes back, at most some of it."""
        address = urlsplit(self.service.http)
        with socket.create_connection((address.hostname, address.port), timeout=10) as client, suppress(OSError):
            for piece in pieces:
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
            return client.recv(1 << 16)
        return b""


def numbers(site: Site) -> None:
    """A number of more digits than Python reads, before and after its key is read."""
    site.database.execute("INSERT INTO payments VALUES (1, ('1' || repeat('0', 5000))::numeric, '1', 'x')")
    site.read("total", account=1)
    site.database.execute("INSERT INTO payments VALUES (1, ('1' || repeat('1', 5000))::numeric, '1', 'x')")
    site.read("total", account=1)


def documents(site: Site) -> None:
    """A document that is nested more deeply than Python recurses."""
    site.read("by_document", account=2)
    site.database.execute("INSERT INTO payments VALUES (2, 1, (repeat('[', 3000) || repeat(']', 3000))::jsonb, 'x')")
    site.read("by_document", account=2)
    site.read("having", document="[" * 3000 + "]" * 3000)


def patterns(site: Site) -> None:
    """Texts that a matcher which backtracks does not end with."""
    for body in ("repeat('foo', 4000) || repeat('bar', 4000)", "repeat('a', 10000) || '!'"):
        site.database.execute(f"INSERT INTO payments VALUES (3, 1, '1', {body})")
        for view in ("like", "matching"):
            site.read(view, account=3)


def parameters(site: Site) -> None:
    """Documents of almost a megabyte as parameters, each another one."""
    for n in range(4):
        document = f'{{"n": {n}, "a": [{",".join(["1"] * 200_000)}]}}'
        site.post("/v1/views/having/query", {"keys": [{"document": document}]})


def queries(site: Site) -> None:
    """SQL that is hard to read, for views of queries and for the catalog."""
    for sql in HOSTILE_SQL.values():
        site.post("/v1/query", {"sql": sql[:20_000]})
    for name in ("sum", "minuses", "joins"):
        site.post("/v1/catalog/plan", {"sql": HOSTILE_SQL[name]}, admin=True)


def heads(site: Site) -> None:
    """Requests of hosts, protocols and trailers that nobody should send."""
    read = b"GET /v1/views/person?id=1 HTTP/1.1\r\n"
    for _ in range(20):
        site.send(b"\x16\x03\x01")
        site.send(read + b"Host: a#b\r\n\r\n")
        site.send(
            read + b"Host: localhost\r\nConnection: upgrade\r\nUpgrade: foo\r\n\r\n" + read + b"Host: localhost\r\n\r\n"
        )
        site.send(
            b"POST /v1/read HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
            b"Authorization: Bearer x\r\nUpquery-Min-Version: FFFF/0\r\n\r\n"
        )
        site.send(b"GET /v1/subscribe HTTP/1.1\r\nHost: a#b\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")


def pings(site: Site) -> None:
    """Pings of a WebSocket, answers to which nobody reads."""
    key = b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    head = b"GET /v1/subscribe HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" + key
    ping = struct.pack("!BB4s", 0x89, 0x80 | 125, b"\0\0\0\0") + b"p" * 125
    address = urlsplit(site.service.http)
    with socket.create_connection((address.hostname, address.port), timeout=1) as client, suppress(OSError):
        client.sendall(head)
        client.recv(1 << 12)
        for _ in range(100):
            client.sendall(ping * 500)


def versions(site: Site) -> None:
    """Versions that will not come."""
    for _ in range(20):
        site.read("person", {"Upquery-Min-Version": "00FFFFFF/0", "Prefer": "wait=0.05"}, id=1)


def key(site: Site) -> None:
    """A key of very many rows, several times at once."""
    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(site.read, "many", {"Prefer": "wait=20"}, k=1) for _ in range(2)]:
            each.result()


def neighbour(_: Site) -> None:
    """Use processor time for something else than the service, as attackers need some for themselves."""
    until_s = time.monotonic() + 0.1
    while time.monotonic() < until_s:
        pass


Attack = Callable[[Site], None]
ATTACKS: list[Attack] = [
    numbers,
    documents,
    patterns,
    parameters,
    queries,
    heads,
    pings,
    versions,
    key,
]


@dataclass
class Others:
    """Those who read and write meanwhile. `took_s`: how long hits, misses and reads of own writes took."""

    site: Site
    wrong: list[str] = field(default_factory=list)
    took_s: dict[str, list[float]] = field(default_factory=lambda: {"hit": [], "miss": [], "written": []})
    _ended: threading.Event = field(default_factory=threading.Event)

    def warm(self) -> None:
        """Have all that will be read as a hit."""
        for id_ in range(1, PEOPLE + 1):
            self.site.service.rows("person", id=id_)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """They read and write until the end of the block."""
        threads = [
            threading.Thread(target=self._work, args=(each,)) for each in (self._hits, self._misses, self._writes)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def _work(self, turn: Callable[[httpx.Client, Random], None]) -> None:
        chance = Random()
        with httpx.Client(timeout=60.0) as client:
            while not self._ended.is_set():
                try:
                    turn(client, chance)
                except httpx.HTTPError as error:
                    self.wrong.append(repr(error))
                # They are not the load that is looked at.
                self._ended.wait(0.002)

    def _read(self, client: httpx.Client, kind: str, view: str, **parameters: object) -> httpx.Response:
        minimum = {"Upquery-Min-Version": str(parameters.pop("minimum"))} if "minimum" in parameters else {}
        began = time.perf_counter()
        response = client.get(f"{self.site.service.http}/v1/views/{view}", params=parameters, headers=minimum)
        self.took_s[kind].append(time.perf_counter() - began)
        if response.status_code != 200:
            self.wrong.append(f"{kind}: {response.status_code} {response.text}")
        return response

    def _hits(self, client: httpx.Client, chance: Random) -> None:
        response = self._read(client, "hit", "person", id=chance.randint(1, PEOPLE))
        if "; hit" not in response.headers["cache-status"]:
            self.wrong.append(f"no hit: {response.headers['cache-status']}")

    def _misses(self, client: httpx.Client, chance: Random) -> None:
        account = chance.randint(1, ACCOUNTS)
        response = self._read(client, "miss", "account", account=account)
        if response.status_code == 200 and response.json()["rows"] != [{"account": account, "n": 1}]:
            self.wrong.append(response.text)

    def _writes(self, client: httpx.Client, chance: Random) -> None:
        id_ = chance.randint(1, PEOPLE)
        ((n, version),) = self.site.database.query(
            f"WITH w AS (UPDATE people SET n = n + 1 WHERE id = {id_} RETURNING n) SELECT n, '' FROM w"
        )
        ((version,),) = self.site.database.query("SELECT pg_current_wal_insert_lsn()::text")
        response = self._read(client, "written", "person", id=id_, minimum=version)
        if response.status_code == 200 and response.json()["rows"] != [{"id": id_, "n": n}]:
            self.wrong.append(f"{response.text}, not {n}")


@contextmanager
def attacked_site(directory: Path, database: Database) -> Iterator[Site]:
    """A service that has all views, warm."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        for statement in TABLES:
            connection.execute(statement.encode())
    with running_service(directory, database.url, VIEWS, **SETTINGS) as service:
        yield Site(service, database)


def table_of(seconds: float, names: Sequence[str] = ()) -> Iterator[str]:
    """How long the others' requests took, before and during each attack, or those named: lines of a table."""
    yield f"{'attack':12}{'':9}{'before: p50':>12}{'p99':>8}{'during: p50':>13}{'p99':>8}{'ratio':>8} (ms)"
    server = start_server()
    try:
        database = Database("postgres", server.url, server)
        with tempfile.TemporaryDirectory() as directory, attacked_site(Path(directory), database) as site:
            Others(site).warm()
            for attack in [each for each in (neighbour, *ATTACKS) if not names or each.__name__ in names]:
                yield from _rows_of(site, attack, seconds)
            counters = site.service.stats()["counters"]
            yield f"attackers got {dict(site.statuses)}; {counters['engine_failures']} failures of the engine"
    finally:
        discard_server(server)


def _rows_of(site: Site, attack: Attack, seconds: float) -> Iterator[str]:
    before, during = Others(site), Others(site)
    with before.at_work():
        threading.Event().wait(seconds)
    # Attackers have a process of their own: what they send costs the others nothing.
    told, telling = _FORK.Pipe(duplex=False)
    attacker = _FORK.Process(target=_attack_for, args=(site, attack, seconds, telling))
    attacker.start()
    with during.at_work():
        attacker.join()
    site.statuses += told.recv()
    for kind in before.took_s:
        (p50, p99), (q50, q99) = (_quantiles(others.took_s[kind]) for others in (before, during))
        yield f"{attack.__name__:12}{kind:9}{p50:12.1f}{p99:8.1f}{q50:13.1f}{q99:8.1f}{q99 / p99:8.1f}"
    yield from during.wrong[:5]


def _attack_for(site: Site, attack: Attack, seconds: float, telling: Connection) -> None:
    # Attackers are elsewhere: what their own process takes of this machine is not what is looked at.
    os.nice(19)
    site.statuses.clear()
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        attack(site)
    telling.send(site.statuses)


def _quantiles(took_s: list[float]) -> tuple[float, float]:
    ordered = sorted(took_s) or [0.0]
    return ordered[len(ordered) // 2] * 1000, ordered[int(len(ordered) * 0.99)] * 1000


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=5.0)
    arguments.add_argument("attacks", nargs="*", help="names of functions here; none: all")
    options = arguments.parse_args()
    for row in table_of(options.seconds, options.attacks):
        print(row, flush=True)  # noqa: T201
