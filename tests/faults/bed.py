"""The news site under its load, on a database behind a proxy: where faults are injected, and what is seen of them.

A `Prober` reads tables that no fault is about: hits of a view that is kept whole, so that nobody evicts it, and misses,
each of another key. `Load` compares every answer of all other views with the database's.
"""

import itertools
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg

from tests.fixtures.mariadb import MariaDatabase, MariaDbServer, start_mariadb
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.proxy import Proxy, running_proxy
from tests.fixtures.service import HTTP, RunningService, process_named, until
from tests.integration.consistency import RECOVERY_S, Load
from tests.integration.news_mariadb import MariaNews
from tests.integration.news_postgres import PostgresNews
from tests.integration.news_workload import VIEWS, News

WORKERS = 2
#: Within so long an operator sees what is broken, on a busy machine too.
SAID_S = 40.0
SILENCE_S, STATEMENT_S = 3.0, 5.0
#: Rows of the tables that the prober reads, and the views.
ROWS = {"kept": 50, "apart": 100_000}
PROBED = {name: f"SELECT id, n FROM {name} WHERE id = :id" for name in ROWS}
#: How long a probe waits for its answer.
_PROBE_S = 5.0


class PostgresSide:
    """What is done to a PostgreSQL server."""

    #: What the connection of the change stream says at first.
    stream_says = b"replication\0database"

    def __init__(self) -> None:
        self.server = start_server()
        self.database = Database("postgres", self.server.url, self.server)
        self.news: News = PostgresNews(self.database)
        self.news.create()
        for name, rows in ROWS.items():
            self.database.execute(
                f"CREATE TABLE {name} (id int PRIMARY KEY, n int)",
                f"ALTER TABLE {name} REPLICA IDENTITY FULL",
                f"INSERT INTO {name} SELECT i, i FROM generate_series(1, {rows}) i",
            )

    def crash(self) -> None:
        """As by a lack of power."""
        self.server.stop("immediate")

    def start(self) -> None:
        """After a crash."""
        self.server.start()

    def end_connections(self) -> None:
        """Those of the service."""
        self.database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'upquery'"
        )

    def end_stream(self) -> None:
        """The change stream's connection."""
        self.database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_replication")

    @contextmanager
    def stream_stopped(self) -> Iterator[None]:
        """The process that sends the change stream does not run."""
        pids = [int(pid) for (pid,) in self.database.query("SELECT pid FROM pg_stat_replication")]
        assert pids
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The votes: nobody reads or writes them."""
        with psycopg.connect(self.database.url) as connection:
            connection.execute("LOCK TABLE votes")
            yield
            connection.rollback()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One that has written and is left open."""
        with psycopg.connect(self.database.url) as connection:
            connection.execute("CREATE TABLE forgotten (id int)")
            yield
            connection.rollback()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """New connections may write nothing; the service has new ones."""
        self.database.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        self.end_connections()
        try:
            yield
        finally:
            self.database.execute("SET default_transaction_read_only = off", "ALTER DATABASE postgres RESET ALL")

    def discard(self) -> None:
        """Stop it and remove it."""
        discard_server(self.server)


