"""Decoding of the Kafka records of a Debezium connector. Pure: bytes in, events out.

Debezium documentation, "Data change events", "Transaction metadata" (of the PostgreSQL, MySQL and MariaDB connectors);
JSON converter, with and without schemas. With schemas each value repeats its schema, ten times the size of the rest: it
is parsed once, and later values with the same prefix are parsed after the prefix.

*Invariants*: each record is an event, is irrelevant (tombstones, heartbeats, schema changes, logical messages,
incremental snapshots), or raises StreamLost with its topic, partition and offset.

Not here: values of columns (`rows`), transactions (`assembler`).
"""

from collections.abc import Mapping
from typing import Any

import orjson

from cdc.change import StreamLost
from cdc.debezium.events import Begin, End, Event, RowEvent
from cdc.debezium.forms import FieldSchema
from cdc.debezium.source_database import SourceDatabase

_MAJORS = frozenset({"2", "3"})
_PAYLOAD = b',"payload":'
_ROW_OPS = frozenset("cudt")
#: Maximum number of cached schemas of one topic.
_SCHEMAS_KEPT = 64


class RecordDecoder:
    """Decoder of the records of one connector's topics."""

    def __init__(self, database: SourceDatabase) -> None:
        self._database = database
        self._place = database.place
        #: By topic, most recent first: prefixes of values, and the columns' schemas in them.
        self._schemas: dict[str, list[tuple[bytes, Mapping[str, FieldSchema] | None]]] = {}
        #: Accepted pairs of version and connector.
        self._known: set[tuple[Any, Any]] = set()

    def read(self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None) -> Event | None:
        """Return the record's event; None if it is irrelevant. Raises StreamLost."""
        if value is None:
            return None
        try:
            payload, fields = self._payload(topic, value)
            op = payload.get("op")
            if op is None:
                return self._without_row(payload)
            if op in _ROW_OPS:
                return self._row(payload, fields, key, len(value))
            self._special(op, payload)
            return None
        except StreamLost as lost:
            raise StreamLost(f"{lost.reason} ({_at(topic, partition, offset)})", lost.retryable, lost.hint) from None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
            raise _poison(_at(topic, partition, offset), value, problem) from problem

    # ── JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _payload(self, topic: str, value: bytes) -> tuple[dict[str, Any], Mapping[str, FieldSchema] | None]:
        known = self._schemas.get(topic)
        if known is not None:
            for i, (prefix, fields) in enumerate(known):
                if value.startswith(prefix):
                    if i:
                        known.insert(0, known.pop(i))
                    return orjson.loads(memoryview(value)[len(prefix) : -1]), fields
        whole: dict[str, Any] = orjson.loads(value)
        if "payload" not in whole or "schema" not in whole:
            return whole, None
        payload, fields = whole["payload"], _fields(whole["schema"])
        prefix_end = _payload_at(value, payload)
        if prefix_end:
            kept = self._schemas.setdefault(topic, [])
            kept.insert(0, (value[:prefix_end], fields))
            del kept[_SCHEMAS_KEPT:]
        return payload, fields

    # ── Events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _row(
        self, payload: dict[str, Any], fields: Mapping[str, FieldSchema] | None, key: bytes | None, size: int
    ) -> RowEvent:
        source = payload["source"]
        self._check(source)
        op = payload["op"]
        transaction = payload.get("transaction")
        collection, named, position = self._place(source, transaction)
        order = 0
        if transaction is not None:
            order = transaction["total_order"]
        elif op != "t" or self._database.transactional_truncate:
            raise StreamLost(
                f"Events of {collection} do not name their transaction.",
                retryable=False,
                hint="Set provide.transaction.metadata=true in the connector's configuration.",
            )
        return RowEvent(
            collection,
            op,
            payload.get("before"),
            payload.get("after"),
            fields,
            named,
            order,
            position,
            source,
            key,
            size,
        )

    def _check(self, source: dict[str, Any]) -> None:
        version = (source["version"], source["connector"])
        if version in self._known:
            return
        if str(version[0]).partition(".")[0] not in _MAJORS:
            raise StreamLost(
                f"The events are of Debezium {version[0]}, which is not supported.",
                retryable=False,
                hint="Use a connector of Debezium 2 or 3.",
            )
        if version[1] not in self._database.connectors:
            raise StreamLost(f"The events are of the connector {version[1]!r}.", False, "Check cdc.kafka.topic_prefix.")
        self._known.add(version)

    def _special(self, op: str, payload: dict[str, Any]) -> None:
        """Handle snapshots and logical messages."""
        if op == "m":
            return
        if op != "r":
            raise ValueError(f"unknown operation {op!r}")
        self._check(payload["source"])
        # An incremental snapshot reads rows beside the stream, which remains complete.
        if payload["source"].get("snapshot") != "incremental":
            raise StreamLost(
                "The connector takes a snapshot: what changed since its last event may not be in the stream.",
                retryable=True,
            )

    def _without_row(self, payload: dict[str, Any]) -> Begin | End | None:
        status = payload.get("status")
        if status == "BEGIN":
            return Begin(*self._database.transaction(payload["id"]))
        if status == "END":
            key, position = self._database.transaction(payload["id"])
            counts = {c["data_collection"]: c["event_count"] for c in payload["data_collections"] or ()}
            return End(key, position, counts, payload.get("ts_ms") or 0)
        if "ts_ms" in payload or "ddl" in payload or "databaseName" in payload:
            return None  # A heartbeat, a schema change.
        if "specversion" in payload:
            raise ValueError("it is a CloudEvent; use org.apache.kafka.connect.json.JsonConverter")
        raise ValueError("it is not a change event: it has neither op nor status; remove transforms that unwrap events")


def _fields(schema: Any) -> Mapping[str, FieldSchema] | None:
    """Return the columns' schemas from an event's schema; None if it has no row."""
    for field in (schema or {}).get("fields") or ():
        if field.get("field") in ("after", "before"):
            return {column["field"]: column for column in field.get("fields") or ()}
    return None


def _payload_at(value: bytes, payload: Any) -> int:
    """Return the offset of the payload in a value with a schema; 0 if it is not at the value's end."""
    at = value.find(_PAYLOAD)
    while at >= 0:
        start = at + len(_PAYLOAD)
        try:
            if orjson.loads(memoryview(value)[start:-1]) == payload:
                return start
        except orjson.JSONDecodeError:
            pass
        at = value.find(_PAYLOAD, start)
    return 0


def _at(topic: str, partition: int, offset: int) -> str:
    return f"topic {topic}, partition {partition}, offset {offset}"


def _poison(at: str, value: bytes, problem: Exception) -> StreamLost:
    hint = None
    words = f"it lacks {problem}" if isinstance(problem, KeyError) else str(problem)
    if value[:1] == b"\0":
        words = "it is binary, perhaps Avro with a schema registry"
        hint = "Use org.apache.kafka.connect.json.JsonConverter as key.converter and value.converter."
    return StreamLost(f"A record cannot be read: {words} ({at}).", retryable=True, hint=hint)
