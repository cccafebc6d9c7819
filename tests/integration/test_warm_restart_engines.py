"""Engines that share a slot of PostgreSQL and stop together, or not: each key is right, whoever has a checkpoint."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import process_named, until
from tests.integration.warm import WarmService, filled_service

pytestmark = pytest.mark.postgres

SLOTS = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() AND NOT active"


@pytest.fixture
def warm(database: Database, tmp_path: Path) -> Iterator[WarmService]:
    # An engine that hangs is ended soon.
    settings = {"state": {"persistent": True, "checkpoint_s": 2}}
    with filled_service(database, tmp_path, settings=settings, engines=2) as service:
        yield service


def pid_of(service: WarmService, name: str) -> int:
    return process_named(name, service.running.pid)


def kill(service: WarmService) -> None:
    os.kill(pid_of(service, "engine-1"), signal.SIGKILL)


def suspend(service: WarmService) -> None:
    os.kill(pid_of(service, "engine-1"), signal.SIGSTOP)


def obstruct(service: WarmService, engine: int = 1) -> None:
    """Its file cannot be written."""
    (service.directory / "state" / f"checkpoint-{engine}-of-2.new").mkdir(parents=True)


@pytest.mark.parametrize("fail", [kill, suspend, obstruct])
def test_an_engine_has_none(warm: WarmService, fail: Callable[[WarmService], None]) -> None:
    """The other one continues from its own, and the slot stays for it."""
    with warm.writing() as written:
        until(lambda: written() > 50)
        fail(warm)
        warm.running.stop()
        assert [path.name for path in warm.checkpoints if path.is_file()] == ["checkpoint-0-of-2"]
        assert len(warm.database.query(SLOTS)) == 1
        warm.restart()
        rate = warm.hit_rate("story")
    assert 0.2 < rate < 0.8, warm.log()
    warm.compare()
    warm.fill()
    warm.compare()


def test_no_engine_has_one(warm: WarmService) -> None:
    """Nobody needs the slot."""
    obstruct(warm, 0)
    obstruct(warm, 1)
    warm.running.stop()
    assert warm.database.query("SELECT FROM pg_replication_slots WHERE database = current_database()") == []
    warm.restart()
    assert warm.hit_rate("story") == 0.0
    warm.compare()


def test_one_engine_stops_alone(warm: WarmService) -> None:
    """The next one begins empty, and the stream goes on for both; the log is discarded again."""
    database = warm.database
    os.kill(pid_of(warm, "engine-1"), signal.SIGTERM)
    until(lambda: warm.log().count("stream started") == 3)
    assert "began before this engine asked" in warm.log()
    warm.compare()
    warm.fill()
    ((end,),) = database.query("SELECT pg_current_wal_lsn()::text")
    confirmed = (
        f"SELECT FROM pg_replication_slots WHERE database = current_database() AND confirmed_flush_lsn >= '{end}'"
    )
    until(lambda: database.query(confirmed))
    warm.running.stop()
    warm.restart()
    assert warm.hit_rate() == 1.0
    warm.compare()


def test_restarts_follow_each_other(warm: WarmService) -> None:
    """Also one that begins while the service still catches up."""
    with warm.writing() as written:
        for _ in range(3):
            warm.running.stop()
            before = written()
            until(lambda before=before: written() > before + 50)
            warm.restart()
    assert warm.log().count("the checkpoint was read") == 6
    warm.compare()


def test_an_older_place_is_refused(warm: WarmService) -> None:
    """The file of an engine that was away at the stop before: nothing of it is used, since the slot is beyond it."""
    warm.running.stop()
    path = warm.checkpoints[1]
    content = path.read_bytes()
    warm.restart()
    warm.database.execute("UPDATE stories SET title = 'newer'")
    warm.compare()
    warm.running.stop()
    path.write_bytes(content)
    warm.database.execute("UPDATE stories SET score = 3")
    warm.restart()
    assert "is not used" in warm.log()
    warm.compare()
