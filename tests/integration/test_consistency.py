"""The whole service under concurrent writers, on each kind of upstream: every answer is the database's, at one version.
Before they write: a key that is kept is answered without the database.

See `consistency` for what is compared, `news_setups` for the upstreams.
"""

import os
import sys
import time
from pathlib import Path
from random import Random

import psycopg
import pytest

from tests.fixtures.identities import set_default_identities, set_random_identities
from tests.fixtures.postgres import Database
from tests.fixtures.seeds import day_seed
from tests.fixtures.service import RunningService, until
from tests.integration.consistency import RECOVERY_S, Auditor, Load
from tests.integration.news_setups import (
    Setup,
    mariadb_direct,
    mariadb_kafka,
    mariadb_keys_act,
    postgres_direct,
    postgres_kafka,
    serving,
)

__all__ = ["mariadb_direct", "mariadb_kafka", "mariadb_keys_act", "postgres_direct", "postgres_kafka"]

#: A run has shown enough after so many comparisons of all keys, transactions, and sums of all money.
ROUNDS, COMMITS, AUDITS = 5, 600, 600
#: Times that all tables get other replica identities.
ALTERATIONS = 4
#: `make soak` sets how long it goes on all the same.
SOAK_S = float(os.environ.get("SOAK_SECONDS", "0"))


def every_answer_is_the_databases(setup: Setup, service: RunningService) -> None:
    with Load(setup.news, service) as load:
        deadline = time.monotonic() + SOAK_S
        while time.monotonic() < deadline:
            load.compare()
            load.pause(1.0)
        load.compare_until(lambda: has_shown_enough(load) and has_raced(service), ROUNDS)
    load.compare()
    sys.stdout.write(f"{load.summary()}\n{service.stats()['engine']}\n")


def has_shown_enough(load: Load) -> bool:
    """Return whether every writer and client has done its part."""
    audits = sum(client.done for client in load.clients if isinstance(client, Auditor))
    return load.commits >= COMMITS and audits >= AUDITS and all(client.done for client in load.clients)


def has_raced(service: RunningService) -> bool:
    """Return whether lookups raced with transactions."""
    redone: int = service.stats()["engine"].get("redo", 0)
    return redone > 0


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


@pytest.mark.postgres
@pytest.mark.kafka
def test_identities_over_kafka(postgres_kafka: Setup, database: Database, tmp_path: Path) -> None:
    """Tables have the replica identities of new ones, then others, under writers: events do not state them."""
    rng = Random(day_seed("identities over Kafka"))
    with psycopg.connect(database.url, autocommit=True) as connection:
        set_default_identities(connection)
        with serving(tmp_path / "service", postgres_kafka) as service, Load(postgres_kafka.news, service) as load:
            load.compare_until(lambda: has_shown_enough(load) and has_raced(service), ROUNDS)
            load.disturbed.set()
            for _ in range(ALTERATIONS):
                set_random_identities(connection, rng)
                for _ in range(ROUNDS):
                    # Views are planned again, at some time: whatever is answered in between is right.
                    until(load.is_right, RECOVERY_S)
                    load.pause(0.3)
            sys.stdout.write(f"{load.summary()}\n{service.stats()['engine']}\n")
            assert service.stats()["engine"]["partial_changes"]


@pytest.mark.mariadb
def test_mariadb_direct(mariadb_direct: Setup, tmp_path: Path) -> None:
    with serving(tmp_path / "service", mariadb_direct) as service:
        a_warm_read_asks_the_upstream_nothing(service)
        every_answer_is_the_databases(mariadb_direct, service)


@pytest.mark.mariadb
def test_mariadb_whose_foreign_keys_act(mariadb_keys_act: Setup, tmp_path: Path) -> None:
    with serving(tmp_path / "service", mariadb_keys_act) as service:
        every_answer_is_the_databases(mariadb_keys_act, service)
        assert service.stats()["engine"]["implied_changes"]
        views = service.call("GET", "/v1/catalog/views").json()["views"]
        # It would be materialized fully, and loaded again with each deletion.
        assert [view["name"] for view in views if view["tier"] != "incremental"] == ["front_page"]


@pytest.mark.mariadb
@pytest.mark.kafka
def test_mariadb_over_kafka(mariadb_kafka: Setup, tmp_path: Path) -> None:
    with serving(tmp_path / "service", mariadb_kafka) as service:
        every_answer_is_the_databases(mariadb_kafka, service)
