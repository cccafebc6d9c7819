"""Keys covered in part, ranges, lists, picked rows, LIMIT parameters and pages, against all rows sorted in Python."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow.engine.effects import LeafChange, LeafClear, LeafEffect, LeafEvict, LeafExtend, LeafFill
from dataflow.plan.nodes import OrderTerm, RangeParameter, View, column_types
from dataflow.plan.parts import END, START, WHOLE, Cut, Interval
from dataflow.state.ordering import Ordering
from dataflow.types import Key, Row, Value, ViewId
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.catalog import describe
from service.leaf_store.request import LeafRequest, Values, request_of
from service.leaf_store.writer import LeafWriter
from tests.service.leaf_store.sample_views import make_view
from tests.service.leaf_store.test_model import scanned_bytes

RANGED, RESORTED, TOP, PAGED, LISTED, UNORDERED, PICKED = (ViewId(n) for n in range(1, 8))
#: Total as far as readers see it: votes, then title, then id.
BY_VOTES = (OrderTerm(3, descending=True, nulls_first=True), OrderTerm(1), OrderTerm(0))
VOTES = (RangeParameter("least", 3, ">="), RangeParameter("below", 3, "<"))
VIEWS: dict[ViewId, View] = {
    RANGED: make_view("ranged", {"author": 2}, order=BY_VOTES, ranges=VOTES),
    RESORTED: make_view(
        "resorted",
        {"author": 2},
        order=(OrderTerm(1), OrderTerm(0), OrderTerm(3)),
        limit_rows=3,
        ranges=(RangeParameter("above", 3, ">"), RangeParameter("most", 3, "<="), RangeParameter("least", 3, ">=")),
    ),
    TOP: make_view("top", {"author": 2}, order=BY_VOTES, limit_rows=3, offset_rows=1),
    PAGED: make_view("paged", {"author": 2}, order=BY_VOTES, limit_parameter="n", offset_parameter="m"),
    LISTED: make_view("listed", {"authors": 2}, lists=("authors",), order=(*BY_VOTES, OrderTerm(2)), limit_rows=4),
    UNORDERED: make_view("unordered", {"author": 2}, ranges=VOTES[:1]),
    PICKED: make_view("picked", {"authors": 2}, within={"title": 1, "votes": 3}, lists=("authors", "votes")),
}
AUTHORS = ("ann", "bob")
TITLES = st.sampled_from(["a", "b", "b" * 400, "b" * 400 + "c"])
NUMBERS = st.integers(-2, 3).map(str)
_OPERATORS = {">": int.__gt__, ">=": int.__ge__, "<": int.__lt__, "<=": int.__le__}


class Model:
    """Model of the upstream's rows of each key, and of the intervals that the leaf covers."""

    def __init__(self) -> None:
        self.rows: dict[tuple[ViewId, Key], Counter[Row]] = {}
        self.covered: dict[tuple[ViewId, Key], list[Interval]] = {}
        #: Those that were asked for since they changed, sorted.
        self._bags: dict[tuple[ViewId, Key], list[Row]] = {}

    def bag(self, view: ViewId, key: Key) -> list[Row]:
        at = (view, key)
        if at not in self._bags:
            self._bags[at] = sorted(self.rows.get(at, Counter()).elements(), key=ordering(view).place_of_row)
        return self._bags[at]

    def change(self, view: ViewId, key: Key, removed: list[Row], added: list[Row]) -> None:
        bag = self.rows.setdefault((view, key), Counter())
        bag.update(added)
        bag.subtract(removed)
        self._bags.pop((view, key), None)

    def clear(self, view: ViewId) -> None:
        for at in [at for at in self.rows if at[0] == view]:
            self.rows[at].clear()
            self._bags.pop(at, None)

    def known(self, view: ViewId, key: Key) -> list[Row]:
        intervals = self.covered.get((view, key), [])
        return [row for row in self.bag(view, key) if any(inside(view, row, interval) for interval in intervals)]


@cache
def ordering(view: ViewId) -> Ordering:
    plan = VIEWS[view]
    return Ordering(plan.storage_order, column_types(plan.relation))


@cache
def answer_ordering(view: ViewId) -> Ordering:
    plan = VIEWS[view]
    return Ordering(plan.order, column_types(plan.relation))


@cache
def request(view: ViewId, values: Values) -> LeafRequest:
    return request_of(describe(view, VIEWS[view], "[]", "ready", True), values)


def inside(view: ViewId, row: Row, interval: Interval) -> bool:
    order = ordering(view)
    end = order.place(interval.end)
    return (order.place(interval.start) or b"") <= order.place_of_row(row) and (
        end is None or order.place_of_row(row) < end
    )


