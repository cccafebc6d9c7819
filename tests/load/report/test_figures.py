"""Figures: what counts as reached, and how they are written."""

import json
from io import StringIO

import pytest
from rich.console import Console

from load.progress import number
from load.report.figures import Figure, Measurement, Result, Skipped, show, to_json


def figure(median: float, goal: float | None, *, more_is_better: bool = True) -> Figure:
    return Figure("b", "a figure", Measurement(median, median - 1, median + 1), "x", goal, more_is_better)


@pytest.mark.parametrize(
    ("median", "goal", "more", "reached"),
    [(2, 2, True, True), (1.9, 2, True, False), (2, 2, False, True), (2.1, 2, False, False), (1, None, True, None)],
)
def test_reached(median: float, goal: float | None, more: bool, reached: bool | None) -> None:
    assert figure(median, goal, more_is_better=more).reached is reached


def test_spread_is_the_middle_and_the_extremes() -> None:
    assert Measurement.of([3, 1, 2, 9, 4]) == Measurement(3, 1, 9)


@pytest.mark.parametrize(("value", "text"), [(0.8567, "0.857"), (12.34, "12.3"), (123456.7, "123,457"), (999, "999")])
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_table_and_json_have_every_result() -> None:
    results: list[Result] = [figure(2, 1), Skipped("other", "wrk is not installed")]
    console = Console(file=StringIO(), width=160)
    show(console, results, "2 cores")
    assert isinstance(console.file, StringIO)
    printed = console.file.getvalue()
    assert "a figure" in printed
    assert "wrk is not installed" in printed
    document = json.loads(to_json(results, "2 cores"))
    assert document["figures"][0]["value"] == {"median": 2, "low": 1, "high": 3}
    assert document["figures"][0]["reached"] is True
    assert document["skipped"] == [{"bench": "other", "reason": "wrk is not installed"}]
