"""Prometheus' text format, in the supervisor only: other processes report plain numbers.

Not here: the counters (`service.protocol.counters`, `service.protocol.stats`); the ``/metrics`` route (`app`).
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class MetricSample:
    """One number with its labels."""

    name: str
    value: float
    help: str
    labels: tuple[tuple[str, str], ...] = ()
    counter: bool = False


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many were at most each of `bounds`, or above them all (one `counts` more), and the sum of all."""

    name: str
    help: str
    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float
    labels: tuple[tuple[str, str], ...] = ()


class _Histograms(Collector):
    """Histograms as Prometheus' metric families, one per name."""

    def __init__(self, histograms: Iterable[Histogram]) -> None:
        self._families: dict[str, list[Histogram]] = {}
        for histogram in histograms:
            self._families.setdefault(histogram.name, []).append(histogram)

    def collect(self) -> Iterator[Metric]:
        for name, histograms in self._families.items():
            labels = [label for label, _ in histograms[0].labels]
            family = HistogramMetricFamily(name, histograms[0].help, labels=labels)
            for histogram in histograms:
                bounds = [*(f"{bound:g}" for bound in histogram.bounds), "+Inf"]
                below = zip(bounds, itertools.accumulate(histogram.counts), strict=True)
                family.add_metric([value for _, value in histogram.labels], list(below), histogram.sum)
            yield family


class _Samples(Collector):
    """The samples as Prometheus' metric families, one per name."""

    def __init__(self, samples: Iterable[MetricSample]) -> None:
        self._families: dict[str, list[MetricSample]] = {}
        for sample in samples:
            self._families.setdefault(sample.name, []).append(sample)

    def collect(self) -> Iterator[Metric]:
        for name, samples in self._families.items():
            kind = CounterMetricFamily if samples[0].counter else GaugeMetricFamily
            family = kind(name, samples[0].help, labels=[label for label, _ in samples[0].labels])
            for sample in samples:
                family.add_metric([value for _, value in sample.labels], sample.value)
            yield family


def prometheus_text(samples: Iterable[MetricSample], histograms: Iterable[Histogram] = ()) -> bytes:
    """The body of ``/metrics``."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(samples))
    registry.register(_Histograms(histograms))
    return generate_latest(registry)
