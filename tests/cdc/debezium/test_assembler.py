"""Single rules of the assembler, for what histories at random do not reach."""

import json
import re

import pytest

from cdc.change import CommittedTransaction, StreamLost, TableChange
from cdc.debezium.assembler import AssemblyLimits, DebeziumAssembler
from cdc.debezium.envelope import RecordDecoder
from cdc.debezium.modes import Modes
from cdc.gtid import GtidSet, parse_gtid
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from cdc.postgres.position import PostgresSnapshot
from tests.cdc.debezium.publisher import Change, Committed, Publisher, Record, layout, place

X, Y = ("1", "x"), ("2", "y")
A, B = Change("a", None, X), Change("b", None, Y)


class Stage:
    """Records of some transactions, and an assembler that reads those it is given."""

    def __init__(
        self, *transactions: tuple[Change, ...], dialect: str = "postgres", limits: AssemblyLimits | None = None
    ):
        self.history = [Committed(i, 700 + i, changes) for i, changes in enumerate(transactions)]
        self.publisher = Publisher(dialect)
        self.publisher.publish(self.history, [])
        snapshot = PostgresSnapshot(700, 700) if dialect == "postgres" else BinlogSnapshot(place(0))
        self.assembler = DebeziumAssembler(snapshot, Modes(), limits, watermark="s.c")
        self.reader = RecordDecoder(self.assembler.database)
        self.follow("a", "b")

    def follow(self, *tables: str) -> list[str]:
        new, _ = self.assembler.follow({f"s.{t}": layout(self.publisher.dialect) for t in tables})
        self.assembler.reading([*new, "s.c"], 0, 0.0)
        return new

    def read(
        self, *leaving_out: str, now: float = 0.0, records: list[Record] | None = None
    ) -> list[CommittedTransaction]:
        """Read all but some topics' records, and take."""
        for r in self.publisher.records if records is None else records:
            if r.topic not in leaving_out:
                event = self.reader.read(r.topic, r.partition, r.offset, r.key, r.value)
                if event is not None:
                    self.assembler.add(event, r.offset, now)
        return self.assembler.take(1000)


def test_a_gap_is_named() -> None:
    """Nothing behind it is delivered; after the time it says which table of which transaction lacks what."""
    stage = Stage((A,), (A, B), (A,))
    (only,) = stage.read("x.s.b", now=100.0)
    assert only.id == 700
    assert stage.assembler.gap(129.0, 30.0) is None
    gap = stage.assembler.gap(131.0, 30.0)
    assert gap is not None
    assert gap.collection == "s.b"
    assert gap.reason == "1 of 1 events of s.b in transaction 701 (0/B B7) are not in its topic".replace("B B7", "BB7")


def test_a_missing_end_is_named() -> None:
    """Events whose transaction never ends."""
    stage = Stage((A,))
    assert not stage.read("x.transaction", now=100.0)
    gap = stage.assembler.gap(131.0, 30.0)
    assert gap is not None
    assert gap.collection is None
    assert "transaction 700 changed s.a and has no END" in gap.reason


def test_a_table_with_earlier_events_overflows() -> None:
    """Reading of it began just when the transaction was published."""
    stage = Stage((A, B))
    stage.assembler.reading(["s.b"], 0, 99.0)
    assert not stage.read("x.s.b", now=100.0)
    assert stage.assembler.gap(131.0, 30.0) is None
    (told,) = stage.assembler.take(10)
    assert told.tables == {"s.a": TableChange([], [X]), "s.b": TableChange(overflow=True)}


def test_too_many_rows_of_one_transaction() -> None:
    """The transaction is delivered without rows; the next one has its rows."""
    stage = Stage((A, Change("a", None, Y), B), (B,), limits=AssemblyLimits(rows=2))
    first, second = stage.read()
    assert first.tables == {"s.a": TableChange(overflow=True), "s.b": TableChange(overflow=True)}
    assert second.tables == {"s.b": TableChange([], [Y])}


def test_too_many_rows_that_wait() -> None:
    """The largest transaction gives up its rows."""
    stage = Stage((A,), (A, A, A), (A,), limits=AssemblyLimits(waiting_rows=3))
    assert not stage.read("x.transaction")
    told = stage.read(records=[r for r in stage.publisher.records if r.topic == "x.transaction"])
    assert [t.tables["s.a"].overflow for t in told] == [False, True, False]


def test_another_layout_drops_waiting_rows() -> None:
    """They are laid out as the table was."""
    stage = Stage((A,))
    stage.read("x.transaction")
    changed = layout("postgres")
    stage.assembler.follow({"s.a": type(changed)(("v", "id"), column_types=changed.column_types[::-1]), "s.b": changed})
    (told,) = stage.read(records=[r for r in stage.publisher.records if r.topic == "x.transaction"])
    assert told.tables == {"s.a": TableChange(overflow=True)}


def test_rows_older_than_the_layout_are_left_out() -> None:
    """Whoever follows the table reads them by lookup."""
    stage = Stage((A,), (A,))
    known = layout("postgres")
    since = type(known)(known.columns, table_id=5, column_types=known.column_types, since=stage.history[0].end)
    stage.assembler.follow({"s.a": since})
    (told,) = stage.read()
    assert told.id == 701


