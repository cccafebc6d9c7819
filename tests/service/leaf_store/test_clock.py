"""Reads of time windows: bounds that move while the store stays as it is."""

from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from dataflow.engine.effects import LeafExtend
from dataflow.plan.clock_bounds import PRECISE, ClockBound
from dataflow.plan.nodes import Chain, OrderTerm, OutputColumn, Parameter, View
from dataflow.plan.parts import END, Cut, Interval
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import SqlType
from dataflow.types import ViewId
from service.engine.reads.extents import extent_of
from service.leaf_store import request
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
