"""Eviction: keys that one eviction removes, and keys that are refilled afterwards."""

import pytest

from dataflow.engine.effects import Answer, Forward, LeafEvict, LeafExtend, LeafFill
from dataflow.engine.events import Ahead, EvictKey, EvictSome, Pin, Read, Touched, Unpin
from dataflow.engine.limits import Limits
from dataflow.plan.parts import START, Lookup
from dataflow.types import Key, ReadId, ViewId
from load.micro.lru import Lru
from tests.dataflow.engine.site import COMMENTS, Site, story
from tests.simulation.questions import materializations

STORY = "SELECT s.id, s.title, u.name FROM stories s JOIN users u ON u.id = s.author WHERE s.id = :id"
COMMENTS_OF = (
    "SELECT c.text, c.at, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :s"
    " ORDER BY c.at, c.id LIMIT :n"
)
BY_AUTHOR = "SELECT s.id, s.title, u.name FROM stories s JOIN users u ON u.id = s.author WHERE s.author = :a"


def keys_of(site: Site) -> int:
    """Keys that inner nodes cover."""
    return sum(len(keys) for _, coverage, _ in materializations(site.engine) for keys in coverage.values())


def test_a_key_goes_with_what_only_it_needed() -> None:
    site = Site(policy=Lru())
    view = site.install(1, STORY)
    # Both are of one author.
    site.read(view, ("5",))
    before = keys_of(site)
    site.read(view, ("10005",))
    assert site.step(EvictSome(1)) == [LeafEvict(view, ("5",))]
    assert keys_of(site) == before
    site.step(EvictSome(1))
    assert keys_of(site) == 0
    site.engine.check()


def test_one_eviction_takes_a_bounded_number_of_keys() -> None:
    site = Site(policy=Lru())
    view = site.install(1, STORY)
    for number in range(300):
        site.read(view, (str(number),))
    inner = keys_of(site)
    effects = site.step(EvictSome(20))
    assert len(effects) == 20
    # A story and its author for each, and as many that were looked at and are needed.
    assert keys_of(site) == inner - 40


def test_one_eviction_takes_a_bounded_number_of_bytes() -> None:
    site = Site(Limits(evict_bytes=20_000), Lru())
    view = site.install(1, BY_AUTHOR)
    for number in range(100):
        site.read(view, (str(number),))
    held, steps = site.engine.state_bytes(), 0
    while site.engine.evictable:
        before = site.engine.state_bytes()
        site.step(EvictSome(1000))
        steps += 1
        # Tables of dictionaries do not shrink with what is in them; policies have tables of their own.
        assert before - site.engine.state_bytes() < 40_000
    assert steps > held // 60_000


def test_what_nobody_needs_any_more_goes_when_no_key_is_left_to_choose() -> None:
    site = Site(policy=Lru())
    view = site.install(1, STORY)
    site.read(view, ("5",))
    site.step(EvictKey(view, ("5",)))
    assert site.engine.evictable == 0
    assert keys_of(site) == 2
    site.step(EvictSome(10))
    assert keys_of(site) == 0
    assert not site.engine.exhausted
    site.step(EvictSome(10))
    assert site.engine.exhausted


def test_a_pinned_key_is_not_chosen_until_it_is_not_pinned() -> None:
    site = Site(policy=Lru())
    view = site.install(1, STORY)
    site.read(view, ("5",))
    site.step(Pin(view, ("5",)))
    assert site.step(EvictSome(9)) == []
    site.step(Unpin(view, ("5",)))
    assert site.step(EvictSome(9)) == [LeafEvict(view, ("5",))]


def test_a_pin_keeps_as_much_of_a_key_as_was_read() -> None:
    site = Site(policy=Lru())
    view = site.install(1, COMMENTS_OF)
    assert site.step(Pin(view, ("5",))) == []
    site.read(view, ("5",), Ahead(2))
    assert site.step(EvictSome(9)) == []
    # Who follows it knows how much of it is wanted.
    assert site.step(EvictKey(view, ("5",))) == [LeafEvict(view, ("5",))]
    site.read(view, ("5",), Ahead(2))
    site.step(Unpin(view, ("5",)))
    assert site.step(EvictSome(9)) == [LeafEvict(view, ("5",))]


