"""Percentiles and modes by hand. `tests/sql/corpus/aggregates_ordered_sets.test` compares them with PostgreSQL's,
`tests/sql/corpus_mariadb/windows_percentiles.test` with MariaDB's."""

import pytest

from dataflow.ops.aggregate_ordered_sets import (
    mariadb_percentile_cont,
    mariadb_percentile_disc,
    mode,
    percentile_cont,
    percentile_disc,
)
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


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (("7",), "7"),
        (("1", "2"), "1.5"),
        (("1.1", "2.25"), "1.675"),
        (("-5", "5"), "0"),
        (("-1e-12",), "0"),
        (("0.00000000015",), "2e-10"),
        (("9.223372036854776e+18",), "100000000"),
        (("-100000001", "-100000001"), "-100000000"),
        (("99999999", "99999999.5"), "99999999.25"),
    ],
)
def test_a_median_of_mariadb_has_ten_decimals_and_a_bound(values: tuple[str, ...], expected: str) -> None:
    assert mariadb_percentile_cont(0.5, 1e8)(rows(*values)) == expected


@pytest.mark.parametrize(
    ("fraction", "count", "expected"), [(0.0, 4, "1"), (0.5, 4, "2"), (0.51, 4, "3"), (1.0, 4, "4"), (0.07, 100, "7")]
)
def test_a_discrete_percentile_of_mariadb_compares_quotients(fraction: float, count: int, expected: str) -> None:
    assert mariadb_percentile_disc(fraction)(rows(*map(str, range(1, count + 1)))) == expected


def test_of_the_most_frequent_values_the_first_is_the_mode() -> None:
    assert mode(rows("a", "b", "b", "c", "c")) == "b"
    assert mode(rows("c", "c", "b", "b", "a")) == "c"
