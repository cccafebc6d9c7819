"""Refreshed views: when an answer is stored, for whom it is good, what makes it stale."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from dataflow.engine.effects import (
    Answer,
    AnswerForward,
    AnswerRefresh,
    CancelRefresh,
    Effect,
    FailRead,
    Forward,
    LeafDrop,
    LeafEvict,
    LeafFill,
    Reach,
    Refresh,
    ViewStatus,
)
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Apply,
    CancelRead,
    DropView,
    EvictKey,
    EvictSome,
    ForwardDone,
    InstallRefresh,
    InstallView,
    LookupDone,
    LookupsDone,
    Pin,
    Read,
    RefreshDone,
    RefreshFailed,
    SchemaChanged,
    SnapshotTaken,
    StreamStarted,
    TableDelta,
    TableJoined,
    Transaction,
)
from dataflow.engine.limits import Limits
from dataflow.engine.outstanding import CROSSED, NOT_ENDED
from dataflow.plan.parts import Lookup
from dataflow.plan.refresh import RefreshParameter, RefreshView, TableRead
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import Key, Position, ReadId, RefreshId, Row, Snapshot, TransactionId, ViewId

INT = SqlType("int4", "int4")
BOOL = SqlType("bool", "bool")
STORIES = "public.stories"
#: id, author, score
CATALOG = Catalog({STORIES: Table(STORIES, tuple(Column(n, INT) for n in ("id", "author", "score")), keys=((0,),))})
VIEW = ViewId(1)
POSITIVE = Call(">", (ColumnRef(2, INT), Literal("0", INT)), BOOL)


def refresh_view(
    reads: tuple[TableRead, ...] = (TableRead(STORIES, frozenset({0, 1, 2})),), ttl_ms: int | None = None
) -> RefreshView:
    return RefreshView("v", "SELECT …", (RefreshParameter("a", INT),), (("n", INT),), reads, "no plan", ttl_ms)


NARROW = refresh_view((TableRead(STORIES, frozenset({1, 2}), POSITIVE, ((1, 0),)),))


@dataclass(frozen=True)
class Seen(Snapshot):
    """A snapshot that sees the transactions up to `last`, but for `missing`."""

    last: int
    missing: frozenset[int] = frozenset()

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        del end
        return transaction <= self.last and transaction not in self.missing

    def covers(self, other: Snapshot) -> bool:
        return isinstance(other, Seen) and other.last <= self.last

    def finished(self, other: Snapshot) -> bool:
        return isinstance(other, Seen) and other.last <= self.last


@dataclass
class World:
    """An engine; transaction n ends at position 10 n."""

    view: RefreshView = field(default_factory=refresh_view)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self.engine = Engine(CATALOG, self.limits)
        self.step(StreamStarted(0, Seen(0)))
        assert self.step(InstallRefresh(VIEW, self.view)) == [ViewStatus(VIEW, "ready")]
        self.last = 0

    def step(self, event: object) -> list[Effect]:
        effects = self.engine.step(event)  # type: ignore[arg-type]
        self.engine.check()
        return effects

    def read(self, number: int, *keys: Key) -> list[Effect]:
        return self.step(Read(ReadId(number), tuple((VIEW, key, None) for key in keys)))

    def commit(
        self, removed: Iterable[Row] = (), added: Iterable[Row] = (), *, truncated: bool = False, overflow: bool = False
    ) -> list[Effect]:
        self.last += 1
        delta = TableDelta(list(removed), list(added), truncated, overflow)
        return self.step(
            Apply([Transaction(TransactionId(self.last), 10 * self.last, {STORIES: delta})], 10 * self.last)
        )

    def done(
        self, refresh: Effect, rows: list[Row], snapshot: Seen | None = None, bound: int | None = None
    ) -> list[Effect]:
        assert isinstance(refresh, Refresh)
        seen = snapshot or Seen(self.last)
        return self.step(RefreshDone(refresh.id, rows, seen, 10 * seen.last if bound is None else bound))

    def cover(self, key: Key) -> None:
        (refresh,) = self.read(1000 + self.last, key)
        assert LeafFill(VIEW, key, [("1",)]) in self.done(refresh, [("1",)])


def test_a_miss_is_fetched_stored_and_answered() -> None:
    world = World()
    (refresh,) = world.read(1, ("7",))
    assert refresh == Refresh(RefreshId(1), VIEW, ("7",))
    assert world.done(refresh, [("5",)]) == [LeafFill(VIEW, ("7",), [("5",)]), Answer(ReadId(1))]
    assert world.read(2, ("7",)) == [Answer(ReadId(2))]


def test_equal_misses_share_one_fetch() -> None:
    world = World()
    (refresh,) = world.read(1, ("7",))
    assert world.read(2, ("7",)) == []
    assert [e for e in world.done(refresh, []) if isinstance(e, Answer)] == [Answer(ReadId(1)), Answer(ReadId(2))]


def test_null_is_a_value() -> None:
    world = World()
    (refresh,) = world.read(1, (None,))
    assert LeafFill(VIEW, (None,), []) in world.done(refresh, [])
    assert world.read(2, (None,)) == [Answer(ReadId(2))]


def test_an_answer_waits_for_the_stream() -> None:
    world = World()
    (refresh,) = world.read(1, ("7",))
    assert world.done(refresh, [("5",)], Seen(1), bound=10) == [Reach(10)]
    # The snapshot has seen this one: it is in the rows, and makes nothing stale.
    effects = world.commit(added=[("1", "7", "1")])
    assert effects == [LeafFill(VIEW, ("7",), [("5",)]), Answer(ReadId(1))]


def test_what_was_not_seen_is_answered_once_at_its_own_version() -> None:
    world = World()
    (refresh,) = world.read(1, ("7",))
    world.commit(added=[("1", "7", "1")])
    world.commit(added=[("2", "7", "1")])
    assert world.done(refresh, [("5",)], Seen(1), bound=20) == [AnswerRefresh(ReadId(1), [("5",)], 19)]
    assert [type(e) for e in world.read(2, ("7",))] == [Refresh]


def test_who_asked_later_gets_nothing_older() -> None:
    world = World()
    (refresh,) = world.read(1, ("7",))
    world.commit(added=[("1", "7", "1")])
    world.read(2, ("7",))
    effects = world.done(refresh, [("5",)], Seen(0), bound=10)
    assert effects[0] == AnswerRefresh(ReadId(1), [("5",)], 9)
    assert isinstance(effects[1], Refresh)
    assert world.done(effects[1], [("6",)]) == [LeafFill(VIEW, ("7",), [("6",)]), Answer(ReadId(2))]


def test_what_does_not_concern_the_key_does_not_make_its_fetch_old() -> None:
    world = World(NARROW)
    (refresh,) = world.read(1, ("7",))
    world.commit(added=[("1", "8", "1")])
    assert LeafFill(VIEW, ("7",), []) in world.done(refresh, [], Seen(0), bound=10)


def test_transactions_that_cross_a_snapshot_repeat_the_fetch() -> None:
    world = World(limits=Limits(forward_rounds=2))
    (refresh,) = world.read(1, ("7",))
    world.commit(added=[("1", "7", "1")])
    world.commit(added=[("2", "7", "1")])
    crossed = Seen(2, frozenset({1}))
    (again,) = world.done(refresh, [], crossed, bound=20)
    assert world.done(again, [], crossed, bound=20) == [FailRead(ReadId(1), CROSSED, retryable=True)]


def test_a_read_that_joins_a_fetch_late_is_not_charged_with_the_fetches_before() -> None:
    """A key whose readers and changes never pause: each fetch is too old for the last to join it."""
    world = World(limits=Limits(forward_rounds=2))
    (refresh,) = world.read(1, ("7",))
    for reader in range(1, 6):
        seen = Seen(world.last)
        world.commit(added=[("1", "7", "1")])
        assert world.read(reader + 1, ("7",)) == []
        answer, refresh = world.done(refresh, [], seen, bound=world.last * 10)
        assert answer == AnswerRefresh(ReadId(reader), [], world.last * 10 - 1)


@pytest.mark.parametrize(
    ("removed", "added", "stale"),
    [
        ([], [("1", "7", "1")], [("7",)]),
        ([("1", "8", "1")], [("1", "7", "1")], [("8",), ("7",)]),
        ([("1", "7", "1")], [("2", "7", "1")], []),
        ([("1", "7", "0")], [("1", "7", "-1")], []),
        ([("1", "7", "0")], [("1", "7", "1")], [("7",)]),
        ([], [("1", "9", "1")], []),
        ([], [("1", None, "1")], []),
        ([("1", "7", "1"), ("2", "7", "1")], [("3", "7", "1")], [("7",)]),
    ],
)
def test_what_makes_a_key_stale(removed: list[Row], added: list[Row], stale: list[Key]) -> None:
    world = World(NARROW)
    world.cover(("7",))
    world.cover(("8",))
    assert world.commit(removed, added) == [LeafEvict(VIEW, key) for key in stale]


def test_truncate_and_overflow_make_every_key_stale() -> None:
    for truncated in (True, False):
        world = World(NARROW)
        world.cover(("7",))
        world.cover(("8",))
        assert world.commit(truncated=truncated, overflow=not truncated) == [
            LeafEvict(VIEW, ("7",)),
            LeafEvict(VIEW, ("8",)),
        ]


def test_a_view_that_expires_is_touched_by_nothing_and_waits_for_nothing() -> None:
    world = World(refresh_view((), ttl_ms=1000))
    (refresh,) = world.read(1, ("7",))
    assert world.done(refresh, [], Seen(5), bound=50) == [LeafFill(VIEW, ("7",), []), Answer(ReadId(1))]
    assert world.commit(added=[("1", "7", "1")]) == []
    assert world.step(EvictKey(VIEW, ("7",))) == [LeafEvict(VIEW, ("7",))]
    assert [type(e) for e in world.read(2, ("7",))] == [Refresh]


def test_while_a_table_joins_reads_wait() -> None:
    world = World()
    world.step(TableJoined(STORIES, Seen(1)))
    (refresh,) = world.read(1, ("7",))
    # Transaction 1 was open when the table joined, so the stream may lack it: nobody knows when these rows are exact.
    assert world.done(refresh, [], Seen(0), bound=0) == []
    assert world.step(SnapshotTaken(Seen(0))) == []
    (again,) = world.step(SnapshotTaken(Seen(1)))
    assert LeafFill(VIEW, ("7",), []) in world.done(again, [], Seen(1), bound=0)


def test_reads_wait_for_a_joining_table_a_few_heartbeats_long() -> None:
    world = World(limits=Limits(forward_rounds=2))
    world.step(TableJoined(STORIES, Seen(1)))
    (refresh,) = world.read(1, ("7",))
    world.step(Pin(VIEW, ("7",)))
    assert world.done(refresh, [], Seen(0), bound=0) == []
    assert world.step(SnapshotTaken(Seen(0))) == []
    effects = world.step(SnapshotTaken(Seen(0)))
    # The subscription goes on.
    assert effects == [FailRead(ReadId(1), NOT_ENDED, retryable=True), Refresh(RefreshId(2), VIEW, ("7",))]


def test_several_keys_are_answered_at_one_position() -> None:
    world = World(NARROW)
    first, second = world.read(1, ("7",), ("8",))
    assert world.done(first, []) == [LeafFill(VIEW, ("7",), [])]
    # The first is stale before the second is there.
    assert world.commit(added=[("1", "7", "1")]) == [LeafEvict(VIEW, ("7",))]
    fill, again = world.done(second, [])
    assert fill == LeafFill(VIEW, ("8",), [])
    assert world.done(again, [("1",)])[-1] == Answer(ReadId(1))


def test_several_keys_that_cannot_be_stored_are_forwarded_together() -> None:
    world = World()
    first, second = world.read(1, ("7",), ("8",))
    world.commit(added=[("1", "7", "1")])
    assert world.done(first, [], Seen(0), bound=10) == [Forward(ReadId(1))]
    assert world.done(second, [], Seen(0), bound=10) == []


def test_several_keys_that_are_never_there_at_once_are_forwarded() -> None:
    world = World(NARROW, Limits(read_rounds=2))
    seven, eight = world.read(1, ("7",), ("8",))
    world.done(seven, [])
    world.commit(added=[("1", "7", "1")])
    (_, again) = world.done(eight, [])
    assert isinstance(again, Refresh)
    world.commit(added=[("2", "8", "1")])
    assert world.done(again, []) == [LeafFill(VIEW, ("7",), []), Forward(ReadId(1))]


def test_a_forwarded_read_gets_nothing_older_than_when_it_was_asked() -> None:
    world = World(limits=Limits(forward_rounds=2))
    world.commit(added=[("1", "7", "1")])
    first, _ = world.read(1, ("7",), ("8",))
    assert world.done(first, [], Seen(0), bound=0) == [Forward(ReadId(1))]
    assert world.step(ForwardDone(ReadId(1), Seen(0), 0)) == [Forward(ReadId(1))]
    assert world.step(ForwardDone(ReadId(1), Seen(1), 10)) == [AnswerForward(ReadId(1), 10)]


def test_a_read_whose_view_goes_while_the_rest_is_looked_up_fails_once() -> None:
    world = World()
    other = plan_view("other", "SELECT id FROM stories WHERE author = :a", CATALOG)
    world.step(InstallView(ViewId(2), other))
    (refresh,) = world.step(Read(ReadId(1), ((VIEW, ("7",), None), (ViewId(2), ("7",), None))))
    (_, lookup) = world.done(refresh, [])
    assert isinstance(lookup, Lookup)
    assert world.step(DropView(VIEW))[0] == FailRead(ReadId(1), "the view was dropped", retryable=False)
    assert Answer(ReadId(1)) not in world.step(LookupsDone([LookupDone(lookup.id, [], Seen(0), 0)]))


def test_a_read_of_a_refreshed_and_of_an_incremental_view() -> None:
    world = World(NARROW)
    plain = plan_view("plain", "SELECT id FROM stories WHERE author = :author", CATALOG)
    world.step(InstallView(ViewId(2), plain))
    (refresh,) = world.step(Read(ReadId(1), ((VIEW, ("7",), None), (ViewId(2), ("7",), None))))
    fill, lookup = world.done(refresh, [])
    assert isinstance(fill, LeafFill)
    assert isinstance(lookup, Lookup)
    # Stale while the other one is looked up: it is fetched again before both are answered.
    world.commit(added=[("1", "7", "1")])
    filled, again = world.step(LookupsDone([LookupDone(lookup.id, [("7", "1")], Seen(1), 10)]))
    assert isinstance(filled, LeafFill)
    assert world.done(again, [])[-1] == Answer(ReadId(1))


def test_a_key_that_is_too_large_is_answered_and_not_stored() -> None:
    world = World(limits=Limits(key_rows=1))
    (refresh,) = world.read(1, ("7",))
    rows: list[Row] = [("1",), ("2",)]
    assert world.done(refresh, rows) == [AnswerRefresh(ReadId(1), rows, 0)]


def test_a_failure_tells_all_who_wait() -> None:
    world = World()
    (refresh,) = world.read(1, ("7",))
    world.read(2, ("7",))
    assert isinstance(refresh, Refresh)
    effects = world.step(RefreshFailed(refresh.id, "division by zero", retryable=False, code="query_failed"))
    assert effects == [FailRead(ReadId(n), "division by zero", False, "query_failed") for n in (1, 2)]
    (refresh,) = world.read(3, ("7",))
    assert isinstance(refresh, Refresh)
    gone = world.step(RefreshFailed(refresh.id, "the table is gone", retryable=False, breaks=True))
    assert ViewStatus(VIEW, "broken", "the table is gone") in gone
    assert world.read(4, ("7",)) == [FailRead(ReadId(4), "the table is gone", retryable=False)]


def test_a_view_that_goes_takes_its_reads_and_keys_along() -> None:
    world = World()
    world.cover(("7",))
    (refresh,) = world.read(1, ("8",))
    assert isinstance(refresh, Refresh)
    assert world.step(DropView(VIEW)) == [
        CancelRefresh(refresh.id),
        FailRead(ReadId(1), "the view was dropped", retryable=False),
        LeafDrop(VIEW),
    ]
    assert world.step(RefreshDone(refresh.id, [], Seen(0), 0)) == []


def test_a_table_that_changed_breaks_the_view() -> None:
    world = World()
    world.cover(("7",))
    assert world.step(SchemaChanged(STORIES, "a column went")) == [
        ViewStatus(VIEW, "broken", "a column went"),
        LeafEvict(VIEW, ("7",)),
    ]


def test_a_new_stream_evicts_and_fetches_anew() -> None:
    world = World()
    world.cover(("7",))
    (refresh,) = world.read(1, ("8",))
    assert isinstance(refresh, Refresh)
    effects = world.step(StreamStarted(100, Seen(10)))
    assert effects == [LeafEvict(VIEW, ("7",)), CancelRefresh(refresh.id), Refresh(RefreshId(3), VIEW, ("8",))]
    # What an early snapshot saw does not count.
    assert world.done(effects[2], [], Seen(5), bound=50) == []
    (again,) = world.step(SnapshotTaken(Seen(10)))
    assert Answer(ReadId(1)) in world.done(again, [], Seen(10), bound=100)


def test_who_has_gone_is_not_waited_for() -> None:
    world = World()
    (refresh,) = world.read(1, ("7",))
    world.step(CancelRead(ReadId(1)))
    assert world.done(refresh, []) == [LeafFill(VIEW, ("7",), [])]


def test_a_pinned_key_is_fetched_again_when_it_is_stale() -> None:
    world = World()
    (refresh,) = world.step(Pin(VIEW, ("7",)))
    assert world.done(refresh, []) == [LeafFill(VIEW, ("7",), [])]
    evict, refresh = world.commit(added=[("1", "7", "1")])
    assert evict == LeafEvict(VIEW, ("7",))
    world.commit(added=[("2", "7", "1")])
    # Not good for now, so it is not stored: the next heartbeat tries again.
    assert world.done(refresh, [], Seen(1), bound=20) == []
    (refresh,) = world.step(SnapshotTaken(Seen(2)))
    assert world.done(refresh, []) == [LeafFill(VIEW, ("7",), [])]


def test_the_budget_takes_the_oldest_keys_but_no_pinned_one() -> None:
    world = World()
    (refresh,) = world.step(Pin(VIEW, ("1",)))
    world.done(refresh, [])
    world.cover(("2",))
    world.cover(("3",))
    assert world.step(EvictSome(1)) == [LeafEvict(VIEW, ("2",))]
    assert world.step(EvictSome(9)) == [LeafEvict(VIEW, ("3",))]
    assert world.step(EvictSome(9)) == []
    assert world.engine.exhausted


def test_the_ring_keeps_what_a_fetch_may_not_see() -> None:
    world = World()
    (refresh,) = world.read(1, ("7",))
    world.commit(added=[("1", "7", "1")])
    world.step(SnapshotTaken(Seen(1)))
    assert len(world.engine.ring) == 1
    world.done(refresh, [], Seen(0), bound=10)
    world.step(SnapshotTaken(Seen(1)))
    assert len(world.engine.ring) == 0


def test_a_ring_past_its_limit_fetches_anew() -> None:
    world = World(limits=Limits(ring_rows=3))
    world.read(1, ("7",))
    world.commit(added=[("1", "7", "1")])
    world.step(SnapshotTaken(Seen(1)))
    effects = world.commit(added=[("2", "7", "1"), ("3", "7", "1")])
    assert [type(e) for e in effects] == [CancelRefresh, Refresh]