@pytest.mark.parametrize("dialect", ["postgres", "mysql", "gtid"])
def test_positions_that_decrease_while_time_advances(dialect: str) -> None:
    """Another server: nothing of it is taken for a repetition."""
    stage = Stage((A,), (A,), (A,), dialect=dialect)
    stage.read()
    other = Publisher(dialect)
    (t,) = [Committed(0, 900, (A,))]
    other.publish([t], [])
    later = [_at(r, b"1900000000000") for r in other.records]
    with pytest.raises(StreamLost, match="positions decreased while time advanced"):
        stage.read(records=[_named(r, b"0-1-900") for r in later])


def _at(record: Record, ms: bytes) -> Record:
    value = None if record.value is None else record.value.replace(b'"ts_ms": 1700000000000', b'"ts_ms": ' + ms)
    return Record(record.topic, record.partition, record.offset, record.key, value, record.emitted)


def _named(record: Record, name: bytes) -> Record:
    value = None if record.value is None else record.value.replace(b'"0-1-0"', b'"' + name + b'"')
    return Record(record.topic, record.partition, record.offset, record.key, value, record.emitted)


def test_a_connector_without_its_offsets() -> None:
    """Events say that it has seen no commit: what it left out is not in the topics. Copies of its first transaction,
    which say so too, are dropped."""
    stage = Stage((A,), (A,), (A,))
    first, second, third = (
        [r for r in stage.publisher.records if f'"{700 + i}:'.encode() in r.value] for i in range(3)
    )
    assert [t.id for t in stage.read(records=first)] == [700]
    assert stage.read(records=first) == []
    assert [t.id for t in stage.read(records=second)] == [701]
    with pytest.raises(StreamLost, match="The connector began anew"):
        stage.read(records=[_without_commit(r) for r in third])


def _without_commit(record: Record) -> Record:
    assert record.value is not None
    value = re.sub(rb'"\[\\"\d+\\", ', b'"[null, ', record.value)
    # No transaction of a new slot began before the slot.
    value = value.replace(b'"lsn": 2500', b'"lsn": 3500')
    return Record(record.topic, record.partition, record.offset, record.key, value, record.emitted)


def test_the_watermark_moves_the_position_only() -> None:
    """A captured table that is not followed."""
    stage = Stage((A,), (Change("c", None, X),), dialect="gtid")
    (only,) = stage.read()
    assert only.end < stage.assembler.position == place(stage.history[1].start + 10)


def test_mysql_is_identified_by_global_ids() -> None:
    """Transactions that the first snapshot certainly saw are left out; ids are those of snapshots."""
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    stage = Stage((A,), (B,), (A,), dialect="gtid")
    seen = GtidSet.parse(f"{uuid}:2")
    stage.assembler = DebeziumAssembler(BracketSnapshot(seen, place(5000)), Modes())
    stage.follow("a", "b")
    records = [_renamed(r, uuid) for r in stage.publisher.records]
    told = stage.read(records=records)
    assert [(t.id, t.tables) for t in told] == [
        (parse_gtid(f"{uuid}:1"), {"s.a": TableChange([], [X])}),
        (parse_gtid(f"{uuid}:3"), {"s.a": TableChange([], [X])}),
    ]
    with pytest.raises(StreamLost, match="no global ids"):
        stage.read(records=Stage((A,), dialect="mysql").publisher.records)


def _renamed(record: Record, uuid: str) -> Record:
    """Named by MySQL instead of MariaDB."""
    value = None
    if record.value is not None:
        value = re.sub(rb'"0-1-(\d)"', lambda m: f'"{uuid}:{int(m[1]) + 1}"'.encode(), record.value)
    return Record(record.topic, record.partition, record.offset, record.key, value, record.emitted)


def test_a_truncate_of_mariadb_waits_for_a_later_transaction() -> None:
    """Or for stillness; too late it overflows."""
    stage = Stage((A,), (A,), (B,), dialect="mysql")
    records = stage.publisher.records
    source = {"version": "3.6.3.Final", "connector": "mariadb", "db": "s", "table": "a", "file": "b.3", "row": 0}

    def truncate(pos: int) -> Record:
        value = {"before": None, "after": None, "op": "t", "transaction": None, "source": source | {"pos": pos}}
        return Record("x.s.a", 0, 900 + pos, None, json.dumps(value).encode(), 0)

    first = [r for r in records if r.emitted < 4]
    (told,) = stage.read(records=[truncate(1500), *first])
    assert told.tables == {"s.a": TableChange([], [X])}
    assert stage.assembler.has_waiting_truncate
    truncated, behind, last = stage.read(records=records[len(first) :])
    assert truncated == CommittedTransaction(place(1500), place(1500), {"s.a": TableChange(truncated=True)})
    assert behind.tables == {"s.a": TableChange([], [X])}
    (late,) = stage.read(records=[truncate(2500), truncate(1500)])
    assert late == CommittedTransaction(last.end, last.end, {"s.a": TableChange(overflow=True)})
    assert not stage.read(records=[truncate(3500)])
    stage.assembler.settle()
    (still,) = stage.assembler.take(10)
    assert still.tables == {"s.a": TableChange(truncated=True)}
