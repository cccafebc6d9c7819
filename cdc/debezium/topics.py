"""List of existing topics. Blocking.

Not here: reading them (`feed`).
"""

from kafka import KafkaConsumer

from cdc.debezium.broker import consumer_settings, lost
from cdc.debezium.options import DebeziumOptions


def existing_topics(options: DebeziumOptions) -> frozenset[str]:
    """Return the topics that are visible to the user. Raises StreamLost."""
    try:
        consumer = KafkaConsumer(**consumer_settings(options))
        try:
            return frozenset(consumer.topics())
        finally:
            consumer.close()
    except Exception as problem:
        raise lost(problem, options) from None
