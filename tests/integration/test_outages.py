"""Outages of broker, connector, engine and database under reads and writes. Nothing is lost, nothing counts twice, and
no answer is wrong in between.
"""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.debezium import records
from tests.fixtures.mariadb import MariaDatabase, MariaDbServer, start_mariadb
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.service import RunningService
from tests.integration.consistency import Load
from tests.integration.news_setups import Setup, mariadb_direct, mariadb_kafka, postgres_direct, postgres_kafka, serving

__all__ = ["mariadb_direct", "mariadb_kafka", "postgres_direct", "postgres_kafka"]

#: At most so many, until one of them shows what it is for.
CONNECTOR_DEATHS = 6


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """A server of these tests' own: others have connections to the one that they share."""
    server = start_server()
    yield server
    discard_server(server)


@pytest.fixture(scope="module")
def mariadb_server() -> Iterator[MariaDbServer]:
    server = start_mariadb()
    yield server
    server.discard()


def kill_engine(service: RunningService) -> None:
    os.kill(service.stats()["pid"], signal.SIGKILL)


def break_kafka(setup: Setup, load: Load) -> None:
    """The broker, then the connector, whose transactions then come again."""
    assert setup.broker is not None
    assert setup.connector is not None
    load.disturb(setup.broker.kill, setup.broker.start)
    # One that has just noted how far it is sends nothing again: its next death shows it.
    for _ in range(CONNECTOR_DEATHS):
        load.disturb(setup.connector.kill, setup.connector.start)
        if _delivered_again(setup):
            return
    raise AssertionError("nothing was delivered again: the test shows nothing")


def _delivered_again(setup: Setup) -> bool:
    """Return whether the connector has sent a transaction twice."""
    assert setup.broker is not None
    assert setup.connector is not None
    seen = Counter(
        record["value"]["id"]
        for record in records(setup.broker, f"{setup.connector.prefix}.transaction")
        if record["value"]["status"] == "END"
    )
    return max(seen.values()) > 1


@pytest.mark.mariadb
def test_mariadb_direct(mariadb_direct: Setup, mariadb: MariaDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "service", mariadb_direct) as service:
        with Load(mariadb_direct.news, service) as load:
            load.spare()
            load.compare()
            load.disturb(lambda: kill_engine(service))
            load.disturb(mariadb.server.kill, mariadb.server.start)
        load.compare()
    sys.stdout.write(load.summary())


@pytest.mark.postgres
def test_postgres_direct(postgres_direct: Setup, database: Database, tmp_path: Path) -> None:
    with serving(tmp_path / "service", postgres_direct) as service:
        with Load(postgres_direct.news, service) as load:
            load.spare()
            load.compare()
            load.disturb(lambda: database.server.stop("immediate"), database.server.start)
        load.compare()
    sys.stdout.write(load.summary())


@pytest.mark.mariadb
@pytest.mark.kafka
def test_mariadb_over_kafka(mariadb_kafka: Setup, mariadb: MariaDatabase, tmp_path: Path) -> None:
    with serving(tmp_path / "service", mariadb_kafka) as service:
        with Load(mariadb_kafka.news, service) as load:
            load.spare()
            load.compare()
            break_kafka(mariadb_kafka, load)
            load.disturb(lambda: kill_engine(service))
            load.disturb(mariadb.server.kill, mariadb.server.start)
        load.compare()
    sys.stdout.write(load.summary())


@pytest.mark.postgres
@pytest.mark.kafka
def test_postgres_over_kafka(postgres_kafka: Setup, database: Database, tmp_path: Path) -> None:
    with serving(tmp_path / "service", postgres_kafka) as service:
        with Load(postgres_kafka.news, service) as load:
            load.spare()
            load.compare()
            break_kafka(postgres_kafka, load)
            load.disturb(lambda: kill_engine(service))
            load.disturb(lambda: database.server.stop("immediate"), database.server.start)
        load.compare()
    sys.stdout.write(load.summary())
