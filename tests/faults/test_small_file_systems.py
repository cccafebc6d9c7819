"""A file system for the leaf store that is smaller than the memory budget: less is used, or nothing is begun."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import NotReadyError, RunningService, until

#: Runs a command with a memory file system of that size at a place, which only its processes see.
_WITH_TMPFS = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size="$0" none "$1" && shift && exec "$@"')


def _may_mount(directory: Path) -> bool:
    asked = [*_WITH_TMPFS, "1m", str(directory), "true"]
    return (
        shutil.which("unshare") is not None and subprocess.run(asked, check=False, capture_output=True).returncode == 0
    )


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    """A service that is not started, over texts of 100 MB. Its leaf store is where a test says."""
    if not _may_mount(tmp_path):
        pytest.skip("only root may mount a file system")
    database.execute(
        "CREATE TABLE texts (id int PRIMARY KEY, body text NOT NULL)",
        "ALTER TABLE texts REPLICA IDENTITY FULL",
        "INSERT INTO texts SELECT i, repeat(md5(i::text), 10000) FROM generate_series(1, 300) i",
    )
    found = RunningService(tmp_path / "service", database.url, {"text": "SELECT body FROM texts WHERE id = :id"})
    yield found
    found.discard()


@pytest.mark.postgres
def test_of_docker(service: RunningService) -> None:
    """64 MB, which is all that a container has of shared memory unless somebody says more."""
    service.within = (*_WITH_TMPFS, "64m", str(service.run))
    service.start()
    for number in [*range(1, 301), 300, 1]:
        rows = service.rows("text", id=number)
        assert [len(row["body"]) for row in rows] == [320_000]
    memory = service.call("GET", "/readyz").json()["memory"]
    assert memory["budget_bytes"] < 64 << 20
    assert memory["used_bytes"] < 1.1 * memory["budget_bytes"]
    assert service.stats()["counters"]["leaf_evictions"] > 100
    assert "--shm-size" in service.log.read_text()
    assert 'upquery_process_restarts_total{process="engine"} 0.0' in service.call("GET", "/metrics").text


@pytest.mark.postgres
def test_of_next_to_nothing(service: RunningService) -> None:
    service.within = (*_WITH_TMPFS, "16m", str(service.run))
    with pytest.raises(NotReadyError, match=r"has room for .* --shm-size"):
        service.start()


@pytest.mark.postgres
def test_that_others_fill(service: RunningService) -> None:
    """The memory in use shrinks, answers stay right and no process is lost; then it may grow again."""
    service.within = (*_WITH_TMPFS, "160m", str(service.run))
    service.start()
    budget_bytes = service.call("GET", "/readyz").json()["memory"]["budget_bytes"]
    assert [len(row["body"]) for row in service.rows("text", id=1)] == [320_000]
    seen = Path("/proc", str(service.pid), "root", *service.run.parts[1:])
    left_bytes = os.statvfs(seen).f_bavail * os.statvfs(seen).f_frsize
    ballast = seen / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, left_bytes - (24 << 20))
    with ThreadPoolExecutor(6) as pool:
        for rows in pool.map(lambda number: service.rows("text", id=number), [*range(1, 301), 300, 1]):
            assert [len(row["body"]) for row in rows] == [320_000]
    memory = service.call("GET", "/readyz").json()["memory"]
    assert memory["used_bytes"] < memory["budget_bytes"] == budget_bytes
    assert service.stats()["sizes"]["limit_bytes"] < 48 << 20
    assert "room in the file system of the leaf store" in service.log.read_text()
    ballast.unlink()
    until(lambda: service.stats()["sizes"]["limit_bytes"] > 0.9 * budget_bytes)
    assert 'upquery_process_restarts_total{process="engine"} 0.0' in service.call("GET", "/metrics").text
