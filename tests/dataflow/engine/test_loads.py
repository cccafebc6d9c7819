"""Loading of full materializations by slices: loads, derivations, and the reads that wait for them."""

from collections import Counter
from dataclasses import dataclass

import pytest

from dataflow.engine.effects import (
    CancelLookup,
    Effect,
    LeafChange,
    LeafDrop,
    LeafEvict,
    LeafFillAll,
    LeafLoaded,
    Reach,
    ViewStatus,
)
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Advance,
    Apply,
    DropView,
    EvictInner,
    EvictSome,
    InstallView,
    LoadBegun,
    LoadDone,
    LoadRows,
    LookupDone,
    LookupFailed,
    LookupsDone,
    Read,
    SnapshotTaken,
    StreamStarted,
    TableDelta,
    Transaction,
    Work,
)
from dataflow.engine.limits import Limits
from dataflow.errors import InvariantViolation
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import Key, LookupId, Position, ReadId, Row, Snapshot, TransactionId, ViewId

INT, NUMERIC = SqlType("int4", "int4"), SqlType("numeric", "numeric")
CATALOG = Catalog(
    {
        "public.items": Table(
            "public.items", (Column("id", INT, True), Column("kind", INT, True), Column("price", NUMERIC)), keys=((0,),)
        ),
        "public.kinds": Table("public.kinds", (Column("id", INT, True), Column("name", INT, True)), keys=((0,),)),
    }
)
ITEMS = "SELECT id, kind FROM items"
PRICES = "SELECT price, COUNT(*) AS n FROM items GROUP BY price"
JOINED = "SELECT i.id, k.name FROM items i JOIN kinds k ON k.id = i.kind"


@dataclass(frozen=True, slots=True)
class At(Snapshot):
    """A snapshot that sees what ended by a position, and surely so unless it is not `exact`."""

    end: Position
    exact: bool = True

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        del transaction
        return end <= self.end

    def covers(self, other: Snapshot) -> bool:
        return isinstance(other, At) and other.end <= self.end

    def finished(self, other: Snapshot) -> bool:
        return self.covers(other)


def item(number: int, kind: int = 1, price: str = "1.0") -> Row:
    """A row of items."""
    return (str(number), str(kind), price)


class Shell:
    """An engine, and its leaf store as bags by view and key."""

    def __init__(self, **limits: int) -> None:
        self.engine = Engine(CATALOG, Limits(**limits))
        self.rows: dict[ViewId, dict[Key, Counter[Row]]] = {}
        self.status: dict[ViewId, str] = {}
        self.step(StreamStarted(0, At(0)))

    def step(self, event: object) -> list[Effect]:
        effects = self.engine.step(event)  # type: ignore[arg-type]
        self.engine.check()
        for effect in effects:
            if isinstance(effect, LeafFillAll):
                self.rows[effect.view] = {key: Counter(rows) for key, rows in effect.rows.items()}
            elif isinstance(effect, LeafChange):
                for key, (removed, added) in effect.changes.items():
                    bag = self.rows[effect.view].setdefault(key, Counter())
                    bag.subtract(removed)
                    bag.update(added)
                    assert min(bag.values()) >= 0, "a row is removed that is not there"
            elif isinstance(effect, LeafEvict | LeafDrop):
                self.rows.pop(effect.view, None)
            elif isinstance(effect, ViewStatus):
                self.status[effect.view] = effect.status
        return effects

    def install(self, number: int, sql: str, whole: bool = True) -> list[Lookup]:
        """A view, and the lookups that it leads to."""
        effects = self.step(InstallView(ViewId(number), plan_view(f"v{number}", sql, CATALOG), whole))
        return [effect for effect in effects if isinstance(effect, Lookup)]

    def commit(self, end: Position, table: str = "items", **delta: object) -> list[Effect]:
        """A transaction on one table."""
        tables = {f"public.{table}": TableDelta(**delta)}  # type: ignore[arg-type]
        return self.step(Apply([Transaction(TransactionId(end), end, tables)], end))

    def load(self, lookup: Lookup, rows: list[Row], at: Position, size: int = 2) -> None:
        """A whole load, up to its catching up."""
        self.step(LoadBegun(lookup.id, At(at), at))
        for first in range(0, len(rows), size):
            self.step(LoadRows(lookup.id, rows[first : first + size]))
        self.step(LoadDone(lookup.id))

    def work(self, rows: int = 1) -> list[list[Effect]]:
        """Works until nothing is left; the effects of each step."""
        steps = []
        while self.engine.working:
            steps.append(self.step(Work(rows)))
        return steps

    def work_until_deriving(self) -> None:
        """Works until all inputs are there."""
        while not any(state.phase == "deriving" for state in self.engine.loading()):
            self.step(Work(1000))

    def bag(self, view: int) -> list[Row]:
        """All rows of a view that is ready."""
        assert self.status[ViewId(view)] == "ready"
        return sorted(row for bag in self.rows[ViewId(view)].values() for row in bag.elements())


