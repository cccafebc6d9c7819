"""Comparison of an answer with the database's."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from service.demo.check import DemoDifference, same_rows

MOMENT = datetime(2025, 1, 2, 3, 4, 5, 600000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("json", "value"),
    [
        (1, 1),
        ("a", "a"),
        (None, None),
        (True, True),
        ("1.50", Decimal("1.50")),
        ("2025-01-02T03:04:05.6Z", MOMENT),
        ("2025-01-02T03:04:05.600000+00:00", MOMENT),
        ("2025-01-02", date(2025, 1, 2)),
    ],
)
def test_the_same(json: object, value: object) -> None:
    assert same_rows([{"a": json}], [{"a": value}])


@pytest.mark.parametrize(
    ("json", "value"), [(1, 2), ("1", 1), (1, True), (None, 0), ("", None), (1.5, Decimal("1.5")), (0, False)]
)
def test_not_the_same(json: object, value: object) -> None:
    assert not same_rows([{"a": json}], [{"a": value}])


def test_order_of_rows_counts() -> None:
    assert not same_rows([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}])


def test_order_and_names_of_columns_count() -> None:
    assert not same_rows([{"a": 1, "b": 1}], [{"b": 1, "a": 1}])


def test_a_missing_row_is_a_difference() -> None:
    assert not same_rows([], [{"a": 1}])
    assert not same_rows([{"a": 1}], [])


def test_a_difference_says_where_it_is() -> None:
    difference = DemoDifference("v", {"id": "7"}, "pg:0/1", [{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 3}])
    assert "row 1 is [{'a': 2}] from the service and [{'a': 3}] from the database" in str(difference)
