"""A service over the news site under its load, on a database behind a proxy: where faults are injected.

A `Prober` reads tables that no fault is about: hits of a view that is kept whole, so that nobody evicts it, and misses,
each of another key. `Load` compares every answer of all other views with the database's.
"""

import itertools
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.faults.disks import Disks, may_mount, small_disks
from tests.faults.sides import ROWS, Side
from tests.fixtures.proxy import Proxy, running_proxy
from tests.fixtures.service import HTTP, PATIENT, RunningService, process_named, until
from tests.integration.consistency import RECOVERY_S, Load
from tests.integration.news_workload import VIEWS

WORKERS = 2
SILENCE_S, STATEMENT_S = 3.0, 5.0
#: Seconds between two lists of hot keys: so short that no list is old.
HOT_KEYS_S = 0.5
PROBED = {name: f"SELECT id, n FROM {name} WHERE id = :id" for name in ROWS}
#: Keys that are in memory when a fault begins, of a view that nobody else reads.
HELD = 50
HELD_VIEW = "SELECT n, id, n + 1 AS next FROM apart WHERE id = :id"
#: How long a probe waits for its answer.
PROBE_S = 5.0


@dataclass(frozen=True, slots=True)
class Probe:
    """One read of a prober; `status` 0: nothing was answered."""

    at_s: float
    took_s: float
    status: int
    #: Of the answer, if it came from memory.
    version: str = ""


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
        connection = HTTPConnection(urlsplit(self._service.http).netloc, timeout=PROBE_S)
        try:
            connection.request("GET", f"/v1/views/{self._view}?id={key}")
            response = connection.getresponse()
            response.read()
            hit = "; hit" in response.headers.get("Cache-Status", "")
            status, version = response.status, response.headers.get("Upquery-Version", "") if hit else ""
        except (OSError, HTTPException):
            status, version = 0, ""
        finally:
            connection.close()
        self.probes.append(Probe(began, time.monotonic() - began, status, version))

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._stop_asked.set()
        self.join(2 * PROBE_S)

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
    #: The state directory, as tests see it.
    state: Path
    engines: int
    #: Small file systems of the state directory and of the leaf store, if they are.
    disks: Disks | None

    @staticmethod
    def held_keys() -> range:
        """Keys far from those that are probed."""
        return range(ROWS["apart"] - HELD + 1, ROWS["apart"] + 1)

    def read_held(self, key: int, hits: list[bool]) -> bool:
        """Read one of them; return whether it was answered, and note whether that was from memory."""
        with suppress(httpx.HTTPError):
            reply = self.service.read("held", PATIENT, id=key)
            if reply.is_success:
                hits.append("; hit" in reply.headers.get("Cache-Status", ""))
                return True
        return False

    def hold_keys(self) -> None:
        """Read them until all are in memory."""
        for service, key in itertools.product(self.services, self.held_keys()):
            until(lambda service=service, key=key: service.hits("held", id=key), RECOVERY_S)

    @property
    def services(self) -> tuple[RunningService, ...]:
        """Those that have engines."""
        return (self.service,)

    @property
    def is_warm(self) -> bool:
        """True if a restart in order begins with the cache of before."""
        return self.side.warm if self.engines == 1 else self.side.several_warm

    @property
    def workers(self) -> int:
        """Number of them."""
        return WORKERS

    def engine_names(self) -> list[str]:
        """Names of the processes that hold state or follow changes."""
        return ["engine"] if self.engines == 1 else ["stream", *(f"engine-{n}" for n in range(self.engines))]

    def checkpoints(self, suffix: str = "") -> list[Path]:
        """The files that there are; with a suffix, those being written."""
        return [path for path in self.state.glob(f"checkpoint*{suffix}") if path.suffix == suffix]

    def pid(self, name: str) -> int:
        """Return the PID of one of the service's processes, once it runs."""

        def found() -> int:
            with suppress(ValueError):
                return process_named(name, self.service.pid)
            return 0

        return int(until(found))

    def is_whole(self) -> bool:
        """Return whether all processes run, the stream runs, and no view is broken."""
        with suppress(httpx.HTTPError):
            said = HTTP.get(f"{self.service.admin}/readyz?strict=1")
            return said.status_code == 200 and said.json()["workers"] == WORKERS
        return False

    def said(self, from_byte: int) -> str:
        """Return everything that an operator sees: the log from `from_byte` on, the probes and the metrics."""
        with self.service.log.open("rb") as log:
            log.seek(from_byte)
            seen = [log.read().decode(errors="replace")]
        for path in ("/readyz", "/metrics"):
            with suppress(httpx.HTTPError):
                seen.append(HTTP.get(self.service.admin + path, timeout=PROBE_S).text)
        return "\n".join(seen)

    def memory_bytes(self) -> dict[str, int]:
        """Anonymous memory of each of the service's processes."""
        children = Path(f"/proc/{self.service.pid}/task/{self.service.pid}/children").read_text().split()
        found = {}
        for pid in [str(self.service.pid), *children]:
            name = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            status = Path(f"/proc/{pid}/status").read_text()
            anonymous = re.search(r"RssAnon:\s+(\d+)", status)
            found[name[4] if "service.supervisor.child_main" in name else "supervisor"] = (
                int(anonymous[1]) << 10 if anonymous else 0
            )
        return found


