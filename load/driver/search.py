"""Search for the highest rate of a side at which the 95th percentile is within a limit, no visit fails, and all visits
that were due are done.

Doubling finds a rate that is too high, bisection the highest that is not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from load.driver.outcome import RunOutcome
from load.driver.run import run_load
from load.driver.visit import Spec
from load.processes import RunConditions
from load.progress import Tell, number
from load.sides.side import Side

#: A side that cannot do this many visits a second is not looked at more closely.
_LEAST_RATE = 0.5
_MOST_RUNS = 24
#: A side that does so little of what was due is not repeated: that was not by chance.
_HOPELESS = 0.5


@dataclass(frozen=True, slots=True)
class Search:
    #: The run with the highest rate that was good; None: not even the lowest was.
    best: RunOutcome | None
    #: Every run, by rate.
    tried: list[RunOutcome]
    p95_ms: float

    @property
    def limited_by_generator(self) -> bool:
        """True if the side may be capable of more than the generator is: `best` is a lower bound then."""
        return any(run.limit == "generator" for run in self.tried)

    @property
    def verdict(self) -> str:
        """Describes the result for reports, with the reason why the next higher rate failed."""
        found = "nothing" if self.best is None else f"{number(self.best.achieved_per_s)}/s"
        lowest = 0.0 if self.best is None else self.best.offered_per_s
        bad = [run for run in self.tried if run.offered_per_s > lowest and why_not(run, self.p95_ms)]
        return f"{found}; {why_not(bad[0], self.p95_ms)} at {number(bad[0].offered_per_s)}/s" if bad else found


def why_not(run: RunOutcome, p95_ms: float) -> str | None:
    """Describes why a run does not count as within the limit; None if it does."""
    if run.failed:
        return f"{run.failed:,} visits failed ({run.failures[0]})"
    if not run.latency.count:
        return "no visit was due"
    if run.limit != "none":
        return f"{number(run.achieved_per_s)}/s done, limited by the {run.limit}"
    if run.latency.p95_ms > p95_ms:
        return f"p95 was {number(run.latency.p95_ms)} ms"
    return None


def highest_rate(
    side: Side,
    spec: Spec,
    *,
    p95_ms: float,
    seconds: float,
    conditions: RunConditions,
    tell: Tell,
    start_rate: float,
    most_rate: float = 200_000.0,
    precision: float = 0.05,
    warm_s: float = 2.0,
    outstanding: int = 256,
    tries: int = 1,
    before_run: Callable[[], None] | None = None,
) -> Search:
    """Search from `start_rate` until good and bad rates are `precision` apart. A bad run is repeated until it was bad
    `tries` times, since one may be bad by chance; a very bad one is not. `before_run` is called before each. Raises
    `GeneratorError`."""
    tried: list[RunOutcome] = []

    def is_good(rate: float) -> bool:
        reason = None
        for _ in range(tries):
            if before_run is not None:
                before_run()
            run = run_load(
                side,
                spec,
                rate=rate,
                seconds=seconds,
                conditions=conditions,
                tell=tell,
                warm_s=warm_s,
                outstanding=outstanding,
                seed=1 + len(tried),
            )
            tried.append(run)
            reason = why_not(run, p95_ms)
            tell(f"{side.name}: {number(rate)}/s is {'good' if reason is None else f'too much: {reason}'}")
            if reason is None or _is_hopeless(run):
                break
        return reason is None

    low, high = _bracket(is_good, start_rate, most_rate)
    while high is not None and low and high / low > 1 + precision and len(tried) < _MOST_RUNS:
        middle = sqrt(low * high)
        low, high = (middle, high) if is_good(middle) else (low, middle)
    tried.sort(key=lambda run: run.offered_per_s)
    good = [run for run in tried if why_not(run, p95_ms) is None]
    return Search(good[-1] if good else None, tried, p95_ms)


def _is_hopeless(run: RunOutcome) -> bool:
    return run.limit == "side" and run.achieved_per_s < _HOPELESS * run.offered_per_s


def _bracket(is_good: Callable[[float], bool], start: float, most: float) -> tuple[float | None, float | None]:
    """A good rate and a bad one, apart by a factor of two at most; None: there is none."""
    rate = start
    if is_good(rate):
        while rate < most:
            low, rate = rate, min(most, 2 * rate)
            if not is_good(rate):
                return low, rate
        return rate, None
    while rate > _LEAST_RATE:
        high, rate = rate, rate / 2
        if is_good(rate):
            return rate, high
    return None, rate
