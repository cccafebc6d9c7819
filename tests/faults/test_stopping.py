"""A service that is stopped while somebody waits: new connections are refused, and who waits is told."""

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.faults.sides import suspended
from tests.fixtures.postgres import Database
from tests.fixtures.service import PATIENT, process_named, running_service, until

pytestmark = pytest.mark.postgres

VIEWS = {"story": "SELECT id, title FROM stories WHERE id = :id"}


def refuses(url: str) -> bool:
    """Return whether nobody listens there."""
    address = urlsplit(url)
    try:
        socket.create_connection((address.hostname, address.port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_who_registers_a_view_is_told(database: Database, tmp_path: Path) -> None:
    """Also where that takes longer than the admin port waits at a stop."""
    database.execute("CREATE TABLE stories (id int PRIMARY KEY, title text)")
    with (
        running_service(tmp_path, database.url, cdc={"set_replica_identity": True}) as service,
        ThreadPoolExecutor(1) as pool,
    ):
        with suspended(process_named("engine", service.pid)):
            waiting = pool.submit(service.put, "story", VIEWS["story"])
            until(lambda: connected_to(service.admin) > 0)
            assert service.process is not None
            service.process.send_signal(signal.SIGTERM)
            response = waiting.result()
        assert (response.status_code, response.json()["code"]) == (503, "engine_unavailable")
        assert "retry-after" in response.headers
        assert "Traceback" not in service.log.read_text()


def connected_to(url: str) -> int:
    """Return how many connections to a port of this machine are open."""
    port = f"0100007F:{urlsplit(url).port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return sum(fields[2] == port and fields[3] == "01" for fields in lines)


def test_who_waits_is_told_and_who_comes_is_refused(database: Database, tmp_path: Path) -> None:
    database.execute("CREATE TABLE stories (id int PRIMARY KEY, title text)", "INSERT INTO stories VALUES (1), (2)")
    with (
        running_service(tmp_path, database.url, VIEWS, cdc={"set_replica_identity": True}) as service,
        psycopg.connect(database.url) as locking,
        ThreadPoolExecutor(1) as pool,
    ):
        until(lambda: service.hits("story", id=1))
        locking.execute("LOCK TABLE stories")
        waiting = pool.submit(service.read, "story", PATIENT, id=2)
        locks = "SELECT count(*) FROM pg_locks WHERE relation = 'stories'::regclass AND NOT granted"
        until(lambda: database.query(locks)[0][0] == 1)
        assert service.process is not None
        service.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(service.http))
        assert service.process.poll() is None, "they are refused because nothing runs any more"
        response = waiting.result()
        assert (response.status_code, response.json()["code"]) == (503, "engine_unavailable")
        assert "retry-after" in response.headers
        assert service.stop() == 0
