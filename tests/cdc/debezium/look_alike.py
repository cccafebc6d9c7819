"""A consumer that looks like kafka-python's, over topics in memory. (Apache Kafka itself is in tests/integration.)"""

import threading
from collections import namedtuple
from typing import Any

from kafka import TopicPartition
from kafka.errors import OffsetOutOfRangeError

Stored = namedtuple("Stored", "topic partition offset timestamp key value")


class Cluster:
    """Topics. `identities` change when a topic is made anew."""

    cluster_id = "look-alike"

    def __init__(self, **partitions: int) -> None:
        self.lock = threading.Lock()
        self.logs: dict[TopicPartition, list[Stored]] = {}
        self.begins: dict[TopicPartition, int] = {}
        self.identities: dict[str, int] = {}
        for topic, count in partitions.items():
            self.create(topic, count)

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic, or make it anew."""
        with self.lock:
            self.identities[topic] = self.identities.get(topic, 0) + 1
            for number in range(partitions):
                self.logs[TopicPartition(topic, number)] = []

    def write(self, topic: str, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Append a record."""
        with self.lock:
            log = self.logs[TopicPartition(topic, partition)]
            log.append(Stored(topic, partition, len(log), 1_700_000_000_000 + len(log), key, value))

    def cut_off(self, topic: str, before: int) -> None:
        """Remove records before that offset."""
        with self.lock:
            self.begins[TopicPartition(topic, 0)] = before

    def topic_id(self, topic: str) -> int | None:
        return self.identities.get(topic)

    def consumer(self, **settings: Any) -> "Consumer":
        return Consumer(self, settings)


class Consumer:
    """A consumer with the methods that `cdc.debezium.feed` calls."""

    def __init__(self, cluster: Cluster, settings: dict[str, Any]) -> None:
        assert settings["group_id"] is None
        assert settings["auto_offset_reset"] == "none"
        self._cluster = cluster
        self._positions: dict[TopicPartition, int] = {}
        self._idle = threading.Event()
        self.closed = False

    def topics(self) -> set[str]:
        with self._cluster.lock:
            return {tp.topic for tp in self._cluster.logs}

    def partitions_for_topic(self, topic: str) -> set[int]:
        with self._cluster.lock:
            return {tp.partition for tp in self._cluster.logs if tp.topic == topic}

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        with self._cluster.lock:
            return {tp: self._cluster.begins.get(tp, 0) for tp in partitions}

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        with self._cluster.lock:
            return {tp: len(self._cluster.logs[tp]) for tp in partitions}

    def assignment(self) -> set[TopicPartition]:
        return set(self._positions)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._positions = {tp: self._positions.get(tp, -1) for tp in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def poll(self, timeout_ms: int, max_records: int = 500) -> dict[TopicPartition, list[Stored]]:
        found = {}
        with self._cluster.lock:
            for tp, at in self._positions.items():
                log = self._cluster.logs[tp]
                if at < self._cluster.begins.get(tp, 0) or at > len(log):
                    raise OffsetOutOfRangeError({tp: at})
                if at < len(log):
                    found[tp] = log[at : at + max_records]
                    self._positions[tp] = at + len(found[tp])
        if not found:
            self._idle.wait(min(timeout_ms, 5) / 1000)
        return found

    def close(self) -> None:
        self.closed = True