def within(view: ViewId, part: Interval, interval: Interval) -> bool:
    order = ordering(view)
    end, covered_end = order.place(part.end), order.place(interval.end)
    starts = (order.place(interval.start) or b"") <= (order.place(part.start) or b"")
    return starts and (covered_end is None or (end is not None and end <= covered_end))


def joined(view: ViewId, intervals: list[Interval]) -> list[Interval]:
    """Disjoint, ascending, not adjacent."""
    order = ordering(view)

    def end_of(interval: Interval) -> tuple[bool, bytes]:
        place = order.place(interval.end)
        return place is None, place or b""

    result: list[Interval] = []
    for interval in sorted(intervals, key=lambda i: order.place(i.start) or b""):
        if result and (False, order.place(interval.start) or b"") <= end_of(result[-1]):
            result[-1] = Interval(result[-1].start, max(result[-1], interval, key=end_of).end)
        else:
            result.append(interval)
    return result


def expected(view: ViewId, plan: View, model: Model, values: Values) -> list[Row]:
    """The whole answer, by filtering, sorting and cutting all rows."""
    first, *rest = values
    if first is None or (plan.ranges and None in rest):
        return []
    keys = dict.fromkeys(first if isinstance(first, tuple) else (first,))
    rows = [row for key in keys for row in model.bag(view, (key,))]
    for parameter, value in zip(plan.within, rest, strict=False):
        rows = [r for r in rows if r[parameter.column] in (value if isinstance(value, tuple) else (value,))]
        rows = [r for r in rows if r[parameter.column] is not None]
    for bound, value in zip(plan.ranges, rest, strict=False):
        assert isinstance(value, str)
        rows = [
            r for r in rows if (v := r[bound.column]) is not None and _OPERATORS[bound.operator](int(v), int(value))
        ]
    rows.sort(key=answer_ordering(view).place_of_row)
    limit_rows, offset_rows = plan.limit_rows, plan.offset_rows
    if plan.limit_parameter:
        limit_rows, offset_rows = (None if value is None else int(str(value)) for value in rest)  # type: ignore[assignment]
    return rows[offset_rows or 0 :][:limit_rows]


def shown(rows: list[Row]) -> list[dict[str, object]]:
    names = ("id", "title", "author", "votes")
    return [
        {n: v if v is None or n in ("title", "author") else int(v) for n, v in zip(names, row, strict=True)}
        for row in rows
    ]


def reads(view: ViewId) -> Iterator[Values]:
    """Values of the view's parameters, in its order."""
    if view == LISTED:
        yield from ((("ann",),), (("ann", "bob"),), (("bob", None, "bob"),), ((),))
        return
    if view == PICKED:
        for title in ("a", "b" * 400, None):
            for votes in (("1",), ("0", None, "2", "0"), (), ("-2", "-1", "0", "1", "2", "3")):
                yield from (((author,), title, votes) for author in AUTHORS)
                yield AUTHORS, title, votes
        return
    for author in (*AUTHORS, None):
        match view:
            case 1:
                yield from ((author, a, b) for a in ("-1", "0", "2", None) for b in ("0", "3"))
            case 2:
                yield from ((author, a, b, c) for a in ("-1", "1") for b in ("2", "-2") for c in ("-2", "2"))
            case 4:
                yield from ((author, a, b) for a in ("0", "2", None) for b in ("0", "1", None))
            case 6:
                yield from ((author, a) for a in ("-1", "2"))
            case _:
                yield (author,)


def check(writer: LeafWriter, model: Model) -> None:
    for view, plan in VIEWS.items():
        for values in reads(view):
            check_read(writer, model, view, plan, values)
    assert writer.total_bytes == scanned_bytes(writer)


def check_read(writer: LeafWriter, model: Model, view: ViewId, plan: View, values: Values) -> None:
    answer = read(writer, view, values, None)
    wanted = expected(view, plan, model, values)
    want = shown(wanted)
    if answer is None:
        assert not enough(view, plan, model, values)
        return
    rows = json.loads(answer.rows)
    if view in (UNORDERED, PICKED):
        assert Counter(map(json.dumps, rows)) == Counter(map(json.dumps, want))
    else:
        assert rows == want
    if request(view, values).keys and view != UNORDERED:
        assert writer.render(view, wanted, values).tag == answer.tag
    if view in (UNORDERED, PICKED):
        return
    paged: list[object] = []
    token: str | None = None
    for _ in range(len(want) + 1):
        page = read(writer, view, values, PageWindow(2, token))
        if page is None:
            return
        paged += json.loads(page.rows)
        assert (page.next is None) == (len(paged) == len(want))
        assert page.next != token or token is None
        token = page.next
        if token is None:
            break
    assert paged == want


