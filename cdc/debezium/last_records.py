"""Last records of partitions before given offsets, by which topics are recognized. Blocking.

Not here: reading what follows (`feed`).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, TypeVar

from kafka import KafkaConsumer, TopicPartition

from cdc.change import StreamLost
from cdc.debezium.broker import consumer_settings, lost
from cdc.debezium.options import DebeziumOptions
from cdc.debezium.place import PartitionPlace, TopicPlace
from cdc.debezium.read_offsets import Partition

#: Maximum number of offsets before the given one that may have no record: they are of Kafka's own transactions.
_LOOK_BACK = 10
_POLL_MS = 200
#: Maximum times for all partitions: at a start, and when the service stops.
_LIMIT_S, _STOP_S = 20.0, 2.0

MakeConsumer = Callable[..., Any]
T = TypeVar("T")


def digest_of(record: Any) -> str:
    """Return a digest of a record."""
    content = repr((record.offset, record.timestamp, record.key, record.value))
    return blake2b(content.encode(), digest_size=16).hexdigest()


def records_before(
    options: DebeziumOptions, offsets: Mapping[Partition, int], make_consumer: MakeConsumer = KafkaConsumer
) -> dict[Partition, Any]:
    """Return the last record before each offset; partitions without one are left out. Raises StreamLost."""
    if not offsets:
        return {}
    settings = {name: round(_STOP_S * 1000) for name in ("request_timeout_ms", "bootstrap_timeout_ms")}

    def read(consumer: Any) -> dict[Partition, Any]:
        return _records_before(consumer, offsets, _LOOK_BACK, _STOP_S)

    return _with_consumer(options, make_consumer, read, settings)


def refusal_of(
    options: DebeziumOptions, place: TopicPlace, topics: Iterable[str], make_consumer: MakeConsumer = KafkaConsumer
) -> str:
    """Return why these topics do not have a place any more; empty if they certainly have. Raises StreamLost."""
    wanted = set(topics)
    partitions = [each for each in place.partitions if each.topic in wanted]
    return _with_consumer(options, make_consumer, lambda consumer: _refusal(consumer, place, partitions), {})


def _with_consumer(
    options: DebeziumOptions, make_consumer: MakeConsumer, use: Callable[[Any], T], settings: dict[str, Any]
) -> T:
    try:
        consumer = make_consumer(**consumer_settings(options) | settings)
        try:
            return use(consumer)
        finally:
            consumer.close()
    except StreamLost:
        raise
    except Exception as problem:
        raise lost(problem, options) from None


def _refusal(consumer: Any, place: TopicPlace, partitions: list[PartitionPlace]) -> str:
    there = consumer.topics()
    cluster = consumer._cluster
    if cluster.cluster_id != place.cluster:
        return f"The topics are in the Kafka cluster {cluster.cluster_id}: they were in {place.cluster}."
    for topic in sorted({each.topic for each in partitions}):
        if topic not in there:
            return f"The topic {topic} does not exist any more."
        if str(cluster.topic_id(topic)) != place.topics[topic]:
            return f"The topic {topic} was deleted and created again."
    names = [TopicPartition(*each.name) for each in partitions]
    begins, ends = consumer.beginning_offsets(names), consumer.end_offsets(names)
    for each, name in zip(partitions, names, strict=True):
        if begins[name] > each.offset:
            return f"Records of {_named(each)} were removed that have not been read."
        if ends[name] < max(each.offset, each.last + 1):
            return f"Records of {_named(each)} that had been read are gone."
    marked = [each for each in partitions if each.last >= 0]
    found = _records_before(consumer, {each.name: each.last + 1 for each in marked}, 1, _LIMIT_S)
    for each in marked:
        record = found.get(each.name)
        if record is None:
            return f"The last record of {_named(each)} that was read was removed, so it cannot be compared."
        if digest_of(record) != each.digest:
            return f"The record {each.last} of {_named(each)} is another one than before."
    return ""


def _named(place: PartitionPlace) -> str:
    return f"topic {place.topic}, partition {place.partition},"


def _records_before(
    consumer: Any, offsets: Mapping[Partition, int], look_back: int, limit_s: float
) -> dict[Partition, Any]:
    ends = {TopicPartition(*name): offset for name, offset in offsets.items()}
    begins = consumer.beginning_offsets(list(ends)) if ends else {}
    ends = {name: end for name, end in ends.items() if begins[name] < end}
    consumer.assign(list(ends))
    for name, end in ends.items():
        consumer.seek(name, max(begins[name], end - look_back))
    found: dict[Partition, Any] = {}
    deadline = time.monotonic() + limit_s
    while ends:
        for name, records in consumer.poll(timeout_ms=_POLL_MS).items():
            for record in records:
                if record.offset < ends.get(name, 0):
                    found[name.topic, name.partition] = record
        ends = {name: end for name, end in ends.items() if consumer.position(name) < end}
        # Not to read further than needed.
        consumer.assign(list(ends))
        if time.monotonic() > deadline:
            raise StreamLost(f"Kafka did not send the last records within {limit_s:g} s.", retryable=True)
    return found
