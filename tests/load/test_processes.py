"""Processes under measurement, as the kernel tells of them."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from load import processes

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that computes until its input ends."""
    program = (
        "import sys, threading\nthreading.Thread(target=sys.stdin.read).start()\nprint(sum(range(10**6)), flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.communicate(b"")


def test_family(child: subprocess.Popen[bytes]) -> None:
    assert child.pid in processes.children(os.getpid())
    assert processes.parent(child.pid) == os.getpid()
    assert processes.family(child.pid) == [child.pid]
    assert {os.getpid(), child.pid} <= set(processes.family(os.getpid()))


def test_what_was_stolen_does_not_become_less() -> None:
    first = processes.stolen_seconds()
    assert 0 <= first <= processes.stolen_seconds()


def test_cpu_time_is_that_of_the_kernel(child: subprocess.Popen[bytes]) -> None:
    used = processes.cpu_seconds([child.pid])
    assert 0 <= used < 60
    assert processes.cpu_seconds([child.pid, child.pid]) >= used


def test_memory_is_counted() -> None:
    held = [b"x" * (1 << 20) for _ in range(32)]
    mine = processes.resident_bytes([os.getpid()])
    assert len(held) << 20 < mine < 1 << 40
    assert mine <= processes.resident_bytes([os.getpid(), os.getppid()])


def test_files_in_a_directory_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 100_000)
    assert 100_000 <= processes.stored_bytes(tmp_path) < 200_000


def test_a_process_that_has_gone_counts_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert processes.cpu_seconds([process.pid]) == processes.resident_bytes([process.pid]) == 0
    assert processes.children(process.pid) == []
    processes.pin([process.pid], 0)


def test_pinning_holds_for_every_thread(child: subprocess.Popen[bytes]) -> None:
    core = min(os.sched_getaffinity(0))
    processes.pin([child.pid], core)
    threads = [int(entry.name) for entry in Path(f"/proc/{child.pid}/task").iterdir()]
    assert len(threads) > 1
    assert all(os.sched_getaffinity(thread) == {core} for thread in threads)


def test_who_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert processes.listens_on(os.getpid(), port)
        assert not processes.listens_on(1 if os.getpid() != 1 else os.getppid(), port)
    assert not processes.listens_on(os.getpid(), port)
