"""Durations of one kind: count, sum, maximum, and a histogram for Prometheus."""

from bisect import bisect_left
from dataclasses import dataclass, field

#: Upper bounds in seconds; the last bucket has no bound.
BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class Latency:
    """*Maintains*: `count` is the sum of `buckets`, which are one more than the bounds."""

    sum_s: float = 0.0
    max_s: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def took(self, duration_s: float) -> None:
        self.sum_s += duration_s
        self.max_s = max(self.max_s, duration_s)
        self.buckets[bisect_left(BOUNDS_S, duration_s)] += 1
