"""Decoding of the Kafka records of a Debezium connector. Pure: bytes in, events out.

Debezium documentation, "Data change events", "Transaction metadata" (of the PostgreSQL, MySQL and MariaDB connectors);
JSON converter, with and without schemas. With schemas each value repeats its schema, ten times the size of the rest: it
is parsed once, and later values with the same prefix are parsed after the prefix.

*Invariants*: each record is an event, is irrelevant (tombstones, heartbeats, schema changes, logical messages,
incremental snapshots), or raises StreamLost with its topic, partition and offset.

Not here: values of columns (`values`), transactions (`assembler`).
"""

import re
from collections.abc import Mapping
from typing import Any

import orjson

from cdc.change import StreamLost
from cdc.debezium.modes import Dialect
from cdc.mysql.position import position_of
from cdc.postgres.position import format_lsn

#: A column's schema, as the JSON converter writes it.
FieldSchema = dict[str, Any]
#: PostgreSQL: the 32-bit transaction id; MariaDB, MySQL: the connector's id (GTID, or file and offset).
TransactionKey = int | str

_MAJORS = frozenset({"2", "3"})
_CONNECTORS: dict[str, Dialect] = {"postgresql": "postgres", "mysql": "mysql", "mariadb": "mysql"}
_PAYLOAD = b',"payload":'
_FILE_AND_OFFSET = re.compile(r"file=(.+),pos=(\d+)")
_XID_AND_LSN = re.compile(r"(\d+):(\d+)")
_ROW_OPS = frozenset("cudt")
#: Maximum number of cached schemas of one topic.
_SCHEMAS_KEPT = 64


class RowEvent:
    """A change of one row, or a TRUNCATE (`op` is ``t``)."""

    __slots__ = (
        "after",
        "before",
        "collection",
        "fields",
        "key",
        "op",
        "order",
        "position",
        "size",
        "source",
        "transaction",
    )

    def __init__(
        self,
        collection: str,
        op: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        fields: Mapping[str, FieldSchema] | None,
        transaction: TransactionKey | None,
        order: int,
        position: int,
        source: dict[str, Any],
        key: bytes | None,
        size: int,
    ) -> None:
        #: ``schema.table`` or ``database.table`` without quotes, as in END events.
        self.collection = collection
        self.op = op
        self.before = before
        self.after = after
        #: The columns' schemas, one object for all events of a schema; None if the event has none.
        self.fields = fields
        #: None: TRUNCATE of MariaDB and MySQL, which has no transaction.
        self.transaction = transaction
        #: ``total_order`` within the transaction, from 1.
        self.order = order
        #: Position of the change: an LSN, or a position in the binary log.
        self.position = position
        self.source = source
        self.key = key
        #: Bytes of the record's value.
        self.size = size


class Begin:
    """A transaction's BEGIN."""

    __slots__ = ("position", "transaction")

    def __init__(self, transaction: TransactionKey, position: int) -> None:
        self.transaction = transaction
        #: Position of its beginning; 0: unknown.
        self.position = position


class End:
    """A transaction's END, with the number of its events."""

    __slots__ = ("counts", "position", "transaction", "ts_ms")

    def __init__(self, transaction: TransactionKey, position: int, counts: dict[str, int], ts_ms: int) -> None:
        self.transaction = transaction
        #: PostgreSQL: end of its commit. MariaDB, MySQL: position of its beginning; 0: unknown.
        self.position = position
        #: Number of events by collection.
        self.counts = counts
        #: Time of the commit.
        self.ts_ms = ts_ms


Event = RowEvent | Begin | End


class RecordDecoder:
    """Decoder of the records of one connector's topics. `dialect` is ``postgres`` or ``mysql``, also for MariaDB."""

    def __init__(self, dialect: Dialect) -> None:
        self._postgres = dialect == "postgres"
        self._dialect = dialect
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
        named: TransactionKey | None
        if self._postgres:
            collection = f"{source['schema']}.{source['table']}"
            named, position = source["txId"], source["lsn"]
        else:
            collection = f"{source['db']}.{source['table']}"
            named = None if transaction is None else transaction["id"]
            position = position_of(source["file"], source["pos"])
        order = 0
        if transaction is not None:
            order = transaction["total_order"]
        elif op != "t" or self._postgres:
            raise StreamLost(
                f"Events of {collection} do not name their transaction.",
                retryable=False,
                hint="Set provide.transaction.metadata=true in the connector's configuration.",
            )
        else:
            named = None
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
        if _CONNECTORS.get(version[1]) != self._dialect:
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
            return Begin(*self._transaction(payload["id"]))
        if status == "END":
            key, position = self._transaction(payload["id"])
            counts = {c["data_collection"]: c["event_count"] for c in payload["data_collections"] or ()}
            return End(key, position, counts, payload.get("ts_ms") or 0)
        if "ts_ms" in payload or "ddl" in payload or "databaseName" in payload:
            return None  # A heartbeat, a schema change.
        if "specversion" in payload:
            raise ValueError("it is a CloudEvent; use org.apache.kafka.connect.json.JsonConverter")
        raise ValueError("it is not a change event: it has neither op nor status; remove transforms that unwrap events")

    def _transaction(self, text: str) -> tuple[TransactionKey, int]:
        """Return a transaction's key, and the position in its id (0: none)."""
        if self._postgres:
            found = _XID_AND_LSN.fullmatch(text)
            if found is None:
                raise ValueError(f"{text!r} is not the id of a transaction with its LSN; use Debezium 2 or 3")
            return int(found[1]), int(found[2])
        found = _FILE_AND_OFFSET.fullmatch(text)
        return text, 0 if found is None else position_of(found[1], int(found[2]))


def transaction_name(key: TransactionKey, position: int = 0) -> str:
    """Return the name of a transaction in sentences for the user."""
    if isinstance(key, int):
        return f"transaction {key}" + (f" ({format_lsn(position)})" if position else "")
    return f"transaction {key}"


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
