"""Routes of several rounds: each goes on where the one before ended, unless what it has bound may be outdated."""

import pytest

from dataflow.engine import upquery
from dataflow.engine.effects import Effect, LeafFill
from dataflow.engine.events import CancelRead, LookupDone, LookupsDone, Read
from dataflow.plan.parts import Lookup
from dataflow.types import ReadId, Row
from tests.dataflow.engine.site import COMMENTS, Now, Site, comments_of, rows_of

#: Comments are looked up with the story; their authors' names when they are known.
SQL = (
    "SELECT c.id, c.text, u.name, s.title FROM stories s JOIN comments c ON c.story_id = s.id "
    "JOIN users u ON u.id = c.author WHERE s.id = :id"
)
KEY = ("7",)


def answered(site: Site, effects: list[Effect]) -> list[Effect]:
    """Answers all lookups among the effects; returns what comes of that."""
    lookups = [effect for effect in effects if isinstance(effect, Lookup)]
    assert lookups
    done = [LookupDone(each.id, rows_of(each), Now(), site.engine.applied) for each in lookups]
    return site.engine.step(LookupsDone(done))


def begun() -> tuple[Site, list[Effect]]:
    """A site whose read has its first round behind it, and the lookups of its second."""
    site = Site()
    view = site.install(1, SQL)
    first = site.engine.step(Read(ReadId(1), ((view, KEY, None),)))
    return site, answered(site, first)


def filled(effects: list[Effect]) -> list[Row]:
    """The rows that the key is filled with."""
    (fill,) = [effect for effect in effects if isinstance(effect, LeafFill)]
    return sorted(fill.rows, key=repr)


def expected() -> list[Row]:
    site = Site()
    return filled(site.read(site.install(1, SQL), KEY))


def test_a_route_is_bound_once() -> None:
    site, second = begun()
    assert filled(answered(site, second)) == expected()
    assert (site.engine.counters["walks_continued"], site.engine.counters["walks_restarted"]) == (1, 0)
    site.engine.check()


def test_a_change_between_two_rounds_is_seen() -> None:
    site, second = begun()
    gone = comments_of(int(KEY[0]))[0]
    site.commit("comments", removed=[gone])
    rows = filled(answered(site, second))
    assert rows == [row for row in expected() if row[0] != gone[0]]
    assert len(rows) == COMMENTS - 1
    assert (site.engine.counters["walks_continued"], site.engine.counters["walks_restarted"]) == (0, 1)
    site.engine.check()


def test_walks_that_keep_too_much_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upquery, "_KEPT_COMBINATIONS", COMMENTS - 1)
    site, second = begun()
    assert filled(answered(site, second)) == expected()
    assert site.engine.counters["walks_continued"] == site.engine.counters["walks_restarted"] == 0
    site.engine.check()


def test_what_walks_keep_is_state() -> None:
    site, _ = begun()
    during = site.engine.state_bytes()
    site.engine.step(CancelRead(ReadId(1)))
    assert during - site.engine.state_bytes() > COMMENTS * 500
    site.engine.check()
