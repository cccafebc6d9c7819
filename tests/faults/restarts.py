"""Faults of a service that is stopped and started again: in order, or killed at a random moment of its checkpoint."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from random import Random

import httpx

from tests.faults.bed import Bed
from tests.fixtures.seeds import day_seed
from tests.fixtures.service import LIMIT_S, alive, process_named, processes_of, until
from tests.integration.consistency import RECOVERY_S

Broken = Callable[[Bed], AbstractContextManager[None]]
SUPERVISOR = "supervisor"
USED, BEGAN = "the checkpoint was read", "stream started"
#: Moments at which a process is killed, by fault.
_MOMENTS = 2
#: Longer than a stop, and a start, take.
_STOP_S, _START_S = 0.8, 1.5
#: Writing and reading of what `large` has take about so long.
_FILE_S = 0.1
_chance = Random(day_seed("moments of a checkpoint"))


@contextmanager
def restarted(
    bed: Bed, meanwhile: Callable[[], AbstractContextManager[None]] = nullcontext, says: str = ""
) -> Iterator[None]:
    """Stop the service in order and start it again, whatever has happened meanwhile. `says`: what it must log of its
    checkpoint, if not that it was used."""
    service = bed.service
    service.keep_ports()
    assert service.stop() == 0
    with meanwhile():
        yield
    said = says or (USED if bed.is_warm else BEGAN)
    before = service.log.read_text().count(said)
    service.start()
    assert service.log.read_text().count(said) > before, service.log.read_text()[-5000:]


def damaged(damage: Callable[[bytearray], None], says: str) -> Broken:
    """Return a fault: the checkpoint is not what was written when the service is started again."""

    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        damage(content)
        path.write_bytes(content)

    @contextmanager
    def meanwhile(bed: Bed) -> Iterator[None]:
        assert bed.checkpoints()
        for path in bed.checkpoints():
            change(path)
        yield

    return lambda bed: restarted(bed, lambda: meanwhile(bed), says)


def tear(content: bytearray) -> None:
    """Write something else over some blocks of a file, behind its beginning."""
    for _ in range(3):
        at = _chance.randrange(8192, max(8193, len(content) - 512))
        content[at : at + 512] = _chance.randbytes(len(content[at : at + 512]))


def truncate(content: bytearray) -> None:
    """Leave the first part of a file."""
    del content[len(content) * _chance.randint(20, 90) // 100 :]


def make_older(content: bytearray) -> None:
    """Let a file be of the format before the present one."""
    version = content.index(b"\n") + 1
    content[version : version + 2] = (int.from_bytes(content[version : version + 2]) - 1).to_bytes(2)


@contextmanager
def altered(bed: Bed) -> Iterator[None]:
    """Stop the service, alter a table that views read, and start it again; later the table is as it was."""
    with restarted(bed):
        bed.side.database.execute("ALTER TABLE users ADD COLUMN more int DEFAULT 3")
        yield
    bed.side.database.execute("ALTER TABLE users DROP COLUMN more")


@contextmanager
def large(bed: Bed) -> Iterator[None]:
    """A view of many rows: so that a checkpoint takes a while."""
    view = {"sql": "SELECT n, id FROM apart WHERE n = :n", "materialization": "full"}
    bed.service.call("PUT", "/v1/catalog/views/large", json=view).raise_for_status()
    until(lambda: bed.service.view("large")["status"] == "ready", RECOVERY_S)
    yield
    until(lambda: bed.service.call("DELETE", "/v1/catalog/views/large").status_code in (204, 404))


def killed_while_writing(name: str) -> Broken:
    """Return a fault: a process dies at random moments of a stop that writes a checkpoint."""

    @contextmanager
    def broken(bed: Bed) -> Iterator[None]:
        with large(bed):
            for moment in range(_MOMENTS):
                _kill_stopping(bed, name, at_file=moment % 2 == 0)
                bed.service.start()
                until(bed.is_whole, RECOVERY_S)
        yield

    return broken


def _kill_stopping(bed: Bed, name: str, *, at_file: bool) -> None:
    service = bed.service
    service.keep_ports()
    assert service.process is not None
    pid = service.pid if name == SUPERVISOR else bed.pid(name)
    children = processes_of(service.pid)
    service.process.send_signal(signal.SIGTERM)
    if at_file:
        until(lambda: bed.checkpoints(".new") or bed.checkpoints() or not alive(pid))
    bed.load.pause(_chance.uniform(0, _FILE_S if at_file else _STOP_S))
    _kill(pid)
    service.process.wait(LIMIT_S)
    until(lambda: not any(map(alive, children)))


def killed_while_reading(name: str) -> Broken:
    """Return a fault: a process dies at random moments of a start that reads a checkpoint."""

    @contextmanager
    def broken(bed: Bed) -> Iterator[None]:
        with large(bed):
            for moment in range(_MOMENTS):
                bed.service.keep_ports()
                assert bed.service.stop() == 0
                _kill_starting(bed, name, at_file=moment % 2 == 0)
                until(bed.is_whole, RECOVERY_S)
        yield

    return broken


def _kill_starting(bed: Bed, name: str, *, at_file: bool) -> None:
    service, former, files = bed.service, bed.service.process, len(bed.checkpoints())
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(service.start)
        until(lambda: service.process is not former)
        assert service.process is not None
        supervisor = service.process.pid
        if at_file:
            # It is removed before it is read.
            until(lambda: len(bed.checkpoints()) < files or starting.done(), RECOVERY_S)
        bed.load.pause(_chance.uniform(0, _FILE_S if at_file else _START_S))
        children = processes_of(supervisor)
        with suppress(ValueError):  # It does not run yet, or no more.
            _kill(supervisor if name == SUPERVISOR else process_named(name, supervisor))
        with suppress(AssertionError, httpx.HTTPError):
            starting.result()
        if name == SUPERVISOR:
            service.process.wait(LIMIT_S)
            until(lambda: not any(map(alive, children)))
    if service.process.poll() is not None:
        service.start()


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextmanager
def lost(bed: Bed) -> Iterator[None]:
    """Kill the supervisor: nobody else of the service lives on. It is started again."""
    service = bed.service
    service.keep_ports()
    children = processes_of(service.pid)
    assert service.stop(signal.SIGKILL) < 0
    until(lambda: not any(map(alive, children)))
    yield
    service.start()


@contextmanager
def one_by_one(bed: Bed) -> Iterator[None]:
    """Restart everything in order, each thing when all that was restarted before is whole again: servers, workers,
    engines, at last the service."""
    for restart in bed.side.restarts():
        restart()
        until(bed.is_whole, RECOVERY_S)
    names = [*(f"worker-{n}" for n in range(bed.workers)), *bed.engine_names()]
    for name in names:
        pid = bed.pid(name)
        os.kill(pid, signal.SIGTERM)
        until(lambda pid=pid: not alive(pid))
        until(bed.is_whole, RECOVERY_S)
    with restarted(bed):
        pass
    yield