def read(writer: LeafWriter, view: ViewId, values: Values, window: PageWindow | None) -> StoredAnswer | None:
    (answer,), _ = writer.reader.read([(view, values, window)])
    return answer


def enough(view: ViewId, plan: View, model: Model, values: Values) -> bool:
    """Return whether what is covered certainly has the answer: all of each key, or its first rows."""
    asked = request(view, values)
    for (key,) in asked.keys:
        intervals = model.covered.get((view, (key,)), [])
        if any(within(view, asked.part, interval) for interval in intervals):
            continue
        if view not in (TOP, LISTED) or not intervals or intervals[0].start != START:
            return False
        need = plan.offset_rows + (plan.limit_rows or 0)
        if sum(inside(view, row, intervals[0]) for row in model.bag(view, (key,))) < need:
            return False
    return True


@st.composite
def rows_of(draw: st.DrawFn, author: str) -> Row:
    return (draw(NUMBERS), draw(TITLES), author, draw(st.none() | NUMBERS))


@st.composite
def cuts(draw: st.DrawFn, view: ViewId) -> Cut:
    behind = draw(st.booleans())
    value = draw(st.none() | NUMBERS)
    values: tuple[Value, ...] = (value,)
    if view in (RANGED, TOP) and draw(st.booleans()):
        values = (value, draw(TITLES), draw(NUMBERS))
    return draw(st.sampled_from([START, END, Cut(values, behind), Cut(values, behind)]))


@st.composite
def effects_on(draw: st.DrawFn, model: Model) -> LeafEffect | None:
    """An effect that an engine may have, done to the model too."""
    view = draw(st.sampled_from(list(VIEWS)))
    author = draw(st.sampled_from(AUTHORS))
    key: Key = (author,)
    at = (view, key)
    kind = draw(st.sampled_from(["extend", "extend", "extend", "change", "change", "fill", "clear", "evict"]))
    if kind == "change":
        have = model.bag(view, key)
        removed = [have[i] for i in draw(st.lists(st.sampled_from(range(len(have))), unique=True))] if have else []
        added = draw(st.lists(rows_of(author), max_size=4))
        model.change(view, key, removed, added)
        if at not in model.covered:
            return None
        known = [[r for r in rows if any(inside(view, r, i) for i in model.covered[at])] for rows in (removed, added)]
        return LeafChange(view, {key: (known[0], known[1])})
    if kind == "clear":
        model.clear(view)
        return LeafClear(view)
    if kind == "evict":
        model.covered.pop(at, None)
        return LeafEvict(view, key)
    if kind == "fill":
        model.covered[at] = [WHOLE]
        return LeafFill(view, key, model.bag(view, key))
    return draw(extensions(model, view, key))


@st.composite
def extensions(draw: st.DrawFn, model: Model, view: ViewId, key: Key) -> LeafExtend | None:
    order = ordering(view)
    ends = sorted([draw(cuts(view)), draw(cuts(view))], key=lambda c: (order.place(c) is None, order.place(c) or b""))
    if order.place(ends[0]) == order.place(ends[1]):
        return None
    before = model.known(view, key)
    old = model.covered.get((view, key), [])
    covered = joined(view, [*old, Interval(ends[0], ends[1])])
    if (order.place(covered[0].start), order.place(covered[0].end)) == (b"", None):
        covered = [WHOLE]
    model.covered[view, key] = covered
    more = Counter(model.known(view, key)) - Counter(before)
    return LeafExtend(view, key, list(more.elements()), tuple(covered))


@given(st.data())
@settings(max_examples=200)
def test_parts_are_the_model(data: st.DataObject) -> None:
    with TemporaryDirectory() as directory:
        writer = LeafWriter(Path(directory), map_bytes=1 << 22)
        for view, plan in VIEWS.items():
            writer.register(view, plan)
        model = Model()
        for position in range(1, data.draw(st.integers(2, 12))):
            drawn = [data.draw(effects_on(model)) for _ in range(data.draw(st.integers(1, 4)))]
            writer.commit([effect for effect in drawn if effect is not None], position, 0)
            check(writer, model)
        writer.close()


def test_rows_are_not_picked_beyond_what_is_covered(tmp_path: Path) -> None:
    writer = LeafWriter(tmp_path, map_bytes=1 << 22)
    writer.register(PICKED, VIEWS[PICKED])
    part = Interval(START, Cut(("b",), behind=False))
    writer.commit([LeafExtend(PICKED, ("ann",), [], (part,))], 1, 0)
    assert read(writer, PICKED, (("ann",), "c", ("1",)), None) is None
    writer.close()
