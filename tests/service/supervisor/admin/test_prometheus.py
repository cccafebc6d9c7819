"""Durations, and what Prometheus reads of them."""

from service.ground.latency import BOUNDS_S, Latency
from service.supervisor.admin.prometheus import Histogram, MetricSample, prometheus_text


def test_durations_are_counted_by_their_bounds() -> None:
    latency = Latency()
    for duration_s in (0.0005, 0.001, 0.003, 60.0):
        latency.took(duration_s)
    assert (latency.count, latency.max_s) == (4, 60.0)
    assert abs(latency.sum_s - 60.0045) < 1e-9
    assert latency.buckets[:3] == [2, 0, 1]
    assert latency.buckets[-1] == 1


def test_a_histogram_is_cumulative() -> None:
    latency = Latency()
    latency.took(0.004)
    latency.took(10.0)
    histogram = Histogram("wait_seconds", "Waits.", BOUNDS_S, latency.buckets, latency.sum_s, (("view", "a"),))
    lines = prometheus_text([MetricSample("up", 1, "Up.")], [histogram]).decode().splitlines()
    assert "up 1.0" in lines
    assert 'wait_seconds_bucket{le="0.002",view="a"} 0.0' in lines
    assert 'wait_seconds_bucket{le="0.005",view="a"} 1.0' in lines
    assert 'wait_seconds_bucket{le="+Inf",view="a"} 2.0' in lines
    assert 'wait_seconds_count{view="a"} 2.0' in lines
