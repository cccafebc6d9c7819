"""Faults injected into a `Bed` under reads and writes; each heals, or is repaired."""

import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from urllib.parse import urlsplit

from tests.faults.bed import Bed
from tests.faults.injection import Fault
from tests.faults.sides import PostgresSide, suspended
from tests.fixtures.service import HTTP, alive, until

#: Longer than the watchdog waits.
_FOR_GOOD_S = 14.0
_DIED, _HANGS = r"child died", r"child hangs"
_SILENT = r'upquery_process_silent\{{process="{}"\}} 1'
_LOST = r"change stream lost"
_BROKE = r"the connection of the change stream broke"
_WRITTEN, _USED = r"checkpoint written", "the checkpoint was read"
_CONTINUES = "the change stream continues from the slot"
#: Of answers that are seconds behind.
_OLD = r"upquery_age_seconds [3-9]"
Broken = Callable[[Bed], AbstractContextManager[None]]


def killed(*names: str) -> Broken:
    """These processes die at once."""

    @contextmanager
    def broken(bed: Bed) -> Iterator[None]:
        pids = [bed.pid(name) for name in names]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(alive, pids)))
        yield

    return broken


def stopped(name: str, *, goes_on: bool) -> Broken:
    """A process does not run, and is not gone: it goes on, or is ended for it."""

    @contextmanager
    def broken(bed: Bed) -> Iterator[None]:
        pid = bed.pid(name)
        with suspended(pid):
            yield
            if not goes_on:
                until(lambda: not alive(pid))

    return broken


@contextmanager
def stalled(bed: Bed, said: bytes) -> Iterator[None]:
    """Nothing comes on connections, and nobody closes them."""
    connections = bed.proxy.stall(said)
    assert connections
    yield
    for each in connections:
        each.goes_on.set()


@contextmanager
def crashed(bed: Bed, *also: str) -> Iterator[None]:
    """The database is away; some of our processes die meanwhile."""
    bed.side.crash()
    with killed(*also)(bed):
        yield
    bed.side.start()


@contextmanager
def restarted(bed: Bed, meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext) -> Iterator[None]:
    """The service is stopped and started again, with its cache, whatever has happened meanwhile."""
    service = bed.service
    service.keep_ports()
    assert service.stop() == 0
    with meanwhile():
        yield
    used = service.log.read_text().count(_USED)
    service.start()
    assert service.log.read_text().count(_USED) == used + 1, service.log.read_text()[-5000:]


@contextmanager
def promoted(bed: Bed) -> Iterator[None]:
    """The database fails, and a standby that has the slot takes its place: the stream goes on."""
    assert isinstance(bed.side, PostgresSide)
    continued = bed.service.log.read_text().count(_CONTINUES)
    bed.side.fail_over()
    yield
    until(lambda: bed.service.log.read_text().count(_CONTINUES) > continued)


@contextmanager
def ended(end: Callable[[], None]) -> Iterator[None]:
    """Something at the server is ended."""
    end()
    yield


@contextmanager
def forgotten_transaction(bed: Bed) -> Iterator[None]:
    """One is left open while an engine begins anew."""
    assert isinstance(bed.side, PostgresSide)
    with bed.side.transaction(), killed("engine")(bed):
        yield


@contextmanager
def new_table(bed: Bed) -> Iterator[None]:
    """A view of a table that cannot join the stream before a transaction has ended."""
    assert isinstance(bed.side, PostgresSide)
    with bed.side.transaction():
        bed.side.database.execute(
            "CREATE TABLE newer (id int PRIMARY KEY)",
            "ALTER TABLE newer REPLICA IDENTITY FULL",
            "INSERT INTO newer VALUES (1)",
        )
        bed.service.put("newer", "SELECT id FROM newer WHERE id = :id").raise_for_status()
        yield
    until(lambda: bed.service.hits("newer", id=1))
    bed.service.call("DELETE", "/v1/catalog/views/newer").raise_for_status()
    bed.side.database.execute("DROP TABLE newer")


@contextmanager
def configured(bed: Bed, setting: str) -> Iterator[None]:
    """Another setting of the server."""
    assert isinstance(bed.side, PostgresSide)
    bed.side.database.execute(f"ALTER SYSTEM SET {setting}", "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        bed.side.database.execute("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")


@contextmanager
def without_slot(bed: Bed) -> Iterator[None]:
    """The server takes the slot away, since the engine has not read for too long."""
    assert isinstance(bed.side, PostgresSide)
    database = bed.side.database
    with configured(bed, "max_slot_wal_keep_size = '1MB'"), stopped("engine", goes_on=True)(bed):

        def is_gone() -> bool:
            database.execute(
                "SELECT pg_logical_emit_message(false, 'faults', repeat('x', 20000000))",
                "SELECT pg_switch_wal()",
                "CHECKPOINT",
            )
            return not database.query("SELECT FROM pg_replication_slots WHERE wal_status IN ('reserved', 'extended')")

        until(is_gone)
        yield


@contextmanager
def impatient(bed: Bed) -> Iterator[None]:
    """The server waits for two seconds for whoever reads changes, and the engine stops for longer."""
    with configured(bed, "wal_sender_timeout = '2s'"), stopped("engine", goes_on=True)(bed):
        yield


@contextmanager
def without_state(bed: Bed) -> Iterator[None]:
    """Nothing can be kept: who puts a view is told."""
    state = bed.service.directory / "state"
    away = state.rename(state.with_name("away"))
    state.touch()
    try:
        assert bed.service.put("unkept", "SELECT id FROM stories WHERE author = :author").status_code == 500
        yield
    finally:
        state.unlink()
        away.rename(state)
        bed.service.call("DELETE", "/v1/catalog/views/unkept")


@contextmanager
def limited(bed: Bed, name: str, limit: int, most: int) -> Iterator[None]:
    """A process may not have more of something than it has."""
    pid = bed.pid(name)
    before = resource.prlimit(pid, limit)
    resource.prlimit(pid, limit, (most, before[1]))
    yield
    with suppress(ProcessLookupError):
        resource.prlimit(pid, limit, before)


@contextmanager
def without_memory(bed: Bed) -> Iterator[None]:
    """The engine gets no more address space, and is to load a view of many rows. It may have just enough."""
    with open(f"/proc/{bed.pid('engine')}/statm", encoding="ascii") as statm:
        pages = int(statm.read().split()[0])
    large = {"sql": "SELECT n, id FROM apart WHERE n = :n", "materialization": "full"}
    with limited(bed, "engine", resource.RLIMIT_AS, pages * resource.getpagesize() + (1 << 20)):
        bed.service.call("PUT", "/v1/catalog/views/large", json=large)
        yield
    bed.service.call("DELETE", "/v1/catalog/views/large")


@contextmanager
def crowded(bed: Bed, url: str, connections: int) -> Iterator[None]:
    """Connections that ask for nothing."""
    address = urlsplit(url)
    with ExitStack() as stack:
        for _ in range(connections):
            with suppress(OSError):
                stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=5))
        assert HTTP.get(f"{bed.service.admin}/livez").status_code == 200
        yield


