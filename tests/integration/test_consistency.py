"""The whole service under concurrent writers: every answer is the database's, at one version.

While eight writers, readers and random evictions run, a checker stops the writers between two transactions once a
second, takes a REPEATABLE READ snapshot and compares every key of every view at that version; in between, reads over
several views never show money created or lost. At the end everything is compared once more.
"""

import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from service.demo.command import free_port
from service.demo.service_process import ServiceConfig, ServiceProcess
from tests.fixtures.postgres import Database
from tests.integration.news_workload import ACCOUNTS, MONEY, OWNERS, SCHEMA, VIEWS, WRITERS, Gate, Writer

pytestmark = pytest.mark.postgres

#: How long the writers run. The clock only bounds the test; nothing is asserted about time.
SECONDS = float(os.environ.get("UPQUERY_CONSISTENCY_SECONDS", "60"))
ALL_KEYS = [(name, value) for name, (_, _, values, _) in VIEWS.items() for value in values or [None]]


@pytest.fixture
def news(database: Database) -> Database:
    """The schema and some rows."""
    database.execute(*[statement for statement in SCHEMA.split(";") if statement.strip()])
    return database


@pytest.fixture
def service(news: Database, tmp_path: Path) -> Iterator[ServiceProcess]:
    """A running service with all views."""
    views = tuple((name, sql) for name, (sql, _, _, _) in VIEWS.items())
    process = ServiceProcess(tmp_path, ServiceConfig(news.url, free_port(), free_port(), views=views))
    process.start()
    yield process
    process.stop()


def item(name: str, value: str | None) -> dict[str, Any]:
    """One read of a request for several."""
    parameter = VIEWS[name][1]
    return {"view": name, "params": {parameter: value} if parameter else {}}


def plain(value: Any) -> Any:
    """A value of the database as the service's JSON has it."""
    if isinstance(value, Decimal):
        return format(value, "f")
    assert value is None or isinstance(value, int | str)
    return value


def comparable(name: str, rows: list[Any]) -> Any:
    """Rows as a list where the order is total, as a bag elsewhere."""
    return rows if VIEWS[name][3] else Counter(map(repr, rows))


def compare(http: httpx.Client, url: str, gate: Gate) -> int:
    """Every key of every view at one version; returns how many rows were compared."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with gate.closed():
            lsn = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
            assert lsn is not None
            reply = http.post(
                "/v1/read",
                json={"reads": [item(name, value) for name, value in ALL_KEYS]},
                headers={"Upquery-Min-Version": lsn[0], "Prefer": "wait=20"},
            )
        assert reply.status_code == httpx.codes.OK, reply.text
        body = reply.json()
        compared = 0
        for (name, value), result in zip(ALL_KEYS, body["results"], strict=True):
            sql, parameter, _, _ = VIEWS[name]
            cursor = connection.execute(re.sub(r":\w+", "%s", sql).encode(), (value,) if parameter else None)
            expected = [[plain(v) for v in row] for row in cursor.fetchall()]
            found = [list(row.values()) for row in result["rows"]]
            assert comparable(name, found) == comparable(name, expected), f"{name} {value} at {body['version']}"
            compared += len(expected)
    return compared


class Client(threading.Thread):
    """Does something over HTTP again and again until told to stop; keeps the first failure."""

    def __init__(self, service: ServiceProcess, seed: int) -> None:
        super().__init__(daemon=True)
        self._service = service
        self.random = random.Random(seed)
        self._stop_asked = threading.Event()
        self.done = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self._service.url, timeout=60) as http:
                while not self._stop_asked.is_set():
                    self.once(http)
                    self.done += 1
        except BaseException as failure:
            self.failure = failure

    def once(self, http: httpx.Client) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._stop_asked.set()
        self.join(60)


class Reader(Client):
    """Reads random keys, one at a time."""

    def once(self, http: httpx.Client) -> None:
        name, value = self.random.choice(ALL_KEYS)
        reply = http.get(f"/v1/views/{name}", params=item(name, value)["params"])
        assert reply.status_code == httpx.codes.OK, reply.text


class Auditor(Client):
    """Adds up the money, by account and by owner, at one version."""

    def once(self, http: httpx.Client) -> None:
        reads = [item("account", str(i)) for i in ACCOUNTS] + [item("wealth", owner) for owner in OWNERS]
        reply = http.post("/v1/read", json={"reads": reads})
        assert reply.status_code == httpx.codes.OK, reply.text
        results = [result["rows"] for result in reply.json()["results"]]
        accounts, owners = results[: len(ACCOUNTS)], results[len(ACCOUNTS) :]
        assert sum(row["balance"] for rows in accounts for row in rows) == MONEY, reply.text
        assert sum(int(row["total"]) for rows in owners for row in rows) == MONEY, reply.text
        by_owner = Counter(row["owner"] for rows in accounts for row in rows)
        assert {row["owner"]: row["accounts"] for rows in owners for row in rows} == dict(by_owner), reply.text


class Evictor(Client):
    """Forgets random keys, and now and then some bytes of everything."""

    def once(self, http: httpx.Client) -> None:
        name, value = self.random.choice(ALL_KEYS)
        parameter = VIEWS[name][1]
        body: dict[str, Any] = {"state_bytes": self.random.randint(1000, 50_000)}
        if parameter and self.random.random() < 0.9:
            body = {"view": name, "keys": [{parameter: value}]}
        reply = http.post(f"{self._service.admin_url}/v1/evict", json=body)
        assert reply.is_success, reply.text


def test_every_answer_is_the_databases(news: Database, service: ServiceProcess) -> None:
    gate = Gate()
    writers = [Writer(news.url, gate, seed) for seed in range(WRITERS)]
    clients: list[Client] = [Reader(service, 1), Reader(service, 2), Auditor(service, 3), Evictor(service, 4)]
    threads: list[Writer | Client] = [*writers, *clients]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + SECONDS
    rounds = rows = 0
    with httpx.Client(base_url=service.url, timeout=60) as http:
        pause = threading.Event()
        while time.monotonic() < deadline and not any(t.failure for t in threads):
            rows += compare(http, news.url, gate)
            rounds += 1
            pause.wait(1.0)
        for thread in threads:
            thread.stop()
        assert [t.failure for t in threads if t.failure] == []
        rows += compare(http, news.url, gate)
        stats = httpx.get(f"{service.admin_url}/v1/stats").json()
    counts = {type(c).__name__: c.done for c in clients}
    commits = sum(writer.commits for writer in writers)
    sys.stdout.write(f"{rounds} rounds, {rows} rows compared, {commits} commits, {counts}\n{stats['engine']}\n")
    assert rounds >= 3
    assert all(client.done for client in clients)
    assert stats["engine"].get("redo", 0) > 0, "lookups raced with no transaction: the test shows nothing"


def test_a_warm_read_asks_the_upstream_nothing(news: Database, service: ServiceProcess) -> None:
    del news

    def lookups() -> int:
        counters = httpx.get(f"{service.admin_url}/v1/stats").json()["counters"]
        return int(counters["upstream_statements"]) - int(counters["heartbeats"])

    with httpx.Client(base_url=service.url, timeout=60) as http:
        cold = http.get("/v1/views/karma", params={"name": "user1"})
        assert "fwd=miss" in cold.headers["cache-status"]
        before = lookups()
        for _ in range(50):
            warm = http.get("/v1/views/karma", params={"name": "user1"})
            assert "; hit" in warm.headers["cache-status"]
            assert warm.json()["rows"] == cold.json()["rows"]
        assert lookups() == before
