"""A closed loop sends as much as is answered, and fails where an answer does."""

from collections.abc import Iterator

import pytest

from load.driver.visit import get
from load.experiments.closed_loop import Loop, LoopError, run_loop
from load.sides.side import Side
from tests.load.driver.echo_server import running_echo


@pytest.fixture
def echo() -> Iterator[tuple[Side, list[str]]]:
    with running_echo() as side_and_requests:
        yield side_and_requests


def requests_of(*views: str) -> list[bytes]:
    return [get(view, {"n": n}).request for n, view in enumerate(views)]


def test_all_are_sent_once(echo: tuple[Side, list[str]]) -> None:
    side, seen = echo
    looped = run_loop(Loop(side.reads_url, requests_of("hit", "miss", "slow", "hit"), 30, once=True, connections=3))
    assert (looped.requests, looped.hits, len(seen)) == (4, 2, 4)
    assert sorted(seen) == [f"/v1/views/{view}?n={n}" for view, n in (("hit", 0), ("hit", 3), ("miss", 1), ("slow", 2))]
    assert looped.seconds < 30
    assert looped.per_second == looped.requests / looped.seconds


def test_they_are_sent_over_and_over_until_the_time_is_over(echo: tuple[Side, list[str]]) -> None:
    side, seen = echo
    looped = run_loop(Loop(side.reads_url, requests_of("slow", "hit"), 0.2, connections=2))
    assert looped.requests == len(seen) > 4
    assert looped.seconds >= 0.2
    assert looped.client_cpu_s > 0


@pytest.mark.parametrize(("view", "reason"), [("refused", "503 busy"), ("gone", "closed by the server")])
def test_an_answer_that_is_none_is_an_error(echo: tuple[Side, list[str]], view: str, reason: str) -> None:
    with pytest.raises(LoopError, match=reason):
        run_loop(Loop(echo[0].reads_url, requests_of("hit", view), 5))


def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LoopError, match="cannot connect"):
        run_loop(Loop("http://127.0.0.1:1", requests_of("hit"), 5))
