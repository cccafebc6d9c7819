"""Rows that join with those of a lookup are looked up in its round; nobody depends on that."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dataflow.engine.effects import Answer, CancelLookup, Effect
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Apply,
    CancelUnawaited,
    DropView,
    InstallView,
    LookupDone,
    LookupFailed,
    LookupsDone,
    LookupTooLarge,
    Read,
    StreamStarted,
    TableDelta,
    Transaction,
)
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.sql import plan_view
from dataflow.types import Key, ReadId, TransactionId, ViewId, columns_of
from tests.dataflow.engine.site import CATALOG, COMMENTS, Now, rows_of

INDEXED = Catalog(
    {
        name: replace(table, indexes=tuple((column,) for column in range(len(table.columns))))
        for name, table in CATALOG.tables.items()
    }
)
COMMENTS_OF_STORY = "SELECT c.id, c.text, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :id"
SCORES = (
    "SELECT s.id, COUNT(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
    " WHERE s.author = :author GROUP BY s.id"
)
VIEW = ViewId(1)


def engine_of(sql: str, catalog: Catalog = INDEXED) -> Engine:
    engine = Engine(catalog)
    engine.step(StreamStarted(0, Now()))
    engine.step(InstallView(VIEW, plan_view("view", sql, catalog)))
    return engine


def read(engine: Engine, number: int, key: str) -> list[Lookup]:
    """The lookups of a read that missed."""
    return lookups_in(engine.step(Read(ReadId(number), ((VIEW, (key,), None),))))


def lookups_in(effects: Iterable[Effect]) -> list[Lookup]:
    return [effect for effect in effects if isinstance(effect, Lookup)]


def done(lookup: Lookup, engine: Engine) -> LookupDone:
    """A result as the upstream has it."""
    keys: list[Key] = []
    if lookup.semijoin is not None:
        rows = rows_of(lookup.semijoin.lookup)
        keys = list(dict.fromkeys(columns_of(row, lookup.semijoin.links) for row in rows))
        lookup = replace(lookup, keys=tuple(keys))
    return LookupDone(lookup.id, rows_of(lookup), Now(), engine.applied, keys)


def is_answered(effects: Iterable[Effect], number: int) -> bool:
    return Answer(ReadId(number)) in effects


@pytest.mark.parametrize("sql", [COMMENTS_OF_STORY, SCORES])
@pytest.mark.parametrize("order", [1, -1])
def test_a_miss_of_two_steps_takes_one_round(sql: str, order: int) -> None:
    engine = engine_of(sql)
    first, second = read(engine, 1, "7")
    assert second.semijoin is not None
    assert (first.semijoin, second.semijoin.lookup, second.keys) == (None, first, ())
    effects = engine.step(LookupsDone([done(first, engine), done(second, engine)][::order]))
    assert is_answered(effects, 1)
    assert lookups_in(effects) == []
    engine.check()


def test_a_key_that_was_found_is_not_looked_up_again() -> None:
    """Also while its rows wait for the stream."""
    engine = engine_of(COMMENTS_OF_STORY)
    first, second = read(engine, 1, "7")
    early = replace(done(second, engine), bound=50)
    assert lookups_in(engine.step(LookupsDone([early]))) == []
    effects = engine.step(LookupsDone([done(first, engine)]))
    assert (lookups_in(effects), is_answered(effects, 1)) == ([], False)
    delta = TableDelta([], [("900", "nobody")])
    assert is_answered(engine.step(Apply([Transaction(TransactionId(50), 50, {"public.users": delta})], 50)), 1)
    engine.check()


def test_what_is_covered_is_not_installed_again() -> None:
    engine = engine_of(COMMENTS_OF_STORY)
    first, second = read(engine, 1, "7")
    engine.step(LookupsDone([done(first, engine), done(second, engine)]))
    # The author of 7's second comment is that of 8's first.
    effects = engine.step(LookupsDone([done(each, engine) for each in read(engine, 2, "8")]))
    assert is_answered(effects, 2)
    engine.check()
    assert engine.graph.by_id[second.node].counts.filled == COMMENTS + 1


@pytest.mark.parametrize("event", [LookupFailed, LookupTooLarge])
def test_its_failure_concerns_nobody(event: type) -> None:
    """The keys are looked up by themselves, once they are known."""
    engine = engine_of(COMMENTS_OF_STORY)
    first, second = read(engine, 1, "7")
    failure = LookupTooLarge(second.id) if event is LookupTooLarge else LookupFailed(second.id, "denied", False)
    assert engine.step(failure) == []
    (third,) = lookups_in(engine.step(LookupsDone([done(first, engine)])))
    assert len(third.keys) == COMMENTS
    assert is_answered(engine.step(LookupsDone([done(third, engine)])), 1)
    engine.check()


def test_a_late_answer_is_dropped() -> None:
    engine = engine_of(COMMENTS_OF_STORY)
    first, second = read(engine, 1, "7")
    (third,) = lookups_in(engine.step(LookupsDone([done(first, engine)])))
    # The keys are on their way already.
    engine.step(LookupsDone([done(second, engine)]))
    assert is_answered(engine.step(LookupsDone([done(third, engine)])), 1)
    engine.check()


def test_steps_that_are_mostly_covered_wait_for_their_keys() -> None:
    """And are looked up at once again when they are not."""
    engine = engine_of(COMMENTS_OF_STORY)
    users = [done(each, engine) for each in read(engine, 1, "7")]
    engine.step(LookupsDone(users))
    step = next(step for use in engine.graph.leaves[VIEW].uses.values() for step in use.semijoins.values())
    while step.is_worthwhile:
        step.note(needed=False)
    assert [each.semijoin for each in read(engine, 2, "60")] == [None]
    while not step.is_worthwhile:
        step.note(needed=True)
    assert [each.semijoin is None for each in read(engine, 3, "61")] == [True, False]


def test_without_an_index_there_is_none() -> None:
    bare = Catalog({name: replace(table, indexes=()) for name, table in CATALOG.tables.items()})
    assert [each.semijoin for each in read(engine_of(COMMENTS_OF_STORY, bare), 1, "7")] == [None]


def test_one_that_nobody_needs_is_cancelled() -> None:
    engine = engine_of(COMMENTS_OF_STORY)
    first, second = read(engine, 1, "7")
    effects: list[Effect] = []
    for _ in range(engine.limits.unawaited_looks):
        effects += engine.step(CancelUnawaited())
    assert effects == [CancelLookup(second.id)]
    assert lookups_in(engine.step(LookupsDone([done(first, engine)])))


def test_a_new_stream_and_a_dropped_view_end_it() -> None:
    engine = engine_of(COMMENTS_OF_STORY)
    _, second = read(engine, 1, "7")
    again = engine.step(StreamStarted(0, Now()))
    assert CancelLookup(second.id) in again
    assert [each.semijoin for each in lookups_in(again)] == [None]
    engine.step(LookupsDone([done(second, engine)]))
    engine.step(DropView(VIEW))
    engine.check()
