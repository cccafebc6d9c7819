"""Records of a session, set aside for reads of the session that follows it."""

import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataflow.canonical import Digests
from dataflow.engine.effects import (
    LeafChange,
    LeafDrop,
    LeafEffect,
    LeafEvict,
    LeafFill,
    LeafFillAll,
    LeafForget,
)
from dataflow.plan.nodes import OrderTerm, View
from dataflow.types import Key, ViewId
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.layout import PREVIOUS_META_KEY
from service.leaf_store.previous import PreviousReader
from service.leaf_store.reader import LeafReader
from service.leaf_store.request import Values
from service.leaf_store.serving_options import Serving
from service.leaf_store.writer import LeafWriter
from tests.service.leaf_store.sample_views import BY_AUTHOR, RELATION, STORY, make_view

KEYS: list[Key] = [(str(n),) for n in range(1, 6)]


def register(writer: LeafWriter, view: ViewId, plan: View, **options: Any) -> None:
    writer.register(view, plan, meaning=Digests().of(plan).hex(), **options)


def fill(writer: LeafWriter, view: ViewId, title: str, position: int) -> None:
    writer.commit([LeafFill(view, key, [(key[0], title, "ann", "3")]) for key in KEYS], position, 100 * position)


def begin(writer: LeafWriter, *plans: View, position: int = 30, aside: bool = True) -> list[ViewId]:
    """Begin a session that has stored nothing yet."""
    writer.reset("next", aside=aside)
    views = [writer.new_id() for _ in plans]
    with writer.catalog_held():
        for view, plan in zip(views, plans, strict=True):
            register(writer, view, plan)
        writer.commit([], position, 100 * position)
    return views


@pytest.fixture
def before(writer: LeafWriter) -> ViewId:
    """The id of a view, whose keys a session has stored."""
    view = writer.new_id()
    register(writer, view, STORY)
    fill(writer, view, "old", 20)
    return view


def previous(writer: LeafWriter, view: ViewId, *reads: Values) -> list[StoredAnswer] | None:
    """Answers of the session before to reads of a view of this one."""
    with writer.reader.begin() as txn:
        found = PreviousReader(writer.reader.environment).find(txn)
        info = writer.reader.catalog().by_id[view]
        return None if found is None else found.answers(txn, [(info, values, None) for values in reads])


def titled(answers: list[StoredAnswer] | None, title: str) -> bool:
    return answers is not None and all(b'"%b"' % title.encode() in answer.rows for answer in answers)


def test_holes_have_the_answers_of_the_session_before(writer: LeafWriter, before: ViewId) -> None:
    assert not writer.has_previous
    (view,) = begin(writer, STORY)
    assert writer.has_previous
    assert writer.reader.read([(view, ("1",), None), (before, ("1",), None)])[0] == [None, None]
    assert titled(previous(writer, view, ("1",), ("5",)), "old")
    with writer.reader.begin() as txn:
        found = PreviousReader(writer.reader.environment).find(txn)
        assert found is not None
        assert (found.state.position, found.state.at_ms, found.state.epoch) == (20, 2000, "")
    fill(writer, view, "new", 40)
    assert titled([a for a in writer.reader.read([(view, ("1",), None)])[0] if a], "new")
    assert titled(previous(writer, view, ("1",)), "old")


def test_one_hole_is_enough_for_none(writer: LeafWriter, before: ViewId) -> None:
    writer.commit([LeafEvict(before, ("2",))], 21, 2100)
    (view,) = begin(writer, STORY)
    assert titled(previous(writer, view, ("1",)), "old")
    assert previous(writer, view, ("1",), ("2",)) is None


