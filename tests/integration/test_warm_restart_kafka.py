"""Restarts from a checkpoint over Debezium's topics, with all that can happen to topics and connector meanwhile."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc.debezium.place import TopicPlace
from service.engine.checkpoint.frames import read_frames
from service.engine.checkpoint.header import CheckpointHeader
from tests.fixtures.debezium import (
    EXACT_MARIADB,
    EXACT_POSTGRES,
    Debezium,
    debezium_of_mariadb,
    debezium_of_postgres,
)
from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.postgres import Database
from tests.fixtures.service import until
from tests.integration.warm import WarmDatabase, WarmService

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0


@dataclass(slots=True)
class Site:
    """A filled service over a connector."""

    warm: WarmService
    connector: Debezium
    broker: KafkaBroker

    @property
    def stories(self) -> str:
        """The topic of a table."""
        database = self.warm.database
        return f"{self.connector.prefix}.{'public' if isinstance(database, Database) else database.name}.stories"

    @property
    def transactions(self) -> str:
        return f"{self.connector.prefix}.transaction"

    def write(self) -> None:
        """Changes rows under keys of all views."""
        self.warm.database.execute(
            "UPDATE stories SET title = CONCAT(title, '!'), author = (author + 1) % 8 WHERE id < 10",
            "DELETE FROM votes WHERE id % 7 = 0",
            "INSERT INTO votes (story, voter) VALUES (1, 1), (2, 2), (9, 9)",
        )

    def restarts_warm(self) -> bool:
        """Starts the service again and compares all keys; returns whether the checkpoint was used."""
        used = self.warm.log().count("the checkpoint was read")
        self.warm.restart()
        self.warm.compare()
        return self.warm.log().count("the checkpoint was read") > used


@contextmanager
def site(directory: Path, database: WarmDatabase, broker: KafkaBroker, prefix: str, engines: int = 1) -> Iterator[Site]:
    kafka: dict[str, Any] = {"bootstrap_servers": broker.bootstrap, "topic_prefix": prefix, "gap_timeout_s": 3}
    kafka["decimal_handling_mode"] = "string"
    schema = "public" if isinstance(database, Database) else database.name
    topics = {f"{prefix}.{schema}.stories": 3, f"{prefix}.{schema}.votes": 2, f"{prefix}.transaction": 1}
    if not isinstance(database, Database):
        database.execute("CREATE TABLE watermark (id int PRIMARY KEY, n bigint NOT NULL)")
        kafka["watermark_table"] = f"{database.name}.watermark"
        topics[f"{prefix}.{database.name}.watermark"] = 1
    broker.create_topics(topics)
    settings = {"cdc": {"source": "kafka"}, "cdc.kafka": kafka}
    warm = WarmService(directory / "service", database, settings=settings, engines=engines)
    if isinstance(database, Database):
        connector = debezium_of_postgres(directory / "debezium", broker, database, prefix, EXACT_POSTGRES)
    else:
        connector = debezium_of_mariadb(directory / "debezium", broker, database, prefix, EXACT_MARIADB)
    try:
        connector.start()
        warm.running.start()
        until(lambda: warm.hit_rate() == 1.0, LIMIT_S)
        yield Site(warm, connector, broker)
    finally:
        warm.running.discard()
        connector.kill()


@pytest.fixture(
    params=[
        pytest.param("database", marks=pytest.mark.postgres, id="postgres"),
        pytest.param("mariadb", marks=pytest.mark.mariadb, id="mariadb"),
    ]
)
def here(
    request: pytest.FixtureRequest, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> Iterator[Site]:
    with site(tmp_path, request.getfixturevalue(request.param), kafka_broker, topic_prefix) as found:
        yield found


@pytest.fixture
def postgres(database: Database, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path, database, kafka_broker, topic_prefix) as found:
        yield found


def test_a_restart_is_warm(postgres: Site) -> None:
    """Nothing is written meanwhile: every key is a hit at once, more than once; then writers go on."""
    warm = postgres.warm
    for _ in range(2):
        assert warm.running.stop() == 0
        assert len(warm.checkpoints) == 1, warm.log()
        warm.restart()
        assert warm.hit_rate() == 1.0, warm.log()
        assert warm.checkpoints == []
    warm.compare()
    with warm.writing():
        warm.running.stop()
        assert len(warm.checkpoints) == 1, warm.log()
        warm.restart()
        rate = warm.hit_rate()
    warm.compare()
    assert rate > 0.9, warm.log()
    assert "change stream lost" not in warm.log()


def created_again(here: Site) -> None:
    here.connector.stop()
    here.broker.delete_topics(here.stories)
    here.broker.create_topics({here.stories: 3})
    here.connector.start()
    here.write()


def truncated(here: Site) -> None:
    """Records behind the place are gone."""
    here.write()
    until(lambda: ends(here.broker, here.stories) != before(here), LIMIT_S)
    remove_records(here.broker, here.stories)


def cut_off(here: Site) -> None:
    """Records up to the place are gone, the last one among them."""
    remove_records(here.broker, here.transactions)
    here.write()


def torn(here: Site) -> None:
    (checkpoint,) = here.warm.checkpoints
    content = bytearray(checkpoint.read_bytes())
    content[200] ^= 1
    checkpoint.write_bytes(content)
    here.write()


def before(here: Site) -> dict[Any, int]:
    """Ends of the topic's partitions when the service stopped."""
    (checkpoint,) = here.warm.checkpoints
    with checkpoint.open("rb") as file:
        _, body = next(read_frames(file))
    assert body is not None
    place = TopicPlace.parse(CheckpointHeader.parse(body).place)
    return {each.partition: each.offset for each in place.partitions if each.topic == here.stories}


