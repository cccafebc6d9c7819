"""New rows whose children nobody looked up: pages that are read come back in the same step, with one lookup."""

import pytest

from dataflow.engine.effects import Effect, LeafEvict, LeafFill
from dataflow.engine.events import Ahead, Touched
from dataflow.plan.parts import Lookup
from dataflow.types import Key, ViewId
from tests.dataflow.engine.site import VOTES, Site, story

PAGE = (
    "SELECT s.id, COUNT(v.user_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
    " WHERE s.author = :author GROUP BY s.id"
)
KARMA = (
    "SELECT u.id, COUNT(v.user_id) AS votes FROM users u JOIN stories s ON s.author = u.id"
    " JOIN votes v ON v.story_id = s.id WHERE u.id = :user GROUP BY u.id"
)
NEWEST = (
    "SELECT s.id, s.at, u.name FROM stories s JOIN comments c ON c.story_id = s.id JOIN users u ON u.id = c.author"
    " WHERE s.author = :author ORDER BY s.at DESC, s.id DESC"
)
AUTHOR = ("5",)
#: A story of that author's which came after its votes.
NEW = ("990005", "5", "Title", "", "2026-02-01 00:00:00+00")


def lookups(effects: list[Effect]) -> list[tuple[str, list[Key]]]:
    return [(str(effect.relation), list(effect.keys)) for effect in effects if isinstance(effect, Lookup)]


def filled(effects: list[Effect], view: ViewId) -> list[LeafFill]:
    return [effect for effect in effects if isinstance(effect, LeafFill) and effect.view == view]


def submit(site: Site) -> list[Effect]:
    return site.commit("stories", added=[NEW])


def read_often(site: Site, *views: ViewId) -> None:
    for view in views:
        site.read(view, AUTHOR)
    site.step(Touched(tuple((view, AUTHOR, 1) for view in views)))


def test_its_children_are_looked_up() -> None:
    site = Site()
    page = site.install(1, PAGE)
    read_often(site, page)
    effects = submit(site)
    ((relation, keys),) = lookups(effects)
    assert "votes" in relation
    assert keys == [(NEW[0],)]
    (fill,) = filled(effects, page)
    assert (NEW[0], AUTHOR[0], str(VOTES)) in fill.rows
    assert len(fill.rows) == 6


def test_one_lookup_serves_all_views() -> None:
    site = Site()
    views = [site.install(1, PAGE), site.install(2, KARMA)]
    read_often(site, *views)
    effects = submit(site)
    assert len(lookups(effects)) == 1
    assert [len(filled(effects, view)) for view in views] == [1, 1]
    assert filled(effects, views[1])[0].rows == [(AUTHOR[0], str(6 * VOTES))]


def test_several_new_rows_are_one_lookup() -> None:
    site = Site()
    page = site.install(1, PAGE)
    authors = [str(number) for number in range(4)]
    for author in authors:
        site.read(page, (author,))
    site.step(Touched(tuple((page, (author,), 1) for author in authors)))
    added = [(f"99000{author}", author, *NEW[2:]) for author in authors]
    effects = site.commit("stories", added=added)
    ((_, keys),) = lookups(effects)
    assert sorted(keys) == [(f"99000{author}",) for author in authors]
    assert {fill.key for fill in filled(effects, page)} == {(author,) for author in authors}


def test_what_nobody_read_waits_for_a_reader() -> None:
    """And the next row finds nothing to lose."""
    site = Site()
    page = site.install(1, PAGE)
    site.read(page, AUTHOR)
    effects = submit(site)
    assert LeafEvict(page, AUTHOR) in effects
    assert lookups(effects) == []
    assert LeafEvict(page, AUTHOR) not in site.commit("stories", added=[("980005", *NEW[1:])])
    effects = site.read(page, AUTHOR)
    assert [keys for _, keys in lookups(effects)] == [[(NEW[0],), ("980005",)]]
    assert len(filled(effects, page)[0].rows) == 7


def test_a_refill_is_paid_for_by_a_hit() -> None:
    """A key that is written more often than it is read is not looked up for each write."""
    site = Site()
    page = site.install(1, PAGE)
    read_often(site, page)
    refilled = [len(lookups(site.commit("stories", added=[(f"{n}0005", *NEW[1:])]))) for n in range(90, 95)]
    assert refilled == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("sql", [PAGE, KARMA])
def test_a_new_version_of_a_row_loses_nothing(sql: str) -> None:
    site = Site()
    view = site.install(1, sql)
    read_often(site, view)
    effects = site.commit("stories", removed=[story(5)], added=[(*story(5)[:2], "another", *story(5)[3:])])
    assert LeafEvict(view, AUTHOR) not in effects
    assert lookups(effects) == []


def test_a_page_of_the_newest_comes_back() -> None:
    site = Site()
    newest = site.install(1, NEWEST)
    site.read(newest, AUTHOR, Ahead(3))
    site.step(Touched(((newest, AUTHOR, 1),)))
    effects = submit(site)
    assert LeafEvict(newest, AUTHOR) in effects
    assert (newest, AUTHOR) in site.covered
    relation, keys = lookups(effects)[0]
    assert "comments" in relation
    assert keys == [(NEW[0],)]
