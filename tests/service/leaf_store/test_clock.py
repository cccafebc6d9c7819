"""Reads of time windows: bounds that move while the store stays as it is."""

from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from dataflow.engine.effects import LeafExtend
from dataflow.engine.events import Ahead
from dataflow.plan.clock_bounds import PRECISE, ClockBound
from dataflow.plan.nodes import Chain, OrderTerm, OutputColumn, Parameter, View
from dataflow.plan.parts import END, START, Cut, Interval
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import SqlType
from dataflow.types import ViewId
from service.engine.reads.extents import extent_of
from service.leaf_store import request
from service.leaf_store.answer import PageWindow
from service.leaf_store.catalog import ViewInfo, describe
from service.leaf_store.clock import AHEAD_US, BACK_US
from service.leaf_store.request import request_of
from service.leaf_store.writer import LeafWriter
from service.web.arguments import Arguments

_MOMENT, _INTERVAL, _INT8 = (SqlType(name, name) for name in ("timestamptz", "interval", "int8"))
_COLUMNS = (("id", _INT8), ("author", _INT8), ("at", _MOMENT))
_HOUR_AGO = Call("-", (PRECISE, Literal("01:00:00", _INTERVAL)), _MOMENT)
VIEW = ViewId(1)
#: 2024-01-01 12:00:00.
NOON_US = 1_704_110_400_000_000


def window(*clock: ClockBound, order: tuple[OrderTerm, ...] = ()) -> View:
    return View(
        name="window",
        sql="SELECT …",
        relation=Chain("public.stories", None, tuple(ColumnRef(i, kind) for i, (_, kind) in enumerate(_COLUMNS))),
        parameters=(Parameter("author", 1),),
        output=tuple(OutputColumn(name, i) for i, (name, _) in enumerate(_COLUMNS)),
        order=order,
        clock=clock,
    )


LAST_HOUR = window(ClockBound(2, ">", _HOUR_AGO, "now() - interval '1 hour'"))
BETWEEN = replace(LAST_HOUR, clock=(*LAST_HOUR.clock, ClockBound(2, "<=", PRECISE, "now()")))


#: Of the last hour, by an order column that is no time, and not before their second time.
FILTERED = View(
    name="filtered",
    sql="SELECT …",
    relation=Chain(
        "public.stories", None, tuple(ColumnRef(i, t) for i, t in enumerate((_INT8, _INT8, _MOMENT, _MOMENT)))
    ),
    parameters=(Parameter("author", 1),),
    output=(OutputColumn("id", 0),),
    clock=LAST_HOUR.clock,
    clock_filters=(ClockBound(3, "<=", PRECISE, "now()"),),
)
BY_ID = replace(FILTERED, order=(OrderTerm(0, descending=True),), limit_rows=2)
BY_TIME = replace(FILTERED, order=(OrderTerm(2), OrderTerm(0)), limit_rows=2)
PAST, NOON, SOON = ("2024-01-01 11:59:59+00", "2024-01-01 12:00:00+00", "2024-01-01 12:00:01+00")


def info_of(view: View) -> ViewInfo:
    return describe(VIEW, view, "[]", "ready", True)


def at(clock: str) -> str:
    return f"2024-01-01 {clock}+00"


