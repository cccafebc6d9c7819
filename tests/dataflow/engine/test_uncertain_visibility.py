"""Lookups that may have seen a transaction or not: what is replaced, what is looked up again, and how often."""

from dataclasses import dataclass, field

from dataflow.engine.effects import (
    Answer,
    AnswerForward,
    Effect,
    Forward,
    LeafExtend,
    LeafFill,
    LeafFillAll,
    ViewStatus,
)
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Ahead,
    Apply,
    ForwardDone,
    InstallView,
    LookupDone,
    LookupsDone,
    Read,
    SnapshotTaken,
    StreamStarted,
    TableDelta,
    Transaction,
)
from dataflow.engine.limits import Limits
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import Position, ReadId, Row, Snapshot, TransactionId, ViewId

INT = SqlType("int4", "int4")
COLUMNS = (Column("id", INT, True), Column("story", INT, True), Column("n", INT, True))
KEYED, KEYLESS = "public.keyed", "public.keyless"
CATALOG = Catalog({KEYED: Table(KEYED, COLUMNS, keys=((0,),)), KEYLESS: Table(KEYLESS, COLUMNS)})
VIEW = ViewId(1)
BY_STORY = "SELECT id, story, n FROM keyed WHERE story = :story"
NUMBERS = "SELECT n FROM keyed WHERE story = :story"
COUNTS = "SELECT count(*) FROM keyed WHERE story = :story"


@dataclass(frozen=True)
class Bracket(Snapshot):
    """Sees these transactions for sure, and nothing that ends behind `position`. Transaction n ends at 10 n."""

    seen: frozenset[int] = frozenset()
    position: Position = 0
    exact = False

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        del end
        return transaction in self.seen

    def unsure(self, transaction: TransactionId, end: Position) -> bool:
        return end <= self.position and transaction not in self.seen

    def covers(self, other: Snapshot) -> bool:
        return isinstance(other, Bracket) and other.seen <= self.seen

    def finished(self, other: Snapshot) -> bool:
        return self.covers(other)


def bracket(*seen: int, until: int) -> Bracket:
    """Transactions that are seen, and the last one that may be."""
    return Bracket(frozenset(seen), 10 * until)


@dataclass
class World:
    """An engine with one view."""

    sql: str
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.engine = Engine(CATALOG, self.limits)
        self.step(StreamStarted(0, Bracket()))
        self.begun = self.step(InstallView(VIEW, plan_view("v", self.sql, CATALOG)))
        self.reads = 0

    def step(self, event: object) -> list[Effect]:
        effects = self.engine.step(event)  # type: ignore[arg-type]
        self.engine.check()
        return effects

    def apply(self, number: int, removed: list[Row], added: list[Row], table: str = KEYED) -> list[Effect]:
        delta = TableDelta(removed, added)
        return self.step(Apply([Transaction(TransactionId(number), 10 * number, {table: delta})], 10 * number))

    def read(self, key: str, ahead: int | None = None) -> list[Effect]:
        self.reads += 1
        return self.step(Read(ReadId(self.reads), ((VIEW, (key,), None if ahead is None else Ahead(ahead)),)))

    def bring(self, lookup: Effect, rows: list[Row], snapshot: Bracket) -> list[Effect]:
        assert isinstance(lookup, Lookup)
        return self.step(LookupsDone([LookupDone(lookup.id, rows, snapshot, snapshot.position)]))


def filled(effects: list[Effect]) -> list[Row]:
    (fill,) = [e for e in effects if isinstance(e, LeafFill | LeafExtend)]
    return sorted(fill.rows, key=repr)


def test_a_transaction_that_touches_another_key_is_in_nobodys_way() -> None:
    world = World(COUNTS)
    (lookup,) = world.read("7")
    world.apply(1, [], [("1", "8", "0")])
    effects = world.bring(lookup, [], bracket(until=1))
    assert effects[-1] == Answer(ReadId(1))
    assert world.engine.counters["unsure"] == 0


def test_rows_with_a_unique_key_are_replaced_by_their_last_images() -> None:
    for seen in ([("1", "7", "5"), ("2", "7", "5")], [("1", "7", "6"), ("3", "7", "6")]):
        world = World(BY_STORY)
        (lookup,) = world.read("7")
        world.apply(1, [("1", "7", "5"), ("2", "7", "5")], [("1", "7", "6"), ("3", "7", "6")])
        effects = world.bring(lookup, [*seen, ("4", "7", "0")], bracket(until=1))
        assert filled(effects) == [("1", "7", "6"), ("3", "7", "6"), ("4", "7", "0")]
        assert effects[-1] == Answer(ReadId(1))
        assert world.engine.counters["replaced"] == 1