def test_a_view_is_written_in_slices_and_is_ready_at_the_end() -> None:
    shell = Shell()
    (lookup,) = shell.install(1, ITEMS)
    shell.commit(10, added=[item(9)])
    assert shell.step(LoadBegun(lookup.id, At(5), 5)) == [LeafFillAll(ViewId(1), {})]
    (change,) = shell.step(LoadRows(lookup.id, [("1", "1"), ("2", "1")]))
    assert isinstance(change, LeafChange)
    # What comes meanwhile is not told to the leaf store before the rows that it may take away are there.
    assert shell.commit(20, removed=[item(1)]) == []
    assert not shell.engine.working
    (state,) = shell.engine.loading()
    assert (state.phase, state.rows, state.rows_left, state.views) == ("reading", 2, None, (ViewId(1),))
    assert shell.step(LoadDone(lookup.id)) == []
    assert [(s.phase, s.rows_left, s.table) for s in shell.engine.loading()] == [("catching up", 2, "public.items")]
    *_, last = shell.work()
    assert last[-2:] == [LeafLoaded(ViewId(1)), ViewStatus(ViewId(1), "ready")]
    assert shell.bag(1) == [("2", "1"), ("9", "1")]
    assert shell.engine.loading() == []
    shell.commit(30, added=[item(3)])
    assert shell.bag(1) == [("2", "1"), ("3", "1"), ("9", "1")]


def test_a_load_waits_for_its_bound() -> None:
    shell = Shell()
    (lookup,) = shell.install(1, ITEMS)
    shell.step(LoadBegun(lookup.id, At(30), 30))
    shell.step(LoadRows(lookup.id, [("1", "1"), ("2", "1")]))
    assert shell.step(LoadDone(lookup.id)) == [Reach(30)]
    assert not shell.engine.working
    assert shell.step(Work(10)) == []
    # The snapshot saw this.
    shell.commit(25, added=[item(2)])
    assert not shell.engine.working
    shell.step(Advance(30))
    shell.work()
    assert shell.bag(1) == [("1", "1"), ("2", "1")]


def test_a_load_keeps_neither_the_ring_nor_a_place() -> None:
    shell = Shell(lookups_of_table=1)
    (first,) = shell.install(1, ITEMS)
    assert shell.install(2, "SELECT id FROM items") == []
    effects = shell.step(LoadBegun(first.id, At(0), 0))
    assert [type(effect) for effect in effects] == [LeafFillAll, Lookup]
    (second,) = (effect for effect in effects if isinstance(effect, Lookup))
    shell.step(LookupsDone([LookupDone(second.id, [], At(0), 0)]))
    shell.commit(10, added=[item(1)])
    assert len(shell.engine.ring) == 1
    shell.step(SnapshotTaken(At(10)))
    assert len(shell.engine.ring) == 0
    shell.step(LoadDone(first.id))
    shell.work()
    assert shell.bag(1) == [("1", "1")]


