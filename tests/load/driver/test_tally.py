"""Counting latencies: nothing lost, three digits kept."""

from random import Random

import pytest

from load.driver.tally import EXAMPLES, Distribution, Tally, moment


def test_percentiles_have_three_digits() -> None:
    random = Random(3)
    seconds = sorted(random.lognormvariate(-6, 1.5) for _ in range(20_000))
    tally = Tally(0)
    for value in seconds:
        tally.record("page", value)
    distribution = Distribution()
    distribution.add(tally.latencies["page"])
    latency = distribution.latency()
    assert latency.count == 20_000
    assert latency.mean_ms == pytest.approx(sum(seconds) / 20, rel=0.002)
    for percent, ms in ((50, latency.p50_ms), (95, latency.p95_ms), (99, latency.p99_ms)):
        assert ms == pytest.approx(seconds[20_000 * percent // 100] * 1000, rel=0.01)
    assert latency.max_ms == pytest.approx(seconds[-1] * 1000, rel=0.002)
    shares, values = zip(*latency.curve, strict=True)
    assert list(shares) == sorted(shares)
    assert list(values) == sorted(values)
    assert shares[-1] == 1


def test_few_values_are_kept_for_many_latencies() -> None:
    tally = Tally(0)
    for us in range(1_000_000, 2_000_000, 7):
        tally.record("page", us / 1e6)
    assert len(tally.latencies["page"]) <= 2048
    assert sum(tally.latencies["page"].values()) == tally.done


def test_processes_add_up() -> None:
    one, two = Tally(3, offered=5, hits=2), Tally(3, offered=7, misses=1)
    one.record("a", 0.001)
    two.record("a", 0.001)
    two.record("b", 0.002)
    two.fail("b", "503")
    one.add(two)
    assert (one.offered, one.done, one.failed, one.hits, one.misses) == (12, 3, 1, 2, 1)
    assert one.latencies == {"a": {1000: 2}, "b": {2000: 1}}
    assert one.failures == {"b: 503": 1}
    told = moment(one, 7, 8)
    assert (told.second, told.offered, told.resident_bytes, told.state_bytes) == (3, 12, 7, 8)
    assert 0.99 < told.p50_ms < 1.02


def test_examples_of_failures_are_few() -> None:
    tally = Tally(0)
    for number in range(1000):
        tally.fail("page", f"reason {number}")
    tally.fail("page", "reason 0")
    assert tally.failed == 1001
    assert len(tally.failures) == EXAMPLES
    assert tally.failures["page: reason 0"] == 2


def test_no_visits_have_no_latency() -> None:
    assert Distribution().latency().count == 0
    assert Distribution().latency().curve == ()
    assert moment(Tally(0), 0, 0).p95_ms == 0
