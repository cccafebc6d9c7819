"""Figures, tables and plots of a change of the number of shards: before, during and after it."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from load.driver.audit import AuditResult
from load.experiments.resharding_clients import FailedRead, ReadAnswer
from load.progress import number
from load.report.figures import Figure, Measurement
from load.report.plots import Plot, PlotLine, ReportTable

BENCH = "resharding"
#: A pod that is started takes from the machine, here all pods' one.
BEFORE, STARTING, DURING, AFTER = PHASES = ("before", "a pod starts", "keys move", "after")
_EXAMPLES = 20
#: With random keys, all shards are asked much the same.
_UNEVEN = 1.5
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class GatewaySample:
    """Counts of a moment, since the start."""

    at: float
    #: Of all pods: keys that were filled, and statements that the database was asked for that.
    upqueries: int
    lookups: int
    #: What the gateway asked of each shard.
    requests: tuple[int, ...]
    #: Shards that the gateway's workers know, at least; and whether some keys are still to move.
    shards: int
    moving: bool


def sample_of(said: dict[str, Any], at: float) -> GatewaySample:
    """``GET /v1/stats`` of a gateway: its workers, and all pods together."""
    workers: list[dict[str, Any]] = list(said["gateway"].values())
    known = min((int(worker["shards"]) for worker in workers), default=0)
    asked = [sum(int(worker["requests"].get(str(shard), 0)) for worker in workers) for shard in range(known)]
    return GatewaySample(
        at=at,
        upqueries=sum(int(view["upqueries"]) for view in said["views"].values()),
        lookups=int(said["counters"]["lookups"]),
        requests=tuple(asked),
        shards=known,
        moving=any(worker["moving"] for worker in workers),
    )


@dataclass(slots=True)
class ReshardingRun:
    """All measurements. Times are of `monotonic()`."""

    begin: float = 0.0
    #: When new pods were started, when they were there and the gateway's file had the new number, and when all keys had
    #: their homes.
    added: float = 0.0
    changed: float = 0.0
    moved: float = 0.0
    end: float = 0.0
    samples: list[GatewaySample] = field(default_factory=list)
    answers: list[ReadAnswer] = field(default_factory=list)
    failures: list[FailedRead] = field(default_factory=list)
    #: Of answers, what is wrong; and of each, how many seconds it was behind the database.
    wrong: list[str] = field(default_factory=list)
    behind: list[float] = field(default_factory=list)
    #: Transactions.
    written: int = 0
    #: At the end, nobody writing.
    compared: AuditResult = field(default_factory=lambda: AuditResult(0, 0))

    def between(self, phase: str) -> tuple[float, float]:
        """When a phase begins and ends."""
        phases = {
            BEFORE: (self.begin, self.added),
            STARTING: (self.added, self.changed),
            DURING: (self.changed, self.moved),
            AFTER: (self.moved, self.end),
        }
        return phases[phase]


def figures(found: ReshardingRun) -> list[Figure]:
    """Counts that must be zero, and what the change costs."""
    moved_s = found.moved - found.changed
    before, during = (percentile(latencies(found, phase), 95) for phase in (BEFORE, DURING))
    rates = [per_second(found, phase, _upqueries) for phase in (BEFORE, DURING, AFTER)]
    read = len(found.answers)

    def less(name: str, value: float, unit: str, detail: str, goal: float | None = None) -> Figure:
        return Figure(BENCH, name, Measurement.of([value]), unit, goal, more_is_better=False, detail=detail)

    compared = f"of {read:,}, each compared at its version while {found.written:,} transactions came"
    at_end = f"of {found.compared.compared:,}, compared with the database"
    upqueries = f"{number(rates[0])}/s before, {number(rates[2])}/s after"
    return [
        less("wrong answers", len(found.wrong), "", compared, 0.0),
        less("stories that are wrong at the end", found.compared.different, "", at_end, 0.0),
        less("reads that failed", len(found.failures), "", f"of {read + len(found.failures):,}", 0.0),
        Figure(BENCH, "until all keys have their homes", Measurement.of([moved_s]), "s"),
        less(
            "busiest shard, against an even share, after",
            _uneven(found),
            "x",
            "of the gateway's requests",
            _UNEVEN,
        ),
        less("p95 while keys move", during, "ms", f"{number(before)} ms before"),
        less("upqueries a second while keys move", rates[1], "/s", upqueries),
    ]


def tables(found: ReshardingRun) -> list[ReportTable]:
    """The phases beside each other; what was wrong, and what failed."""
    columns = (
        "phase",
        "s",
        "reads/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "hits",
        "s behind, p95",
        "upqueries/s",
        "statements/s",
    )
    made = [ReportTable("Before, during and after", columns, [_row(found, phase) for phase in PHASES])]
    if examples := [*found.wrong, *found.compared.examples]:
        made.append(ReportTable("Wrong", ("what",), [(text[:_LONGEST],) for text in examples[:_EXAMPLES]]))
    if found.failures:
        told = [(f"{failure.at - found.begin:.1f}", failure.reason[:_LONGEST]) for failure in found.failures]
        made.append(ReportTable("Failed", ("after s", "why"), told[:_EXAMPLES]))
    return made


def plots(found: ReshardingRun) -> list[Plot]:

    def plot(title: str, unit: str, lines: Sequence[PlotLine], caption: str = "") -> Plot:
        marks = (
            (found.added - found.changed, "a pod starts"),
            (0.0, "the gateway reads its new file"),
            (found.moved - found.changed, "all keys have their homes"),
        )
        return Plot(title, "s after the change of the file", unit, lines, caption, marks=marks, y_range=(0, None))

    return [
        plot("Latency of each second", "ms", [_latency(found, 50), _latency(found, 95)]),
        plot(
            "Upqueries",
            "/s",
            [_rates(found, "keys filled", _upqueries), _rates(found, "statements", _lookups)],
            "Keys that move are filled again at their new homes, when they are read.",
        ),
        plot(
            "Requests of the gateway",
            "/s",
            [
                _rates(found, f"shard {shard}", partial(_requests, shard=shard))
                for shard in range(max((len(sample.requests) for sample in found.samples), default=0))
            ],
        ),
    ]


def latencies(found: ReshardingRun, phase: str) -> list[float]:
    """Latencies of the answers of a phase, ascending."""
    begin, end = found.between(phase)
    return sorted(answer.ms for answer in found.answers if begin <= answer.at < end)


def per_second(found: ReshardingRun, phase: str, value: Callable[[GatewaySample], float]) -> float:
    """Mean increase of a count per second in a phase."""
    begin, end = found.between(phase)
    inside = [sample for sample in found.samples if begin <= sample.at < end]
    if len(inside) < 2:
        return 0.0
    return (value(inside[-1]) - value(inside[0])) / (inside[-1].at - inside[0].at)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """A percentile of ascending values; 0 without values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] if ordered else 0.0


