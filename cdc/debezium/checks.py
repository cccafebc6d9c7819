"""Checks of the connector's configuration by the content of its topics.

The last records of each topic are decoded as by the stream; errors become findings. Settings of the connector without a
trace in its topics (``skipped.operations``, ``enable.time.adjuster``) are documented in docs/kafka.md.

Not here: checks of the database (`service.engine.databases`), the output of findings (`service.command.diagnosis`).
"""

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import KafkaError

from cdc.change import StreamLost, TableLayout
from cdc.debezium.broker import client_settings, consumer_settings, lost, require_broker
from cdc.debezium.databases import database_of
from cdc.debezium.envelope import RecordDecoder
from cdc.debezium.events import RowEvent
from cdc.debezium.names import collection_of, topic_of
from cdc.debezium.options import DebeziumOptions
from cdc.debezium.rows import TableRows

#: Number of records read from each partition.
LAST_RECORDS = 50
#: Shorter retention is a finding.
SHORT_RETENTION_MS = 3_600_000
_WAIT_MS = 5000


@dataclass(frozen=True, slots=True)
class TopicFinding:
    """A finding on the topics. The fields are those of the service's findings."""

    #: ``kafka``, ``transaction_metadata``, ``snapshot``, ``events``, ``values``, ``row_identity``,
    #: ``cleanup_policy``, ``retention``, ``heartbeat``, ``watermark``.
    code: str
    #: One sentence.
    reason: str
    #: The setting or statement that repairs it.
    fix: str | None = None
    #: The table concerned; None: all.
    table: str | None = None
    #: Whether it prevents following the table (or all tables); otherwise it is a warning.
    fatal: bool = True


@dataclass(slots=True)
class KafkaTopic:
    """Description of an existing topic."""

    partitions: int
    #: ``cleanup.policy``, ``retention.ms`` …; empty without permission to read them.
    configs: Mapping[str, str] = field(default_factory=dict)
    #: The last records: partition, offset, key, value.
    records: list[tuple[int, int, bytes | None, bytes | None]] = field(default_factory=list)


def stream_findings(options: DebeziumOptions, layouts: Mapping[str, TableLayout], dialect: str) -> list[TopicFinding]:
    """Read the topics, and return findings. Blocks for seconds: call it in a thread."""
    try:
        topics = look(options, layouts)
    except (KafkaError, OSError) as problem:
        failure = lost(problem, options)
        return [TopicFinding("kafka", failure.reason, failure.hint)]
    return findings(options, layouts, dialect, topics)


def findings(
    options: DebeziumOptions, layouts: Mapping[str, TableLayout], dialect: str, topics: Mapping[str, KafkaTopic]
) -> list[TopicFinding]:
    """Return findings on `topics`, which are all existing topics. Pure."""
    database = database_of(dialect)
    found = _of_transactions(options, topics)
    heartbeat = f"__debezium-heartbeat.{options.topic_prefix}"
    if heartbeat not in topics:
        found.append(
            TopicFinding(
                "heartbeat",
                f"The connector sends no heartbeats: the topic {heartbeat} does not exist.",
                "Set heartbeat.interval.ms=10000.",
                fatal=False,
            )
        )
    if database.needs_watermark and not options.watermark_table:
        found.append(
            TopicFinding(
                "watermark",
                "The stream of an idle database cannot be moved on: keys that are not cached wait for the next change.",
                "Set cdc.kafka.watermark_table to a captured table that upquery may write to.",
                fatal=False,
            )
        )
    reader = RecordDecoder(database)
    for table, layout in layouts.items():
        name = options.routed_topic or topic_of(options.topic_prefix, collection_of(table))
        topic = topics.get(name)
        if topic is not None:
            rows = TableRows(table, layout, database, options.modes)
            found += _of_table(table, name, topic, reader, rows)
    return list(dict.fromkeys(found))


def _of_transactions(options: DebeziumOptions, topics: Mapping[str, KafkaTopic]) -> list[TopicFinding]:
    name = options.transactions
    topic = topics.get(name)
    if topic is None:
        return [
            TopicFinding(
                "transaction_metadata",
                f"The topic {name} does not exist, so the transactions of changes and their order are unknown.",
                "Set provide.transaction.metadata=true in the connector's configuration.",
            )
        ]
    found = _of_configs(name, topic, None)
    if topic.partitions != 1:
        reason = f"The topic {name} has {topic.partitions} partitions, so transactions are not ordered."
        found.append(TopicFinding("transaction_metadata", reason, "Create it again with one partition."))
    return found