@pytest.mark.parametrize(("touched", "comes_back"), [(True, True), (False, False)])
def test_a_hot_key_that_correctness_takes_is_filled_again(touched: bool, comes_back: bool) -> None:
    site = Site(policy=Lru())
    view = site.install(1, STORY)
    site.read(view, ("5",))
    if touched:
        site.step(Touched(((view, ("5",), 3),)))
    # Its author changes to one that nobody has looked up.
    changed = ("5", "77", *story(5)[2:])
    effects = site.commit("stories", removed=[story(5)], added=[changed])
    assert LeafEvict(view, ("5",)) in effects
    assert any(isinstance(effect, Lookup) for effect in effects) == comes_back
    assert (LeafFill(view, ("5",), [("5", "Title of 5", "user 77")]) in effects) == comes_back
    assert site.engine.graph.leaves[view].counts.refilled == comes_back


def test_hot_keys_come_back_a_few_at_a_time() -> None:
    site = Site(Limits(hot_refills=2), Lru())
    view = site.install(1, STORY)
    keys: list[Key] = [(str(number),) for number in range(5)]
    for key in keys:
        site.read(view, key)
    site.step(Touched(tuple((view, key, 1) for key in keys)))
    removed = [story(number) for number in range(5)]
    added = [(row[0], "77", *row[2:]) for row in removed]
    effects = site.commit("stories", removed=removed, added=added)
    assert sum(isinstance(effect, LeafEvict) for effect in effects) == 5
    assert sum(isinstance(effect, LeafFill) for effect in effects) == 2


def test_of_a_key_that_was_covered_in_part_the_part_comes_back() -> None:
    site = Site(policy=Lru())
    view = site.install(1, COMMENTS_OF)
    site.read(view, ("5",), Ahead(2))
    before = len(site.engine.graph.leaves[view].coverage.covered(("5",)))
    site.step(Touched(((view, ("5",), 3),)))
    new = ("1", "5", "7777", "first of all", "2020-01-01 00:00:00+00")
    effects = site.commit("comments", added=[new])
    assert LeafEvict(view, ("5",)) in effects
    (extended,) = [effect for effect in effects if isinstance(effect, LeafExtend)]
    assert "first of all" in [row[2] for row in extended.rows]
    assert len(extended.rows) == 1 + 2 < 1 + COMMENTS
    assert len(extended.covered) == before == 1
    assert extended.covered[0].start == START


def test_what_was_evicted_on_purpose_stays_away() -> None:
    site = Site(policy=Lru())
    view = site.install(1, STORY)
    site.read(view, ("5",))
    site.step(Touched(((view, ("5",), 3),)))
    assert site.step(EvictKey(view, ("5",))) == [LeafEvict(view, ("5",))]


def test_a_key_that_is_too_large_is_forwarded_and_not_stored() -> None:
    site = Site(Limits(key_bytes=4))
    view = site.install(1, "SELECT title FROM stories WHERE title = :t")
    assert site.read(view, ("12345",)) == [Forward(ReadId(1))]
    assert site.step(Pin(view, ("12345",))) == []
    # Three characters of two bytes.
    assert site.read(view, ("äöü",)) == [Forward(ReadId(2))]


def test_a_read_of_several_views_is_answered_while_memory_is_short() -> None:
    site = Site(policy=Lru())
    views = [site.install(1, STORY), site.install(2, BY_AUTHOR)]
    keys = tuple((ViewId(view), (str(n),), None) for n, view in enumerate(views))
    assert Answer(ReadId(9)) in site.step(Read(ReadId(9), keys))
    assert len(site.step(EvictSome(9))) == 2
