"""Changes per CPU second of what Debezium publishes: events to transactions, and kafka-python's consumer by itself.

``python -m load.micro.debezium_decoder [--changes 100000] [--broker HOST:PORT]`` prints one JSON line. Without a broker
only what needs none is measured. With one, topics are made there and deleted afterwards: first the source reads them,
thread, queue and all, then the consumer alone. Transactions have one or ten changes, of a row of six columns; `schemas`
is the same with the JSON converter's schemas in each event.
"""

import argparse
import asyncio
import gc
import json
import multiprocessing
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc.change import TableLayout
from cdc.column_type import ColumnType
from cdc.debezium.assembler import DebeziumAssembler
from cdc.debezium.envelope import RecordDecoder
from cdc.debezium.modes import Modes
from cdc.debezium.postgres import POSTGRES
from cdc.postgres.position import PostgresSnapshot
from service.settings.sections import CdcSettings

PREFIX = "bench"
TABLE = "public.stories"
COLUMNS = {
    "id": ("int8", "int64", None),
    "title": ("text", "string", None),
    "author": ("int4", "int32", None),
    "votes": ("int4", "int32", None),
    "created_at": ("timestamptz", "string", "io.debezium.time.ZonedTimestamp"),
    "body": ("text", "string", None),
}
LAYOUT = TableLayout(
    tuple(COLUMNS), column_types=tuple(ColumnType(kind, precision=6) for kind, _, _ in COLUMNS.values())
)
Message = tuple[str, bytes, bytes]


def messages(changes: int, per_transaction: int, schemas: bool) -> Iterator[Message]:
    """Topic, key and value of BEGINs, updates and ENDs."""
    lsn = 1 << 30
    for first in range(0, changes, per_transaction):
        xid = 1000 + first
        yield _status(f"{xid}:{lsn}", "BEGIN", 0)
        before = lsn
        for i in range(min(per_transaction, changes - first)):
            lsn += 100
            yield _update(first + i, xid, lsn, before, i + 1, schemas)
        lsn += 100
        yield _status(f"{xid}:{lsn}", "END", min(per_transaction, changes - first))


def _status(name: str, status: str, count: int) -> Message:
    collections = [{"data_collection": TABLE, "event_count": count}]
    value = {"status": status, "id": name, "event_count": count, "data_collections": collections, "ts_ms": 1}
    return f"{PREFIX}.transaction", json.dumps({"id": name}).encode(), json.dumps(value).encode()


def _update(number: int, xid: int, lsn: int, before_lsn: int, order: int, schemas: bool) -> Message:
    key = number % 10_000
    before: dict[str, Any] = {
        "id": key,
        "title": f"A story with the number {key}",
        "author": key % 100,
        "votes": number,
        "created_at": "2026-01-02T03:04:05.678901Z",
        "body": "Some words about it. " * 5,
    }
    schema, table = TABLE.split(".")
    source = {
        "version": "3.6.3.Final",
        "connector": "postgresql",
        "name": PREFIX,
        "ts_ms": 1795258093049,
        "snapshot": "false",
        "db": "postgres",
        "sequence": json.dumps([str(before_lsn), str(lsn)]),
        "ts_us": 1795258093049587,
        "ts_ns": 1795258093049587000,
        "schema": schema,
        "table": table,
        "txId": xid,
        "lsn": lsn,
        "xmin": None,
        "origin": None,
        "origin_lsn": None,
    }
    payload = {
        "before": before,
        "after": before | {"votes": number + 1},
        "source": source,
        "transaction": {"id": f"{xid}:{lsn}", "total_order": order, "data_collection_order": order},
        "op": "u",
        "ts_ms": 1795258093122,
        "ts_us": 1795258093122257,
        "ts_ns": 1795258093122257232,
    }
    value: Any = {"schema": _schema(), "payload": payload} if schemas else payload
    return f"{PREFIX}.{TABLE}", json.dumps({"id": key}).encode(), json.dumps(value, separators=(",", ":")).encode()


def _schema() -> dict[str, Any]:
    row = [
        {"type": kind, "optional": True, "field": name} | ({"name": named, "version": 1} if named else {})
        for name, (_, kind, named) in COLUMNS.items()
    ]
    source = [{"type": "string", "optional": False, "field": f"source_{i}"} for i in range(18)]
    parts = [
        {"type": "struct", "fields": row, "optional": True, "name": f"{PREFIX}.{TABLE}.Value", "field": "before"},
        {"type": "struct", "fields": row, "optional": True, "name": f"{PREFIX}.{TABLE}.Value", "field": "after"},
        {"type": "struct", "fields": source, "optional": False, "name": "Source", "field": "source"},
    ]
    return {"type": "struct", "fields": parts, "optional": False, "name": f"{PREFIX}.{TABLE}.Envelope", "version": 2}