class MariaSide:
    """What is done to a MariaDB server."""

    stream_says = b"heartbeat_period"

    def __init__(self) -> None:
        self.server: MariaDbServer = start_mariadb()
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE news")
        self.database = MariaDatabase("news", self.server.url("news"), self.server)
        self.news: News = MariaNews(self.database)
        self.news.create()
        for name, rows in ROWS.items():
            self.database.execute(
                f"CREATE TABLE {name} (id int PRIMARY KEY, n int)",
                f"INSERT INTO {name} SELECT seq, seq FROM seq_1_to_{rows}",
            )

    def crash(self) -> None:
        """As by a lack of power."""
        self.server.kill()

    def start(self) -> None:
        """After a crash."""
        self.server.start()

    def end_connections(self) -> None:
        """Those of the service, and of the writers."""
        self._end("db = 'news' AND command <> 'Binlog Dump' AND id <> connection_id()")

    def end_stream(self) -> None:
        """The change stream's connection."""
        self._end("command = 'Binlog Dump'")

    def _end(self, which: str) -> None:
        for (process,) in self.database.query(f"SELECT id FROM information_schema.processlist WHERE {which}"):
            self.database.execute(f"KILL {process}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The votes: nobody reads or writes them."""
        with self.database.connect() as connection, connection.cursor() as cursor:
            cursor.execute("LOCK TABLES votes WRITE")
            yield
            cursor.execute("UNLOCK TABLES")

    def discard(self) -> None:
        """Stop it and remove it."""
        self.server.discard()


Side = PostgresSide | MariaSide


@dataclass(frozen=True, slots=True)
class Probe:
    """One read of a prober; `status` 0: nothing was answered."""

    at_s: float
    took_s: float
    status: int


class Prober(threading.Thread):
    """Reads one key after the other of a view, until it is stopped. *State*: `probes`, all so far."""

    def __init__(self, service: RunningService, view: str) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._view = view
        self._stop_asked = threading.Event()
        self.probes: list[Probe] = []

    def run(self) -> None:
        for turn in itertools.count():
            if self._stop_asked.wait(0.02):
                return
            self._probe(1 + turn % ROWS[self._view])

    def _probe(self, key: int) -> None:
        began = time.monotonic()
        # A connection of its own: a worker that hangs is not asked again and again.
        connection = HTTPConnection(urlsplit(self._service.http).netloc, timeout=_PROBE_S)
        try:
            connection.request("GET", f"/v1/views/{self._view}?id={key}")
            response = connection.getresponse()
            response.read()
            status = response.status
        except (OSError, HTTPException):
            status = 0
        finally:
            connection.close()
        self.probes.append(Probe(began, time.monotonic() - began, status))

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._stop_asked.set()
        self.join(2 * _PROBE_S)

    def between(self, begin_s: float, end_s: float) -> list[Probe]:
        """Those that were begun then."""
        return [probe for probe in self.probes if begin_s <= probe.at_s < end_s]


@dataclass(frozen=True, slots=True)
class Bed:
    """All of it, running."""

    side: Side
    service: RunningService
    proxy: Proxy
    load: Load
    hits: Prober
    misses: Prober

    def pid(self, name: str) -> int:
        """Of one of the service's processes, once it runs."""

        def found() -> int:
            with suppress(ValueError):
                return process_named(name, self.service.pid)
            return 0

        return int(until(found))

    def is_whole(self) -> bool:
        """Whether all processes run, the stream runs, and no view is broken."""
        with suppress(httpx.HTTPError):
            said = HTTP.get(f"{self.service.admin}/readyz?strict=1")
            return said.status_code == 200 and said.json()["workers"] == WORKERS
        return False

    def said(self, from_byte: int) -> str:
        """What an operator sees: the log behind a place, the probes and the metrics."""
        with self.service.log.open("rb") as log:
            log.seek(from_byte)
            seen = [log.read().decode(errors="replace")]
        for path in ("/readyz", "/metrics"):
            with suppress(httpx.HTTPError):
                seen.append(HTTP.get(self.service.admin + path, timeout=_PROBE_S).text)
        return "\n".join(seen)

    def memory_bytes(self) -> dict[str, int]:
        """Anonymous memory of each of the service's processes."""
        children = Path(f"/proc/{self.service.pid}/task/{self.service.pid}/children").read_text().split()
        found = {}
        for pid in [str(self.service.pid), *children]:
            name = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            status = Path(f"/proc/{pid}/status").read_text()
            anonymous = re.search(r"RssAnon:\s+(\d+)", status)
            found[name[4] if "service.child" in name else "supervisor"] = int(anonymous[1]) << 10 if anonymous else 0
        return found


@contextmanager
def running_bed(make_side: Callable[[], Side], *, shards: int = 1, **engine: Any) -> Iterator[Bed]:
    """The site, the service with two workers, the load and the probers, for the length of a block. `engine`: more of
    its settings."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        side = make_side()
        stack.callback(side.discard)
        port = urlsplit(side.news.url).port
        assert port is not None
        proxy = stack.enter_context(running_proxy(port))
        views = {name: sql for name, (sql, _, _, _) in VIEWS.items()} | {"apart": PROBED["apart"]}
        url = side.news.url.replace(f":{port}", f":{proxy.port}")
        service = RunningService(
            directory,
            url,
            views,
            http={"workers": WORKERS},
            cdc={"silence_s": SILENCE_S},
            engine={"shards": shards, **engine},
            upstream={"statement_timeout_s": STATEMENT_S},
        )
        stack.callback(service.discard)
        service.start()
        kept = {"sql": PROBED["kept"], "materialization": "full"}
        service.call("PUT", "/v1/catalog/views/kept", json=kept).raise_for_status()
        until(lambda: service.view("kept")["status"] == "ready")
        probers = [Prober(service, view) for view in ("kept", "apart")]
        load = Load(side.news, service)
        load.spare()
        with load:
            for prober in probers:
                prober.start()
                stack.callback(prober.stop)
            load.compare()
            yield Bed(side, service, proxy, load, *probers)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is broken for a while. `says`: what an operator can read of it, somewhere."""

    name: str
    broken: Callable[[Bed], AbstractContextManager[None]]
    hold_s: float
    says: str
    #: Whether what is in memory is answered meanwhile.
    hits_go_on: bool = True


_ROW = "{:44}{:>12}{:>12}{:>12}{:>12}{:>13}{:>12}"
HEAD = _ROW.format("fault", "hits", "p99 before", "during, ms", "misses", "right after", "said after")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a fault did."""

    fault: str
    hits: list[Probe] = field(repr=False)
    misses: list[Probe] = field(repr=False)
    before: list[Probe] = field(repr=False)
    healed_s: float
    #: After how long it could be read of; None: not at all.
    said_s: float | None

    def row(self) -> str:
        """A line of the table."""
        return _ROW.format(
            self.fault, _answered(self.hits), f"{_p99_ms(self.before):.1f}", f"{_p99_ms(self.hits):.1f}",
            _answered(self.misses), f"{self.healed_s:.1f} s", "-" if self.said_s is None else f"{self.said_s:.1f} s",
        )  # fmt: skip


def _answered(probes: list[Probe]) -> str:
    return f"{sum(probe.status == 200 for probe in probes)}/{len(probes)}"


def _p99_ms(probes: list[Probe]) -> float:
    took = sorted(probe.took_s for probe in probes if probe.status == 200) or [0.0]
    return took[int(len(took) * 0.99)] * 1000


def _said(bed: Bed, fault: Fault, from_byte: int, began: float) -> float | None:
    """How long it took, if it can be read of now."""
    found = fault.says and re.search(fault.says, bed.said(from_byte))
    return time.monotonic() - began if found else None


def inject(bed: Bed, fault: Fault) -> Seen:
    """Break it, hold it, repair it, and wait until every answer is right and the service is whole.

    AssertionError: an answer was wrong, what should go on did not, or nobody could see what was broken.
    """
    load, from_byte = bed.load, bed.service.log.stat().st_size
    began = time.monotonic()
    load.disturbed.set()
    said_s: float | None = None
    with fault.broken(bed):
        while (held_s := time.monotonic() - began) < fault.hold_s or (
            fault.says and said_s is None and held_s < SAID_S
        ):
            load.pause(0.2)
            said_s = said_s or _said(bed, fault, from_byte, began)
    ended = time.monotonic()
    until(load.is_right, RECOVERY_S)
    until(bed.is_whole, RECOVERY_S)
    healed_s = time.monotonic() - ended
    said_s = said_s or _said(bed, fault, from_byte, began)
    load.disturbed.clear()
    commits = load.commits
    until(lambda: load.check() is None and load.commits > commits)
    hits = bed.hits.between(began, ended)
    seen = Seen(
        fault.name, hits, bed.misses.between(began, ended), bed.hits.between(began - 5, began), healed_s, said_s
    )  # fmt: skip
    assert not fault.hits_go_on or any(probe.status == 200 for probe in hits), f"no hit was answered: {seen.row()}"
    assert not fault.says or said_s is not None, f"nobody said anything of it: {seen.row()}"
    return seen
