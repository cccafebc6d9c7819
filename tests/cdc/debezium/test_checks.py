"""Findings on the connector's topics, one for each problem."""

import json
import socket
from dataclasses import replace
from typing import Any

import pytest

from cdc.change import TableLayout
from cdc.column_type import ColumnType
from cdc.debezium.broker import require_broker
from cdc.debezium.checks import KafkaTopic, TopicFinding, findings, stream_findings
from cdc.debezium.options import DebeziumOptions
from tests.cdc.debezium.publisher import Change, Committed, Publisher, layout
from tests.fixtures.kafka import KafkaBroker

OPTIONS = DebeziumOptions("127.0.0.1:1", "x")
LAYOUTS = {"s.a": layout("postgres")}


def records(*changes: Change) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Those of table a in one transaction."""
    publisher = Publisher("postgres")
    publisher.publish([Committed(0, 700, changes)], [])
    return [(r.partition, r.offset, r.key, r.value) for r in publisher.records if r.topic == "x.s.a"]


def topics(**changed: KafkaTopic | None) -> dict[str, KafkaTopic]:
    """Return topics without findings, except for `changed`."""
    well: dict[str, KafkaTopic | None] = {
        "x.transaction": KafkaTopic(1),
        "__debezium-heartbeat.x": KafkaTopic(1),
        "x.s.a": KafkaTopic(2, {"cleanup.policy": "delete"}, records(Change("a", None, ("1", "x")))),
    }
    well |= {name.replace("__", "."): topic for name, topic in changed.items()}
    return {name: topic for name, topic in well.items() if topic is not None}


def look(there: dict[str, KafkaTopic], layouts: dict[str, TableLayout] | None = None) -> list[TopicFinding]:
    return findings(OPTIONS, layouts or LAYOUTS, "postgres", there)


def record(**changed: Any) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """One with another value."""
    (partition, offset, key, value), *_ = records(Change("a", None, ("1", "x")))
    assert value is not None
    return [(partition, offset, key, json.dumps(json.loads(value) | changed).encode())]


def test_no_findings() -> None:
    """Nothing to say."""
    assert look(topics()) == []


@pytest.mark.parametrize(
    ("there", "code", "words"),
    [
        (topics(x__transaction=None), "transaction_metadata", "provide.transaction.metadata=true"),
        (topics(x__transaction=KafkaTopic(3)), "transaction_metadata", "has 3 partitions"),
        (topics(x__s__a=KafkaTopic(1, {"cleanup.policy": "compact"})), "cleanup_policy", "is compacted"),
        (topics(x__s__a=KafkaTopic(1, {"retention.ms": "60000"})), "retention", "for 60 s only"),
        (
            topics(x__s__a=KafkaTopic(1, {}, record(transaction=None))),
            "transaction_metadata",
            "do not name their transaction",
        ),
        (topics(x__s__a=KafkaTopic(1, {}, [(0, 7, None, b"{}")])), "events", "topic x.s.a, partition 0, offset 7"),
        (topics(x__s__a=KafkaTopic(1, {}, record(op="u"))), "row_identity", "another replica identity"),
    ],
)
def test_findings(there: dict[str, KafkaTopic], code: str, words: str) -> None:
    """Each is named, with what repairs it."""
    (finding,) = look(there)
    assert finding.code == code
    assert words in f"{finding.reason} {finding.fix}"


def test_heartbeats_and_watermarks_are_warnings() -> None:
    """Without them an idle stream stands still."""
    there = topics()
    del there["__debezium-heartbeat.x"]
    (finding,) = look(there)
    assert (finding.code, finding.fatal) == ("heartbeat", False)
    (finding,) = findings(OPTIONS, {}, "mysql", topics())
    assert (finding.code, finding.fatal) == ("watermark", False)
    assert findings(replace(OPTIONS, watermark_table="s.w"), {}, "mysql", topics()) == []


def test_unavailable_values() -> None:
    """The column and the setting."""
    timed = TableLayout(("id", "v"), column_types=(ColumnType("timestamp", precision=6), ColumnType("text")))
    (finding,) = look(topics(), {"s.a": timed})
    assert finding.code == "values"
    assert "cdc.kafka.time_precision_mode" in finding.reason


def test_an_unreachable_broker() -> None:
    """The doctor says so, and why, and goes on."""
    (finding,) = stream_findings(replace(OPTIONS, bootstrap_servers="127.0.0.1:9"), LAYOUTS, "postgres")
    assert finding.code == "kafka"
    assert "127.0.0.1:9" in finding.reason
    assert "refused" in finding.reason


def test_one_broker_is_enough() -> None:
    """One of several named brokers answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        require_broker(replace(OPTIONS, bootstrap_servers=f"127.0.0.1:9, 127.0.0.1:{port}"))
        with pytest.raises(OSError, match="refused"):
            require_broker(replace(OPTIONS, bootstrap_servers="127.0.0.1:9, 127.0.0.1:9"))


@pytest.mark.kafka
def test_topics_are_read_from_the_broker(kafka_broker: KafkaBroker, topic_prefix: str) -> None:
    """Settings of topics and their last records come from Apache Kafka."""
    kafka_broker.create_topics({f"{topic_prefix}.transaction": 2})
    kafka_broker.create_topics({f"{topic_prefix}.s.a": 2}, {"cleanup.policy": "compact", "retention.ms": "1000"})
    producer = kafka_broker.producer()
    producer.send(f"{topic_prefix}.s.a", key=b"{}", value=b"\0avro")
    producer.close()
    options = DebeziumOptions(kafka_broker.bootstrap, topic_prefix)
    codes = {finding.code for finding in stream_findings(options, LAYOUTS, "postgres")}
    assert codes == {"transaction_metadata", "cleanup_policy", "retention", "events", "heartbeat"}
