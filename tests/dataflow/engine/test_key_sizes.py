"""Keys with limits of their own, and reads that do not wait for what is missing."""

from dataflow.engine.effects import Answer, Effect, Forward, LeafEvict, LeafExtend, LeafFill
from dataflow.engine.engine import Engine
from dataflow.engine.events import Ahead, EvictKey, InstallView, LookupDone, LookupsDone, Read, StreamStarted
from dataflow.engine.key_sizes import KeyLimits
from dataflow.engine.limits import Limits
from dataflow.plan.parts import Lookup
from dataflow.sql import plan_view
from dataflow.types import Key, ReadId, ViewId
from tests.dataflow.engine.site import CATALOG, STORIES, Now, Site, rows_of, story

VIEW = ViewId(1)
BY_AUTHOR = "SELECT id, title FROM stories WHERE author = :author"
PAGED = "SELECT id, title FROM stories WHERE author = :author ORDER BY id LIMIT 2"
JOINED = "SELECT s.id, v.user_id FROM stories s JOIN votes v ON v.story_id = s.id WHERE s.author = :author"


def site(sql: str, limits: KeyLimits, general: Limits | None = None) -> Site:
    made = Site(general)
    made.step(InstallView(VIEW, plan_view("v", sql, CATALOG), False, limits))
    return made


def stored(effects: list[Effect]) -> bool:
    return any(isinstance(effect, LeafFill | LeafExtend) for effect in effects)


def test_rows_and_bytes_up_to_the_limit() -> None:
    for sql in (BY_AUTHOR, JOINED):
        for limits in (KeyLimits(rows=STORIES - 1), KeyLimits(bytes=400)):
            small = site(sql, limits)
            for read in (1, 2):
                effects = small.read(VIEW, ("7",))
                assert Forward(ReadId(read)) in effects
                assert not stored(effects)
            small.engine.check()
    exactly = site(BY_AUTHOR, KeyLimits(rows=STORIES))
    assert Answer(ReadId(1)) in exactly.read(VIEW, ("7",))


def test_changes_of_a_key_that_is_not_stored_are_not_joined() -> None:
    """Their rows may be very many. Those of the joined tables stay in memory until they are evicted."""
    large = site(JOINED.replace("SELECT s.id", "SELECT s.title"), KeyLimits(rows=1))
    assert Forward(ReadId(1)) in large.read(VIEW, ("7",))
    leaf = large.engine.graph.leaves[VIEW]
    changed = (*story(7)[:2], "another title", *story(7)[3:])
    large.commit("stories", removed=[story(7)], added=[changed])
    assert leaf.counts.rows_dropped == 0
    large.engine.check()


def test_the_limit_of_all_views_in_bytes() -> None:
    small = site(BY_AUTHOR, KeyLimits(), Limits(key_rows_bytes=400))
    effects = small.read(VIEW, ("7",))
    assert Forward(ReadId(1)) in effects
    assert not stored(effects)


def test_a_key_that_outgrows_its_limit_goes() -> None:
    growing = site(BY_AUTHOR, KeyLimits(rows=STORIES + 1))
    growing.read(VIEW, ("7",))
    one_more = (*story(77)[:1], "7", *story(77)[2:])
    assert LeafEvict(VIEW, ("7",)) not in growing.commit("stories", added=[one_more])
    two_more = (*story(78)[:1], "7", *story(78)[2:])
    assert LeafEvict(VIEW, ("7",)) in growing.commit("stories", added=[two_more])
    assert growing.engine.counters["outgrown"] == 1
    growing.engine.check()
    # What was evicted for another reason is not counted on.
    growing.read(VIEW, ("8",))
    growing.step(EvictKey(VIEW, ("8",)))
    growing.engine.check()


def test_parts_of_a_key_are_kept_that_is_too_large_as_a_whole() -> None:
    paged = site(PAGED, KeyLimits(rows=3))
    assert Answer(ReadId(1)) in paged.read(VIEW, ("7",), Ahead(rows=2))
    effects = paged.read(VIEW, ("7",))
    assert Forward(ReadId(2)) in effects
    assert LeafEvict(VIEW, ("7",)) not in effects
    assert ("7",) in paged.engine.graph.leaves[VIEW].coverage.keys
    paged.engine.check()


class Slow:
    """An engine whose lookups are answered when the test says so."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.engine = Engine(CATALOG, limits)
        self.engine.step(StreamStarted(0, Now()))
        self.engine.step(InstallView(VIEW, plan_view("v", JOINED, CATALOG)))

    def read(self, number: int, key: Key) -> list[Effect]:
        effects = self.engine.step(Read(ReadId(number), ((VIEW, key, None),), forward=True))
        self.engine.check()
        return effects

    def answer(self, effects: list[Effect]) -> list[Effect]:
        """The lookups among effects are answered, and what comes of that."""
        done: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Lookup):
                done += self.engine.step(LookupsDone([LookupDone(effect.id, rows_of(effect), Now(), 0)]))
                self.engine.check()
        return done


def test_a_read_that_does_not_wait_leaves_a_fill_behind() -> None:
    slow = Slow()
    forward, lookup = slow.read(1, ("7",))
    assert forward == Forward(ReadId(1))
    # A second reader is forwarded, too; what fills is under way.
    assert slow.read(2, ("7",)) == [Forward(ReadId(2))]
    second = slow.answer([lookup])
    assert not stored(second)
    assert stored(slow.answer(second))
    assert slow.read(3, ("7",)) == [Answer(ReadId(3))]
    assert slow.engine.counters["filled_behind"] == 1


def test_what_is_filled_behind_is_bounded() -> None:
    slow = Slow(Limits(fills_behind=1))
    assert len(slow.read(1, ("7",))) == 2
    assert slow.read(2, ("8",)) == [Forward(ReadId(2))]
    assert slow.engine.counters["filled_behind"] == 1
