"""Lookups and fetches that nobody waits for are cancelled after some looks; all others go on."""

from dataflow.engine.effects import Answer, CancelLookup, CancelRefresh, Effect, Forward, LeafFill, Refresh
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    CancelRead,
    CancelUnawaited,
    ForwardDone,
    InstallRefresh,
    InstallView,
    LookupDone,
    LookupsDone,
    Pin,
    Read,
    RefreshDone,
    StreamStarted,
    Unpin,
)
from dataflow.engine.limits import Limits
from dataflow.plan.parts import Lookup
from dataflow.plan.refresh import RefreshParameter, RefreshView, TableRead
from dataflow.sql import plan_view
from dataflow.types import Key, LookupId, ReadId, RefreshId, ViewId
from tests.dataflow.engine.site import CATALOG, INT8, Now, rows_of

STORY, REFRESHED, ALL = ViewId(1), ViewId(2), ViewId(3)
LOOKS = 3


class Waiting:
    """An engine whose lookups are answered when the test says so."""

    def __init__(self, **limits: int) -> None:
        self.engine = Engine(CATALOG, Limits(unawaited_looks=LOOKS, **limits))
        self.step(StreamStarted(0, Now()))
        self.step(InstallView(STORY, plan_view("story", "SELECT id, title FROM stories WHERE id = :id", CATALOG)))
        reads = (TableRead("public.stories", frozenset({0})),)
        refreshed = RefreshView("r", "SELECT …", (RefreshParameter("id", INT8),), (("id", INT8),), reads, "no plan")
        self.step(InstallRefresh(REFRESHED, refreshed))

    def step(self, event: object) -> list[Effect]:
        effects = self.engine.step(event)  # type: ignore[arg-type]
        self.engine.check()
        return effects

    def read(self, number: int, *stories: str, view: ViewId = STORY, forward: bool = False) -> list[Effect]:
        return self.step(Read(ReadId(number), tuple((view, (story,), None) for story in stories), forward))

    def leave(self, *reads: int) -> None:
        assert [self.step(CancelRead(ReadId(read))) for read in reads] == [[]] * len(reads)

    def looks(self, number: int = LOOKS) -> list[Effect]:
        return [effect for _ in range(number) for effect in self.step(CancelUnawaited())]

    def done(self, lookup: Effect) -> list[Effect]:
        assert isinstance(lookup, Lookup)
        return self.step(LookupsDone([LookupDone(lookup.id, rows_of(lookup), Now(), self.engine.applied)]))


def keys(lookup: Effect) -> tuple[Key, ...]:
    assert isinstance(lookup, Lookup)
    return lookup.keys


def test_a_lookup_goes_on_for_some_looks() -> None:
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1")
    assert waiting.looks(10 * LOOKS) == []
    waiting.leave(1)
    assert waiting.looks(LOOKS - 1) == []
    # Somebody comes back, and joins it.
    assert waiting.read(2, "1") == []
    assert waiting.looks(LOOKS) == []
    waiting.leave(2)
    assert waiting.looks(LOOKS - 1) == []
    assert waiting.looks(1) == [CancelLookup(LookupId(1))]
    assert waiting.looks() == []
    # What was cancelled may be reported, and gives nothing; whoever comes now has a lookup of its own.
    assert waiting.done(lookup) == []
    (again,) = waiting.read(3, "1")
    assert [type(effect) for effect in waiting.done(again)] == [LeafFill, Answer]


def test_one_that_ends_in_time_fills_its_key() -> None:
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1")
    waiting.leave(1)
    waiting.looks(LOOKS - 1)
    assert [type(effect) for effect in waiting.done(lookup)] == [LeafFill]
    assert waiting.read(2, "1") == [Answer(ReadId(2))]


def test_one_of_several_keys_is_enough() -> None:
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1", "2")
    assert waiting.read(2, "2") == []
    waiting.leave(1)
    assert waiting.looks(2 * LOOKS) == []
    assert Answer(ReadId(2)) in waiting.done(lookup)


def test_one_of_several_readers_is_enough() -> None:
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1")
    assert waiting.read(2, "1") == []
    waiting.leave(1)
    assert waiting.looks(2 * LOOKS) == []
    assert Answer(ReadId(2)) in waiting.done(lookup)


