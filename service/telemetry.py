"""Logs and metrics.

Logs are structured (structlog), one line each, on standard error. Metrics are counted where things happen, as plain
numbers, gathered by the supervisor, and printed here in Prometheus' text format.

Not here: what is counted (`runtime.counters`, the workers); the ``/metrics`` route (`admin`).
"""

import itertools
import logging
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from structlog.typing import EventDict

from service.settings.sections import LogSettings


class RecentErrors:
    """A processor of log lines that remembers the last warnings and errors of this process, for the console.

    *Maintains*: `seen` counts all that there were.
    """

    def __init__(self, most: int = 50) -> None:
        self._lines: deque[dict[str, str]] = deque(maxlen=most)
        self.seen = 0

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:  # noqa: ARG002
        """Remember a line."""
        if event.get("level") in ("warning", "error", "critical"):
            more = [f"{name}={value}" for name, value in event.items() if name not in _OWN_COLUMNS]
            text = " ".join([str(event.get("event")), *more])
            self.seen += 1
            self._lines.append(
                {
                    "at": str(event["timestamp"]),
                    "level": str(event["level"]),
                    "process": str(event.get("process", "")),
                    "text": text[:1000],
                }
            )
        return event

    def newest_first(self) -> list[dict[str, str]]:
        """Each with ``at``, ``level``, ``process`` and ``text``."""
        return list(reversed(self._lines))


def merged_errors(*of_processes: Iterable[dict[str, str]], most: int = 50) -> list[dict[str, str]]:
    """The last ones of all, the newest first. (Times are texts of one form.)"""
    return sorted(itertools.chain(*of_processes), key=itemgetter("at"), reverse=True)[:most]


_OWN_COLUMNS = frozenset({"event", "level", "timestamp", "process", "exception"})
#: One for each process, as its log is.
RECENT_ERRORS = RecentErrors()


def configure_logging(settings: LogSettings, process: str) -> None:
    """Every line of this process says which `process` it is."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            RECENT_ERRORS,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(process=process)
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )


@dataclass(frozen=True, slots=True)
class Sample:
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

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._families: dict[str, list[Sample]] = {}
        for sample in samples:
            self._families.setdefault(sample.name, []).append(sample)

    def collect(self) -> Iterator[Metric]:
        for name, samples in self._families.items():
            kind = CounterMetricFamily if samples[0].counter else GaugeMetricFamily
            family = kind(name, samples[0].help, labels=[label for label, _ in samples[0].labels])
            for sample in samples:
                family.add_metric([value for _, value in sample.labels], sample.value)
            yield family


def prometheus_text(samples: Iterable[Sample], histograms: Iterable[Histogram] = ()) -> bytes:
    """The body of ``/metrics``."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Samples(samples))
    registry.register(_Histograms(histograms))
    return generate_latest(registry)
