"""Single records: with schemas and without, those that say nothing, and those that cannot be read."""

import json
from typing import Any

import pytest

from cdc.change import StreamLost
from cdc.debezium.envelope import RecordDecoder
from cdc.debezium.events import Begin, End, RowEvent
from cdc.debezium.mysql import MYSQL
from cdc.debezium.postgres import POSTGRES
from cdc.mysql.position import position_of

SOURCE = {
    "version": "3.6.3.Final",
    "connector": "postgresql",
    "name": "x",
    "snapshot": "false",
    "schema": "s",
    "table": "a",
    "txId": 7,
    "lsn": 500,
    "sequence": '["400","500"]',
    "ts_ms": 1,
}
TRANSACTION = {"id": "7:500", "total_order": 1, "data_collection_order": 1}
INSERT = {"before": None, "after": {"id": 1}, "source": SOURCE, "transaction": TRANSACTION, "op": "c", "ts_ms": 1}
FIELDS = [{"type": "int32", "optional": False, "field": "id"}]
SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "struct", "fields": FIELDS, "optional": True, "field": "before", "default": ',"payload":{}'},
        {"type": "struct", "fields": FIELDS, "optional": True, "field": "after", "parameters": {"payload": "1"}},
    ],
}


def read(value: Any, reader: RecordDecoder | None = None, key: bytes | None = None) -> Any:
    data = value if value is None or isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return (reader or RecordDecoder(POSTGRES)).read("x.s.a", 2, 33, key, data)


def test_a_change() -> None:
    """A row event has images, keys and positions."""
    event = read(INSERT, key=b'{"id":1}')
    assert isinstance(event, RowEvent)
    assert (event.collection, event.op, event.after, event.fields) == ("s.a", "c", {"id": 1}, None)
    assert (event.transaction, event.order, event.position, event.key) == (7, 1, 500, b'{"id":1}')


def test_schemas_are_parsed_once() -> None:
    """Equal schemas are one object, even if their texts look like a payload."""
    reader = RecordDecoder(POSTGRES)
    whole = {"schema": SCHEMA, "payload": INSERT}
    first, second = read(whole, reader), read(whole | {"payload": INSERT | {"after": {"id": 2}}}, reader)
    assert first.fields == {"id": FIELDS[0]}
    assert first.fields is second.fields
    assert second.after == {"id": 2}
    other = {**SCHEMA, "version": 2}
    assert read({"schema": other, "payload": INSERT}, reader).after == {"id": 1}


def test_transactions() -> None:
    """BEGIN and END of both kinds of databases; an END without rows has no list."""
    begin = read({"status": "BEGIN", "id": "7:450", "event_count": None, "data_collections": None, "ts_ms": 5})
    assert isinstance(begin, Begin)
    assert (begin.transaction, begin.position) == (7, 450)
    collections = [{"data_collection": "s.a", "event_count": 2}]
    end = read({"status": "END", "id": "7:600", "event_count": 2, "data_collections": collections, "ts_ms": 5})
    assert isinstance(end, End)
    assert (end.transaction, end.position, end.counts, end.ts_ms) == (7, 600, {"s.a": 2}, 5)
    empty = {"status": "END", "event_count": 0, "data_collections": None, "ts_ms": 5}
    place = read(empty | {"id": "file=binlog.000006,pos=3442"}, RecordDecoder(MYSQL))
    assert (place.transaction, place.position) == ("file=binlog.000006,pos=3442", position_of("b.6", 3442))
    gtid = read(empty | {"id": "0-1-42"}, RecordDecoder(MYSQL))
    assert (gtid.transaction, gtid.position, gtid.counts) == ("0-1-42", 0, {})


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"ts_ms": 1},
        {"schema": {"type": "struct"}, "payload": {"ts_ms": 1}},
        {"source": SOURCE, "ts_ms": 1, "databaseName": "d", "ddl": "ALTER TABLE a ADD b int"},
        {"op": "m", "source": SOURCE, "message": {"prefix": "p", "content": ""}, "transaction": None},
        INSERT | {"op": "r", "source": SOURCE | {"snapshot": "incremental"}, "transaction": None},
    ],
)
def test_irrelevant_records(value: Any) -> None:
    """Tombstones, heartbeats, schema changes, messages, incremental snapshots."""
    assert read(value) is None


@pytest.mark.parametrize(
    ("value", "words", "retryable"),
    [
        (b"\0\0\0\0\1abc", "perhaps Avro", True),
        (b"{", "cannot be read", True),
        (b"[1]", "cannot be read", True),
        ({"id": 1, "name": "unwrapped"}, "transforms that unwrap", True),
        ({"specversion": "1.0", "data": {}}, "CloudEvent", True),
        (INSERT | {"op": "x"}, "unknown operation 'x'", True),
        (INSERT | {"source": {"version": "3.6.3.Final", "connector": "postgresql"}}, "it lacks 'schema'", True),
        (
            INSERT | {"source": SOURCE | {"version": "9.0.0.Final"}},
            "Debezium 9.0.0.Final, which is not supported",
            False,
        ),
        (INSERT | {"source": SOURCE | {"connector": "oracle"}}, "of the connector 'oracle'", False),
        (INSERT | {"transaction": None}, "do not name their transaction", False),
        (INSERT | {"op": "r", "source": SOURCE | {"snapshot": "true"}}, "takes a snapshot", True),
        ({"status": "END", "id": "571", "event_count": 0, "data_collections": None}, "not the id", True),
    ],
)
def test_unreadable_records(value: Any, words: str, retryable: bool) -> None:
    """A clear error with topic, partition and offset."""
    with pytest.raises(StreamLost) as problem:
        read(value)
    assert words in problem.value.reason
    assert "topic x.s.a, partition 2, offset 33" in problem.value.reason
    assert problem.value.retryable is retryable


def test_transaction_metadata_has_its_setting() -> None:
    """The hint is what to set."""
    with pytest.raises(StreamLost) as problem:
        read(INSERT | {"transaction": None})
    assert "provide.transaction.metadata=true" in (problem.value.hint or "")
