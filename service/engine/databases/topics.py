"""Debezium's topics beside the database: the published tables and the connector's configuration.

Not here: reading changes from topics (`cdc.debezium`).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from cdc.change import StreamLost
from cdc.debezium.names import collection_of, topic_of
from cdc.debezium.options import DebeziumOptions
from cdc.debezium.topics import existing_topics
from service.engine.upstream.results import Finding, UpstreamError
from service.settings.secrets import secret
from service.settings.sections import KafkaSettings


def debezium_options(kafka: KafkaSettings) -> DebeziumOptions:
    """Converts the settings for the source. Raises `SettingsError`."""
    password = secret(kafka.sasl_password, kafka.sasl_password_file, "[cdc.kafka] sasl_password_file")
    given = kafka.model_dump(exclude={"sasl_password", "sasl_password_file"}, exclude_none=True)
    for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
        if name in given:
            given[name] = str(given[name])
    return DebeziumOptions(**given, sasl_password=password or "")


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of one connector; implements `Capture`."""

    options: DebeziumOptions

    async def check_tables(self, tables: Iterable[str]) -> list[Finding]:
        """Returns findings about tables without a topic, whose changes would be missing silently. Raises
        `UpstreamError`."""
        if self.options.routed_topic:
            return []
        try:
            there = await asyncio.to_thread(existing_topics, self.options)
        except StreamLost as lost:
            raise UpstreamError("unavailable", lost.reason, lost.hint, lost.retryable) from None
        wanted = {table: topic_of(self.options.topic_prefix, collection_of(table)) for table in tables}
        return [_missing(table, topic) for table, topic in wanted.items() if topic not in there]


def _missing(table: str, topic: str) -> Finding:
    return Finding(
        "topic",
        f"Table {table} has no topic {topic}: the connector does not capture it, or has not published a row of it yet.",
        f"Add it to the connector's table.include.list, and create the topic {topic}.",
        table,
    )