@contextmanager
def without_descriptors(bed: Bed) -> Iterator[None]:
    """A worker may open no more files, and many connect to it."""
    open_now = len(os.listdir(f"/proc/{bed.pid('worker-0')}/fd"))
    with (
        limited(bed, "worker-0", resource.RLIMIT_NOFILE, open_now + 5),
        crowded(bed, bed.service.http, 100),
    ):
        yield


#: On every database, with one engine.
EVERYWHERE = [
    Fault("a worker is killed", killed("worker-0"), 1, _DIED),
    Fault("all workers are killed", killed("worker-0", "worker-1"), 2, _DIED, hits_go_on=False),
    Fault("the engine is killed", killed("engine"), 2, _DIED),
    Fault("engine and a worker are killed", killed("engine", "worker-1"), 2, _DIED),
    Fault("the engine stops for 8 s", stopped("engine", goes_on=True), 8, _SILENT.format("engine")),
    Fault("the engine stops for good", stopped("engine", goes_on=False), _FOR_GOOD_S, _HANGS),
    Fault("a worker stops for 8 s", stopped("worker-0", goes_on=True), 8, _SILENT.format("worker-0")),
    Fault("a worker stops for good", stopped("worker-1", goes_on=False), _FOR_GOOD_S, _HANGS),
    Fault("the engine gets no memory", without_memory, 4, ""),
    Fault("a worker may open no more files", without_descriptors, 3, r'upquery_files_left\{worker="0"\} [0-5]\.'),
    Fault("230 connections to the admin port", lambda bed: crowded(bed, bed.service.admin, 230), 3, ""),
    Fault("the change stream's connection stalls", lambda bed: stalled(bed, bed.side.stream_says), 6, "."),
    Fault("all connections to the database stall", lambda bed: stalled(bed, b""), 10, _OLD),
    Fault("all connections are ended", lambda bed: ended(bed.side.end_connections), 1, ""),
    Fault("the change stream's connection is ended", lambda bed: ended(bed.side.end_stream), 1, "."),
    Fault("the database crashes", crashed, 3, "."),
    Fault("the database crashes, the engine too", lambda bed: crashed(bed, "engine"), 3, _DIED),
    Fault("the service is restarted", restarted, 2, _WRITTEN, hits_go_on=False),
    Fault(
        "the service is restarted, the database crashes",
        lambda bed: restarted(bed, lambda: crashed(bed)),
        2,
        _WRITTEN,
        hits_go_on=False,
    ),
    Fault("the state directory cannot be written", without_state, 1, "cannot be stored"),
    Fault("a table is locked", lambda bed: bed.side.locked(), 5, ""),
]
POSTGRES = [
    # Where that takes longer than the watchdog waits, the engine is ended for it.
    Fault("the server takes the slot away", without_slot, 1, f"{_LOST}|{_HANGS}"),
    Fault("a server with little patience, a late engine", impatient, 6, _SILENT.format("engine")),
    Fault("the server stops sending changes", lambda bed: bed.side.stream_stopped(), 8, _BROKE),  # type: ignore[union-attr]
    Fault("the engine is killed in a long transaction", forgotten_transaction, 8, r"pg_terminate_backend\("),
    Fault("a view of a new table in a long transaction", new_table, 4, ""),
    Fault("a standby is promoted", promoted, 2, _BROKE),
    Fault("the database is read-only by default", lambda bed: bed.side.read_only(), 2, ""),  # type: ignore[union-attr]
]
#: With several engines.
SHARDS = [
    Fault("one of two engines is killed", killed("engine-0"), 2, _DIED),
    Fault("one of two engines stops for 8 s", stopped("engine-1", goes_on=True), 8, _SILENT.format("engine-1")),
    Fault("one of two engines stops for good", stopped("engine-1", goes_on=False), _FOR_GOOD_S, _HANGS),
    Fault("the stream process is killed", killed("stream"), 2, _DIED),
    Fault("the stream process stops for 6 s", stopped("stream", goes_on=True), 6, _SILENT.format("stream")),
    Fault("both engines and the stream process die", killed("engine-0", "engine-1", "stream"), 2, _DIED),
]
