"""Records of a session, set aside for reads of the session that follows it."""

import time
from pathlib import Path

import pytest

from dataflow.engine.effects import LeafEvict, LeafFill, LeafForget
from dataflow.plan.nodes import View
from dataflow.types import Key, ViewId
from service.leaf_store.answer import StoredAnswer
from service.leaf_store.layout import PREVIOUS_META_KEY
from service.leaf_store.previous import PreviousReader
from service.leaf_store.request import Values
from service.leaf_store.serving_options import Serving
from service.leaf_store.writer import LeafWriter
from tests.service.leaf_store.sample_views import BY_AUTHOR, STORY, make_view

KEYS: list[Key] = [(str(n),) for n in range(1, 6)]


def fill(writer: LeafWriter, view: ViewId, title: str, position: int) -> None:
    writer.commit([LeafFill(view, key, [(key[0], title, "ann", "3")]) for key in KEYS], position, 100 * position)


def begin(writer: LeafWriter, *plans: View, position: int = 30, aside: bool = True) -> list[ViewId]:
    """Begin a session that has stored nothing yet."""
    writer.reset("next", aside=aside)
    views = [writer.new_id() for _ in plans]
    with writer.catalog_held():
        for view, plan in zip(views, plans, strict=True):
            writer.register(view, plan)
        writer.commit([], position, 100 * position)
    return views


@pytest.fixture
def before(writer: LeafWriter) -> ViewId:
    """The id of a view, whose keys a session has stored."""
    view = writer.new_id()
    writer.register(view, STORY)
    fill(writer, view, "old", 20)
    return view


def previous(writer: LeafWriter, view: ViewId, *reads: Values) -> list[StoredAnswer] | None:
    """Answers of the session before to reads of a view of this one."""
    with writer.reader.begin() as txn:
        found = PreviousReader(writer.reader).find(txn)
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
        found = PreviousReader(writer.reader).find(txn)
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
    writer.register(view, STORY, serving=Serving(cache_control="no-store"))
    writer.register(other, BY_AUTHOR)
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
    writer.register(view, STORY, status="building")
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
    writer.register(other, STORY, listed=False)
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
    writer.register(first, STORY)
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