@contextmanager
def _cpu(result: dict[str, float], name: str, changes: int) -> Iterator[None]:
    gc.collect()
    begun = time.process_time()
    yield
    result[name] = round(changes / (time.process_time() - begun))


def decode(changes: int, per_transaction: int, schemas: bool) -> None:
    assembler = DebeziumAssembler(PostgresSnapshot(1000, 1000), Modes())
    reader = RecordDecoder(POSTGRES)
    new, _ = assembler.follow({TABLE: LAYOUT})
    assembler.reading(new, 0, 0.0)
    read, add = reader.read, assembler.add
    taken = 0
    for offset, (topic, key, value) in enumerate(MADE[per_transaction, schemas]):
        event = read(topic, 0, offset, key, value)
        if event is not None:
            add(event, offset, 0.0)
        if offset % 500 == 499:
            taken += len(assembler.take(1 << 30))
    taken += len(assembler.take(1 << 30))
    assert taken == -(-changes // per_transaction)


MADE: dict[tuple[int, bool], list[Message]] = {}


def with_broker(broker: str, changes: int, result: dict[str, float]) -> None:
    """The source, then the consumer alone. Another process produces."""
    from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
    from kafka.admin import NewTopic

    from cdc.debezium.broker import consumer_settings
    from cdc.debezium.options import DebeziumOptions

    prefix = f"{PREFIX}-{uuid.uuid4().hex[:8]}"
    options = DebeziumOptions(broker, prefix)
    topics = [f"{prefix}.transaction", f"{prefix}.{TABLE}"]
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.create_topics([NewTopic(topic, 1, 1) for topic in topics])
    try:
        asyncio.run(_read_all(options, changes, result))
        consumer = KafkaConsumer(**consumer_settings(options))
        partitions = [TopicPartition(topic, 0) for topic in topics]
        consumer.assign(partitions)
        left = sum(consumer.end_offsets(partitions).values())
        for partition in partitions:
            consumer.seek(partition, 0)
        with _cpu(result, "kafka_python_alone", changes):
            while left:
                left -= sum(map(len, consumer.poll(1000, max_records=2000).values()))
        consumer.close()
    finally:
        admin.delete_topics(topics)
        admin.close()


def _produce(broker: str, prefix: str, changes: int) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker, batch_size=1 << 18, linger_ms=20)
    for topic, key, value in messages(changes, 10, schemas=False):
        producer.send(topic.replace(PREFIX, prefix, 1), key=key, value=value)
    producer.flush()
    producer.close()


async def _read_all(options: Any, changes: int, result: dict[str, float]) -> None:
    from cdc.debezium.stream import DebeziumStream

    async def snapshot() -> PostgresSnapshot:
        return PostgresSnapshot(1000, 1000, horizon=1000)

    source = DebeziumStream(options, lambda: {TABLE: LAYOUT}, snapshot, CdcSettings().transaction_rows)
    await source.start()
    arguments = (options.bootstrap_servers, options.topic_prefix, changes)
    producer = multiprocessing.get_context("spawn").Process(target=_produce, args=arguments)
    left = changes
    with _cpu(result, "kafka_to_transactions", changes):
        producer.start()
        await asyncio.to_thread(producer.join)
        while left > 0:
            batch = await source.next_batch()
            left -= sum(len(t.tables[TABLE].added) for t in batch.transactions)
    await source.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--broker")
    arguments = parser.parse_args()
    result: dict[str, float] = {}
    for per_transaction, schemas in ((1, False), (10, False), (10, True)):
        MADE[per_transaction, schemas] = list(messages(arguments.changes, per_transaction, schemas))
        name = f"decode_{per_transaction}_per_transaction{'_with_schemas' if schemas else ''}"
        with _cpu(result, name, arguments.changes):
            decode(arguments.changes, per_transaction, schemas)
    if arguments.broker:
        with_broker(arguments.broker, arguments.changes, result)
    print(json.dumps(result))  # noqa: T201 - the result


if __name__ == "__main__":
    main()
