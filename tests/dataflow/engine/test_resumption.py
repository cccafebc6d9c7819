"""A resumed stream: answers that it has not passed are dropped, and their queries issued again."""

from dataclasses import dataclass

from dataflow.engine.effects import AnswerForward, CancelLookup, CancelRefresh, Effect, Forward, LeafFill, Refresh
from dataflow.engine.events import (
    Advance,
    Apply,
    ForwardDone,
    LookupDone,
    LookupsDone,
    RefreshDone,
    SnapshotTaken,
    StreamResumed,
    TableDelta,
    Transaction,
)
from dataflow.plan.parts import Lookup
from dataflow.types import Position, ReadId, TransactionId
from tests.dataflow.engine.site import Now, rows_of, story
from tests.dataflow.engine.test_abandonment import REFRESHED, Waiting


def fills(effects: list[Effect]) -> list[LeafFill]:
    return [effect for effect in effects if isinstance(effect, LeafFill)]


def answer_of(lookup: Effect, bound: int) -> LookupsDone:
    assert isinstance(lookup, Lookup)
    return LookupsDone([LookupDone(lookup.id, rows_of(lookup), Now(), bound)])


def test_a_held_answer_of_a_lookup_is_dropped() -> None:
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1")
    waiting.step(answer_of(lookup, bound=100))
    (again,) = waiting.step(StreamResumed())
    assert fills(waiting.step(Advance(200))) == []
    assert fills(waiting.step(answer_of(again, bound=150))) != []


def test_an_answer_on_its_way_is_not_used() -> None:
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1")
    cancelled, again = waiting.step(StreamResumed())
    assert isinstance(lookup, Lookup)
    assert cancelled == CancelLookup(lookup.id)
    assert waiting.step(answer_of(lookup, bound=0)) == []
    assert fills(waiting.step(answer_of(again, bound=0))) != []


def test_a_covered_key_stays() -> None:
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1")
    waiting.step(answer_of(lookup, bound=0))
    assert waiting.step(StreamResumed()) == []


def test_a_forwarded_read_is_sent_again() -> None:
    """At once if its answer was held, or else when that on its way has come."""
    waiting = Waiting()
    waiting.read(1, "1", forward=True)
    waiting.read(2, "2", forward=True)
    waiting.step(ForwardDone(ReadId(1), Now(), 100))
    assert [e for e in waiting.step(StreamResumed()) if isinstance(e, Forward)] == [Forward(ReadId(1))]
    assert waiting.step(ForwardDone(ReadId(2), Now(), 0)) == [Forward(ReadId(2))]
    assert waiting.step(Advance(200)) == []
    for read in (ReadId(1), ReadId(2)):
        assert waiting.step(ForwardDone(read, Now(), 150)) == [AnswerForward(read, 200)]


def test_a_refreshed_key_is_fetched_again() -> None:
    waiting = Waiting()
    (held,) = waiting.read(1, "1", view=REFRESHED)
    assert isinstance(held, Refresh)
    waiting.step(RefreshDone(held.id, [], Now(), 100))
    cancelled, again = waiting.step(StreamResumed())
    assert cancelled == CancelRefresh(held.id)
    assert fills(waiting.step(Advance(200))) == []
    assert isinstance(again, Refresh)
    assert fills(waiting.step(RefreshDone(again.id, [], Now(), 150))) != []


@dataclass(frozen=True, slots=True)
class Below(Now):
    """A snapshot that sees the transactions below an id."""

    xmax: int

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        del end
        return transaction < self.xmax


def renaming(number: int) -> Apply:
    """Transaction 105, which changes a story's title."""
    before = story(number)
    delta = TableDelta([before], [(*before[:2], "changed", *before[3:])])
    return Apply([Transaction(TransactionId(105), 10, {"public.stories": delta})], 10)


def test_a_heartbeat_from_before_does_not_trim_the_ring() -> None:
    """Its snapshot may see a transaction that is gone, whose id is now that of another one."""
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1")
    assert isinstance(lookup, Lookup)
    waiting.step(SnapshotTaken(Below(106)))
    _, again = waiting.step(StreamResumed())
    waiting.step(renaming(1))
    assert isinstance(again, Lookup)
    (fill,) = fills(waiting.step(LookupsDone([LookupDone(again.id, rows_of(lookup), Below(105), 10)])))
    assert "changed" in fill.rows[0]


def test_an_answer_from_before_does_not_trim_the_ring() -> None:
    waiting = Waiting()
    (lookup,) = waiting.read(1, "1")
    assert isinstance(lookup, Lookup)
    _, again = waiting.step(StreamResumed())
    waiting.step(LookupsDone([LookupDone(lookup.id, rows_of(lookup), Below(106), 0)]))
    (later,) = waiting.read(2, "2")
    waiting.step(renaming(2))
    waiting.step(answer_of(again, bound=0))
    assert isinstance(later, Lookup)
    (fill,) = fills(waiting.step(LookupsDone([LookupDone(later.id, rows_of(later), Below(105), 10)])))
    assert "changed" in fill.rows[0]
