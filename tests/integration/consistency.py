"""Comparison of every answer with the database at one version, under writers, readers and random evictions.

A checker stops the writers between two transactions, takes a consistent snapshot and compares every key of every view
at that version; in between, reads over several views never show money created or lost. `Load` is all of it at once.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import httpx

from tests.fixtures.seeds import day_seed
from tests.fixtures.service import PATIENT, RunningService, until
from tests.integration.news_workload import (
    ACCOUNTS,
    ALL_KEYS,
    MONEY,
    OWNERS,
    VIEWS,
    WRITERS,
    Gate,
    News,
    Snapshot,
    Writer,
)

#: How long anything may take that must come back by itself.
RECOVERY_S = 90.0


class Unanswered(Exception):
    """The service said that it cannot answer now, or was not there to say anything."""


def item(name: str, value: str | None) -> dict[str, Any]:
    """One read of a request for several."""
    parameter = VIEWS[name][1]
    return {"view": name, "params": {parameter: value} if parameter else {}}


def comparable(name: str, rows: list[Any]) -> Any:
    """Rows as a list where the order is total, as a bag elsewhere."""
    return rows if VIEWS[name][3] else Counter(map(repr, rows))


def ask(http: httpx.Client, method: str, url: str, **options: Any) -> httpx.Response:
    """A successful response. Raises `Unanswered`; AssertionError if the request is refused for good."""
    try:
        reply = http.request(method, url, **options)
    except httpx.HTTPError as gone:
        raise Unanswered(repr(gone)) from gone
    # A service that has just been started again does not have all views yet.
    if reply.status_code in (
        httpx.codes.SERVICE_UNAVAILABLE,
        httpx.codes.GATEWAY_TIMEOUT,
        httpx.codes.BAD_GATEWAY,
        httpx.codes.NOT_FOUND,
    ):
        raise Unanswered(reply.text)
    assert reply.is_success, reply.text
    return reply


class Client(threading.Thread):
    """Does something over HTTP again and again until told to stop; keeps the first failure."""

    def __init__(self, load: "Load", seed: int) -> None:
        super().__init__(daemon=True)
        self._load = load
        self.random = random.Random(seed)
        self._stop_asked = threading.Event()
        self.done = 0
        self.unanswered = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx.Client(timeout=60, headers=PATIENT) as http:
                while not self._stop_asked.is_set():
                    try:
                        self.once(http)
                        self.done += 1
                        if self._load.pause_s:
                            self._stop_asked.wait(self._load.pause_s)
                    except Unanswered as reason:
                        if not self._load.disturbed.is_set():
                            raise AssertionError(f"not answered: {reason}") from reason
                        self.unanswered += 1
                        self._stop_asked.wait(0.05)
        except BaseException as failure:
            self.failure = failure

    def once(self, http: httpx.Client) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._stop_asked.set()
        self.join(60)

    @property
    def service(self) -> RunningService:
        return self._load.service


class Reader(Client):
    """Reads random keys, one at a time."""

    def once(self, http: httpx.Client) -> None:
        name, value = self.random.choice(ALL_KEYS)
        ask(http, "GET", f"{self.service.http}/v1/views/{name}", params=item(name, value)["params"])


class Auditor(Client):
    """Adds up the money, by account and by owner, at one version."""

    def once(self, http: httpx.Client) -> None:
        reads = [item("account", str(i)) for i in ACCOUNTS] + [item("wealth", owner) for owner in OWNERS]
        reply = ask(http, "POST", f"{self.service.http}/v1/read", json={"reads": reads})
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
        elif not self._load.evicts_bytes:
            return
        ask(http, "POST", f"{self.service.admin}/v1/evict", json=body)


class Load:
    """Writers and clients, running inside of a ``with`` block, which ends them and raises their first failure.

    `disturbed` is set while something is broken on purpose: then the service may say that it cannot answer, and
    whatever it does answer is right all the same.
    """

    def __init__(self, news: News, service: RunningService) -> None:
        self.news = news
        self.service = service
        self.disturbed = threading.Event()
        self._gate = Gate()
        seed = day_seed("consistency")
        self.writers: list[Writer] = [news.writer(self._gate, seed + n) for n in range(WRITERS)]
        #: Between two requests of a client.
        self.pause_s = 0.0
        #: Whether more is evicted than keys of the site's views.
        self.evicts_bytes = True
        kinds = (Reader, Reader, Auditor, Evictor)
        self.clients: list[Client] = [kind(self, seed - n) for n, kind in enumerate(kinds, 1)]
        self._pause = threading.Event()
        self.rounds = 0
        self.rows = 0

    def __enter__(self) -> Self:
        for thread in [*self.writers, *self.clients]:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for thread in [*self.writers, *self.clients]:
            thread.stop()
        if error is None:
            self.check()

    def spare(self) -> None:
        """From now on, writers and clients pause after each thing they do: what was killed starts beside them."""
        self.pause_s = 0.02
        for writer in self.writers:
            writer.pause_s = 0.04

    @property
    def commits(self) -> int:
        """Transactions so far."""
        return sum(writer.commits for writer in self.writers)

    def check(self) -> None:
        """Raise the first failure of a writer or a client."""
        for thread in [*self.writers, *self.clients]:
            if thread.failure is not None:
                raise thread.failure

    def pause(self, seconds: float) -> None:
        """Let them run."""
        self.check()
        self._pause.wait(seconds)

    def compare_until(self, shown: Callable[[], bool], rounds: int, pause_s: float = 0.3) -> None:
        """Compare at least so many times, and until it is `shown` what the test is about. AssertionError if that takes
        too long."""
        rounds += self.rounds
        deadline = time.monotonic() + RECOVERY_S
        while self.rounds < rounds or not shown():
            assert time.monotonic() < deadline, f"too slow to show anything: {self.summary()}"
            self.compare()
            self.pause(pause_s)

    @contextmanager
    def still(self) -> Iterator[Snapshot]:
        """Hold back transactions; yield the database's state."""
        with self.news.snapshot() as snapshot, self._gate.closed():
            snapshot.take()
            yield snapshot

    def compare(self, *, each: bool = False) -> None:
        """Every key of every view at one version, and `each` by itself, too. Raises `Unanswered`."""
        with self.news.snapshot() as snapshot, httpx.Client(timeout=60) as http:
            with self._gate.closed():
                version = snapshot.take()
                reads = [item(name, value) for name, value in ALL_KEYS]
                headers = {"Upquery-Min-Version": version, "Prefer": "wait=20"}
                body = ask(http, "POST", f"{self.service.http}/v1/read", json={"reads": reads}, headers=headers).json()
                answers = [body["results"]]
                if each:
                    answers.append([self._one(http, name, value, headers) for name, value in ALL_KEYS])
            for results in answers:
                for (name, value), result in zip(ALL_KEYS, results, strict=True):
                    expected = snapshot.rows(VIEWS[name][0], value)
                    found = [list(row.values()) for row in result["rows"]]
                    where = f"{name} {value} at {body['version']}, asked for {version}"
                    assert comparable(name, found) == comparable(name, expected), where
                    self.rows += len(expected)
        self.rounds += 1

    def _one(self, http: httpx.Client, name: str, value: str | None, headers: dict[str, str]) -> dict[str, Any]:
        params = item(name, value)["params"]
        answer = ask(http, "GET", f"{self.service.http}/v1/views/{name}", params=params, headers=headers)
        result: dict[str, Any] = answer.json()
        return result

    def disturb(
        self, break_it: Callable[[], None], repair: Callable[[], None] = lambda: None, limit_s: float = RECOVERY_S
    ) -> None:
        """Break something, repair it a little later, and wait until every answer is right again (none was wrong in
        between) and the writers go on."""
        self.disturbed.set()
        break_it()
        self.pause(1.0)
        repair()
        until(self.is_right, limit_s)
        self.disturbed.clear()
        commits = self.commits
        until(lambda: self.check() is None and self.commits > commits)

    def is_right(self) -> bool:
        """Return whether all is answered, and right; AssertionError if anything is wrong."""
        self.check()
        with suppress(Unanswered):
            self.compare()
            return True
        return False

    def summary(self) -> str:
        done = {type(c).__name__: c.done for c in self.clients}
        return f"{self.rounds} rounds, {self.rows} rows compared, {self.commits} commits, {done}"