def _of_configs(name: str, topic: KafkaTopic, table: str | None) -> list[TopicFinding]:
    found = []
    if "compact" in topic.configs.get("cleanup.policy", ""):
        reason = f"The topic {name} is compacted: older changes of a row may be removed before they are read."
        fix = f"kafka-configs.sh --alter --topic {name} --add-config cleanup.policy=delete"
        found.append(TopicFinding("cleanup_policy", reason, fix, table))
    retention = topic.configs.get("retention.ms", "-1")
    if retention.isdecimal() and int(retention) < SHORT_RETENTION_MS:
        reason = f"The topic {name} retains records for {int(retention) // 1000} s only."
        fix = f"kafka-configs.sh --alter --topic {name} --add-config retention.ms=604800000"
        found.append(TopicFinding("retention", reason, fix, table, fatal=False))
    return found


def _of_table(table: str, name: str, topic: KafkaTopic, reader: RecordDecoder, rows: TableRows) -> list[TopicFinding]:
    found = _of_configs(name, topic, table)
    for partition, offset, key, value in topic.records:
        if value is not None and b'"r"' in value and b'"op":"r"' in value.replace(b" ", b""):
            continue  # A record of a snapshot, which may be old.
        try:
            event = reader.read(name, partition, offset, key, value)
        except StreamLost as problem:
            code = "transaction_metadata" if "transaction" in (problem.hint or "") else "events"
            found.append(TopicFinding(code, problem.reason, problem.hint, table))
            break
        if isinstance(event, RowEvent) and event.op != "t" and event.collection == collection_of(table):
            rows.change(event)
    unavailable = [notice for notice in rows.notices if notice.columns]
    found += [TopicFinding("values", notice.reason, None, table, fatal=False) for notice in unavailable[-1:]]
    return found + [TopicFinding("row_identity", n.reason, None, table) for n in rows.notices if not n.columns]


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def look(options: DebeziumOptions, layouts: Iterable[str]) -> dict[str, KafkaTopic]:
    """Return all topics, with settings and last records of those that the stream reads. Raises KafkaError, OSError."""
    wanted = {options.transactions, *(topic_of(options.topic_prefix, collection_of(table)) for table in layouts)}
    if options.routed_topic:
        wanted = {options.routed_topic}
    require_broker(options)
    with closing(KafkaConsumer(**consumer_settings(options))) as consumer:
        topics = {name: KafkaTopic(0) for name in consumer.topics()}
        read = [name for name in wanted if name in topics]
        for name in read:
            topics[name].partitions = len(consumer.partitions_for_topic(name))
            for number in sorted(consumer.partitions_for_topic(name)):
                topics[name].records += _last_records(consumer, TopicPartition(name, number))
    for name, configs in _configs(options, read).items():
        topics[name].configs = configs
    return topics


def _last_records(consumer: Any, partition: TopicPartition) -> list[tuple[int, int, bytes | None, bytes | None]]:
    begin = consumer.beginning_offsets([partition])[partition]
    end = consumer.end_offsets([partition])[partition]
    consumer.assign([partition])
    consumer.seek(partition, max(begin, end - LAST_RECORDS))
    found: list[tuple[int, int, bytes | None, bytes | None]] = []
    while consumer.position(partition) < end:
        records = consumer.poll(_WAIT_MS).get(partition)
        if not records:
            break
        found += [(r.partition, r.offset, r.key, r.value) for r in records if r.offset < end]
    return found


def _configs(options: DebeziumOptions, names: list[str]) -> dict[str, dict[str, str]]:
    """Return settings of topics; empty without permission to read them."""
    with closing(KafkaAdminClient(**client_settings(options))) as admin:
        try:
            resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
            described = admin.describe_configs(resources, config_filter="all")
        except KafkaError:
            return {}
    return {
        name: {key: entry["value"] or "" for key, entry in entries.items()}
        for name, entries in described.get("topic", {}).items()
    }
