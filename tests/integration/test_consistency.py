"""The whole service under concurrent writers, on each kind of upstream: every answer is the database's, at one version.
Before they write: a key that is kept is answered without the database.

See `consistency` for what is compared, `news_setups` for the upstreams.
"""

import os
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures.service import RunningService
from tests.integration.consistency import Load
from tests.integration.news_setups import Setup, mariadb_direct, mariadb_kafka, postgres_direct, postgres_kafka, serving

__all__ = ["mariadb_direct", "mariadb_kafka", "postgres_direct", "postgres_kafka"]

#: How long the writers run. The clock only bounds the test; nothing is asserted about time.
SECONDS = float(os.environ.get("UPQUERY_CONSISTENCY_SECONDS", "20"))


def every_answer_is_the_databases(setup: Setup, service: RunningService) -> None:
    with Load(setup.news, service) as load:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            load.compare()
            load.pause(1.0)
    load.compare()
    engine = service.stats()["engine"]
    sys.stdout.write(f"{load.summary()}\n{engine}\n")
    assert load.rounds >= 3
    assert all(client.done for client in load.clients)
    assert engine.get("redo", 0) > 0, "lookups raced with no transaction: the test shows nothing"


def a_warm_read_asks_the_upstream_nothing(service: RunningService) -> None:
    def asked() -> list[int]:
        counters = service.stats()["counters"]
        return [counters[name] for name in ("lookups", "refreshes", "reads_forwarded")]

    cold = service.read("karma", name="user1")
    assert "fwd=miss" in cold.headers["cache-status"]
    before = asked()
    for _ in range(50):
        warm = service.read("karma", name="user1")
        assert "; hit" in warm.headers["cache-status"]
        assert warm.json()["rows"] == cold.json()["rows"]
    assert asked() == before


@pytest.mark.postgres
def test_postgres_direct(postgres_direct: Setup, tmp_path: Path) -> None:
    with serving(tmp_path / "service", postgres_direct) as service:
        a_warm_read_asks_the_upstream_nothing(service)
        every_answer_is_the_databases(postgres_direct, service)


@pytest.mark.postgres
@pytest.mark.kafka
def test_postgres_over_kafka(postgres_kafka: Setup, tmp_path: Path) -> None:
    with serving(tmp_path / "service", postgres_kafka) as service:
        every_answer_is_the_databases(postgres_kafka, service)


@pytest.mark.mariadb
def test_mariadb_direct(mariadb_direct: Setup, tmp_path: Path) -> None:
    with serving(tmp_path / "service", mariadb_direct) as service:
        a_warm_read_asks_the_upstream_nothing(service)
        every_answer_is_the_databases(mariadb_direct, service)


@pytest.mark.mariadb
@pytest.mark.kafka
def test_mariadb_over_kafka(mariadb_kafka: Setup, tmp_path: Path) -> None:
    with serving(tmp_path / "service", mariadb_kafka) as service:
        every_answer_is_the_databases(mariadb_kafka, service)
