"""The comparison of eviction policies, on small traces."""

from array import array

import pytest

from load.experiments.policies import COMPARED, run
from load.micro.policy_replay import POLICIES, replay
from load.report.figures import Figure
from load.traces import vote
from load.traces.trace import Trace, TracedKey
from load.workloads.vote import VoteSpec


def trace_of(reads: list[int], weights: list[int]) -> Trace:
    keys = [TracedKey("v", str(number), weight, 2.0) for number, weight in enumerate(weights)]
    return Trace("small", "made up", keys, array("L", reads))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sample", [0, 3])
def test_what_fits_misses_once(policy: str, sample: int) -> None:
    replayed = replay(policy, trace_of([0, 1, 2] * 5, [1, 1, 1]), 1.0, weighted=False, sample=sample)
    assert (replayed.reads, replayed.hits, replayed.hit_rate) == (15, 12, 0.8)
    assert (replayed.cost, replayed.saved_rate) == (15.0, 0.8)


def test_least_recently_used_loses_to_a_loop() -> None:
    replayed = replay("lru", trace_of([0, 1, 2, 3] * 5, [1] * 4), 0.75, weighted=False)
    assert replayed.hits == 0


def test_bytes_are_what_counts_if_weighed() -> None:
    trace = trace_of([0, 1, 0, 1, 2, 1], [10, 10, 80])
    assert replay("lru", trace, 0.2, weighted=True).hits == 2
    assert replay("lru", trace, 0.9, weighted=True).hits == 3
    assert replay("lru", trace, 1.0, weighted=True).saved == 6.0


def test_the_report_compares_all_policies_at_all_sizes() -> None:
    told: list[str] = []
    report = run([vote.steady(VoteSpec(2000), 5000, 1), trace_of([0, 1] * 200, [1, 3])], COMPARED, tell=told.append)
    assert len(report.results) == len(report.plots) == len(told) == 2 + 3, "Vote's keys are alike: none is weighed."
    assert [len(table.rows) for table in report.tables] == [2] + [len(COMPARED)] * 5
    assert report.tables[1].columns == ("memory", *POLICIES)
    first = report.results[0]
    assert isinstance(first, Figure)
    assert first.reached
