"""Measurements of one run of load. Times are milliseconds of *sojourn*: from when a request was due, not from when it
was sent (thesis §6.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

#: Reason why a run stayed below its offered rate.
Limit = Literal["none", "side", "generator"]
#: Below that share of the offered rate a run did not keep up: less may be chance, or the last few answers.
_KEPT_UP = 0.98
#: A generator that uses so much of its cores is what limits.
_GENERATOR_BUSY = 0.9


def limit_of(offered_per_s: float, ended_per_s: float, generator_busy: float) -> Limit:
    """Reason why only `ended_per_s` of the offered visits ended, with success or without."""
    if ended_per_s >= _KEPT_UP * offered_per_s:
        return "none"
    return "generator" if generator_busy >= _GENERATOR_BUSY else "side"


@dataclass(frozen=True, slots=True)
class Moment:
    second: int
    offered: int
    done: int
    failed: int
    hits: int
    misses: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    #: Of the side, at the end of this second.
    resident_bytes: int = 0
    state_bytes: int = 0
    #: CPU time of the machine that others had meanwhile, over all cores.
    stolen_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LatencySummary:
    #: Visits, with those that were never answered: they count with the time they had waited at the end.
    count: int
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    #: (share, ms) along the distribution, for plots.
    curve: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run of a workload at one offered rate."""

    side: str
    #: Visits that were due, and that were answered with success, a second.
    offered_per_s: float
    achieved_per_s: float
    seconds: float
    latency: LatencySummary
    by_page: dict[str, LatencySummary]
    moments: Sequence[Moment]
    failed: int
    hits: int
    misses: int
    #: CPU time of the side's processes and of the generator's.
    server_cpu_s: float
    client_cpu_s: float
    #: Examples of what failed.
    failures: Sequence[str] = field(default=())
    #: Visits that were due, and were not answered when the run ended.
    unanswered: int = 0
    limit: Limit = "none"
    #: Share of the time in which the generator's processes ran or wanted to; near 1 they are part of what was measured.
    generator_busy: float = 0.0

    @property
    def kept_up(self) -> bool:
        """True if the side served the offered rate."""
        return self.limit == "none" and not self.failed

    @property
    def hit_rate(self) -> float | None:
        """Share of hits among the replies that have a cache status."""
        told = self.hits + self.misses
        return self.hits / told if told else None

    @property
    def server_cpu_us(self) -> float:
        """CPU µs of the side for each visit."""
        return self.server_cpu_s / self._answered * 1e6

    @property
    def client_cpu_us(self) -> float:
        """CPU µs of the generator for each visit."""
        return self.client_cpu_s / self._answered * 1e6

    @property
    def _answered(self) -> int:
        return max(1, self.latency.count - self.unanswered)
