"""The vote benchmark on several sides: the highest rate of each before its latency rises (thesis, Figures 6.7 and 6.8).

The hottest stories are read before on every side, so that warm-up is not compared. Rates double until one is too high,
then bisection finds the highest that is not; all runs are points of the plot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from load.driver.outcome import RunOutcome
from load.driver.search import Search, highest_rate
from load.experiments.warm_up import read_all
from load.processes import RunConditions
from load.programs import MissingProgramError
from load.progress import Tell, number
from load.report.figures import Figure, Measurement, Result, Skipped
from load.report.output import JsonOption, OutputOption, perform
from load.report.report import Report
from load.sides.postgres import running_upstream
from load.sides.side import Side, StartSide, UpstreamDatabase
from load.sides.upquery import upquery
from load.workloads.vote import SITE, VIEW, VoteSpec, load_stories
from load.workloads.zipf import Zipf

#: A run of seconds.
SHORT = ("--stories", "20000", "--seconds", "2", "--hottest", "2000", "--start-rate", "1000", "--most-rate", "2000")

#: Options of all experiments on this site.
StoriesOption = Annotated[int, typer.Option(min=1, help="Stories of the site.")]
VotesOption = Annotated[int, typer.Option(min=0, help="Votes of each story at the start.")]
AlphaOption = Annotated[float, typer.Option(min=0.0, help="Skew of Zipf's distribution; 0 is uniform.")]
ReadShareOption = Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of reads; the other visits vote.")]
SecondsOption = Annotated[float, typer.Option(min=1.0, help="Length of one run.")]


@dataclass(frozen=True, slots=True)
class Options:
    spec: VoteSpec
    votes_each: int = 5
    seconds: float = 10.0
    #: The limit of a good run.
    p95_ms: float = 20.0
    start_rate: float = 500.0
    most_rate: float = 32_000.0
    #: Stories that are read before.
    hottest: int = 50_000
    #: How often each side has its turn.
    rounds: int = 1


def command(
    stories: StoriesOption = 1_000_000,
    votes_each: VotesOption = 5,
    alpha: AlphaOption = 1.15,
    read_share: ReadShareOption = 0.99,
    batch: Annotated[int, typer.Option(min=1, help="Stories that a visit reads, in one request.")] = 1,
    seconds: SecondsOption = 10.0,
    p95_ms: Annotated[float, typer.Option(help="Limit of the 95th percentile.")] = 20.0,
    start_rate: Annotated[float, typer.Option(help="Visits a second at the start.")] = 500.0,
    most_rate: Annotated[float, typer.Option(help="Maximum visits a second.")] = 32_000.0,
    hottest: Annotated[int, typer.Option(min=0, help="Hottest stories to read before.")] = 50_000,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each side.")] = 1,
    memory: Annotated[str, typer.Option(help="Memory budget of the partial view.")] = "1GiB",
    full: Annotated[bool, typer.Option(help="Also measure the view fully materialized.")] = False,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Story reads and votes: the highest rate within a p95 limit."""
    spec = VoteSpec(stories, alpha, read_share, batch)
    options = Options(spec, votes_each, seconds, p95_ms, start_rate, most_rate, hottest, rounds)
    sides: dict[str, StartSide] = {"Upquery": upquery(memory)}
    if full:
        sides["Upquery, full"] = upquery("64GiB", full=True)

    def work(conditions: RunConditions, tell: Tell) -> Report:
        return run(options, sides, conditions=conditions, tell=tell)

    perform("vote", work, as_json=as_json, output=output)


def run(
    options: Options, sides: Mapping[str, StartSide], *, conditions: RunConditions, tell: Tell, name: str = "vote"
) -> Report:
    """Search the highest rate of each side, in turns; ratios are the first side's over another's."""
    spec = options.spec
    tell(f"{spec.stories:,} stories with {options.votes_each} votes each: loading")
    found: dict[str, list[Search]] = {side: [] for side in sides}
    skipped: list[Result] = []
    with running_upstream(SITE, load_stories(spec.stories, options.votes_each)) as upstream:
        for _ in range(options.rounds):
            for side, start in sides.items():
                try:
                    found[side].append(_search(start, upstream, options, conditions, tell))
                except MissingProgramError as missing:
                    skipped.append(Skipped(name, f"{side}: {missing}"))
    searches = {side: made for side, made in found.items() if made}
    return Report(
        title="Vote: throughput against latency",
        about=(
            f"{spec.stories:,} stories, {options.votes_each} votes each; {spec.read_share:.1%} of visits read"
            f" {'a story' if spec.batch == 1 else f'{spec.batch} stories in one request'}, the others vote; stories by"
            f" Zipf's distribution with skew {spec.alpha}. Visits come as a Poisson process, however slow the side is,"
            f" and are timed from when they were due. The {options.hottest:,} hottest stories were read before."
            f" The highest rate is that at which p95 stays within {options.p95_ms:g} ms, nothing fails, and what is due"
            f" is done. One core serves everything on a side, the database too."
        ),
        results=[*_figures(name, searches, options.p95_ms), *skipped],
        outcomes=[run for made in searches.values() for search in made for run in search.tried],
    )


def _search(
    start: StartSide, upstream: UpstreamDatabase, options: Options, conditions: RunConditions, tell: Tell
) -> Search:
    with start(upstream, SITE) as side:
        read_hottest(side, options.spec, options.hottest, tell)
        return highest_rate(
            side,
            options.spec,
            p95_ms=options.p95_ms,
            seconds=options.seconds,
            conditions=conditions,
            tell=tell,
            start_rate=options.start_rate,
            most_rate=options.most_rate,
            tries=2,
        )


def read_hottest(side: Side, spec: VoteSpec, stories: int, tell: Tell) -> None:
    """Read the hottest stories, those last that are read most, as if they had been asked for that often."""
    hottest = list(Zipf(spec.stories, spec.alpha).hottest(stories))
    read_all(side, VIEW, ({"id": story} for story in reversed(hottest)), len(hottest), tell)


def _figures(name: str, searches: Mapping[str, Sequence[Search]], p95_ms: float) -> list[Result]:
    """The rate of each side, and the first side's against the others'."""
    figures: list[Result] = []
    first: list[float] | None = None
    for side, made in searches.items():
        rates = [search.best.achieved_per_s if search.best else 0.0 for search in made]
        detail = "; ".join(search.verdict for search in made) + _cost(made)
        figures.append(
            Figure(name, f"{side}: visits/s with p95 ≤ {p95_ms:g} ms", Measurement.of(rates), "/s", detail=detail)
        )
        if first is None:
            first = rates
        elif all(rates):
            ratios = [mine / other for mine, other in zip(first, rates, strict=False)]
            figures.append(Figure(name, f"{next(iter(searches))} against {side}", Measurement.of(ratios), "x"))
    return figures


def _cost(made: Sequence[Search]) -> str:
    best = [search.best for search in made if search.best is not None]
    if not best:
        return ""
    limited = " (the generator was the limit)" if any(search.limited_by_generator for search in made) else ""
    return f"; {number(_median_cpu(best))} µs of CPU a visit{limited}"


def _median_cpu(runs: Sequence[RunOutcome]) -> float:
    return Measurement.of([run.server_cpu_us for run in runs]).median