@pytest.fixture
def time_us(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time, as the one member of a list."""
    times = [NOON_US]
    monkeypatch.setattr(request, "now_us", lambda: times[0])
    return times


def stored(writer: LeafWriter, view: View, *moments: str) -> None:
    """Store rows of author 1 as if a read had filled them at noon."""
    writer.register(VIEW, view)
    start, end = extent_of(info_of(view), ("1",), request_of(info_of(view), ("1",))) or (END, END)
    rows = [(str(n), "1", moment) for n, moment in enumerate(moments)]
    writer.commit([LeafExtend(VIEW, ("1",), rows, (Interval(start, end),))], 8, 0)


def ids(writer: LeafWriter) -> list[int] | None:
    (answer,), _ = writer.reader.read([(VIEW, ("1",), None)])
    return None if answer is None else sorted(row["id"] for row in orjson.loads(answer.rows))


def test_rows_leave_when_their_time_comes(writer: LeafWriter, time_us: list[int]) -> None:
    stored(writer, LAST_HOUR, at("11:00:00.5"), at("11:30:00"), at("13:00:00"))
    for seconds, expected in ((0, [0, 1, 2]), (0.499999, [0, 1, 2]), (0.5, [1, 2]), (1800, [2]), (9000, [])):
        time_us[0] = NOON_US + round(seconds * 1_000_000)
        assert ids(writer) == expected


def test_rows_enter_when_their_time_comes(writer: LeafWriter, time_us: list[int]) -> None:
    stored(writer, BETWEEN, at("11:30:00"), at("12:00:00.000001"), at("12:59:59"))
    for seconds, expected in ((0, [0]), (0.000001, [0, 1]), (1800, [1]), (3599, [1, 2])):
        time_us[0] = NOON_US + round(seconds * 1_000_000)
        assert ids(writer) == expected


def test_a_read_beyond_what_was_filled_is_a_miss(writer: LeafWriter, time_us: list[int]) -> None:
    stored(writer, BETWEEN, at("11:30:00"))
    time_us[0] = NOON_US + AHEAD_US + 1
    assert ids(writer) is None
    # A clock that is a little behind the one of the miss.
    time_us[0] = NOON_US - BACK_US
    assert ids(writer) == [0]
    time_us[0] -= 1
    assert ids(writer) is None


def test_a_miss_fills_a_little_more_than_it_reads(time_us: list[int]) -> None:
    del time_us
    start = Cut((at("10:59:58"),), behind=True)
    assert extent_of(info_of(LAST_HOUR), ("1",), request_of(info_of(LAST_HOUR), ("1",))) == Interval(
        start, Cut((None,), behind=False)
    )
    extent = extent_of(info_of(BETWEEN), ("1",), request_of(info_of(BETWEEN), ("1",)))
    assert extent == Interval(start, Cut((at("13:00:00"),), behind=True))


def test_a_bound_that_goes_back_is_filled(writer: LeafWriter, time_us: list[int]) -> None:
    month_ago = Call("-", (PRECISE, Literal("1 mon", _INTERVAL)), _MOMENT)
    view = window(ClockBound(2, "<=", month_ago, "now() - interval '1 month'"))
    # On March 30 and 31 it is February 29.
    time_us[0] = int(datetime(2024, 3, 30, 23, 30, tzinfo=UTC).timestamp()) * 1_000_000
    stored(writer, view, "2024-02-29 23:29:00+00", "2024-02-29 00:10:00+00")
    assert ids(writer) == [0, 1]
    time_us[0] += BACK_US
    assert ids(writer) == [0, 1]
    time_us[0] += AHEAD_US
    assert ids(writer) == [1]


def test_the_first_rows_begin_where_they_will(time_us: list[int]) -> None:
    del time_us
    newest = replace(BETWEEN, order=(OrderTerm(2, descending=True), OrderTerm(0)), limit_rows=3)
    extent = extent_of(info_of(newest), ("1",), request_of(info_of(newest), ("1",)))
    assert extent is not None
    assert extent.start == Cut((at("13:00:00"),), behind=False)


def filtered(writer: LeafWriter, view: View, *seconds: str | None) -> None:
    """Store rows of author 1, each a minute later than the one before, with these second times."""
    writer.register(VIEW, view)
    start, end = START, END
    rows = [(str(n), "1", at(f"11:{n + 30}:00"), second) for n, second in enumerate(seconds)]
    writer.commit([LeafExtend(VIEW, ("1",), rows, (Interval(start, end),))], 8, 0)


def answered(writer: LeafWriter, window: PageWindow | None = None) -> tuple[list[int], str | None]:
    (answer,), _ = writer.reader.read([(VIEW, ("1",), window)])
    assert answer is not None
    return [row["id"] for row in orjson.loads(answer.rows)], answer.next


@pytest.mark.parametrize(
    ("view", "now", "later", "latest"),
    [
        (FILTERED, [0, 2], [0, 1, 2], [2]),
        (BY_ID, [2, 0], [2, 1], [2]),
        (BY_TIME, [0, 2], [0, 1], [2]),
    ],
)
def test_rows_are_filtered_by_a_second_time(
    writer: LeafWriter, time_us: list[int], view: View, now: list[int], later: list[int], latest: list[int]
) -> None:
    filtered(writer, view, PAST, SOON, NOON, None)
    assert writer.reader.catalog().by_name["filtered"] == info_of(view)
    assert answered(writer) == (now, None)
    time_us[0] += 999_999
    assert answered(writer) == (now, None)
    time_us[0] += 1
    assert answered(writer) == (later, None)
    time_us[0] = NOON_US + 31 * 60_000_000 + 1
    assert answered(writer) == (latest, None)


@pytest.mark.parametrize("view", [replace(BY_ID, limit_rows=None), replace(BY_TIME, limit_rows=None)])
def test_pages_are_of_filtered_rows(writer: LeafWriter, time_us: list[int], view: View) -> None:
    del time_us
    filtered(writer, view, PAST, SOON, NOON, SOON, PAST, None, PAST)
    pages: list[list[int]] = []
    after: str | None = None
    while not pages or after is not None:
        ids, after = answered(writer, PageWindow(2, after))
        pages.append(ids)
    assert pages == ([[6, 4], [2, 0]] if view.order[0].column == 0 else [[0, 2], [4, 6]])


def test_a_page_of_filtered_rows_begins_in_the_order_of_the_engine(writer: LeafWriter, time_us: list[int]) -> None:
    del time_us
    view = replace(BY_TIME, limit_rows=None)
    filtered(writer, view, PAST, SOON, NOON, PAST)
    window = PageWindow(2, answered(writer, PageWindow(2, None))[1])
    extent = extent_of(info_of(view), ("1",), request_of(info_of(view), ("1",), window))
    assert isinstance(extent, Ahead)
    assert extent.start == Cut((at("11:32:00"), "2"), behind=False)


def test_filtered_rows_that_end_too_early_are_a_miss(writer: LeafWriter, time_us: list[int]) -> None:
    del time_us
    writer.register(VIEW, BY_TIME)
    rows = [(str(n), "1", at(f"11:{n + 30}:00"), SOON if n else PAST) for n in range(3)]
    part = Interval(START, Cut((at("11:40:00"),), behind=False))
    writer.commit([LeafExtend(VIEW, ("1",), rows, (part,))], 8, 0)
    assert ids(writer) is None


def test_clients_give_no_time(writer: LeafWriter, time_us: list[int]) -> None:
    stored(writer, LAST_HOUR, at("11:00:00.5"))
    info = writer.reader.catalog().by_name["window"]
    assert info == info_of(LAST_HOUR)
    arguments = Arguments(info, 1000)
    values, _ = arguments.parse(b"author=1")
    assert values == ("1",)
    # The same query string is not the same rows a moment later.
    assert arguments.entry_of(b"author=1") is None
    first = request_of(info, values)
    time_us[0] += 1
    assert request_of(info, values) != first
