"""Records that a Debezium connector publishes for a history of transactions, restarts included.

The history is made up; how it is published is as the recorded events have it, and as the connectors' code restarts:
PostgreSQL's resumes at the event after its last stored offset and goes on counting; those of the binary log say BEGIN
again and count anew what they have not skipped.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from cdc.change import TableLayout
from cdc.column_type import ColumnType
from cdc.mysql.position import position_of

TABLES = ("a", "b", "c")
FILE = "binlog.000003"
#: Positions within a transaction: BEGIN, changes, END.
STEP = 1000

Row = tuple[str, str]


@dataclass(frozen=True)
class Change:
    """One change of a row; both None: TRUNCATE."""

    table: str
    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class Committed:
    """The transaction `index` of a history."""

    index: int
    xid: int
    changes: tuple[Change, ...]

    @property
    def start(self) -> int:
        """Position of its beginning in the log."""
        return (self.index + 1) * STEP

    @property
    def end(self) -> int:
        """Position of the end of its commit."""
        return self.start + STEP - 1


@dataclass(frozen=True)
class Record:
    """A record of Kafka; `emitted` is when, of all records."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    emitted: int


def layout(dialect: str) -> TableLayout:
    """Return the layout of all tables."""
    kinds = ("int4", "text") if dialect == "postgres" else ("int", "varchar")
    return TableLayout(("id", "v"), column_types=(ColumnType(kinds[0]), ColumnType(kinds[1])))


@dataclass
class Publisher:
    """Writes records. `dialect`: ``postgres``, ``mysql``, or ``gtid`` for a binary log with GTIDs."""

    dialect: str
    partitions: int = 1
    routed: bool = False
    records: list[Record] = field(default_factory=list)
    sizes: Counter[tuple[str, int]] = field(default_factory=Counter)

    def begin(self, t: Committed) -> None:
        """The transaction's BEGIN."""
        self._status(t, {"status": "BEGIN", "event_count": None, "data_collections": None})

    def change(self, t: Committed, i: int, skipped: int = 0) -> None:
        """Its change `i`, counted anew behind those `skipped`."""
        change = t.changes[i]
        op = "t" if change.before is change.after else "c" if change.before is None else "d"
        op = "u" if change.before is not None and change.after is not None else op
        source: dict[str, Any] = {"version": "3.6.3.Final", "name": "x", "snapshot": "false", "table": change.table}
        source["ts_ms"] = self._ms(t)
        if self.dialect == "postgres":
            lsn = t.start + i - STEP // 2  # Before the end of the transaction before: it was open meanwhile.
            sequence = json.dumps([str(t.end - STEP) if t.index else None, str(lsn)])
            source |= {"connector": "postgresql", "schema": "s", "txId": t.xid, "lsn": lsn, "sequence": sequence}
            name = f"{t.xid}:{lsn}"
        else:
            source |= {"connector": "mariadb", "db": "s", "file": FILE, "pos": t.start + 10 + i // 2, "row": i % 2}
            name = self._name(t)
        transaction = {"id": name, "total_order": i + 1 - skipped, "data_collection_order": 0}
        value = {"before": _image(change.before), "after": _image(change.after), "source": source, "op": op}
        row = change.after or change.before
        key = None if row is None else {"id": int(row[0])}
        # A row stays in its partition.
        partition = 0 if row is None else int(row[0]) % self.partitions
        self._write(f"x.s.{change.table}", partition, key, value | {"transaction": transaction, "ts_ms": 1})
        if op == "d":
            self._write(f"x.s.{change.table}", partition, key, None)

    def end(self, t: Committed, skipped: int = 0) -> None:
        """Its END, with counts of what was not `skipped`."""
        counts = Counter(f"s.{change.table}" for change in t.changes[skipped:])
        named = [{"data_collection": name, "event_count": count} for name, count in counts.items()]
        self._status(t, {"status": "END", "event_count": counts.total(), "data_collections": named})

    def _status(self, t: Committed, value: dict[str, Any]) -> None:
        name = self._name(t)
        if self.dialect == "postgres":
            name = f"{t.xid}:{t.end if value['status'] == 'END' else t.start - STEP // 2}"
        self._write("x.transaction", 0, {"id": name}, value | {"id": name, "ts_ms": self._ms(t)})

    def _name(self, t: Committed) -> str:
        return f"0-1-{t.index}" if self.dialect == "gtid" else f"file={FILE},pos={t.start}"

    def _ms(self, t: Committed) -> int:
        return 1_700_000_000_000 + t.index * 500

    def _write(self, topic: str, partition: int, key: Any, value: Any) -> None:
        if self.routed:
            topic, partition = "x.all", 0
        offset = self.sizes[topic, partition]
        self.sizes[topic, partition] += 1
        emitted = len(self.records)
        self.records.append(Record(topic, partition, offset, _json(key), _json(value), emitted))

    # ── Whole histories ──────────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, history: list[Committed], restarts: list[tuple[int, int]]) -> None:
        """Publish it. Each restart (at, back): after `at` steps, it goes back by `back` steps and goes on there."""
        steps = [(t, i) for t in history for i in range(-1, len(t.changes) + 1)]
        pending = sorted(restarts, reverse=True)
        at = done = skipped = 0
        while at < len(steps):
            t, i = steps[at]
            if i < 0:
                skipped = 0
                self.begin(t)
            elif i < len(t.changes):
                self.change(t, i, skipped)
            else:
                self.end(t, skipped)
            at += 1
            done += 1
            if pending and done >= pending[-1][0]:
                at = max(0, at - pending.pop()[1])
                skipped = self._resume(steps, at)

    def _resume(self, steps: list[tuple[Committed, int]], at: int) -> int:
        """Begin anew within a transaction: what the connectors of the binary log do."""
        t, i = steps[min(at, len(steps) - 1)]
        if self.dialect == "postgres" or at >= len(steps) or i < 0:
            return 0
        self.begin(t)
        # Whole events of the log are skipped; rows of one come again.
        return i if i < len(t.changes) else len(t.changes)


def place(committed_end: int) -> int:
    """The position of an offset of the log."""
    return position_of(FILE, committed_end)


def _image(row: Row | None) -> dict[str, Any] | None:
    return None if row is None else {"id": int(row[0]), "v": row[1]}


def _json(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value).encode()
