"""Answers that reads compute from the rows of a time window: from what is stored, by the plan in the catalog."""

from typing import Any

import orjson
import pytest

from dataflow.engine.effects import LeafFill
from dataflow.plan.nodes import View
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view
from dataflow.types import Row, ViewId
from service.leaf_store import request
from service.leaf_store.answer import PageWindow
from service.leaf_store.catalog import describe
from service.leaf_store.writer import LeafWriter

VIEW = ViewId(1)
#: 2024-01-01 12:00:00.
NOON_US = 1_704_110_400_000_000
_KINDS = {"id": "int8", "author": "int8", "title": "text", "price": "numeric", "at": "timestamptz"}
_COLUMNS = tuple(Column(name, SqlType(kind, kind), name == "id") for name, kind in _KINDS.items())
CATALOG = Catalog({"public.t": Table("public.t", _COLUMNS, ((0,),))})
ROWS = [
    ("1", "1", "a", "1.0", "2024-01-01 11:10:00+00"),
    ("2", "1", "b\"'\\é\n", "1.00", "2024-01-01 11:20:00+00"),
    ("3", "2", None, None, "2024-01-01 11:30:00+00"),
    ("4", "2", "a", "2.5", "2024-01-01 11:40:00+00"),
    ("5", None, "c", "0.5", "2024-01-01 11:50:00+00"),
    ("6", "1", "old", "9", "2024-01-01 10:59:59+00"),
]


@pytest.fixture
def time_us(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time, as the one member of a list."""
    times = [NOON_US]
    monkeypatch.setattr(request, "now_us", lambda: times[0])
    return times


def stored(writer: LeafWriter, sql: str) -> View:
    """Register the view and store its rows of the table."""
    view = plan_view("v", sql.format(window="FROM t WHERE at > now() - interval '1 hour'"), CATALOG)
    writer.register(VIEW, view)
    writer.commit([LeafFill(VIEW, (), [_of_relation(view, row) for row in ROWS])], 8, 0)
    return view


def _of_relation(view: View, row: Row) -> Row:
    return tuple(row[column.index] for column in view.relation.columns)  # type: ignore[union-attr]


def answer(writer: LeafWriter, window: PageWindow | None = None) -> tuple[list[dict[str, Any]], str | None]:
    (found,), _ = writer.reader.read([(VIEW, (), window)])
    assert found is not None
    return orjson.loads(found.rows), found.next


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) AS n, sum(price) AS s {window}", [{"n": 5, "s": "5.00"}]),
        (
            "SELECT author, count(*) AS n {window} GROUP BY author HAVING count(*) > 1 ORDER BY author DESC",
            [{"author": 2, "n": 2}, {"author": 1, "n": 2}],
        ),
        (
            "SELECT max(title) AS t {window} GROUP BY author ORDER BY 1 LIMIT 1 OFFSET 2",
            [{"t": "c"}],
        ),
        (
            "SELECT string_agg(title, '-' ORDER BY id DESC) AS t, count(*) FILTER (WHERE price > 1) AS n {window}",
            [{"t": "c-a-b\"'\\é\n-a", "n": 1}],
        ),
        (
            "SELECT count(DISTINCT price) AS n, array_agg(price ORDER BY id) AS p {window}",
            [{"n": 3, "p": ["1.0", "1.00", None, "2.5", "0.5"]}],
        ),
        ("SELECT DISTINCT title AS t {window} ORDER BY title NULLS FIRST LIMIT 2", [{"t": None}, {"t": "a"}]),
        (
            "SELECT id, rank() OVER (PARTITION BY title ORDER BY id) AS r {window}"
            " ORDER BY r DESC, id FETCH FIRST 1 ROWS WITH TIES",
            [{"id": 4, "r": 2}],
        ),
        (
            "SELECT author, sum(sum(price)) OVER (ORDER BY author ROWS UNBOUNDED PRECEDING) AS s {window}"
            " GROUP BY author ORDER BY author",
            [{"author": 1, "s": "2.00"}, {"author": 2, "s": "4.50"}, {"author": None, "s": "5.00"}],
        ),
    ],
)
def test_answers_are_computed_from_the_rows_within(
    writer: LeafWriter, time_us: list[int], sql: str, expected: list[dict[str, Any]]
) -> None:
    view = stored(writer, sql)
    found = writer.reader.catalog().by_name["v"]
    assert found == describe(VIEW, view, found.null_rows, "ready", True)
    assert answer(writer) == (expected, None)
    time_us[0] += 3_600_000_000
    assert answer(writer)[0] == orjson.loads(found.null_rows or "[]")


def test_equal_rows_count_as_often_as_they_are_there(writer: LeafWriter, time_us: list[int]) -> None:
    del time_us
    stored(writer, "SELECT count(*) AS n {window}")
    row = ("2024-01-01 11:30:00+00",)
    writer.commit([LeafFill(VIEW, (), [row, row, row])], 9, 0)
    assert answer(writer) == ([{"n": 3}], None)


def test_pages_are_of_the_answer(writer: LeafWriter, time_us: list[int]) -> None:
    del time_us
    stored(writer, "SELECT author, count(*) AS n {window} GROUP BY author ORDER BY n, author DESC NULLS LAST LIMIT 3")
    pages: list[list[int | None]] = []
    after: str | None = None
    while not pages or after is not None:
        rows, after = answer(writer, PageWindow(2, after))
        pages.append([row["author"] for row in rows])
    assert pages == [[None, 2], [1]]


def test_an_answer_that_fails_is_a_hole(writer: LeafWriter, time_us: list[int]) -> None:
    stored(writer, "SELECT 60 / count(*) AS n {window}")
    assert answer(writer) == ([{"n": 12}], None)
    time_us[0] += 3_600_000_000
    assert writer.reader.read([(VIEW, (), None)])[0] == [None]