def ends(broker: KafkaBroker, topic: str) -> dict[int, int]:
    from kafka import TopicPartition

    with closing(broker.consumer()) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        return {tp.partition: end for tp, end in consumer.end_offsets(partitions).items()}


def remove_records(broker: KafkaBroker, topic: str) -> None:
    """All that are in the topic now."""
    from kafka import TopicPartition

    with closing(broker.admin()) as admin:
        admin.delete_records({TopicPartition(topic, number): end for number, end in ends(broker, topic).items() if end})


def test_topics_that_lack_something(postgres: Site) -> None:
    """The reason is logged, and the cache begins empty."""
    for happens, why in (
        (created_again, "was deleted and created again"),
        (truncated, "were removed that have not been read"),
        (cut_off, "so it cannot be compared"),
        (torn, "Its header is damaged"),
    ):
        postgres.warm.fill()
        assert postgres.warm.running.stop() == 0
        happens(postgres)
        assert not postgres.restarts_warm(), happens
        assert why in postgres.warm.log()
        assert "change stream lost" not in postgres.warm.log()


def test_connectors_are_started_anew(postgres: Site) -> None:
    """One that was killed, with its broker, goes on. One that lost its offsets may have left something out, though its
    events look like those of before: the stream ends with the reason, and the cache begins empty."""
    warm, connector = postgres.warm, postgres.connector
    assert isinstance(warm.database, Database)
    warm.running.stop()
    connector.kill()
    postgres.write()
    postgres.broker.kill()
    postgres.broker.start()
    connector.start()
    assert postgres.restarts_warm()
    assert "change stream lost" not in warm.log()

    for mode, why in (("no_data", "The connector began anew"), ("initial", "The connector takes a snapshot")):
        warm.fill()
        warm.running.stop()
        connector.kill()
        connector.forget_offsets()
        connector.properties["snapshot.mode"] = mode
        warm.database.drop_slots()
        postgres.write()
        connector.start()
        postgres.write()
        postgres.restarts_warm()
        assert why in warm.log()


def test_broker_and_connector_are_killed(here: Site) -> None:
    """While the service runs: nothing is evicted, and nothing is lost."""
    warm = here.warm
    for kill, start in ((here.broker.kill, here.broker.start), (here.connector.kill, here.connector.start)):
        kill()
        here.write()
        assert warm.hit_rate("story", "counted") == 1.0
        start()
        warm.compare()
        assert warm.hit_rate("story", "counted") == 1.0
    assert "change stream lost" not in warm.log()
    here.broker.kill()
    assert warm.running.stop() == 0
    here.broker.start()
    here.restarts_warm()


@pytest.mark.postgres
def test_several_engines_begin_empty(
    database: Database, kafka_broker: KafkaBroker, topic_prefix: str, tmp_path: Path
) -> None:
    with site(tmp_path, database, kafka_broker, topic_prefix, engines=2) as here:
        here.warm.running.stop()
        assert here.warm.checkpoints == []
        assert not here.restarts_warm()
