"""The search for the highest rate, against a server whose capacity is known."""

from collections.abc import Iterator

import pytest

from load.driver.search import highest_rate, why_not
from load.processes import RunConditions
from load.sides.side import Side
from tests.load.driver.echo_server import running_echo
from tests.load.driver.workloads import OneView

ANYWHERE = RunConditions(None, None)


@pytest.fixture(scope="module")
def side() -> Iterator[Side]:
    with running_echo() as (echo, _):
        yield echo


def test_the_highest_rate_is_found(side: Side) -> None:
    """Two at a time, 20 ms each: a hundred a second at best; fewer on a busy machine or if p95 counts waiting."""
    told: list[str] = []
    search = highest_rate(
        side,
        OneView("slow"),
        p95_ms=1000,
        seconds=1,
        conditions=ANYWHERE,
        tell=told.append,
        start_rate=320,
        precision=0.5,
        warm_s=0,
        outstanding=2,
    )
    assert search.best is not None
    assert search.best.offered_per_s <= 115
    assert search.best is max((r for r in search.tried if not why_not(r, 1000)), key=lambda r: r.offered_per_s)
    assert len(search.tried) >= 3
    assert [run.offered_per_s for run in search.tried] == sorted(run.offered_per_s for run in search.tried)
    assert "too much: " in told[1]
    assert not search.limited_by_generator


def test_a_side_that_is_never_good(side: Side) -> None:
    search = highest_rate(
        side, OneView("refused"), p95_ms=100, seconds=0.5, conditions=ANYWHERE, tell=print, start_rate=1.5, warm_s=0
    )
    assert search.best is None
    assert len(search.tried) <= 3


def test_the_search_stops_at_the_most_that_is_asked_for(side: Side) -> None:
    search = highest_rate(
        side,
        OneView("hit"),
        p95_ms=5000,
        seconds=0.5,
        conditions=ANYWHERE,
        tell=print,
        start_rate=20,
        most_rate=40,
        warm_s=0,
        before_run=lambda: None,
    )
    assert search.best is not None
    assert len(search.tried) == 2
    assert why_not(search.best, 5000) is None
    assert "p95 was" in str(why_not(search.best, 0))