def test_only_lookups_of_everything_at_exact_snapshots_are_loads() -> None:
    shell = Shell()
    (lookup,) = shell.install(1, ITEMS)
    with pytest.raises(InvariantViolation):
        shell.engine.step(LoadBegun(lookup.id, At(0, exact=False), 0))
    other = Shell()
    other.install(1, f"{ITEMS} WHERE kind = :kind", whole=False)
    (keyed,) = (e for e in other.step(Read(ReadId(1), ((ViewId(1), ("1",), None),))) if isinstance(e, Lookup))
    with pytest.raises(InvariantViolation):
        other.engine.step(LoadBegun(keyed.id, At(0), 0))


@pytest.mark.parametrize("hidden", ["truncated", "overflow"])
def test_a_load_is_repeated_after_what_cannot_be_replayed(hidden: str) -> None:
    shell = Shell()
    (lookup,) = shell.install(1, ITEMS)
    shell.step(LoadBegun(lookup.id, At(0), 0))
    shell.step(LoadRows(lookup.id, [("1", "1")]))
    effects = shell.commit(10, **{hidden: True})
    assert LeafEvict(ViewId(1), ()) in effects
    assert CancelLookup(lookup.id) in effects
    (again,) = (effect for effect in effects if isinstance(effect, Lookup))
    # What still comes of the first one is nobody's.
    assert shell.step(LoadRows(lookup.id, [("2", "1")])) == shell.step(LoadDone(lookup.id)) == []
    shell.load(again, [("3", "1")], at=10)
    shell.work()
    assert shell.bag(1) == [("3", "1")]


def test_a_load_that_fails_is_tried_again_and_leaves_nothing_behind() -> None:
    shell = Shell()
    (lookup,) = shell.install(1, ITEMS)
    shell.step(LoadBegun(lookup.id, At(0), 0))
    shell.step(LoadRows(lookup.id, [("1", "1")]))
    effects = shell.step(LookupFailed(lookup.id, "the disk is full", True))
    assert effects == [LeafEvict(ViewId(1), ()), ViewStatus(ViewId(1), "building", "the disk is full")]
    (again,) = (effect for effect in shell.step(SnapshotTaken(At(0))) if isinstance(effect, Lookup))
    shell.load(again, [("1", "1")], at=0)
    shell.work()
    assert shell.bag(1) == [("1", "1")]


def test_a_view_that_is_dropped_ends_its_load() -> None:
    shell = Shell()
    (lookup,) = shell.install(1, ITEMS)
    shell.step(LoadBegun(lookup.id, At(0), 0))
    assert shell.step(DropView(ViewId(1))) == [LeafDrop(ViewId(1)), CancelLookup(lookup.id)]
    assert shell.engine.loading() == []


def test_state_rows_of_a_group_come_in_any_slices() -> None:
    shell = Shell()
    (lookup,) = shell.install(1, PRICES)
    # The layout of state rows: the group's text, the call's count, the number of rows.
    shell.load(lookup, [("1.0", "2", "2"), ("7", "1", "1"), ("1.00", "3", "3")], at=0, size=1)
    shell.commit(10, removed=[item(1, price="7")], added=[item(2, price="1.0")])
    shell.work()
    ((text, count),) = shell.bag(1)
    assert (text in ("1.0", "1.00"), count) == (True, "6")


def test_a_group_that_was_known_is_shown_by_the_text_that_others_know() -> None:
    shell = Shell()
    shell.install(1, f"SELECT * FROM ({PRICES}) p WHERE price = :price", whole=False)
    (keyed,) = (e for e in shell.step(Read(ReadId(1), ((ViewId(1), ("1",), None),))) if isinstance(e, Lookup))
    shell.step(LookupsDone([LookupDone(keyed.id, [("1.0", "1", "1"), ("1.00", "1", "1")], At(0), 0)]))
    (lookup,) = shell.install(2, PRICES)
    shell.load(lookup, [("1.00", "1", "1"), ("1.0", "1", "1"), ("2", "1", "1")], at=0)
    shell.work()
    changes = [e for e in shell.engine.step(_applied(10, added=[item(5, price="1.00")])) if isinstance(e, LeafChange)]
    by_view = {change.view: change.changes for change in changes}
    assert by_view[ViewId(1)] == {("1",): ([("1.0", "2")], [("1.0", "3")])}
    assert by_view[ViewId(2)][()] == ([("1.0", "2")], [("1.0", "3")])


