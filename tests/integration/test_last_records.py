"""Last records of partitions, read from Apache Kafka itself."""

from contextlib import closing
from typing import Any

import pytest

from cdc.debezium.last_records import records_before
from cdc.debezium.options import DebeziumOptions
from tests.fixtures.kafka import KafkaBroker

pytestmark = pytest.mark.kafka


def test_last_records(kafka_broker: KafkaBroker, topic_prefix: str) -> None:
    """Offsets of Kafka's own transactions have no record; partitions whose records were removed have none."""
    topic = f"{topic_prefix}.a"
    kafka_broker.create_topics({topic: 3})
    with closing(kafka_broker.producer(transactional_id=topic_prefix)) as producer:
        producer.init_transactions()
        for number in range(3):
            producer.begin_transaction()
            for partition in (0, 1):
                producer.send(topic, value=b"%d" % number, partition=partition)
            producer.commit_transaction()
    ends = {(topic, 0): 6, (topic, 1): 5, (topic, 2): 0}
    options = DebeziumOptions(kafka_broker.bootstrap, topic_prefix)
    found: dict[Any, Any] = records_before(options, ends)
    assert {name: (r.offset, r.value) for name, r in found.items()} == {
        (topic, 0): (4, b"2"),
        (topic, 1): (4, b"2"),
    }