def test_a_view_that_means_something_else_has_none(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    writer.reset("next", aside=True)
    view, other = writer.new_id(), writer.new_id()
    register(writer, view, STORY, serving=Serving(cache_control="no-store"))
    register(writer, other, BY_AUTHOR)
    writer.commit([], 30, 3000)
    assert previous(writer, view, ("1",)) is None
    assert previous(writer, other, ("ann",)) is None


@pytest.mark.parametrize("status", ["building", "outdated", "broken"])
def test_a_view_that_was_not_ready_has_none(writer: LeafWriter, before: ViewId, status: str) -> None:
    writer.set_status(before, status)
    writer.commit([], 21, 2100)
    (view,) = begin(writer, STORY)
    assert previous(writer, view, ("1",)) is None


def test_a_view_that_is_loading_has_them(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    writer.reset("next", aside=True)
    view = writer.new_id()
    register(writer, view, STORY, status="building")
    writer.commit([], 30, 3000)
    writer.set_status(view, "building", "10 % loaded")
    writer.commit([], 31, 3100)
    assert titled(previous(writer, view, ("1",)), "old")


@pytest.mark.parametrize("status", ["outdated", "quarantined", "broken"])
def test_none_once_a_view_is_planned_again(writer: LeafWriter, before: ViewId, status: str) -> None:  # noqa: ARG001
    view, other = begin(writer, STORY, make_view("other", {"id": 0}))
    writer.set_status(other, status)
    assert titled(previous(writer, view, ("1",)), "old")
    writer.commit([], 31, 3100)
    assert previous(writer, view, ("1",)) is None
    assert writer.has_previous


def test_none_once_a_view_is_replaced(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    (view,) = begin(writer, STORY)
    other = writer.new_id()
    register(writer, other, STORY, listed=False)
    writer.commit([], 31, 3100)
    assert titled(previous(writer, view, ("1",)), "old")
    writer.publish(other)
    writer.commit([], 32, 3200)
    assert previous(writer, other, ("1",)) is None


def test_records_are_deleted_a_few_at_a_time(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    (view,) = begin(writer, STORY)
    fill(writer, view, "new", 40)
    for _ in range(2):
        writer.delete_previous(2)
        assert writer.has_previous
        assert previous(writer, view, ("1",)) is None
    writer.delete_previous(2)
    assert not writer.has_previous
    answers, state = writer.reader.read([(view, key, None) for key in KEYS])
    assert titled([answer for answer in answers if answer], "new")
    assert len([answer for answer in answers if answer]) == len(KEYS)
    assert state is not None
    assert state.position == 40
    with writer.reader.begin() as txn, txn.cursor() as cursor:
        assert cursor.set_range(b"v")
        assert len(list(cursor.iternext(keys=False, values=True))) == len(KEYS)


def test_those_of_a_session_that_did_not_get_warm_are_not_set_aside(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    (view,) = begin(writer, STORY)
    fill(writer, view, "new", 40)
    (last,) = begin(writer, STORY, position=50)
    assert not writer.has_previous
    assert previous(writer, last, ("1",)) is None
    with writer.reader.begin() as txn:
        assert txn.get(PREVIOUS_META_KEY) is None


def test_a_process_that_died_while_it_deleted_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its records are set aside, and deleted with what was left."""
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    writer = LeafWriter(tmp_path / "leaf")
    first = writer.new_id()
    register(writer, first, STORY)
    fill(writer, first, "oldest", 10)
    (second,) = begin(writer, STORY)
    fill(writer, second, "old", 40)
    writer.delete_previous(2)
    writer.close()
    writer = LeafWriter(tmp_path / "leaf")
    (third,) = begin(writer, STORY, position=50)
    assert third > second
    assert titled(previous(writer, third, ("1",)), "old")
    while writer.has_previous:
        writer.delete_previous(2)
    with writer.reader.begin() as txn, txn.cursor() as cursor:
        assert not cursor.set_range(b"v")
    writer.close()


def test_a_session_with_state_has_none(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    (view,) = begin(writer, STORY, aside=False)
    assert not writer.has_previous
    assert previous(writer, view, ("1",)) is None


def test_a_key_that_is_evicted_again_does_not_go_back(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    (view,) = begin(writer, STORY)
    fill(writer, view, "new", 40)
    writer.commit([LeafEvict(view, ("2",))], 41, 4100)
    assert previous(writer, view, ("2",)) is None
    assert titled(previous(writer, view, ("1",), ("3",)), "old")
    writer.commit([LeafForget(view)], 42, 4200)
    assert previous(writer, view, ("1",)) is None
    assert not writer.uses_previous


def test_a_key_of_a_view_that_was_whole_does_not_go_back(writer: LeafWriter) -> None:
    """A key without an entry has no rows: there is nothing to evict."""
    whole = writer.new_id()
    register(writer, whole, STORY)
    writer.commit([LeafFillAll(whole, {("1",): [("1", "old", "ann", "3")]})], 20, 2000)
    (view,) = begin(writer, STORY)
    assert titled(previous(writer, view, ("1",)), "old")
    absent = previous(writer, view, ("2",))
    assert absent is not None
    assert absent[0].rows == b"[]"
    fill(writer, view, "new", 40)
    writer.commit([LeafEvict(view, ("1",))], 41, 4100)
    assert previous(writer, view, ("1",)) is None
    assert previous(writer, view, ("2",)) is None


@pytest.mark.parametrize("name", ["story", "query"])
def test_none_once_a_view_is_dropped(writer: LeafWriter, before: ViewId, name: str) -> None:  # noqa: ARG001
    """Ad-hoc queries come and go; another view of the name may mean something else."""
    (view,) = begin(writer, make_view(name, {"id": 0}))
    assert writer.uses_previous
    writer.commit([LeafDrop(view)], 41, 4100)
    assert writer.uses_previous == (name == "query")


def test_a_view_that_expires_has_none(writer: LeafWriter) -> None:
    view = writer.new_id()
    register(writer, view, STORY, refreshed=True)
    fill(writer, view, "old", 20)
    writer.reset("next", aside=True)
    again = writer.new_id()
    register(writer, again, STORY, refreshed=True)
    writer.commit([], 30, 3000)
    assert previous(writer, again, ("1",)) is None


def test_a_view_whose_keys_are_others_has_none(writer: LeafWriter) -> None:
    """Its SQL and parameters are the same, but one of these picks rows of a key now."""
    view = writer.new_id()
    register(writer, view, make_view("v", {"author": 2}, within={"id": 0}))
    writer.commit([LeafFill(view, ("ann",), [("1", "old", "ann", "3")])], 20, 2000)
    (again,) = begin(writer, make_view("v", {"author": 2, "id": 0}))
    assert previous(writer, again, ("ann", "1")) is None


def test_a_view_over_one_that_changed_has_none(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    """Equal SQL is not enough."""
    other = replace(RELATION, table="public.other")
    (view,) = begin(writer, replace(STORY, relation=other))
    assert previous(writer, view, ("1",)) is None
    fill(writer, view, "new", 40)
    writer.commit([LeafEvict(view, ("1",))], 41, 4100)
    assert writer.uses_previous


def test_evictions_of_views_that_have_none_end_nothing(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    """A refreshed view's keys are evicted at each change, a view's whose load is abandoned are at its end."""
    expires = writer.new_id()
    register(writer, expires, BY_AUTHOR, refreshed=True)
    writer.commit([], 21, 2100)
    writer.reset("next", aside=True)
    view, again, loading = writer.new_id(), writer.new_id(), writer.new_id()
    register(writer, view, STORY)
    register(writer, again, BY_AUTHOR, refreshed=True)
    register(writer, loading, make_view("all", {}), status="building")
    writer.commit([], 30, 3000)
    writer.commit([LeafFill(again, ("ann",), [("1", "new", "ann", "3")]), LeafFillAll(loading, {})], 40, 4000)
    writer.commit([LeafEvict(again, ("ann",)), LeafEvict(loading, ())], 41, 4100)
    assert titled(previous(writer, view, ("1",)), "old")
    writer.set_status(loading, "ready")
    writer.commit([LeafFillAll(loading, {})], 42, 4200)
    assert writer.uses_previous
    # It is loaded again.
    writer.set_status(loading, "building")
    writer.commit([LeafEvict(loading, ())], 43, 4300)
    assert not writer.uses_previous


def test_none_once_a_view_has_failed(writer: LeafWriter, before: ViewId) -> None:  # noqa: ARG001
    view, other = begin(writer, STORY, make_view("other", {"id": 0}))
    assert writer.commit([LeafFill(other, ("1",), [("1", "t", "ann")])], 40, 4000).keys() == {other}
    assert previous(writer, view, ("1",)) is None


def test_what_an_engine_stored_that_failed_is_not_set_aside(tmp_path: Path) -> None:
    """The next process knows, too."""
    writer = LeafWriter(tmp_path / "leaf")
    for again in (False, True):
        view = writer.new_id()
        register(writer, view, STORY)
        fill(writer, view, "old", 20)
        if not again:
            writer.doubt()
        writer.close()
        writer = LeafWriter(tmp_path / "leaf")
        begin(writer, STORY)
        assert writer.has_previous == again
    writer.close()


def test_rows_stored_while_the_views_are_installed(writer: LeafWriter, before: ViewId) -> None:
    """Readers still have the views before: these must not have their rows at the new version."""
    reader = LeafReader(writer.reader.environment)
    assert reader.catalog().by_id.keys() == {before}
    writer.reset("next", aside=True)
    with writer.catalog_held():
        view, never = writer.new_id(), writer.new_id()
        register(writer, view, STORY)
        register(writer, never, BY_AUTHOR)
        writer.commit([LeafFillAll(never, {})], 30, 3000)
        answers, state = reader.read([(before, ("1",), None)])
        assert state is not None
        assert (answers, state.position) == ([None], 30)
    assert not writer.has_previous
    assert previous(writer, view, ("1",)) is None


def test_pages_nulls_and_lists_are_answered_as_before(writer: LeafWriter) -> None:
    plans = BY_AUTHOR, make_view("any_of", {"id": 0}, lists=("id",))
    rows = [(str(n), f"title {n}", "ann", str(n)) for n in range(5)]
    views = [writer.new_id() for _ in plans]
    for view, plan in zip(views, plans, strict=True):
        register(writer, view, plan)
    fills: list[LeafEffect] = [LeafFill(views[0], ("ann",), rows), LeafFill(views[0], (None,), rows[:1])]
    writer.commit([*fills, *(LeafFill(views[1], (row[0],), [row]) for row in rows)], 20, 2000)
    first = PageWindow(2)
    reads: list[tuple[int, Values, PageWindow | None]] = [
        (0, ("ann",), None),
        (0, ("ann",), first),
        (0, (None,), None),
        (1, (("1", "3"),), None),
    ]

    def answers(of: list[ViewId]) -> list[StoredAnswer | None]:
        return writer.reader.read([(of[n], values, window) for n, values, window in reads])[0]

    expected = answers(views)
    assert None not in expected
    page = expected[1]
    assert page is not None
    after = PageWindow(2, page.next)
    second = writer.reader.read([(views[0], ("ann",), after)])[0]
    again = begin(writer, *plans)
    assert answers(again)[:2] == [None, None]
    with writer.reader.begin() as txn:
        found = PreviousReader(writer.reader.environment).find(txn)
        assert found is not None
        infos = [writer.reader.catalog().by_id[view] for view in again]
        assert found.answers(txn, [(infos[n], values, window) for n, values, window in reads]) == expected
        assert found.answers(txn, [(infos[0], ("ann",), after)]) == second


def test_the_map_grows_while_records_are_deleted(tmp_path: Path) -> None:
    """Deleting needs pages, too, as long as readers may see the deleted ones."""
    writer = LeafWriter(tmp_path / "leaf", map_bytes=1 << 17)
    view = writer.new_id()
    register(writer, view, STORY)
    key = 0
    while not key or writer.resident_bytes < 0.8 * writer.map_bytes:
        rows = [(str(key + n), "t" * 50, "ann", "3") for n in range(100)]
        writer.commit([LeafFill(view, (row[0],), [row]) for row in rows], 20, 2000)
        key += len(rows)
    begin(writer, STORY)
    with writer.reader.begin():
        size = writer.map_bytes
        while writer.has_previous:
            writer.delete_previous(100)
    assert writer.map_bytes > size
    writer.close()


@pytest.mark.parametrize("seed", range(20))
def test_any_effects_of_the_session_that_follows(writer: LeafWriter, seed: int) -> None:
    """Answers of the session before are as they were, and none is given once this session has stored the key."""
    chosen = random.Random(seed)
    plans = STORY, make_view("stories_of", {"author": 2}, order=(OrderTerm(3), OrderTerm(0)))
    keys: list[list[Key]] = [[(str(n),) for n in range(6)], [("ann",), ("bob",), ("x" * 300,)]]

    def row(n: int, key: Key) -> tuple[str | None, ...]:
        return (key[0], "t", "ann", str(n)) if n % 2 else (str(n), "t", key[0], str(n))

    def rows(number: int, key: Key) -> list[tuple[str | None, ...]]:
        return [row(2 * n + (number == 0), key) for n in chosen.sample(range(20), chosen.randrange(2 + number))]

    views = [writer.new_id() for _ in plans]
    for view, plan in zip(views, plans, strict=True):
        register(writer, view, plan)
    writer.commit(
        [LeafFill(views[n], key, rows(n, key)) for n in (0, 1) for key in keys[n] if chosen.random() < 0.8], 20, 2000
    )
    reads = [(n, key) for n in (0, 1) for key in keys[n]]
    expected = dict(zip(reads, writer.reader.read([(views[n], key, None) for n, key in reads])[0], strict=True))
    again = begin(writer, *plans)
    stored = set[tuple[int, Key]]()
    covered = dict[tuple[int, Key], list[tuple[str | None, ...]]]()
    for position in range(40, 70):
        n = chosen.randrange(2)
        key = chosen.choice(keys[n])
        at = n, key
        effect: LeafEffect
        if at not in covered:
            stored.add(at)
            covered[at] = rows(n, key)
            effect = LeafFill(again[n], key, covered[at])
        elif chosen.random() < 0.5:
            del covered[at]
            effect = LeafEvict(again[n], key)
        else:
            gone, covered[at] = covered[at], []
            effect = LeafChange(again[n], {key: (gone, [])}) if gone else LeafFill(again[n], key, [])
        assert not writer.commit([effect], position, 100 * position)
        for m, k in reads:
            before = previous(writer, again[m], k)
            assert before in (None, [expected[m, k]])
            found = writer.reader.read([(again[m], k, None)])[0]
            assert (found == [None]) == ((m, k) not in covered)
            if found == [None] and (m, k) in stored:
                assert before is None
            if expected[m, k] is not None and (m, k) not in stored:
                assert before is not None
