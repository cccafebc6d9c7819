"""A run of load against a server that does as it is told."""

from collections.abc import Iterator

import pytest

from load.driver.outcome import RunOutcome
from load.driver.run import GeneratorError, run_load
from load.processes import RunConditions
from load.sides.side import Side
from tests.load.driver.echo_server import running_echo
from tests.load.driver.workloads import Faulty, OneView, Rounds

ANYWHERE = RunConditions(None, None)
#: Seconds of a run of which visits are counted, a hundred of them at `RATE`.
SHORT = 0.25
RATE = 400


@pytest.fixture(scope="module")
def side() -> Iterator[Side]:
    with running_echo() as (echo, _):
        yield echo


def test_every_visit_is_counted(side: Side) -> None:
    told: list[str] = []
    outcome = run_load(side, OneView("hit"), rate=480, seconds=1.25, conditions=ANYWHERE, tell=told.append)
    seen = outcome.moments
    due = sum(moment.offered for moment in outcome.moments)
    assert due == pytest.approx(600, abs=120)
    assert outcome.latency.count == due == outcome.hits
    assert (outcome.failed, outcome.unanswered, outcome.misses, outcome.hit_rate) == (0, 0, 0, 1)
    assert outcome.by_page.keys() == {"hit"}
    assert 0 < outcome.latency.p50_ms <= outcome.latency.p95_ms <= outcome.latency.p99_ms <= outcome.latency.max_ms
    assert [moment.second for moment in seen] == [0, 1]
    assert seen[-1].resident_bytes == 7 << 20
    assert seen[-1].state_bytes == 3 << 20
    assert len(told) == 2


def test_several_processes_share_the_rate_and_what_is_warm_does_not_count(side: Side) -> None:
    outcome = run_load(
        side, OneView("miss"), rate=1200, seconds=SHORT, conditions=ANYWHERE, tell=print, warm_s=0.1, processes=2
    )
    assert outcome.latency.count == pytest.approx(300, abs=90)
    assert outcome.misses + outcome.unanswered == outcome.latency.count


def test_the_seed_decides_what_is_visited_and_when() -> None:
    def offered_and_asked() -> tuple[list[int], list[str]]:
        with running_echo() as (echo, requests):
            outcome = run_load(echo, OneView("hit"), rate=RATE, seconds=SHORT, conditions=ANYWHERE, tell=print, seed=5)
            return [moment.offered for moment in outcome.moments], sorted(requests)

    assert offered_and_asked() == offered_and_asked()


def test_rounds_of_requests_are_answered_in_their_order(side: Side) -> None:
    outcome = run_load(side, Rounds(), rate=800, seconds=SHORT, conditions=ANYWHERE, tell=print)
    assert outcome.failed == 0, outcome.failures
    assert outcome.latency.count > 100


def test_a_side_that_is_too_slow_is_said_to_be_and_latency_counts_from_when_visits_were_due(side: Side) -> None:
    # Two at a time, 20 ms each: no more than a hundred a second.
    outcome = run_load(side, OneView("slow"), rate=800, seconds=1, conditions=ANYWHERE, tell=print, outstanding=2)
    assert outcome.limit == "side"
    assert outcome.achieved_per_s <= 105
    assert outcome.unanswered > 300
    assert outcome.latency.count == outcome.offered_per_s
    assert outcome.latency.p50_ms > 200


@pytest.mark.parametrize(("view", "reason"), [("refused", "503 busy"), ("gone", "closed by the server")])
def test_failures_are_counted_and_told(side: Side, view: str, reason: str) -> None:
    outcome = run_load(side, OneView(view), rate=RATE, seconds=SHORT, conditions=ANYWHERE, tell=print)
    assert outcome.failed == outcome.offered_per_s * SHORT
    assert outcome.latency.count == 0
    assert reason in outcome.failures[0]
    assert not outcome.kept_up


def test_a_server_that_never_answers_ends_the_run_all_the_same(side: Side) -> None:
    outcome = run_load(
        side, OneView("silent"), rate=200, seconds=SHORT, conditions=ANYWHERE, tell=print, timeout_s=0.2, outstanding=8
    )
    assert outcome.failed + outcome.unanswered == outcome.offered_per_s * SHORT
    assert "no answer within 0.2 s" in outcome.failures[0]


def test_nobody_listens(side: Side) -> None:
    nowhere = Side("nowhere", "http://127.0.0.1:1", side.writes_url, side.pids, side.resident_bytes, side.state_bytes)
    outcome: RunOutcome = run_load(nowhere, OneView("hit"), rate=200, seconds=SHORT, conditions=ANYWHERE, tell=print)
    assert outcome.failed == outcome.offered_per_s * SHORT
    assert "cannot connect" in outcome.failures[0]


@pytest.mark.parametrize("view", ["chunked", "last"])
def test_every_kind_of_body_is_read(side: Side, view: str) -> None:
    outcome = run_load(side, OneView(view), rate=RATE, seconds=SHORT, conditions=ANYWHERE, tell=print)
    assert (outcome.failed, outcome.hits, outcome.hit_rate) == (0, 0, None), outcome.failures


def test_a_page_that_fails_is_a_failed_visit(side: Side) -> None:
    outcome = run_load(side, Faulty(begins=True), rate=200, seconds=SHORT, conditions=ANYWHERE, tell=print)
    assert outcome.failed == outcome.offered_per_s * SHORT
    assert "faulty: KeyError" in outcome.failures[0]


def test_a_workload_that_cannot_begin_is_an_error(side: Side) -> None:
    with pytest.raises(GeneratorError, match="no stories"):
        run_load(side, Faulty(begins=False), rate=50, seconds=1, conditions=ANYWHERE, tell=print)
