"""Commits of the leaf store: the catalog, growth, failure, and what readers in other processes see."""

import json
import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from dataflow.engine.effects import LeafChange, LeafDrop, LeafEvict, LeafFill, LeafFillAll, LeafLoaded
from dataflow.errors import InvariantViolation
from dataflow.types import Delta, Key, Row, ViewId
from service.leaf_store.answer import EMPTY
from service.leaf_store.layout import MARK, entry_key
from service.leaf_store.reader import LeafReader
from service.leaf_store.serving_options import Serving
from service.leaf_store.transaction import begin
from service.leaf_store.writer import LeafWriter
from tests.service.leaf_store.sample_views import BY_AUTHOR, STORY, make_view

ONE, TWO = ViewId(1), ViewId(2)
ROW = ("7", "Seven", "ann", "3")


def test_nothing_before_the_first_commit(writer: LeafWriter) -> None:
    assert writer.reader.state() is None
    assert writer.reader.read([(ONE, ("7",), None)]) == ([None], None)
    assert not writer.reader.catalog().by_name


def test_no_id_that_readers_know_is_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By no later process: not if the clock stands still, nor if the last one has dropped its views, or died while
    readers were not told of any."""
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    known: set[ViewId] = set()
    for dropped in (False, True, False):
        writer = LeafWriter(tmp_path / "leaf")
        writer.reset("epoch")
        given = [writer.new_id() for _ in range(9)]
        assert not known & set(given)
        for id_ in given:
            writer.register(id_, STORY)
        writer.commit([], 1, 0)
        if dropped:
            writer.commit([LeafDrop(id_) for id_ in given], 2, 0)
        writer.reset("another")
        writer.close()
        known |= set(given)


def test_since_when_transactions_were_applied_one_by_one_is_known(writer: LeafWriter) -> None:
    for position, together, expected in ((10, False, 0), (20, True, 20), (30, False, 20), (40, True, 40)):
        writer.commit([], position, 0, together=together)
        state = writer.reader.state()
        assert state is not None
        assert state.one_by_one == expected


def test_state_and_catalog_come_with_the_commit(writer: LeafWriter) -> None:
    writer.set_epoch("e1")
    writer.register(ONE, BY_AUTHOR, status="building")
    writer.commit([], 17, 1234)
    state = writer.reader.state()
    assert state is not None
    assert (state.position, state.at_ms, state.epoch) == (17, 1234, "e1")
    info = writer.reader.catalog().by_name["stories_of"]
    assert [(p.name, p.type.name) for p in info.parameters] == [("author", "text")]
    assert [c.name for c in info.columns] == ["id", "title", "author", "votes"]
    assert (info.status, info.ordered, info.null_rows) == ("building", True, "[]")
    writer.set_status(ONE, "broken", "a column has gone")
    assert writer.reader.catalog().by_name["stories_of"].status == "building"
    writer.commit([], 18, 1235)
    assert writer.reader.catalog().by_name["stories_of"].reason == "a column has gone"


def test_the_catalog_says_how_a_view_is_served(writer: LeafWriter) -> None:
    serving = Serving(cache_control="public, max-age=5")
    writer.register(ONE, BY_AUTHOR, serving=serving)
    writer.register(TWO, STORY)
    writer.commit([], 1, 0)
    views = writer.reader.catalog().by_id
    assert (views[ONE].serving, views[ONE].cache_control) == (serving, "public, max-age=5")
    assert views[TWO].cache_control is None


def test_views_that_are_held_become_visible_together(writer: LeafWriter) -> None:
    writer.register(ONE, STORY)
    writer.commit([LeafFill(ONE, ("7",), [ROW])], 1, 0)
    before = writer.reader.catalog()
    assert before.known
    writer.reset("e2")
    with writer.catalog_held():
        writer.register(TWO, BY_AUTHOR)
        writer.commit([], 3, 6)
        # Until all of them are there, reads are answered from what was stored.
        new = LeafReader(writer.reader.environment)
        assert list(new.catalog().by_name) == ["story"]
        ((found,), state) = writer.reader.read([(ONE, ("7",), None)])
        assert found is not None
        assert state is not None
        assert (state.position, state.epoch) == (1, "")
        writer.register(ONE, STORY)
    for reader in (writer.reader, new):
        assert list(reader.catalog().by_name) == ["stories_of", "story"]
        assert reader.read([(ONE, ("7",), None)])[0] == [None]
    state = writer.reader.state()
    assert state is not None
    assert (state.position, state.at_ms, state.epoch) == (3, 6, "e2")


def test_rows_that_are_stored_while_views_are_held(writer: LeafWriter) -> None:
    """They do not wait: the views become known later."""
    writer.register(ONE, STORY)
    writer.commit([LeafFill(ONE, ("7",), [ROW])], 1, 0)
    before = writer.reader.catalog()
    writer.reset("e2")
    with writer.catalog_held():
        writer.register(TWO, BY_AUTHOR)
        writer.commit([LeafFill(TWO, ("ann",), [ROW])], 2, 5)
        assert writer.reader.catalog() is before
        assert writer.reader.read([(ONE, ("7",), None)])[0] == [None]
        new = LeafReader(writer.reader.environment)
        assert (new.catalog().known, new.catalog().by_name) == (False, {})
    assert new.catalog().known
    assert list(new.catalog().by_name) == ["stories_of"]


def test_views_that_were_held_when_the_writer_failed(writer: LeafWriter) -> None:
    def fail() -> None:
        with writer.catalog_held():
            writer.commit([], 1, 0)
            writer.register(ONE, STORY)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert list(writer.reader.catalog().by_name) == ["story"]


def test_catalog_is_the_same_object_until_it_changes(writer: LeafWriter) -> None:
    writer.register(ONE, STORY)
    writer.commit([], 1, 0)
    before = writer.reader.catalog()
    writer.commit([LeafFill(ONE, ("7",), [ROW])], 2, 0)
    assert writer.reader.catalog() is before


def test_replacement_takes_the_name_when_it_is_published(writer: LeafWriter) -> None:
    writer.register(ONE, STORY, status="ready")
    writer.commit([], 1, 0)
    writer.register(TWO, make_view("story", {"id": 0}, shown=(0,)), listed=False)
    writer.commit([], 2, 0)
    assert writer.reader.catalog().by_name["story"].id == ONE
    writer.publish(TWO)
    writer.commit([LeafDrop(ONE)], 3, 0)
    catalog = writer.reader.catalog()
    assert catalog.by_name["story"].id == TWO
    assert list(catalog.by_id) == [TWO]


def test_building_view_is_not_read_until_the_commit_that_loads_it(writer: LeafWriter) -> None:
    writer.register(ONE, BY_AUTHOR, status="building")
    writer.commit([LeafFillAll(ONE, {})], 1, 0)
    writer.commit([LeafChange(ONE, {("ann",): ([], [ROW])})], 2, 0)
    assert writer.reader.read([(ONE, ("ann",), None)])[0] == writer.reader.read([(ONE, ("bob",), None)])[0] == [None]
    writer.set_status(ONE, "ready")
    writer.commit([LeafLoaded(ONE)], 5, 0)
    (ann, bob), state = writer.reader.read([(ONE, ("ann",), None), (ONE, ("bob",), None)])
    assert ann is not None
    assert bob == EMPTY
    assert state is not None
    with writer.reader.begin() as txn:
        mark = txn.get(writer.info(ONE).head)
    assert mark == MARK.pack(state.position)


def test_what_is_not_covered_cannot_be_loaded(writer: LeafWriter) -> None:
    writer.register(ONE, BY_AUTHOR, status="building")
    with pytest.raises(InvariantViolation):
        writer.commit([LeafLoaded(ONE)], 1, 0)


def test_rows_without_an_entry_are_not_filled_over(writer: LeafWriter) -> None:
    writer.register(ONE, BY_AUTHOR)
    fill = LeafFill(ONE, ("ann",), [ROW, ("8", "Eight", "ann", None)])
    writer.commit([fill], 1, 0)
    with begin(writer._environment, write=True) as txn:
        assert txn.delete(entry_key(writer.info(ONE).head, ("ann",)))
    with pytest.raises(InvariantViolation):
        writer.commit([fill], 2, 0)


def test_dropped_view_leaves_nothing(writer: LeafWriter) -> None:
    writer.register(ONE, BY_AUTHOR)
    writer.register(TWO, BY_AUTHOR)
    fills = [LeafFill(view, (f"a{n}",), [ROW, ("8", "Eight", "ann", None)]) for view in (ONE, TWO) for n in range(9)]
    writer.commit(fills, 1, 0)
    before = writer.bytes_by_view()
    assert before[ONE] == before[TWO]
    writer.commit([LeafDrop(ONE)], 2, 0)
    assert writer.bytes_by_view() == {TWO: before[TWO]}
    assert writer.reader.read([(ONE, ("a1",), None)])[0] == [None]
    with pytest.raises(InvariantViolation):
        writer.commit([LeafFill(ONE, ("a1",), [])], 3, 0)


def test_null_key_is_answered_and_never_stored(writer: LeafWriter) -> None:
    count = make_view("count", {"id": 0}, shown=(3,), rows_for_null=((None, None, None, "0"),))
    writer.register(ONE, count)
    writer.register(TWO, STORY)
    writer.commit([LeafFill(TWO, (None,), [ROW])], 1, 0)
    answers, _ = writer.reader.read([(ONE, (None,), None), (TWO, (None,), None)])
    assert [answer.rows for answer in answers if answer] == [b'[{"votes":0}]', b"[]"]
    assert writer.total_bytes == 0


def test_full_view_has_every_key(writer: LeafWriter) -> None:
    writer.register(ONE, STORY)
    writer.commit([LeafFillAll(ONE, {("7",): [ROW]})], 1, 0)
    writer.commit([LeafChange(ONE, {("9",): ([], [("9", "Nine", "bob", "0")]), ("7",): ([ROW], [])})], 2, 0)
    seven, nine, ten = writer.reader.read([(ONE, (n,), None) for n in ("7", "9", "10")])[0]
    assert seven == ten == EMPTY
    assert nine is not None
    assert json.loads(nine.rows)[0]["title"] == "Nine"


def test_full_view_of_an_aggregate_has_a_row_for_every_key(writer: LeafWriter) -> None:
    count = make_view("count", {"id": 0}, shown=(3,), rows_for_null=((None, None, None, "0"),))
    writer.register(ONE, count)
    writer.commit([LeafFillAll(ONE, {("7",): [("7", None, None, "0")]})], 1, 0)
    seven, eight, null = writer.reader.read([(ONE, (n,), None) for n in ("7", "8", None)])[0]
    assert seven is not None
    assert seven.rows == b'[{"votes":0}]'
    assert seven == eight == null


def test_failed_commit_changes_nothing(writer: LeafWriter) -> None:
    writer.register(ONE, BY_AUTHOR)
    writer.commit([LeafFill(ONE, ("ann",), [ROW])], 1, 0)
    before = writer.reader.read([(ONE, ("ann",), None)]), writer.total_bytes
    good, bad = LeafFill(ONE, ("ann",), []), LeafChange(ONE, {("bob",): ([], [ROW])})
    with pytest.raises(InvariantViolation):
        writer.commit([good, bad], 2, 0)
    missing = LeafChange(ONE, {("ann",): ([("8", "", "ann", "1"), ("9", "", "ann", "1")], [])})
    with pytest.raises(InvariantViolation):
        writer.commit([missing], 2, 0)
    assert (writer.reader.read([(ONE, ("ann",), None)]), writer.total_bytes) == before


def test_map_grows_and_readers_follow(tmp_path: Path) -> None:
    writer = LeafWriter(tmp_path, map_bytes=1 << 17)
    writer.register(ONE, STORY)
    writer.commit([], 1, 0)
    rows = [(str(n), "t" * 200, "ann", "1") for n in range(4000)]
    writer.commit([LeafFill(ONE, (row[0],), [row]) for row in rows], 2, 0)
    assert writer.map_bytes > 1 << 17
    assert all(writer.reader.read([(ONE, (row[0],), None) for row in rows])[0])
    writer.close()


def test_reader_process_follows_a_map_that_grows(tmp_path: Path) -> None:
    writer = LeafWriter(tmp_path, map_bytes=1 << 17)
    writer.register(ONE, STORY)
    writer.commit([LeafFill(ONE, ("7",), [ROW])], 1, 0)
    spawn = multiprocessing.get_context("spawn")
    results, remote = spawn.Pipe()
    reader = spawn.Process(target=read_when_told, args=(tmp_path, remote))
    reader.start()
    assert results.recv() == [True, False]
    writer.commit([LeafFill(ONE, (str(n),), [(str(n), "t" * 200, "ann", "1")]) for n in range(8, 4000)], 2, 0)
    results.send("again")
    assert results.recv() == [True, True]
    reader.join()
    writer.close()


def read_when_told(path: Path, results: Connection) -> None:
    """The other process: has the small map open when the writer makes it larger."""
    reader = LeafReader.open(path)
    keys = [(ONE, (n,), None) for n in ("7", "3999")]
    results.send([answer is not None for answer in reader.read(keys)[0]])
    results.recv()
    results.send([answer is not None for answer in reader.read(keys)[0]])


def test_reset_and_reopen_start_empty(tmp_path: Path) -> None:
    writer = LeafWriter(tmp_path)
    writer.register(ONE, STORY)
    writer.commit([LeafFill(ONE, ("7",), [ROW])], 5, 0, together=True)
    version = writer.reader.catalog().version
    writer.close()
    writer = LeafWriter(tmp_path)
    # Until the engine has started anew, readers are served what was there.
    assert writer.reader.read([(ONE, ("7",), None)])[0] != [None]
    writer.reset("next")
    assert writer.reader.read([(ONE, ("7",), None)])[0] != [None]
    writer.register(ONE, STORY)
    # Another server's positions may be lower.
    writer.commit([], 2, 0)
    state = writer.reader.state()
    assert state is not None
    assert state.one_by_one <= state.position
    assert writer.reader.catalog().version > version
    assert writer.reader.read([(ONE, ("7",), None)])[0] == [None]
    writer.close()


ACCOUNTS, TOTAL, POSITIONS = 8, 8 * 100, 50


def test_other_processes_never_see_half_a_commit(tmp_path: Path) -> None:
    """Money moves between keys of two views while another process adds it up."""
    writer = LeafWriter(tmp_path)
    writer.register(ONE, STORY)
    writer.register(TWO, BY_AUTHOR)
    balances = dict.fromkeys(range(ACCOUNTS), 100)
    fills = [LeafFill(ONE, (str(n),), [account(n, 100)]) for n in balances]
    writer.commit([*fills, LeafFill(TWO, ("all",), [account(n, 100) for n in balances])], 0, 0)
    spawn = multiprocessing.get_context("spawn")
    results, remote = spawn.Pipe()
    reader = spawn.Process(target=add_up, args=(tmp_path, remote))
    reader.start()
    assert results.recv() == "reading"
    position = 0
    while not results.poll():
        position += 1
        source, target, amount = position % ACCOUNTS, (position * 5 + 3) % ACCOUNTS, position % 7
        changes: dict[int, Delta] = {}
        moved: dict[int, int] = {}
        for n, more in ((source, -amount), (target, amount)):
            moved[n] = moved.get(n, 0) + more
        for n, more in moved.items():
            changes[n] = ([account(n, balances[n])], [account(n, balances[n] + more)])
            balances[n] += more
        by_account: dict[Key, Delta] = {(str(n),): delta for n, delta in changes.items()}
        together = ([r for d in changes.values() for r in d[0]], [r for d in changes.values() for r in d[1]])
        writer.commit([LeafChange(ONE, by_account), LeafChange(TWO, {("all",): together})], position, 0)
    seen, wrong = results.recv()
    reader.join()
    writer.close()
    assert wrong == []
    assert seen == POSITIONS


def account(number: int, balance: int) -> Row:
    return (str(number), "account", "all", str(balance))


def add_up(path: Path, results: Connection) -> None:
    """The other process: reads until it has seen enough commits."""
    reader = LeafReader.open(path)
    keys = [(ONE, (str(n),), None) for n in range(ACCOUNTS)]
    results.send("reading")
    seen: set[int] = set()
    wrong = []
    give_up = time.monotonic() + 50
    last = -1
    while len(seen) < POSITIONS and time.monotonic() < give_up:
        answers, state = reader.read([*keys, (TWO, ("all",), None)])
        assert state is not None
        rows = [row for answer in answers[:-1] if answer for row in json.loads(answer.rows)]
        together = json.loads(answers[-1].rows) if answers[-1] else []
        by_id = sorted(together, key=lambda row: row["id"])
        if sum(row["votes"] for row in rows) != TOTAL or by_id != rows or state.position < last:
            wrong.append((state.position, rows, together))
        last = state.position
        seen.add(last)
    results.send((len(seen), wrong[:3]))


def test_pages_that_are_free_are_used_again(writer: LeafWriter) -> None:
    writer.register(ONE, STORY)
    for n in range(500):
        writer.commit([LeafFill(ONE, (str(n),), [(str(n), "x" * 300, "ann", "3")])], n, 0)
    used, resident = writer.used_bytes, writer.resident_bytes
    assert writer.total_bytes < used <= resident
    for n in range(450):
        writer.commit([LeafEvict(ONE, (str(n),))], 500, 0)
    assert writer.used_bytes < used / 4
    assert writer.resident_bytes >= resident
    for n in range(400):
        writer.commit([LeafFill(ONE, (str(n),), [(str(n), "x" * 300, "ann", "3")])], 501 + n, 0)
    assert writer.resident_bytes < 1.2 * resident
