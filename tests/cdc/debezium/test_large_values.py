"""Placeholders of large values, as a connector sent them, in columns of each type."""

from typing import Any

import pytest

from cdc.change import TableLayout
from cdc.column_type import ColumnType
from cdc.debezium.large_values import LargeValues

PLACEHOLDER = "__debezium_unavailable_value"


def of(kind: ColumnType) -> LargeValues:
    return LargeValues(TableLayout(("id", "c"), column_types=(ColumnType("int4"), kind)), PLACEHOLDER)


def array(name: str) -> ColumnType:
    return ColumnType(f"_{name}", element=ColumnType(name))


@pytest.mark.parametrize(
    ("kind", "missing", "present"),
    [
        (ColumnType("text"), [PLACEHOLDER], [None, "", "x"]),
        (ColumnType("jsonb"), [PLACEHOLDER], [None, "null"]),
        (ColumnType("bytea"), [PLACEHOLDER, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="], [None, "", "eA=="]),
        (ColumnType("numeric"), [PLACEHOLDER, None, "0", {"scale": 0, "value": "AA=="}], ["1.5"]),
        (ColumnType("varbit"), [None], ["AQ=="]),
        (array("text"), [[PLACEHOLDER], None, []], [["x"]]),
        (array("uuid"), [["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], None], [["123e4567-e89b-12d3-a456-426655440000"]]),
        (array("int4"), [list(PLACEHOLDER.encode()), None], [[1, 2]]),
        (array("bool"), [None], [[True]]),
        # Too short to be stored out of line.
        (ColumnType("int8"), [], [None, 0]),
        (ColumnType("numeric", precision=12, scale=2), [], [None, "0.00"]),
        (ColumnType("mood", labels=("fine",)), [], [None, "fine"]),
        (ColumnType("bit", length=10), [], [None]),
    ],
)
def test_what_is_missing(kind: ColumnType, missing: list[Any], present: list[Any]) -> None:
    large = of(kind)
    assert large.unsupported == []
    assert [value for value in missing if large.missing({"id": 1, "c": value}) != [1]] == []
    assert [value for value in present if large.missing({"id": 1, "c": value})] == []


@pytest.mark.parametrize(
    "kind",
    [
        ColumnType("hstore"),
        ColumnType("xml"),
        ColumnType("numeric", precision=900),
        ColumnType("bit", length=100),
        array("mood"),
        array("inet"),
        ColumnType("tsrange"),
    ],
)
def test_types_without_a_known_placeholder(kind: ColumnType) -> None:
    assert of(kind).unsupported == ["c"]
