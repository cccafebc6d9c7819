"""Percentiles and modes by hand; `tests/sql/corpus/aggregates_ordered_sets.test` compares them with the server's."""

import pytest

from dataflow.ops.aggregate_ordered_sets import mode, percentile_cont, percentile_disc
from dataflow.types import Row


def rows(*values: str) -> list[Row]:
    return [(value,) for value in values]


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.0, "1"), (0.25, "1"), (0.26, "2"), (0.5, "2"), (0.51, "3"), (1.0, "4")]
)
def test_a_discrete_percentile_is_the_first_value_at_or_behind_the_fraction(fraction: float, expected: str) -> None:
    assert percentile_disc(fraction)(rows("1", "2", "3", "4")) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("7",), "7"),
        (("1", "2"), "1.5"),
        (("1", "2", "10"), "2"),
        (("-Infinity", "Infinity"), "NaN"),
        (("-1.7e+308", "1.7e+308"), "Infinity"),
    ],
)
def test_a_median_between_two_values_is_their_middle(values: tuple[str, ...], expected: str) -> None:
    assert percentile_cont(0.5)(rows(*values)) == expected


def test_of_the_most_frequent_values_the_first_is_the_mode() -> None:
    assert mode(rows("a", "b", "b", "c", "c")) == "b"
    assert mode(rows("c", "c", "b", "b", "a")) == "c"