def _uneven(found: ReshardingRun) -> float:
    """Ratio of the busiest shard's requests to an even share; 0 without requests."""
    shards = max((len(sample.requests) for sample in found.samples), default=0)
    rates = [per_second(found, AFTER, partial(_requests, shard=shard)) for shard in range(shards)]
    return max(rates) * shards / sum(rates) if sum(rates) else 0.0


def _row(found: ReshardingRun, phase: str) -> tuple[str, ...]:
    begin, end = found.between(phase)
    mine = latencies(found, phase)
    hits = [answer.hit for answer in found.answers if begin <= answer.at < end]
    behind = sorted(late for answer, late in zip(found.answers, found.behind, strict=True) if begin <= answer.at < end)
    return (
        phase,
        f"{end - begin:.1f}",
        number(len(mine) / max(1e-9, end - begin)),
        *(number(percentile(mine, percent)) for percent in (50, 95, 99)),
        f"{sum(hits) / max(1, len(hits)):.1%}",
        number(percentile(behind, 95)),
        number(per_second(found, phase, _upqueries)),
        number(per_second(found, phase, _lookups)),
    )


def _upqueries(sample: GatewaySample) -> float:
    return sample.upqueries


def _lookups(sample: GatewaySample) -> float:
    return sample.lookups


def _requests(sample: GatewaySample, shard: int) -> int:
    return sample.requests[shard] if shard < len(sample.requests) else 0


def _latency(found: ReshardingRun, percent: float) -> PlotLine:
    by_second: dict[int, list[float]] = {}
    for answer in found.answers:
        by_second.setdefault(int((answer.at - found.changed) // 1), []).append(answer.ms)
    seconds = sorted(by_second)
    return PlotLine(f"p{percent:g}", seconds, [percentile(sorted(by_second[second]), percent) for second in seconds])


def _rates(found: ReshardingRun, name: str, value: Callable[[GatewaySample], float]) -> PlotLine:
    """Increase per second; smaller steps would show the times of reports only."""
    by_second = {int((sample.at - found.changed) // 1): sample for sample in found.samples}
    pairs = list(itertools.pairwise(by_second[second] for second in sorted(by_second)))
    return PlotLine(
        name,
        [later.at - found.changed for _, later in pairs],
        [(value(later) - value(earlier)) / (later.at - earlier.at) for earlier, later in pairs],
    )
