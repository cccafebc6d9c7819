"""Which topics there are. Blocking.

Not here: reading them (`feed`).
"""

from kafka import KafkaConsumer

from cdc.debezium.broker import consumer_settings, lost
from cdc.debezium.options import DebeziumOptions


def existing_topics(options: DebeziumOptions) -> frozenset[str]:
    """The topics that the user may see. Raises StreamLost."""
    try:
        consumer = KafkaConsumer(**consumer_settings(options))
        try:
            return frozenset(consumer.topics())
        finally:
            consumer.close()
    except Exception as problem:
        raise lost(problem, options) from None
