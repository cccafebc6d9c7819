"""The news site on PostgreSQL, followed over Debezium and Kafka: faults of broker, connector and topics."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.sides import ROWS, PostgresSide
from tests.fixtures.debezium import debezium_of_postgres
from tests.fixtures.kafka import start_kafka
from tests.fixtures.service import until
from tests.integration.consistency import RECOVERY_S
from tests.integration.news_setups import PARTITIONS

PREFIX = "faults"
#: A broker that compacts at once what it may.
_COMPACTS = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "4194304",
}
#: Of a topic, for as long as it is compacted.
_COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
}


class KafkaSide(PostgresSide):
    """Faults of everything between the database and the service."""

    warm = False

    def __init__(self) -> None:
        super().__init__()
        self.broker = start_kafka(_COMPACTS)
        self.topics = [f"{PREFIX}.{table}" for table in (*self.news.tables, *(f"public.{name}" for name in ROWS))]
        self.broker.create_topics(dict.fromkeys(self.topics, PARTITIONS) | {f"{PREFIX}.transaction": 1})
        self._directory = tempfile.TemporaryDirectory()
        directory = Path(self._directory.name)
        self.connector = debezium_of_postgres(directory, self.broker, self.database, PREFIX, partitions=PARTITIONS)
        self.connector.start()
        kafka = {"bootstrap_servers": self.broker.bootstrap, "topic_prefix": PREFIX, "gap_timeout_s": 3}
        # Nobody ends an engine that does not run until its topics are compacted.
        self.sections = {"cdc": {"source": "kafka"}, "cdc.kafka": kafka, "engine": {"watchdog_s": 120}}

    def restarts(self) -> list[Callable[[], None]]:
        def broker() -> None:
            self.broker.stop()
            self.broker.start()

        def connector() -> None:
            self.connector.stop()
            self.connector.start()

        return [*super().restarts(), broker, connector]

    @contextmanager
    def truncated_topics(self) -> Iterator[None]:
        """Remove all records that are in them."""
        from kafka import TopicPartition

        admin, consumer = self.broker.admin(), self.broker.consumer()
        try:
            partitions = [TopicPartition(topic, number) for topic in self.topics for number in range(PARTITIONS)]
            admin.delete_records(consumer.end_offsets(partitions))
        finally:
            consumer.close()
            admin.close()
        yield

    @contextmanager
    def compacted_topics(self) -> Iterator[None]:
        """Keep the last record of each row only, and wait until older ones are gone."""
        self._configure(_COMPACTED)
        try:
            until(self._has_gaps, RECOVERY_S)
            yield
        finally:
            self._configure({"cleanup.policy": "delete"})

    def _configure(self, settings: dict[str, str]) -> None:
        from kafka.admin import ConfigResource, ConfigResourceType

        admin = self.broker.admin()
        try:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, settings) for topic in self.topics])
        finally:
            admin.close()

    def _has_gaps(self) -> bool:
        """Return whether the votes' topic has records no more that were newer than the first one that it has."""
        from kafka import TopicPartition

        consumer = self.broker.consumer()
        try:
            partition = TopicPartition(f"{PREFIX}.public.votes", 0)
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            offsets = [record.offset for records in consumer.poll(1000).values() for record in records]
            return bool(offsets) and offsets[-1] - offsets[0] >= len(offsets)
        finally:
            consumer.close()

    def discard(self) -> None:
        self.connector.kill()
        self._directory.cleanup()
        self.broker.discard()
        super().discard()
