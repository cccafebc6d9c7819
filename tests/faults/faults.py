"""Faults injected into a `Bed` under reads and writes; each heals, or is repaired."""

import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

from tests.faults.bed import Bed
from tests.faults.kafka_side import KafkaSide
from tests.faults.restarts import BEGAN, Broken, restarted
from tests.faults.sides import PostgresSide, suspended
from tests.fixtures.service import HTTP, alive, until

_CONTINUES = "the change stream continues from the slot"


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
def cut(bed: Bed, said: bytes) -> Iterator[None]:
    """Connections are closed on their way, and nobody at either end has asked for it."""
    for each in bed.proxy.connections:
        if said in each.said:
            each.close()
    yield


@contextmanager
def without_room_for_leaves(bed: Bed) -> Iterator[None]:
    """The file system of the leaf store is full."""
    assert bed.disks is not None
    with bed.disks.full(bed.service.run):
        yield


@contextmanager
def without_room_for_state(bed: Bed) -> Iterator[None]:
    """The file system of the state directory is full."""
    assert bed.disks is not None
    with bed.disks.full(bed.disks.state):
        put_unkept(bed)
        yield
    drop_unkept(bed)


@contextmanager
def without_broker(bed: Bed) -> Iterator[None]:
    """The broker crashes, and is started again."""
    assert isinstance(bed.side, KafkaSide)
    bed.side.broker.kill()
    yield
    bed.side.broker.start()


@contextmanager
def without_connector(bed: Bed) -> Iterator[None]:
    """The connector crashes, and is started again: what it had not noted is sent once more."""
    assert isinstance(bed.side, KafkaSide)
    bed.side.connector.kill()
    yield
    bed.side.connector.start()


@contextmanager
def unread(bed: Bed, change: Callable[[KafkaSide], AbstractContextManager[None]]) -> Iterator[None]:
    """Topics change while the engine does not read them."""
    assert isinstance(bed.side, KafkaSide)
    with stopped("engine", goes_on=True)(bed):
        commits = bed.load.commits
        until(lambda: bed.load.check() is None and bed.load.commits > commits + 500)
        with change(bed.side):
            pass
    yield


@contextmanager
def restarted_without_room(bed: Bed) -> Iterator[None]:
    """The file system of the state directory is full when the service is stopped, and when it is started again."""
    assert bed.disks is not None
    with bed.disks.full(bed.disks.state), restarted(bed, says=BEGAN):
        yield


@contextmanager
def crashed(bed: Bed, *also: str) -> Iterator[None]:
    """The database is away; some of our processes die meanwhile."""
    bed.side.crash()
    with killed(*also)(bed):
        yield
    bed.side.start()


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


def put_unkept(bed: Bed) -> None:
    """Put a view, and be told that it cannot be kept."""
    assert bed.service.put("unkept", "SELECT id FROM stories WHERE author = :author").status_code == 500


def drop_unkept(bed: Bed) -> None:
    """Drop it, when there is room again."""
    bed.service.call("DELETE", "/v1/catalog/views/unkept").raise_for_status()


@contextmanager
def without_state(bed: Bed) -> Iterator[None]:
    """Nothing can be kept."""
    state = bed.state
    away = state.rename(state.with_name("away"))
    state.touch()
    try:
        put_unkept(bed)
        yield
    finally:
        state.unlink()
        away.rename(state)
        drop_unkept(bed)


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
