"""Random histories, published with restarts, read in random orders: what comes out is each transaction once, in order.

A model of a reader follows: it knows the tables' rows, forgets a table that overflows, reads it anew when it knows for
sure where it is. It must never know wrong rows.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field

from hypothesis import event, given, settings
from hypothesis import strategies as st

from cdc.change import CommittedTransaction
from cdc.debezium.assembler import AssemblyLimits, DebeziumAssembler
from cdc.debezium.envelope import RecordDecoder
from cdc.debezium.history import StartSnapshot
from cdc.debezium.modes import Modes
from cdc.debezium.progress import AssemblyProgress
from cdc.debezium.read_offsets import ReadOffsets
from cdc.mysql.position import BinlogSnapshot
from cdc.postgres.position import PostgresSnapshot
from tests.cdc.debezium.publisher import STEP, TABLES, Change, Committed, Publisher, Record, Row, layout, place

Rows = dict[str, Counter[Row]]


@st.composite
def histories(draw: st.DrawFn) -> list[Committed]:
    """Transactions whose changes fit each other: only rows that are there are removed."""
    rows: Rows = {table: Counter() for table in TABLES}
    xids = draw(st.permutations(range(700, 712)))
    history = []
    for index in range(draw(st.integers(1, 8))):
        changes = []
        for _ in range(draw(st.integers(0, 5))):
            table = draw(st.sampled_from(TABLES))
            there = sorted(rows[table].elements())
            kind = draw(st.integers(0, 9))
            before = draw(st.sampled_from(there)) if there and kind < 5 else None
            after = (str(draw(st.integers(0, 3))), draw(st.sampled_from("xyz"))) if before is None or kind < 3 else None
            if kind == 9:
                before = after = None
                rows[table].clear()
            rows[table] -= Counter([before] if before else [])
            rows[table] += Counter([after] if after else [])
            changes.append(Change(table, before, after))
        history.append(Committed(index, xids[index], tuple(changes)))
    return history


def without_truncates(history: list[Committed]) -> list[Committed]:
    """Replace TRUNCATE, which is in no transaction of MariaDB, by deletes of all rows."""
    rows: Rows = {table: Counter() for table in TABLES}
    told = []
    for t in history:
        changes: list[Change] = []
        for change in t.changes:
            if change.before is None and change.after is None:
                changes += [Change(change.table, row, None) for row in rows[change.table].elements()]
                rows[change.table].clear()
            else:
                changes.append(change)
                rows[change.table] -= Counter([change.before] if change.before else [])
                rows[change.table] += Counter([change.after] if change.after else [])
        told.append(Committed(t.index, t.xid, tuple(changes)))
    return told


def applied(rows: Rows, t: Committed) -> Rows:
    """The tables after a transaction."""
    rows = {table: Counter(bag) for table, bag in rows.items()}
    for change in t.changes:
        if change.before is None and change.after is None:
            rows[change.table].clear()
        rows[change.table] -= Counter([change.before] if change.before else [])
        rows[change.table] += Counter([change.after] if change.after else [])
    return rows


class Follower:
    """Knows rows of tables by what the assembler says.

    *State*: `known`, rows of tables that are followed, None: forgotten; `at`, the transaction it is at.
    """

    def __init__(self, history: list[Committed], dialect: str, seen: int, left_out: set[int]) -> None:
        self.dialect = dialect
        self.history = history
        truth: Rows = {table: Counter() for table in TABLES}
        #: By transaction, the tables before it.
        self.truth = [truth]
        for t in history:
            truth = applied(truth, t)
            self.truth.append(truth)
        #: Those the stream does not have although the first snapshot may not see them.
        self.left_out = left_out
        self.known: dict[str, Counter[Row] | None] = {}
        self.at = seen
        self.exact = self.overflows = 0

    def follow(self, tables: set[str]) -> None:
        """Read new tables once their position is known."""
        self.known = {table: self.known.get(table) for table in tables}

    def take(self, t: CommittedTransaction) -> None:
        """Apply it, and compare."""
        whole = not any(change.overflow for change in t.tables.values())
        index = self._index(t)
        assert index >= self.at, f"{t} comes again, or late"
        for name, change in t.tables.items():
            table = name.removeprefix("s.")
            assert table in self.known
            rows = self.known[table]
            if change.overflow:
                self.known[table] = None
            elif rows is not None:
                if change.truncated:
                    rows.clear()
                removed = Counter(change.removed)
                assert removed <= rows, f"{t} removes what is not there"
                rows -= removed
                rows += Counter(change.added)  # type: ignore[arg-type]
        self.overflows += not whole
        self.exact += whole
        if whole:
            self.at = index + 1
            self.compare(index + 1)

    def compare(self, index: int) -> None:
        """Compare known tables with the truth, and read the others."""
        if index <= max(self.left_out, default=-1):
            # Lookups wait for what is left out of the stream.
            self.known = dict.fromkeys(self.known)
            return
        for table, rows in self.known.items():
            if rows is None:
                self.known[table] = Counter(self.truth[index][table])
            else:
                assert rows == self.truth[index][table], f"{table} after {index} transactions"

    def _index(self, t: CommittedTransaction) -> int:
        if self.dialect == "postgres":
            return next(h.index for h in self.history if h.xid == t.id)
        return (t.end & 0xFFFFFFFF) // STEP - 1


@dataclass
class Scene:
    """A history, how it was published (all but the last transaction: in how many records), where reading begins and
    what the first snapshot sees.

    *State*: `later`, from which record on topics are read that were followed later; `since` and `new`, what the
    assembler will hear of them.
    """

    history: list[Committed]
    publisher: Publisher
    restarted: bool
    published: int
    cut: int
    seen: int
    later: dict[str, int] = field(default_factory=dict)
    since: int = 0
    new: list[str] = field(default_factory=list)

    @property
    def horizon(self) -> int:
        """PostgreSQL: behind all ids that were given out when the snapshot was taken."""
        return max((t.xid for t in self.history[: self.seen]), default=699) + 1

    @property
    def left_out(self) -> set[int]:
        """Transactions that run when the snapshot is taken, and are not in the stream of PostgreSQL."""
        if self.publisher.dialect != "postgres":
            return set()
        return {t.index for t in self.history[self.seen :] if t.xid < self.horizon}

    @property
    def copies_say_a_place(self) -> bool:
        """True if late copies can be told by places alone: PostgreSQL's name the last commit that the connector had
        seen. Those of its very first transaction name none; a slot made anew might send new events that look so."""
        events = [(r.topic, r.value) for r in self.publisher.records if b'"[null, ' in (r.value or b"")]
        return self.publisher.dialect == "postgres" and len(events) == len(set(events))

    def assembler(self, limits: AssemblyLimits, progress: AssemblyProgress | None = None) -> DebeziumAssembler:
        """One that begins here, or continues another one's progress at a later snapshot."""
        snapshot: StartSnapshot = BinlogSnapshot(place((self.seen + 1 if progress is None else 99) * STEP))
        if self.publisher.dialect == "postgres":
            horizon = self.horizon if progress is None else 900
            snapshot = PostgresSnapshot(horizon, horizon)
        return DebeziumAssembler(snapshot, Modes(), limits, progress=progress)

    def commits_before(self, emitted: int) -> int:
        """The offset of the transactions' topic when so many records had been published."""
        name = "x.all" if self.publisher.routed else "x.transaction"
        return sum(r.topic == name for r in self.publisher.records[:emitted])


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    dialect = draw(st.sampled_from(["postgres", "mysql", "gtid"]))
    history = draw(histories())
    if dialect != "postgres":
        history = without_truncates(history)
    publisher = Publisher(dialect, draw(st.integers(1, 3)), draw(st.booleans()))
    steps = sum(len(t.changes) + 2 for t in history)
    restarts = draw(st.lists(st.tuples(st.integers(1, steps), st.integers(0, 12)), max_size=3))
    publisher.publish(history, restarts)
    # At the end something happens to all tables: what waits for something to happen comes through.
    published = len(publisher.records)
    history.append(Committed(len(history), 799, tuple(Change(table, None, ("9", "x")) for table in TABLES)))
    publisher.publish(history[-1:], [])
    # The snapshot is taken after reading has begun, and sees what had been published in part, or more.
    cut = draw(st.integers(0, published // 2))
    begun = max((_index_of(r, history) for r in publisher.records[:cut]), default=-1)
    seen = draw(st.integers(begun + 1, len(history) - 1))
    return Scene(history, publisher, bool(restarts), published, cut, seen)


@st.composite
def orders(draw: st.DrawFn, records: list[Record]) -> list[Record]:
    """The records in an order that keeps that of each partition."""
    lanes: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        lanes.setdefault((record.topic, record.partition), []).append(record)
    order = []
    while lanes:
        lane = draw(st.sampled_from(sorted(lanes)))
        count = draw(st.integers(1, 6))
        order += lanes[lane][:count]
        lanes[lane] = lanes[lane][count:]
        if not lanes[lane]:
            del lanes[lane]
    return order


class Reading:
    """Reads a scene's records into an assembler, whose transactions go to a follower."""

    def __init__(self, scene: Scene, tables: set[str], limits: AssemblyLimits) -> None:
        self.scene = scene
        self.tables = tables
        self.assembler = scene.assembler(limits)
        self.reader = RecordDecoder(self.assembler.database)
        self.follower = Follower(scene.history, scene.publisher.dialect, scene.seen, scene.left_out)
        self.assembler.reading(self.follow(tables), scene.commits_before(scene.cut), 0.0)
        self.follower.compare(scene.seen)
        self.offsets = ReadOffsets()
        starts: dict[tuple[str, int], int] = {}
        for record in scene.publisher.records:
            partition = record.topic, record.partition
            starts[partition] = starts.get(partition, 0) + (record.emitted < scene.cut)
        self.offsets.assign(starts)

    def continued(self, limits: AssemblyLimits, taken: bool) -> list[Record] | None:
        """Go on with another assembler; returns the records that it must read, None if none can continue here."""
        progress = self.assembler.progress(taken)
        if progress is None:
            return None
        offsets = self.offsets.before(self.assembler.oldest_mark(taken, 0.0))
        self.offsets = ReadOffsets()
        self.offsets.assign(offsets)
        stored = AssemblyProgress(**json.loads(json.dumps(asdict(progress))))
        self.assembler = self.scene.assembler(limits, stored)
        self.reader = RecordDecoder(self.assembler.database)
        self.assembler.follow({f"s.{t}": layout(self.scene.publisher.dialect) for t in self.tables})
        for collection, since in stored.since.items():
            self.assembler.reading([collection], since, 0.0)
        return [r for r in self.scene.publisher.records if r.offset >= offsets[r.topic, r.partition]]

    def follow(self, tables: set[str]) -> list[str]:
        """Follow these; returns collections that are new."""
        self.tables = tables
        self.follower.follow(tables)
        return self.assembler.follow({f"s.{t}": layout(self.scene.publisher.dialect) for t in tables})[0]

    def follow_later(self, tables: set[str], at: Record, emitted: int) -> None:
        """Follow others when `at` is read next; topics of those that are new are read from `emitted` on."""
        self.scene.new = self.follow(tables)
        self.scene.later = {f"x.{collection}": emitted for collection in self.scene.new}
        self.scene.since = at.offset if self.scene.publisher.routed else self.scene.commits_before(emitted)

    def told(self) -> None:
        """The assembler hears that new topics are read."""
        self.assembler.reading(self.scene.new, self.scene.since, 1.0)

    def read(self, record: Record) -> None:
        """One record, if its topic is read."""
        table = record.topic.removeprefix("x.s.")
        if table != record.topic and (
            table not in self.tables or record.emitted < self.scene.later.get(record.topic, 0)
        ):
            return
        self.add(record)
        self.take()

    def add(self, record: Record) -> None:
        self.assembler.mark = self.offsets.begin_chunk()
        found = self.reader.read(record.topic, record.partition, record.offset, record.key, record.value)
        if found is not None:
            self.assembler.add(found, record.offset, 2.0)
        self.offsets.end_chunk(record)

    def take(self) -> None:
        """Deliver complete transactions."""
        while taken := self.assembler.take(3):
            for t in taken:
                self.follower.take(t)


@given(st.data())
@settings(max_examples=300)
def test_each_once_in_order(data: st.DataObject) -> None:
    """However events are spread, repeated and read, for all connectors, tables followed later included."""
    scene = data.draw(scenes())
    some_tables = st.sets(st.sampled_from(TABLES), min_size=1)
    remembered = data.draw(st.sampled_from([1, 1000])) if scene.copies_say_a_place else 1000
    reading = Reading(scene, data.draw(some_tables), AssemblyLimits(remembered=remembered))
    order = data.draw(orders(scene.publisher.records[scene.cut :]))
    again = data.draw(st.integers(0, 2 * len(order)))
    told = again + data.draw(st.integers(1, 20))
    for at, record in enumerate(order):
        if at == told:
            reading.told()
        if at == again:
            newest = max((r.emitted for r in order[:at]), default=scene.cut) + 1
            emitted = data.draw(st.integers(newest, max(newest, scene.published)))
            reading.follow_later(data.draw(some_tables), record, emitted)
        reading.read(record)
    reading.told()
    reading.take()
    assert reading.assembler.gap(1000.0, 30.0) is None
    follower = reading.follower
    follower.compare(len(scene.history))
    if again >= len(order) and not (scene.restarted and scene.publisher.dialect != "postgres"):
        assert not follower.overflows, "nothing was in the way of exact rows"
    event(f"{scene.publisher.dialect}: {'overflow' if follower.overflows else 'exact'}")


@given(st.data())
@settings(max_examples=300)
def test_each_once_across_restarts(data: st.DataObject) -> None:
    """Other assemblers continue between two transactions, some of which were taken and never delivered."""
    scene = data.draw(scenes())
    limits = AssemblyLimits()
    reading = Reading(scene, data.draw(st.sets(st.sampled_from(TABLES), min_size=1)), limits)
    order = data.draw(orders(scene.publisher.records[scene.cut :]))
    for _ in range(data.draw(st.integers(1, 3))):
        until = data.draw(st.integers(0, len(order)))
        for record in order[:until]:
            reading.read(record)
        rest = None
        if data.draw(st.booleans()):
            rest = reading.continued(limits, taken=False)
        else:
            for record in order[until:]:
                reading.add(record)
                if reading.assembler.take(3):
                    rest = reading.continued(limits, taken=True)
                    break
        event(f"{scene.publisher.dialect}: {'no place' if rest is None else 'continued'}")
        if rest is None:
            return
        order = data.draw(orders(rest))
    for record in order:
        reading.read(record)
    reading.take()
    assert reading.assembler.gap(1000.0, 30.0) is None
    reading.follower.compare(len(scene.history))
    if not (scene.restarted and scene.publisher.dialect != "postgres"):
        assert not reading.follower.overflows, "nothing was in the way of exact rows"


def _index_of(record: Record, history: list[Committed]) -> int:
    """Return the index of the record's transaction; -1: unknown."""
    text = (record.value or b"").decode()
    for t in history:
        names = (f'"id": "{t.xid}:', f'"id": "0-1-{t.index}"', f'pos={t.start}"')
        if any(name in text for name in names):
            return t.index
    return -1
