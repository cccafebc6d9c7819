"""Counters of a generator process for one second, and their sums in the parent.

Generators count latencies by their value, cut to eleven significant bits (0.1 %, an HdrHistogram's three digits); the
parent, which does not send requests, puts them into histograms.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hdrh.histogram import HdrHistogram

from load.driver.outcome import LatencySummary, Moment

#: Microseconds and how often, for each page.
Latencies = dict[str, dict[int, int]]

_BITS = 11
_LONGEST_US = 3_600_000_000
_CURVE = (*range(0, 90, 2), *range(90, 99), 99, 99.2, 99.4, 99.6, 99.8, 99.9, 99.95, 99.99, 100)
#: Number of recorded examples of failures.
EXAMPLES = 8


@dataclass(slots=True)
class Tally:
    """One second of one generator process."""

    second: int
    offered: int = 0
    done: int = 0
    failed: int = 0
    hits: int = 0
    misses: int = 0
    #: Visits that were due and had not begun, at the end of the second.
    waiting: int = 0
    latencies: Latencies = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)

    def record(self, page: str, seconds: float) -> None:
        us = int(seconds * 1e6)
        if (cut := us.bit_length() - _BITS) > 0:
            us = us >> cut << cut
        self.done += 1
        try:
            counts = self.latencies[page]
        except KeyError:
            counts = self.latencies[page] = {}
        counts[us] = counts.get(us, 0) + 1

    def fail(self, page: str, reason: str) -> None:
        """A visit that failed; its time is none."""
        self.failed += 1
        example = f"{page}: {reason}"
        if example in self.failures or len(self.failures) < EXAMPLES:
            self.failures[example] += 1

    def add(self, other: "Tally") -> None:
        """Add the counts of another process for the same second."""
        self.offered += other.offered
        self.done += other.done
        self.failed += other.failed
        self.hits += other.hits
        self.misses += other.misses
        self.waiting += other.waiting
        self.failures.update(other.failures)
        for page, counts in other.latencies.items():
            mine = self.latencies.setdefault(page, {})
            for us, count in counts.items():
                mine[us] = mine.get(us, 0) + count


class Distribution:
    """Latencies of a whole run, or of a page of it."""

    def __init__(self, digits: int = 3) -> None:
        self._histogram = HdrHistogram(1, _LONGEST_US, digits)

    def add(self, counts: Mapping[int, int]) -> None:
        for us, count in counts.items():
            self._histogram.record_value(min(max(1, us), _LONGEST_US), count)

    def percentiles_ms(self, percents: Iterable[float]) -> dict[float, float]:
        """The latency below which so many percent are."""
        if self._histogram.total_count == 0:
            return dict.fromkeys(percents, 0.0)
        values = self._histogram.get_percentile_to_value_dict(list(percents))
        return {percent: us / 1000 for percent, us in values.items()}

    def latency(self) -> LatencySummary:
        at = self.percentiles_ms((50, 95, 99, *_CURVE))
        count = int(self._histogram.total_count)
        return LatencySummary(
            count=count,
            mean_ms=self._histogram.get_mean_value() / 1000 if count else 0.0,
            p50_ms=at[50],
            p95_ms=at[95],
            p99_ms=at[99],
            max_ms=at[100],
            curve=tuple((percent / 100, at[percent]) for percent in _CURVE) if count else (),
        )


def moment(tally: Tally, resident_bytes: int, state_bytes: int, stolen_s: float = 0.0) -> Moment:
    """A second as it is reported."""
    second = Distribution(digits=2)
    for counts in tally.latencies.values():
        second.add(counts)
    at = second.percentiles_ms((50, 95, 99))
    return Moment(
        tally.second,
        tally.offered,
        tally.done,
        tally.failed,
        tally.hits,
        tally.misses,
        at[50],
        at[95],
        at[99],
        resident_bytes,
        state_bytes,
        stolen_s,
    )
