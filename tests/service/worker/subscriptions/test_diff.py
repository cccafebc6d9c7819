"""Changes lead from one list of rows to the other, whatever is in them."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service.worker.subscriptions.diff import diff, rebuilt, split_rows

ROWS = st.lists(st.sampled_from([b'{"a":%d}' % n for n in range(8)]), max_size=14)
TRAPS = st.sampled_from(['"', "\\", '{"', "},{", "]", '\\"'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | TRAPS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(ROWS, ROWS)
def test_a_change_rebuilds_the_rows(old: list[bytes], new: list[bytes]) -> None:
    change = diff(old, new)
    assert rebuilt(old, change) == new
    assert change.removed == [old[at] for at in change.removed_at]
    assert all(a < b for places in (change.removed_at, change.added_at) for a, b in pairwise(places))


@given(st.lists(st.integers(0, 200), unique=True, max_size=30), st.data())
def test_nothing_stays_that_moved_and_nothing_moves_that_can_stay(numbers: list[int], data: st.DataObject) -> None:
    old = [b"%d" % n for n in numbers]
    at = data.draw(st.integers(0, len(old)))
    new = [*old[:at], b"new", *old[at:]]
    change = diff(old, new)
    assert (change.removed, change.added, change.added_at) == ([], [b"new"], [at])
    if old:
        moved = old.pop(data.draw(st.integers(0, len(old) - 1)))
        change = diff(new, [*(row for row in new if row != moved), moved])
        assert len(change.removed) <= 1
        assert change.removed == change.added


def test_equal_rows_come_and_go() -> None:
    change = diff([b"{}"] * 3, [b"{}"] * 5)
    assert (change.removed_at, change.added_at) == ([], [3, 4])
    assert diff([b"{}"] * 5, [b"{}"] * 3).added == []


@given(st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), max_size=6), st.booleans())
def test_rows_are_split_where_they_end(rows: list[dict[str, object]], ascii_only: bool) -> None:
    texts = [json.dumps(row, ensure_ascii=ascii_only, separators=(",", ":")).encode() for row in rows]
    assert split_rows(b"[" + b",".join(texts) + b"]") == texts


@given(st.text(max_size=3), st.lists(st.tuples(VALUES, TRAPS | st.text(max_size=6)), max_size=6))
def test_rows_that_begin_alike_are_split_where_they_end(name: str, rows: list[tuple[object, str]]) -> None:
    shown = [{name: first, "t": text} for first, text in rows]
    texts = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in shown]
    assert split_rows(b"[" + b",".join(texts) + b"]") == texts


def test_rows_keep_their_bytes() -> None:
    rows = [b'{"n":12345678901234567890123, "j":{ "a" : [1.10,\n"}{"] }}', b'{"a":"\\"},{","b":"\\\\"}']
    assert split_rows(b"[" + b",".join(rows) + b"]") == rows
