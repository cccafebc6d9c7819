"""What the topics themselves show of how the connector is set up, before anything is built on them.

The last records of each topic are read as the stream would read them; what that runs into is a finding. Settings of
the connector that leave no trace in its topics (``skipped.operations``, ``enable.time.adjuster``) are named in
docs/kafka.md.

Not here: which topics there are (`topics`); what is wrong at the database (`service.upstream`); how findings are shown
(`service.command.diagnosis`).
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
from cdc.debezium.envelope import RecordDecoder, RowEvent
from cdc.debezium.names import collection_of, topic_of
from cdc.debezium.options import DebeziumOptions
from cdc.debezium.rows import TableRows

#: Records looked at, of each partition.
LAST_RECORDS = 50
#: Retention below this is remarked on.
SHORT_RETENTION_MS = 3_600_000
_WAIT_MS = 5000


@dataclass(frozen=True, slots=True)
class TopicFinding:
    """Something about the topics that the user should know. The fields are those of the service's findings."""

    #: ``kafka``, ``transaction_metadata``, ``snapshot``, ``events``, ``values``, ``row_identity``,
    #: ``cleanup_policy``, ``retention``, ``heartbeat``, ``watermark``.
    code: str
    #: One sentence.
    reason: str
    #: The setting or statement that repairs it, if there is one.
    fix: str | None = None
    #: The table it is about; None: all.
    table: str | None = None
    #: Whether nothing (of this table) can be followed until it is repaired; otherwise it is a warning.
    fatal: bool = True


@dataclass(slots=True)
class KafkaTopic:
    """What is known of a topic that exists."""

    partitions: int
    #: ``cleanup.policy``, ``retention.ms`` …; empty if they may not be read.
    configs: Mapping[str, str] = field(default_factory=dict)
    #: The last records: partition, offset, key, value.
    records: list[tuple[int, int, bytes | None, bytes | None]] = field(default_factory=list)


def stream_findings(options: DebeziumOptions, layouts: Mapping[str, TableLayout], dialect: str) -> list[TopicFinding]:
    """Look, and say what was found. Blocks for seconds: call it in a thread. `dialect`: ``postgres`` or ``mysql``."""
    try:
        topics = look(options, layouts)
    except (KafkaError, OSError) as problem:
        failure = lost(problem, options)
        return [TopicFinding("kafka", failure.reason, failure.hint)]
    return findings(options, layouts, dialect, topics)


def findings(
    options: DebeziumOptions, layouts: Mapping[str, TableLayout], dialect: str, topics: Mapping[str, KafkaTopic]
) -> list[TopicFinding]:
    """What `topics`, all that there are, show. Pure."""
    found = _of_transactions(options, topics)
    heartbeat = f"__debezium-heartbeat.{options.topic_prefix}"
    if heartbeat not in topics:
        found.append(
            TopicFinding(
                "heartbeat",
                f"There are no heartbeats: no topic {heartbeat}.",
                "Set heartbeat.interval.ms=10000.",
                fatal=False,
            )
        )
    if dialect != "postgres" and not options.watermark_table:
        found.append(
            TopicFinding(
                "watermark",
                "Nothing can push the stream on: on an idle database, what was not cached waits for the next change.",
                "Set cdc.kafka.watermark_table to a captured table that upquery may write to.",
                fatal=False,
            )
        )
    reader = RecordDecoder(dialect)
    for table, layout in layouts.items():
        name = options.routed_topic or topic_of(options.topic_prefix, collection_of(table))
        topic = topics.get(name)
        if topic is not None:
            rows = TableRows(table, layout, dialect, options.modes)
            found += _of_table(table, name, topic, reader, rows)
    return list(dict.fromkeys(found))


def _of_transactions(options: DebeziumOptions, topics: Mapping[str, KafkaTopic]) -> list[TopicFinding]:
    name = options.transactions
    topic = topics.get(name)
    if topic is None:
        return [
            TopicFinding(
                "transaction_metadata",
                f"There is no topic {name}: nothing says which changes belong together, or in which order.",
                "Set provide.transaction.metadata=true in the connector's configuration.",
            )
        ]
    found = _of_configs(name, topic, None)
    if topic.partitions != 1:
        reason = f"The topic {name} has {topic.partitions} partitions, so that transactions are in no order."
        found.append(TopicFinding("transaction_metadata", reason, "Make it anew with one partition."))
    return found


def _of_configs(name: str, topic: KafkaTopic, table: str | None) -> list[TopicFinding]:
    found = []
    if "compact" in topic.configs.get("cleanup.policy", ""):
        reason = f"The topic {name} is compacted: older changes of a row are removed before they may have been read."
        fix = f"kafka-configs.sh --alter --topic {name} --add-config cleanup.policy=delete"
        found.append(TopicFinding("cleanup_policy", reason, fix, table))
    retention = topic.configs.get("retention.ms", "-1")
    if retention.isdecimal() and int(retention) < SHORT_RETENTION_MS:
        reason = f"The topic {name} keeps records for {int(retention) // 1000} s only."
        fix = f"kafka-configs.sh --alter --topic {name} --add-config retention.ms=604800000"
        found.append(TopicFinding("retention", reason, fix, table, fatal=False))
    return found


def _of_table(table: str, name: str, topic: KafkaTopic, reader: RecordDecoder, rows: TableRows) -> list[TopicFinding]:
    found = _of_configs(name, topic, table)
    for partition, offset, key, value in topic.records:
        if value is not None and b'"r"' in value and b'"op":"r"' in value.replace(b" ", b""):
            continue  # Of a snapshot that may be long past.
        try:
            event = reader.read(name, partition, offset, key, value)
        except StreamLost as problem:
            code = "transaction_metadata" if "transaction" in (problem.hint or "") else "events"
            found.append(TopicFinding(code, problem.reason, problem.hint, table))
            break
        if isinstance(event, RowEvent) and event.op != "t" and event.collection == collection_of(table):
            rows.change(event)
    untold = [notice for notice in rows.notices if notice.columns]
    found += [TopicFinding("values", notice.reason, None, table, fatal=False) for notice in untold[-1:]]
    return found + [TopicFinding("row_identity", n.reason, None, table) for n in rows.notices if not n.columns]


# ── Looking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def look(options: DebeziumOptions, layouts: Iterable[str]) -> dict[str, KafkaTopic]:
    """All topics; settings and last records of those that are read. Raises KafkaError, OSError."""
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
    """Settings of topics; empty where they may not be read."""
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
