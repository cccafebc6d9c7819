"""The columns that a forwarded read takes of the upstream's result, whose ``*`` may stand for others by now."""

import pytest

from dataflow.plan.nodes import Chain, OutputColumn, View
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import Row, ViewId
from service.engine.reads.forwards import rows_of_view
from service.engine.views.registry import Definition, InstalledView, Origin, Status, ViewPlan
from service.ground.errors import ApiError

INT, TEXT, BOOL = SqlType("int4", "integer"), SqlType("text", "text"), SqlType("bool", "boolean")


def view_of(sql: str, status: Status, **columns: SqlType) -> InstalledView:
    chain = Chain("public.t", None, tuple(ColumnRef(i, kind) for i, kind in enumerate(columns.values())))
    view = View("v", sql, chain, (), tuple(OutputColumn(name, i) for i, name in enumerate(columns)))
    return InstalledView(ViewId(1), ViewPlan(view, sql), Definition("v", sql, Origin.HTTP), status)


def rows(view: InstalledView, names: str, *found: Row) -> list[Row]:
    return rows_of_view(view, tuple((name, 0) for name in names.split()), list(found))


@pytest.mark.parametrize("status", [Status.READY, Status.OUTDATED])
def test_added_columns_are_left_out(status: Status) -> None:
    star = view_of("SELECT * FROM t", status, id=INT, name=TEXT)
    assert rows(star, "id added name", ("1", "new", "a")) == [("1", "a")]


def test_a_column_in_the_place_of_another_is_not_taken_for_it() -> None:
    star = view_of("SELECT * FROM t", Status.OUTDATED, id=INT, name=TEXT)
    assert rows(star, "name id", ("a", "1")) == [("1", "a")]
    with pytest.raises(ApiError) as refused:
        rows(star, "id other", ("1", "b"))
    assert (refused.value.code, refused.value.retryable) == ("view_building", True)
    assert refused.value.headers["retry-after"] == "1"


def test_names_of_a_list_of_columns_are_the_database_s_own() -> None:
    listed = view_of("SELECT id, upper(name) FROM t", Status.OUTDATED, id=INT, upper=TEXT)
    assert rows(listed, "id UPPER(name)", ("1", "A")) == [("1", "A")]


@pytest.mark.parametrize(("kind", "text"), [(INT, "a"), (INT, "007"), (BOOL, "1")])
def test_values_of_another_type_have_no_json(kind: SqlType, text: str) -> None:
    listed = view_of("SELECT id, x FROM t", Status.OUTDATED, id=INT, x=kind)
    with pytest.raises(ApiError, match="another type"):
        rows(listed, "id x", ("1", text))
    assert rows(listed, "id x", ("1", None)) == [("1", None)]