def test_what_came_after_an_unsure_transaction_counts_although_it_is_seen() -> None:
    """The log's order is not the order in which the server knows of commits: 2 undid 1, and is known to be executed."""
    world = World(BY_STORY)
    (lookup,) = world.read("7")
    world.apply(1, [("1", "7", "5")], [("1", "7", "6")])
    world.apply(2, [("1", "7", "6")], [("1", "7", "9")])
    world.step(SnapshotTaken(bracket(2, until=2)))
    effects = world.bring(lookup, [("1", "7", "9")], bracket(2, until=2))
    assert filled(effects) == [("1", "7", "9")]


def test_a_heartbeat_trims_nothing_behind_what_it_may_not_have_seen() -> None:
    world = World(BY_STORY)
    world.apply(1, [("1", "7", "5")], [("1", "7", "6")])
    world.apply(2, [("1", "7", "6")], [("1", "7", "9")])
    world.step(SnapshotTaken(bracket(2, until=2)))
    assert len(world.engine.ring) == 2
    (lookup,) = world.read("7")
    effects = world.bring(lookup, [("1", "7", "9")], bracket(2, until=2))
    assert filled(effects) == [("1", "7", "9")]
    world.step(SnapshotTaken(bracket(1, 2, until=2)))
    assert len(world.engine.ring) == 0


def test_a_part_reaches_as_far_as_the_rows_that_were_seen() -> None:
    """Replacing rows changes what is in the part, not where it ends."""
    world = World(f"{BY_STORY} ORDER BY n, id")
    (lookup,) = world.read("7", ahead=2)
    world.apply(1, [("2", "7", "5")], [("2", "7", "8")])
    effects = world.bring(lookup, [("1", "7", "3"), ("2", "7", "5")], bracket(until=1))
    assert filled(effects) == [("1", "7", "3")]


def test_without_a_unique_key_only_the_keys_in_doubt_are_looked_up_again() -> None:
    world = World(NUMBERS)
    (lookup,) = world.step(Read(ReadId(1), ((VIEW, ("7",), None), (VIEW, ("8",), None))))
    assert isinstance(lookup, Lookup)
    assert lookup.keys == (("7",), ("8",))
    world.apply(1, [("1", "7", "5")], [("1", "7", "6")])
    effects = world.bring(lookup, [("7", "6"), ("8", "1")], bracket(until=1))
    assert filled(effects) == [("8", "1")]
    again = effects[-1]
    assert isinstance(again, Lookup)
    assert again.keys == (("7",),)
    effects = world.bring(again, [("7", "6")], bracket(1, until=1))
    assert filled(effects) == [("7", "6")]
    assert effects[-1] == Answer(ReadId(1))


def test_a_read_is_forwarded_when_it_has_been_in_doubt_too_often() -> None:
    world = World(COUNTS, Limits(read_rounds=2))
    (effect,) = world.read("7")
    world.apply(1, [], [("1", "7", "0")])
    for _ in range(2):
        (effect,) = world.bring(effect, [], bracket(until=1))
        assert isinstance(effect, Lookup)
    assert world.bring(effect, [], bracket(until=1)) == [Forward(ReadId(1))]
    (again,) = world.step(ForwardDone(ReadId(1), bracket(until=1), 10))
    assert again == Forward(ReadId(1)), "the transaction crosses it"
    assert world.step(ForwardDone(ReadId(1), bracket(1, until=1), 10)) == [AnswerForward(ReadId(1), 10)]


def test_a_load_in_doubt_waits_for_the_next_heartbeat() -> None:
    world = World("SELECT story, n FROM keyless")
    (lookup,) = [e for e in world.begun if isinstance(e, Lookup)]
    world.apply(1, [], [("1", "7", "5")], KEYLESS)
    assert world.bring(lookup, [("7", "5")], bracket(until=1)) == []
    (again,) = world.step(SnapshotTaken(bracket(until=1)))
    effects = world.bring(again, [("7", "5")], bracket(1, until=1))
    assert ViewStatus(VIEW, "ready") in effects


def test_a_load_with_a_unique_key_ends_under_constant_writes() -> None:
    world = World("SELECT id, story, n FROM keyed")
    (lookup,) = [e for e in world.begun if isinstance(e, Lookup)]
    for number in range(1, 50):
        world.apply(number, [("1", "7", str(number - 1))], [("1", "7", str(number))])
    effects = world.bring(lookup, [("1", "7", "31")], bracket(*range(1, 20), until=40))
    (fill,) = [e for e in effects if isinstance(e, LeafFillAll)]
    assert fill.rows == {(): [("1", "7", "49")]}
    assert ViewStatus(VIEW, "ready") in effects


def test_what_is_in_doubt_and_nobody_waits_for_is_dropped() -> None:
    world = World(COUNTS, Limits(read_rounds=0))
    (lookup,) = world.read("7")
    world.apply(1, [], [("1", "7", "0")])
    assert world.bring(lookup, [], bracket(until=1)) == [Forward(ReadId(1))]
    assert world.step(SnapshotTaken(bracket(1, until=1))) == []
