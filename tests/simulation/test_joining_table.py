"""Races too rare for random runs: a transaction changes a table before that joins the publication, and commits after.

The stream lacks it, or has only what it did to other tables.
"""

from dataflow.engine.effects import Answer, AnswerForward, Effect, FailRead, Forward, LeafEvict
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Advance,
    Apply,
    ForwardDone,
    InstallView,
    LookupDone,
    LookupsDone,
    Read,
    SnapshotTaken,
    StreamStarted,
    TableDelta,
    TableJoined,
    Transaction,
)
from dataflow.engine.outstanding import NOT_ENDED
from dataflow.types import LookupId, ReadId, TransactionId, ViewId
from tests.simulation.schema import CATALOG, LATE_TABLE
from tests.simulation.views import VIEWS
from tests.simulation.visibility import SimulatedSnapshot

VIEW = ViewId(1)

#: Open when the table joins.
OLD = TransactionId(5)
WHILE_OPEN = SimulatedSnapshot(7, [OLD])


def joining(view: str) -> Engine:
    """An engine at 10 with a view of a table that has just joined."""
    engine = Engine(CATALOG)
    engine.step(StreamStarted(10, SimulatedSnapshot(5, [])))
    engine.step(TableJoined(LATE_TABLE, WHILE_OPEN))
    engine.step(InstallView(VIEW, next(v for v in VIEWS if v.name == view)))
    return engine


def ask(engine: Engine, read: int, *key: str) -> list[Effect]:
    return engine.step(Read(ReadId(read), ((VIEW, key, None),)))


def test_a_new_parent_may_have_come_with_children_that_the_stream_lacks() -> None:
    """The transaction inserts a row and its first child. The stream brings the row without the child."""
    engine = joining("followed_by_3")
    ask(engine, 1, "zoe")
    engine.step(LookupsDone([LookupDone(LookupId(1), [], WHILE_OPEN, 10)]))
    assert ask(engine, 2, "zoe")[-1] == Answer(ReadId(2))

    user = TableDelta([], [("5", "zoe", None)])
    effects = engine.step(Apply([Transaction(OLD, 20, {"public.users": user})], 20))

    assert LeafEvict(VIEW, ("zoe",)) in effects
    engine.check()


def test_rows_without_what_the_stream_lacks_have_no_version() -> None:
    """The transaction may end anywhere, and is never heard of."""
    engine = joining("follows_by_0")
    assert Forward(ReadId(1)) in ask(engine, 1, "4")
    assert engine.step(ForwardDone(ReadId(1), WHILE_OPEN, 10)) == []
    assert engine.step(Advance(20)) == []
    assert engine.step(SnapshotTaken(SimulatedSnapshot(8, [OLD]))) == []
    assert engine.step(SnapshotTaken(SimulatedSnapshot(8, []))) == [Forward(ReadId(1))]
    assert engine.step(ForwardDone(ReadId(1), SimulatedSnapshot(8, []), 20)) == [AnswerForward(ReadId(1), 20)]


def test_a_read_does_not_wait_for_ever_for_what_is_open() -> None:
    engine = joining("follows_by_0")
    assert Forward(ReadId(1)) in ask(engine, 1, "4")
    assert engine.step(ForwardDone(ReadId(1), WHILE_OPEN, 10)) == []
    beats = [engine.step(SnapshotTaken(WHILE_OPEN)) for _ in range(engine.limits.forward_rounds)]
    assert beats == [[], [], [FailRead(ReadId(1), NOT_ENDED, retryable=True)]]


def test_a_table_is_stalled_while_something_is_open_of_when_it_joined() -> None:
    engine = joining("follows_by_0")
    assert engine.stalled == {LATE_TABLE}
    engine.step(SnapshotTaken(SimulatedSnapshot(8, [OLD])))
    assert engine.stalled == {LATE_TABLE}
    engine.step(SnapshotTaken(SimulatedSnapshot(8, [])))
    assert not engine.stalled
    engine.step(TableJoined(LATE_TABLE, SimulatedSnapshot(9, [])))
    assert not engine.stalled


def test_rows_with_what_the_stream_lacks_are_not_of_before_it() -> None:
    """Another transaction was logged before it and becomes visible after it: the rows are those of no version."""
    engine = joining("follows_by_0")
    assert Forward(ReadId(1)) in ask(engine, 1, "4")
    assert Forward(ReadId(2)) in ask(engine, 2, "4")
    logged = Transaction(TransactionId(8), 20, {LATE_TABLE: TableDelta([], [("4", "1", "p")])})
    engine.step(Apply([logged], 30))
    unseen, late = SimulatedSnapshot(9, [8]), SimulatedSnapshot(9, [])
    # The table has joined where the first of these is reached, not where the first to come is.
    engine.step(ForwardDone(ReadId(2), late, 50))
    assert engine.step(ForwardDone(ReadId(1), unseen, 30)) == [Forward(ReadId(1))]
    assert engine.step(ForwardDone(ReadId(1), late, 30)) == [AnswerForward(ReadId(1), 30)]
    assert engine.step(Advance(50)) == [AnswerForward(ReadId(2), 50)]
