"""p95 latency over ever smaller memory budgets, against the fully materialized view (thesis, §6.4).

The same load runs on the fully materialized view, for the size of the full state and the latency without misses; then
on partial state with budgets of shares of that size. The result is the smallest state with a p95 below twice that of
the full state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from load.driver.outcome import LatencySummary, RunOutcome
from load.driver.run import run_load
from load.driver.search import highest_rate
from load.experiments import vote
from load.processes import RunConditions
from load.progress import Tell, number
from load.report.figures import Figure, Measurement, Result
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.sides.admin_client import AdminClient
from load.sides.postgres import running_upstream
from load.sides.side import Side, UpstreamDatabase
from load.sides.upquery import upquery
from load.workloads.vote import SITE, VIEW, VoteSpec, load_stories

BENCH = "memory"
SHORT = ("--stories", "20000", "--seconds", "2", "--warm", "2", "--rate", "300", "--percent", "50", "--percent", "10")
PERCENTS = (50.0, 30.0, 20.0, 14.0, 10.0, 7.0, 5.0, 3.0, 2.0)
_GOAL = 10.0
_MIB = 1 << 20
#: Of the rate that the whole view keeps up with; what is compared is memory, so nothing else may be short.
_LOAD = 0.5
_FULL_RUNS = 3


@dataclass(frozen=True, slots=True)
class Options:
    spec: VoteSpec
    votes_each: int = 5
    #: Visits a second; None: half of what the whole view can do.
    rate: float | None = None
    seconds: float = 15.0
    #: Under load before the measurement, after the hottest stories have been read.
    warm_s: float = 15.0
    percents: Sequence[float] = PERCENTS


@dataclass(frozen=True, slots=True)
class _Point:
    name: str
    rate: float
    budget_bytes: int | None
    state_bytes: int
    stories: int
    outcome: RunOutcome

    @property
    def reads(self) -> LatencySummary:
        return self.outcome.by_page["read"]


def command(
    stories: vote.StoriesOption = 1_000_000,
    votes_each: vote.VotesOption = 5,
    alpha: vote.AlphaOption = 1.15,
    read_share: vote.ReadShareOption = 0.99,
    rate: Annotated[
        float | None, typer.Option(help="Visits a second. Default: half of the capacity of full state.")
    ] = None,
    seconds: vote.SecondsOption = 15.0,
    warm: Annotated[float, typer.Option(min=0.0, help="Seconds of load before each measurement.")] = 15.0,
    percent: Annotated[list[float] | None, typer.Option(help="Memory budgets, in percent of full state.")] = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """p95 over the memory budget, partial state against full."""
    percents = sorted(percent or PERCENTS, reverse=True)
    options = Options(VoteSpec(stories, alpha, read_share), votes_each, rate, seconds, warm, percents)
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: RunConditions, tell: Tell) -> Report:
    """Full state first, then budgets."""
    spec = options.spec
    tell(f"{spec.stories:,} stories with {options.votes_each} votes each: loading")
    with running_upstream(SITE, load_stories(spec.stories, options.votes_each)) as upstream:
        bench = _Bench(options, conditions, tell, upstream)
        whole = bench.full()
        full, rate = whole[0], whole[0].rate
        points = [bench.partial(percent, full.state_bytes, rate) for percent in options.percents]
    full_p95 = Measurement.of([point.outcome.latency.p95_ms for point in whole])
    return Report(
        title="Memory: how little is enough",
        about=(
            f"{spec.stories:,} stories with {options.votes_each} votes each, {spec.read_share:.0%} reads, skew"
            f" {spec.alpha}, {number(rate)} visits a second on every side. Full state is the fully materialized view:"
            f" {number(full.state_bytes / _MIB)} MiB by its own account (engine and leaf store), measured in"
            f" {_FULL_RUNS} runs. Each budget is a service of its own; the hottest stories that fit were read"
            f" first, then it ran under load for {options.warm_s:g} s before the {options.seconds:g} s reported."
        ),
        results=_figures(points, full, full_p95),
        tables=[_table([*whole, *points], full_p95.median)],
        plots=[_plot(points, full, full_p95.median)],
        outcomes=[point.outcome for point in (*whole, *points)],
    )


class _Bench:
    """Runs sides of one site at one rate."""

    def __init__(self, options: Options, conditions: RunConditions, tell: Tell, upstream: UpstreamDatabase) -> None:
        self._options = options
        self._conditions = conditions
        self._tell = tell
        self._upstream = upstream

    def full(self) -> list[_Point]:
        """The whole view, several runs at the asked for rate, or at half of what it can do."""
        self._tell("Upquery, full: building the view")
        with upquery("64GiB", full=True)(self._upstream, SITE) as side:
            rate = self._options.rate or self._capacity(side) * _LOAD
            return [self._measure("full", side, None, rate, seed) for seed in range(1, 1 + _FULL_RUNS)]

    def partial(self, percent: float, full_bytes: int, rate: float) -> _Point:
        """A budget of a share of full state."""
        budget = max(1, int(full_bytes * percent / 100))
        name = f"partial, {percent:g} %"
        # Partial state may need less for a key than full state: what is too much is forgotten again.
        hottest = int(self._options.spec.stories * min(1.0, 1.5 * percent / 100))
        with upquery(str(budget), name=name)(self._upstream, SITE) as side:
            vote.read_hottest(side, self._options.spec, hottest, self._tell)
            return self._measure(name, side, budget, rate)

    def _capacity(self, side: Side) -> float:
        found = highest_rate(
            side,
            self._options.spec,
            p95_ms=20,
            seconds=min(8.0, self._options.seconds),
            start_rate=500,
            conditions=self._conditions,
            tell=self._tell,
            precision=0.2,
        )
        return 500.0 if found.best is None else found.best.achieved_per_s

    def _measure(self, name: str, side: Side, budget: int | None, rate: float, seed: int = 1) -> _Point:
        spec = self._options.spec
        outcome = run_load(
            side,
            spec,
            rate=rate,
            seconds=self._options.seconds,
            warm_s=self._options.warm_s,
            conditions=self._conditions,
            tell=self._tell,
            seed=seed,
        )
        stats = AdminClient.of(side).stats()
        # A fully materialized view has one key, which is everything.
        stories = spec.stories if budget is None else stats.keys(VIEW)
        return _Point(name, rate, budget, max(stats.state_bytes, _held(outcome)), stories, outcome)


def _held(outcome: RunOutcome) -> int:
    """The most state that was held during the run."""
    return max((moment.state_bytes for moment in outcome.moments), default=0)


def _is_enough(point: _Point, full_p95_ms: float) -> bool:
    return point.outcome.kept_up and point.outcome.latency.p95_ms < 2 * full_p95_ms


def _figures(points: Sequence[_Point], full: _Point, full_p95: Measurement) -> list[Result]:
    """The smallest state of an unbroken row of budgets that were enough, beginning with the largest."""
    smallest: _Point | None = None
    for point in points:
        if not _is_enough(point, full_p95.median):
            break
        smallest = point
    results: list[Result] = [
        Figure(BENCH, "p95 with full state", full_p95, "ms", detail=f"{number(full.outcome.offered_per_s)} visits/s"),
        Figure(
            BENCH,
            "full state",
            Measurement.of([full.state_bytes / _MIB]),
            "MiB",
            detail=f"{full.state_bytes / full.stories:,.0f} bytes a story",
        ),
    ]
    if smallest is not None:
        share = 100 * smallest.state_bytes / full.state_bytes
        results.append(
            Figure(
                BENCH,
                "smallest state with p95 < 2x full's",
                Measurement.of([share]),
                "% of full's",
                _GOAL,
                False,
                f"{number(smallest.state_bytes / _MIB)} MiB with {smallest.stories:,} stories;"
                f" p95 {number(smallest.outcome.latency.p95_ms)} ms, hit rate {smallest.outcome.hit_rate or 0:.1%}",
            )
        )
    return results


def _table(points: Sequence[_Point], full_p95_ms: float) -> ReportTable:
    columns = (
        "state",
        "budget MiB",
        "held MiB",
        "% of full's",
        "stories",
        "hits",
        "p95 ms",
        "p95 of reads",
        "p99 ms",
        "against full's p95",
    )
    full_bytes = points[0].state_bytes
    return ReportTable("State and latency", columns, [_row(point, full_bytes, full_p95_ms) for point in points])


def _row(point: _Point, full_bytes: int, full_p95_ms: float) -> tuple[str, ...]:
    latency = point.outcome.latency
    return (
        point.name,
        "" if point.budget_bytes is None else number(point.budget_bytes / _MIB),
        number(point.state_bytes / _MIB),
        f"{100 * point.state_bytes / full_bytes:.1f}",
        f"{point.stories:,}",
        f"{point.outcome.hit_rate or 0:.1%}",
        number(latency.p95_ms),
        number(point.reads.p95_ms),
        number(latency.p99_ms),
        f"{latency.p95_ms / full_p95_ms:.2f}x" if full_p95_ms else "",
    )


def _plot(points: Sequence[_Point], full: _Point, full_p95_ms: float) -> Plot:
    ordered = [full, *points]
    shares = [100 * point.state_bytes / full.state_bytes for point in ordered]
    lines = [
        PlotLine("p95", shares, [point.outcome.latency.p95_ms for point in ordered]),
        PlotLine("p99", shares, [point.outcome.latency.p99_ms for point in ordered]),
        PlotLine("p50", shares, [point.outcome.latency.p50_ms for point in ordered]),
    ]
    return Plot(
        "Latency over state",
        "state, % of full state",
        "ms",
        lines,
        "From right to left there is less memory. The horizontal line is twice the p95 of full state.",
        x_scale="log",
        y_scale="log",
        marks_y=(2 * full_p95_ms,),
    )
