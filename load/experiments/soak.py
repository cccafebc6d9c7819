"""Hours of load at 70 % of capacity with a moving working set: memory must stay flat and latency must not grow.

The budget is smaller than the working set, so that keys are evicted and filled all the time. Slopes are of the second
half, after the warm-up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Annotated

import typer

from load.driver.outcome import Moment, RunOutcome
from load.driver.run import run_load
from load.driver.search import highest_rate
from load.experiments import vote
from load.experiments.regression import slope
from load.processes import RunConditions
from load.progress import Tell, number
from load.report.figures import Figure, Measurement, Result
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine
from load.report.report import Report
from load.sides.postgres import running_upstream
from load.sides.side import Side
from load.sides.upquery import upquery
from load.workloads.vote import SITE, VoteSpec, load_stories

BENCH = "soak"
SHORT = ("--minutes", "1", "--stories", "50000", "--memory", "16MiB", "--rate", "300")
_MIB = 1 << 20
#: Of what it can do.
_LOAD = 0.7
_P95_MS = 50.0
_SEARCH_S = 8.0
_LATE_MS = 100.0
#: Outcomes that count as flat: the last fifth against the third.
_FLAT_MEMORY, _FLAT_LATENCY = 1.02, 1.25


@dataclass(frozen=True, slots=True)
class Options:
    spec: VoteSpec
    minutes: float = 60.0
    votes_each: int = 5
    memory: str = "64MiB"
    #: Visits a second; None: 70 % of what it can do.
    rate: float | None = None
    #: So many stories become the most popular an hour, one after the other.
    shifts_per_hour: float = 3600.0
    hottest: int = 20_000
    #: Load that does not count, at first.
    warm_s: float = 5.0


def command(
    minutes: Annotated[float, typer.Option(min=0.25, help="Duration in minutes.")] = 60.0,
    stories: vote.StoriesOption = 200_000,
    votes_each: vote.VotesOption = 5,
    alpha: vote.AlphaOption = 1.15,
    read_share: vote.ReadShareOption = 0.99,
    memory: Annotated[str, typer.Option(help="Memory budget; smaller than the working set.")] = "64MiB",
    rate: Annotated[float | None, typer.Option(help="Visits a second. Default: 70 % of the capacity.")] = None,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """A long run with a moving working set: flat memory, latency that does not grow."""
    options = Options(VoteSpec(stories, alpha, read_share), minutes, votes_each, memory, rate)
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: RunConditions, tell: Tell) -> Report:
    spec = options.spec
    tell(f"{spec.stories:,} stories with {options.votes_each} votes each: loading")
    with (
        running_upstream(SITE, load_stories(spec.stories, options.votes_each)) as upstream,
        upquery(options.memory)(upstream, SITE) as side,
    ):
        vote.read_hottest(side, spec, options.hottest, tell)
        rate = options.rate or _capacity(side, spec, conditions, tell) * _LOAD
        shifting = replace(spec, shift_every=max(1, round(rate * 3600 / options.shifts_per_hour)))
        outcome = run_load(
            side,
            shifting,
            rate=rate,
            seconds=options.minutes * 60,
            conditions=conditions,
            tell=tell,
            warm_s=options.warm_s,
        )
    return Report(
        title="Soak: the working set moves on",
        about=(
            f"{spec.stories:,} stories, {number(rate)} visits a second for {options.minutes:g} minutes,"
            f" {options.memory} for engine state and leaf store. {options.shifts_per_hour:,.0f} times an hour the least"
            " popular story becomes the most popular and all others move down by one. Slopes are least squares over"
            " the second half, with 95 % confidence; ratios compare the last fifth of the run with the third."
        ),
        results=_figures(outcome),
        plots=_plots(outcome.moments),
        outcomes=[outcome],
    )


def _capacity(side: Side, spec: VoteSpec, conditions: RunConditions, tell: Tell) -> float:
    found = highest_rate(
        side, spec, p95_ms=_P95_MS, seconds=_SEARCH_S, start_rate=500, conditions=conditions, tell=tell, precision=0.15
    )
    return 500.0 if found.best is None else found.best.achieved_per_s


def _figures(outcome: RunOutcome) -> list[Result]:
    memory = _resident(outcome.moments)
    latency = [moment.p95_ms for moment in outcome.moments]
    done = f"{outcome.latency.count:,} visits, {outcome.failed:,} failed, hit rate {outcome.hit_rate or 0:.1%}"
    return [
        Figure(
            BENCH,
            "resident memory, end against middle",
            _ratio(memory),
            "x",
            _FLAT_MEMORY,
            False,
            f"{number(memory[len(memory) // 2])} MiB in the middle, {number(memory[-1])} MiB at the end",
        ),
        Figure(BENCH, "p95 of a second, end against middle", _ratio(latency), "x", _FLAT_LATENCY, False, done),
        *_slope(outcome.moments, "growth of resident memory", memory),
        *_slope(outcome.moments, "growth of p95", latency),
        Figure(
            BENCH,
            f"seconds with p95 above {_LATE_MS:g} ms",
            _late(outcome.moments),
            "",
            more_is_better=False,
            detail=_stolen(outcome.moments),
        ),
        Figure(
            BENCH, "visits that failed", Measurement.of([outcome.failed]), "", 0, False, "; ".join(outcome.failures)
        ),
    ]


def _late(moments: Sequence[Moment]) -> Measurement:
    return Measurement.of([float(sum(moment.p95_ms > _LATE_MS for moment in moments))])


def _stolen(moments: Sequence[Moment]) -> str:
    """How much of the machine others had, in all and while it was late."""
    late = [moment.stolen_s for moment in moments if moment.p95_ms > _LATE_MS]
    taken = f"{fmean([moment.stolen_s for moment in moments]):.1%} of a core was taken by other machines"
    return f"{taken}, {fmean(late):.1%} in those seconds" if late else taken


def _resident(moments: Sequence[Moment]) -> list[float]:
    return [moment.resident_bytes / _MIB for moment in moments]


def _ratio(values: Sequence[float]) -> Measurement:
    """Means of the last fifth and of the third; the extremes are those of its halves."""
    fifth = max(2, len(values) // 5)
    middle = fmean(values[2 * fifth : 3 * fifth])
    last = values[-fifth:]
    halves = [fmean(half) / middle for half in (last[: fifth // 2], last[fifth // 2 :])]
    return Measurement(fmean(last) / middle, min(halves), max(halves))


def _slope(moments: Sequence[Moment], name: str, values: Sequence[float]) -> list[Result]:
    """Percent an hour over the second half; nothing where that is too short."""
    half = len(values) // 2
    seconds = [float(moment.second) for moment in moments[half:]]
    try:
        found = slope(seconds, values[half:])
    except ValueError:
        return []
    scale = 3600 * 100 / max(1e-9, median(values[half:]))
    spread = Measurement(found.value * scale, found.low * scale, found.high * scale)
    flat = "not distinguishable from 0" if found.low <= 0 <= found.high else "different from 0"
    return [Figure(BENCH, name, spread, "% an hour", detail=f"second half, 95 % confidence; {flat}")]


def _plots(moments: Sequence[Moment]) -> list[Plot]:
    def over_time(title: str, unit: str, lines: dict[str, Callable[[Moment], float]]) -> Plot:
        minutes = [moment.second / 60 for moment in moments]
        drawn = [PlotLine(name, minutes, [value(moment) for moment in moments]) for name, value in lines.items()]
        return Plot(title, "minutes", unit, drawn)

    return [
        over_time(
            "Memory",
            "MiB",
            {"resident": lambda m: m.resident_bytes / _MIB, "own state": lambda m: m.state_bytes / _MIB},
        ),
        over_time("Latency of each second", "ms", {"p50": lambda m: m.p50_ms, "p95": lambda m: m.p95_ms}),
        over_time("CPU time that other machines had", "cores", {"taken": lambda m: m.stolen_s}),
    ]