@contextmanager
def running_bed(make_side: Callable[[], Side], *, shards: int = 1, small: bool = False, **engine: Any) -> Iterator[Bed]:
    """The site, the service with two workers, the load and the probers, for the length of a block. `small`: state and
    leaf store are in file systems of their own, where these can be made; `engine`: more of its settings."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        side = make_side()
        stack.callback(side.discard)
        proxy = stack.enter_context(proxy_of(side))
        disks = stack.enter_context(small_disks(directory / "disk")) if small and may_mount() else None
        state = directory / ("disk/state" if disks else "state")
        service = configured_service(directory, side, proxy, state, engine={"shards": shards, **engine})
        stack.callback(service.discard)
        if disks is not None:
            disks.give(service)
            state = disks.seen(state)
        service.start()
        load, probers = stack.enter_context(loaded(side, service))
        yield Bed(side, service, proxy, load, *probers, state, shards, disks)


def proxy_of(side: Side) -> AbstractContextManager[Proxy]:
    """Run a proxy of the database."""
    port = urlsplit(side.news.url).port
    assert port is not None
    return running_proxy(port)


@contextmanager
def loaded(side: Side, service: RunningService) -> Iterator[tuple[Load, tuple[Prober, Prober]]]:
    """Put the view of the probers, and run these and the load for the length of a block."""
    kept = {"sql": PROBED["kept"], "materialization": "full"}
    service.call("PUT", "/v1/catalog/views/kept", json=kept).raise_for_status()
    until(lambda: service.view("kept")["status"] == "ready")
    probers = Prober(service, "kept"), Prober(service, "apart")
    load = Load(side.news, service)
    load.spare()
    # Nobody but a fault evicts what is held.
    load.evicts_bytes = False
    with ExitStack() as stack:
        stack.enter_context(load)
        for prober in probers:
            prober.start()
            stack.callback(prober.stop)
        load.compare()
        yield load, probers


def configured_service(directory: Path, side: Side, proxy: Proxy, state: Path, **sections: Any) -> RunningService:
    """Return a service of all views that has not been started. `sections`: more of its configuration."""
    views = {name: sql for name, (sql, _, _, _) in VIEWS.items()} | {"apart": PROBED["apart"], "held": HELD_VIEW}
    url = side.news.url.replace(f":{urlsplit(side.news.url).port}", f":{proxy.port}")
    given = {
        "http": {"workers": WORKERS},
        "cdc": {"silence_s": SILENCE_S},
        "upstream": {"statement_timeout_s": STATEMENT_S},
        "state": {"directory": str(state), "hot_keys_s": HOT_KEYS_S, "persistent": True},
        **sections,
    }
    for name, values in side.sections.items():
        given[name] = {**given.get(name, {}), **values}
    return RunningService(directory, url, views, **given)
