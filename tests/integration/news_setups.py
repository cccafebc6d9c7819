"""The set-ups that the news site is tested in: PostgreSQL and MariaDB, each directly and over Debezium and Kafka."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from tests.fixtures.debezium import Debezium, debezium_of_mariadb, debezium_of_postgres
from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.partitions import set_random_partitions
from tests.fixtures.postgres import Database
from tests.fixtures.seeds import day_seed
from tests.fixtures.service import RunningService, until
from tests.integration.news_mariadb import MariaNews
from tests.integration.news_postgres import PostgresNews
from tests.integration.news_workload import VIEWS, News

#: Of each table's topic: the rows of one transaction are in several.
PARTITIONS = 3
WATERMARK = "watermark"


@dataclass
class Setup:
    """The site, made, and what the service's configuration says of its change stream."""

    news: News
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    broker: KafkaBroker | None = None
    connector: Debezium | None = None


@contextmanager
def serving(directory: Path, setup: Setup) -> Iterator[RunningService]:
    """The service with all views, each ready."""
    views = {name: sql for name, (sql, _, _, _) in VIEWS.items()}
    service = RunningService(directory, setup.news.url, views, **setup.sections)
    try:
        service.start()
        until(lambda: all_ready(service))
        yield service
    finally:
        service.discard()


def all_ready(service: RunningService) -> bool:
    """Return whether every view is. AssertionError if one is broken."""
    states = service.call("GET", "/v1/catalog/views").json()["views"]
    broken = [f"{state['name']}: {state.get('reason')}" for state in states if state["status"] == "broken"]
    assert not broken, broken
    return len(states) == len(VIEWS) and all(state["status"] == "ready" for state in states)


@pytest.fixture
def postgres_direct(database: Database) -> Setup:
    """Its replication slot; other tables are partitioned each day."""
    news = PostgresNews(database)
    news.create()
    with psycopg.connect(database.url, autocommit=True) as connection:
        set_random_partitions(connection, Random(day_seed("news partitions")))
    return Setup(news)


@pytest.fixture
def mariadb_direct(mariadb: MariaDatabase) -> Setup:
    """Its binary log."""
    news = MariaNews(mariadb)
    news.create()
    return Setup(news)


@pytest.fixture
def mariadb_keys_act(mariadb: MariaDatabase) -> Setup:
    """Its binary log, which lacks what foreign keys change."""
    news = MariaNews(mariadb, keys_act=True)
    news.create()
    return Setup(news)


@pytest.fixture
def postgres_kafka(database: Database, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Setup]:
    """A topic of several partitions for each table."""
    with postgres_over(kafka_broker, database, topic_prefix, tmp_path) as setup:
        yield setup


@pytest.fixture
def mariadb_kafka(
    mariadb: MariaDatabase, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> Iterator[Setup]:
    """A topic of several partitions for each table."""
    with mariadb_over(kafka_broker, mariadb, topic_prefix, tmp_path) as setup:
        yield setup


@contextmanager
def postgres_over(broker: KafkaBroker, database: Database, prefix: str, directory: Path) -> Iterator[Setup]:
    """The site on PostgreSQL, over a broker."""
    news = PostgresNews(database)
    news.create()
    connector = debezium_of_postgres(directory / "debezium", broker, database, prefix, partitions=PARTITIONS)
    setup = Setup(news, _kafka(broker, prefix), broker, connector)
    with _captured(setup, prefix, news.tables):
        yield setup


@contextmanager
def mariadb_over(broker: KafkaBroker, database: MariaDatabase, prefix: str, directory: Path) -> Iterator[Setup]:
    """The site on MariaDB, over a broker."""
    news = MariaNews(database)
    news.create()
    watermark = f"{database.name}.{WATERMARK}"
    database.execute(f"CREATE TABLE {WATERMARK} (id int PRIMARY KEY, n bigint NOT NULL)")
    connector = debezium_of_mariadb(directory / "debezium", broker, database, prefix, partitions=PARTITIONS)
    setup = Setup(news, _kafka(broker, prefix, watermark_table=watermark), broker, connector)
    with _captured(setup, prefix, (*news.tables, watermark)):
        yield setup


@contextmanager
def _captured(setup: Setup, prefix: str, tables: tuple[str, ...]) -> Iterator[None]:
    assert setup.broker is not None
    assert setup.connector is not None
    setup.broker.create_topics({f"{prefix}.{table}": PARTITIONS for table in tables} | {f"{prefix}.transaction": 1})
    try:
        setup.connector.start()
        yield
    finally:
        setup.connector.kill()


def _kafka(broker: KafkaBroker, prefix: str, **more: Any) -> dict[str, dict[str, Any]]:
    return {
        "cdc": {"source": "kafka"},
        "cdc.kafka": {"bootstrap_servers": broker.bootstrap, "topic_prefix": prefix, **more},
    }
