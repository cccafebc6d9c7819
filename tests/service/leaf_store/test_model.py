"""The leaf store against a dictionary, under random effects."""

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow.engine.effects import LeafChange, LeafClear, LeafEffect, LeafEvict, LeafFill, LeafFillAll, LeafLoaded
from dataflow.plan.nodes import OrderTerm, View
from dataflow.types import Delta, Key, Row, ViewId
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.layout import RECORD_OVERHEAD_BYTES
from service.leaf_store.writer import LeafWriter
from tests.service.leaf_store.sample_views import make_view

AUTHORS = ("ann", "bob", "k" * 300)
PLAIN, ORDERED, HIDDEN, CUT = ViewId(1), ViewId(2), ViewId(3), ViewId(4)
TOTAL_ORDER = (OrderTerm(0), OrderTerm(1), OrderTerm(3, nulls_first=True))
VIEWS: dict[ViewId, View] = {
    PLAIN: make_view("plain", {"author": 2}),
    ORDERED: make_view("ordered", {"author": 2}, order=(OrderTerm(1, descending=True), OrderTerm(0), OrderTerm(3))),
    HIDDEN: make_view("hidden", {"author": 2}, shown=(0, 1), order=(OrderTerm(3, nulls_first=True),)),
    CUT: make_view(
        "cut",
        {"author": 2},
        order=TOTAL_ORDER,
        limit_rows=2,
        offset_rows=1,
    ),
}
TITLES = st.sampled_from(["", "a", "b" * 400, "b" * 400 + "c"])


class Model:
    """Covered keys with their rows; a full view has every key."""

    def __init__(self) -> None:
        self.rows: dict[ViewId, dict[Key, Counter[Row]]] = {view: {} for view in VIEWS}
        self.full: set[ViewId] = set()

    def covered(self, view: ViewId, key: Key) -> bool:
        return view in self.full or key in self.rows[view]

    def apply(self, effect: LeafEffect) -> None:
        keys = self.rows[effect.view]
        match effect:
            case LeafFill(key=key, rows=rows):
                keys[key] = Counter(rows)
            case LeafFillAll(rows=by_key):
                self.rows[effect.view] = {key: Counter(rows) for key, rows in by_key.items()}
                self.full.add(effect.view)
            case LeafChange(changes=changes):
                for key, (removed, added) in changes.items():
                    keys.setdefault(key, Counter())
                    keys[key].update(added)
                    keys[key].subtract(removed)
            case LeafClear():
                for bag in keys.values():
                    bag.clear()
            case LeafEvict(key=()):
                keys.clear()
                self.full.discard(effect.view)
            case LeafEvict(key=key):
                del keys[key]

    def bag(self, view: ViewId, key: Key) -> list[Row]:
        return list(self.rows[view].get(key, Counter()).elements())


def expected_rows(view: View, rows: list[Row]) -> list[dict[str, object]]:
    """All rows as readers see them, in the order of the view."""
    for term in reversed(view.order):
        column = term.column

        def place(row: Row, column: int = column, nulls_first: bool = term.nulls_first) -> tuple[bool, object]:
            value = row[column]
            number = column in (0, 3)
            null = 0 if number else ""
            return (value is None) != nulls_first, null if value is None else int(value) if number else value

        rows.sort(key=place, reverse=term.descending)
    return [
        {o.name: value if (value := row[o.column]) is None or o.column in (1, 2) else int(value) for o in view.output}
        for row in rows
    ]


def check(writer: LeafWriter, model: Model) -> None:
    for view, plan in VIEWS.items():
        for author in AUTHORS:
            (answer,), _ = writer.reader.read([(view, (author,), None)])
            assert (answer is not None) == model.covered(view, (author,))
            if answer is not None:
                check_answer(writer, view, plan, model.bag(view, (author,)), answer)
    assert writer.total_bytes == scanned_bytes(writer)


def check_answer(writer: LeafWriter, view: ViewId, plan: View, bag: list[Row], answer: StoredAnswer) -> None:
    rows = json.loads(answer.rows)
    expected = expected_rows(plan, bag)
    if plan.limit_rows is not None:
        assert rows == expected[plan.offset_rows :][: plan.limit_rows]
    elif view == ORDERED:
        assert rows == expected
    else:
        assert Counter(map(json.dumps, rows)) == Counter(map(json.dumps, expected))
    # The same rows give the same tag, whichever way they got there.
    if view != CUT:
        assert writer.render(view, bag, ("ann",)).tag == answer.tag
    paged = pages(writer, view, bag)
    if plan.order:
        assert [row for page in paged for row in json.loads(page.rows)] == rows


def pages(writer: LeafWriter, view: ViewId, bag: list[Row]) -> list[StoredAnswer]:
    """The key's rows in pages of one; of an unordered view, nothing."""
    if not VIEWS[view].order or not bag:
        return []
    result: list[StoredAnswer] = []
    token: str | None = None
    key = (bag[0][2],)
    while not result or token is not None:
        (page,), _ = writer.reader.read([(view, key, PageWindow(1, token))])
        assert page is not None
        result.append(page)
        token = page.next
        assert len(result) <= len(bag) + 1
    return result


def scanned_bytes(writer: LeafWriter) -> int:
    with writer.reader.begin() as txn:
        cursor = txn.cursor()
        found = cursor.set_range(b"v")
        total = 0
        while found:
            key, value = cursor.item()
            total += len(key) + len(value) + RECORD_OVERHEAD_BYTES
            found = cursor.next()
        return total


@st.composite
def rows_of(draw: st.DrawFn, author: str) -> Row:
    number = st.integers(-2, 3).map(str)
    return (draw(number), draw(TITLES), author, draw(st.none() | number))


@st.composite
def effects_on(draw: st.DrawFn, model: Model) -> LeafEffect:
    """An effect that an engine whose leaf is `model` may have."""
    view = draw(st.sampled_from(list(VIEWS)))
    kinds = ["fill", "change", "change", "change", "fill_all", "clear", "evict", "evict_all", "loaded"]
    kind = draw(st.sampled_from(kinds))
    author = draw(st.sampled_from(AUTHORS))
    key: Key = (author,)
    bags = st.lists(rows_of(author), max_size=3)
    if kind == "change" and model.covered(view, key):
        have = model.bag(view, key)
        removed = draw(st.lists(st.sampled_from(range(len(have))), unique=True)) if have else []
        delta: Delta = ([have[i] for i in removed], draw(bags))
        return LeafChange(view, {key: delta, (None,): ([], [("1", "", None, "1")])})
    if kind == "fill_all":
        return LeafFillAll(view, {(a,): draw(st.lists(rows_of(a), max_size=3)) for a in AUTHORS[:2]})
    if kind == "clear":
        return LeafClear(view)
    if kind == "loaded" and view in model.full:
        return LeafLoaded(view)
    if kind == "evict_all" and view in model.full:
        return LeafEvict(view, ())
    if kind == "evict" and view not in model.full and model.covered(view, key):
        return LeafEvict(view, key)
    return LeafFill(view, key, draw(bags))


@given(st.data())
@settings(max_examples=150)
def test_leaf_store_is_the_model(data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        writer = LeafWriter(Path(directory), map_bytes=1 << 22)
        for view, plan in VIEWS.items():
            writer.register(view, plan)
        model = Model()
        for position in range(1, data.draw(st.integers(2, 8))):
            effects = []
            for _ in range(data.draw(st.integers(1, 4))):
                effect = data.draw(effects_on(model))
                model.apply(effect)
                effects.append(effect)
            writer.commit(effects, position, 0)
            check(writer, model)
        writer.close()