def _applied(end: Position, **delta: list[Row]) -> Apply:
    return Apply([Transaction(TransactionId(end), end, {"public.items": TableDelta(**delta)})], end)


def test_what_lies_above_is_derived_in_slices_while_inputs_change() -> None:
    shell = Shell(derive_rows=10)
    items, kinds = shell.install(1, JOINED)
    shell.load(items, [(str(n), str(n % 3)) for n in range(100)], at=0, size=30)
    shell.load(kinds, [("0", "7"), ("1", "8")], at=0)
    shell.work_until_deriving()
    shell.step(Work(5))
    (state,) = shell.engine.loading()
    assert (state.phase, state.rows_left, state.lookup) == ("deriving", 95, None)
    # One of rows that were derived, one of rows that were not, whichever they are; and one that is new.
    shell.commit(10, removed=[item(99, 0), item(1, 1)], added=[item(200, 0)])
    shell.commit(20, "kinds", removed=[("0", "7")], added=[("2", "9")])
    slices = shell.work(8)
    assert max(sum(len(b) for _, b in e.changes.values()) for s in slices for e in s if isinstance(e, LeafChange)) <= 8
    names = {1: "8", 2: "9"}
    assert shell.bag(1) == sorted((str(n), names[n % 3]) for n in range(100) if n % 3 in names and n != 1)


def test_a_derivation_begins_again_when_an_input_is_lost() -> None:
    shell = Shell(derive_rows=0)
    items, kinds = shell.install(1, JOINED)
    shell.load(items, [("1", "1"), ("2", "1"), ("3", "1")], at=0)
    shell.load(kinds, [("1", "8")], at=0)
    shell.work_until_deriving()
    shell.step(Work(1))
    assert shell.rows[ViewId(1)]
    effects = shell.step(EvictInner(items.node, (), ()))
    assert LeafEvict(ViewId(1), ()) in effects
    (again,) = (effect for effect in effects if isinstance(effect, Lookup))
    shell.load(again, [("4", "1")], at=0)
    shell.work()
    assert shell.bag(1) == [("4", "8")]


def test_what_was_loaded_stays_while_the_rest_is_not_there() -> None:
    shell = Shell(derive_rows=0)
    items, kinds = shell.install(1, JOINED)
    shell.load(items, [("1", "1")], at=0)
    shell.work()
    shell.step(EvictSome(1000))
    shell.load(kinds, [("1", "8")], at=0)
    shell.work_until_deriving()
    shell.step(EvictSome(1000))
    shell.work()
    assert shell.bag(1) == [("1", "8")]


def test_everybody_goes_on_in_turn_and_is_counted() -> None:
    shell = Shell()
    (items,) = shell.install(1, PRICES)
    (kinds,) = shell.install(2, "SELECT name, COUNT(*) AS n FROM kinds GROUP BY name")
    before = shell.engine.state_bytes()
    shell.load(items, [(str(n), "1", "1") for n in range(500)], at=0, size=100)
    assert shell.engine.state_bytes() - before > 500 * 200
    shell.load(kinds, [(str(n), "1", "1") for n in range(500)], at=0, size=100)
    left = [state.rows_left for state in shell.engine.loading()]
    for _ in range(4):
        shell.step(Work(10))
    assert [state.rows_left for state in shell.engine.loading()] == [n - 20 for n in left if n is not None]
    assert LookupId(items.id) in {state.lookup for state in shell.engine.loading()}