def test_a_subscription_waits() -> None:
    waiting = Waiting()
    waiting.read(1, "1")
    waiting.step(Pin(STORY, ("1",)))
    waiting.leave(1)
    assert waiting.looks(2 * LOOKS) == []
    (fetch,) = waiting.read(2, "1", view=REFRESHED)
    waiting.step(Pin(REFRESHED, ("1",)))
    waiting.leave(2)
    assert waiting.looks(2 * LOOKS) == []
    waiting.step(Unpin(REFRESHED, ("1",)))
    assert waiting.looks() == [CancelRefresh(RefreshId(1))]
    assert waiting.step(RefreshDone(RefreshId(1), [], Now(), 0)) == []
    assert isinstance(fetch, Refresh)


def test_what_is_read_whole_goes_on() -> None:
    waiting = Waiting()
    (lookup,) = [
        effect
        for effect in waiting.step(InstallView(ALL, plan_view("all", "SELECT id FROM stories", CATALOG)))
        if isinstance(effect, Lookup)
    ]
    assert not lookup.columns
    assert waiting.looks(2 * LOOKS) == []


def test_what_was_not_sent_is_forgotten_at_once() -> None:
    waiting = Waiting(lookups_of_table=1, lookup_keys=2)
    (first,) = waiting.read(1, "1")
    for number in range(2, 9):
        assert waiting.read(number, str(number)) == []
    waiting.leave(2, 3, 5, 6, 7)
    assert waiting.looks(1) == []
    (second,) = [effect for effect in waiting.done(first) if isinstance(effect, Lookup)]
    assert keys(second) == (("4",), ("8",))
    assert {Answer(ReadId(4)), Answer(ReadId(8))} <= {e for e in waiting.done(second) if isinstance(e, Answer)}
    assert waiting.looks() == []


def test_the_next_lookup_has_the_place_of_one_that_was_cancelled() -> None:
    waiting = Waiting(lookups_of_table=1)
    waiting.read(1, "1")
    assert waiting.read(2, "2") == []
    waiting.leave(1)
    *_, cancelled, lookup = waiting.looks()
    assert cancelled == CancelLookup(LookupId(1))
    assert keys(lookup) == (("2",),)


def test_a_fetch_is_cancelled_as_a_lookup_is() -> None:
    waiting = Waiting()
    assert len(waiting.read(1, "1", view=REFRESHED)) == 1
    assert waiting.read(2, "1", view=REFRESHED) == []
    waiting.leave(1)
    assert waiting.looks(2 * LOOKS) == []
    waiting.leave(2)
    assert waiting.looks(LOOKS - 1) == []
    assert waiting.looks(1) == [CancelRefresh(RefreshId(1))]
    assert [type(effect) for effect in waiting.read(3, "1", view=REFRESHED)] == [Refresh]


def test_what_is_filled_behind_reads_goes_with_the_last_of_them() -> None:
    waiting = Waiting()
    effects = waiting.read(1, "1", forward=True)
    assert [type(effect) for effect in effects] == [Forward, Lookup]
    assert [type(effect) for effect in waiting.read(2, "1", forward=True)] == [Forward]
    waiting.leave(1)
    assert waiting.looks(2 * LOOKS) == []
    waiting.leave(2)
    assert waiting.looks() == [CancelLookup(LookupId(1))]


def test_what_is_filled_behind_a_refused_read_goes_on() -> None:
    """The upstream's answer may be too large to be passed on, and not to be stored."""
    waiting = Waiting()
    _, lookup = waiting.read(1, "1", forward=True)
    waiting.step(CancelRead(ReadId(1), refused=True))
    assert waiting.looks(2 * LOOKS) == []
    assert [type(effect) for effect in waiting.done(lookup)] == [LeafFill]


def test_one_answered_read_of_several_keeps_what_is_filled_behind_them() -> None:
    waiting = Waiting()
    _, lookup = waiting.read(1, "1", forward=True)
    waiting.read(2, "1", forward=True)
    assert waiting.step(ForwardDone(ReadId(1), Now(), 0)) != []
    waiting.read(3, "1", forward=True)
    waiting.leave(2)
    waiting.leave(3)
    assert waiting.looks(2 * LOOKS) == []
    assert [type(effect) for effect in waiting.done(lookup)] == [LeafFill]


def test_what_is_filled_behind_an_answered_read_goes_on() -> None:
    waiting = Waiting()
    _, lookup = waiting.read(1, "1", forward=True)
    assert waiting.step(ForwardDone(ReadId(1), Now(), 0)) != []
    waiting.step(CancelRead(ReadId(1)))
    assert waiting.looks(2 * LOOKS) == []
    assert [type(effect) for effect in waiting.done(lookup)] == [LeafFill]
