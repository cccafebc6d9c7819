"""Initial load of a view over all rows of its tables, while transactions arrive: by Spark, and direct.

The view is the front page of a site, over all its stories and votes. Measured are the time until it is ready, the
effect on other readers, its answers at each version, and the database's time for the same SQL.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Annotated

import psycopg
import typer

from load.experiments import view_build
from load.experiments.view_build import WAYS, Built, build
from load.processes import RunConditions
from load.progress import Tell, number
from load.report.figures import Figure, Measurement, Result, Skipped
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.sides.postgres import running_upstream
from load.workloads.front_page import FRONT_PAGE, SITE, load_front_page

BENCH = "initial_state"
SHORT = ("--stories", "20000", "--votes", "400000", "--rate", "200", "--before", "3", "--after", "5")
_PLOTTED_S = 1.0

StoriesOption = Annotated[int, typer.Option(min=1000, help="Number of stories.")]
VotesOption = Annotated[int, typer.Option(min=1000, help="Approximate number of votes.")]
RateOption = Annotated[float, typer.Option(min=1, help="Transactions a second.")]
WayOption = Annotated[list[str] | None, typer.Option(help="Ways to build: spark, direct. Default: both.")]
PatienceOption = Annotated[float, typer.Option(help="Seconds after which a build counts as failed.")]
ComparedOption = Annotated[int, typer.Option(min=1, help="Stories compared at the end.")]


@dataclass(frozen=True, slots=True)
class Options:
    stories: int
    votes: int
    ways: Sequence[str]
    building: view_build.BuildConditions


def command(
    stories: StoriesOption = 1_000_000,
    votes: VotesOption = 20_000_000,
    rate: RateOption = 1000.0,
    way: WayOption = None,
    before: Annotated[float, typer.Option(help="Seconds before the view is put.")] = 10.0,
    after: Annotated[float, typer.Option(help="Seconds after it is ready.")] = 30.0,
    patience: PatienceOption = 1800.0,
    compared: ComparedOption = 2000,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Build a front page of all stories and votes by Spark and directly, while transactions arrive."""
    conditions = view_build.BuildConditions(stories, rate, before, after, patience, compared, master)
    options = Options(stories, votes, ways_of(way), conditions)
    perform(BENCH, lambda _, tell: run(options, tell), as_json=as_json, output=output)


def ways_of(given: Sequence[str] | None) -> Sequence[str]:
    for way in given or ():
        if way not in WAYS:
            raise typer.BadParameter(f"{way!r} is none of {', '.join(WAYS)}")
    return given or WAYS


def run(options: Options, tell: Tell) -> Report:
    """One way after the other, each on a service of its own."""
    tell(f"{options.stories:,} stories and {options.votes:,} votes: loading")
    with running_upstream(SITE, load_front_page(options.stories, options.votes, tell)) as upstream:
        tell("the same SQL on the database")
        query_s = _query(upstream.url)
        builds = [build(way, upstream, options.building, tell) for way in options.ways]
    conditions = options.building
    return Report(
        title="Initial state of a view that is made of everything",
        about=(
            f"{options.stories:,} stories and about {options.votes:,} votes; {conditions.rate:g} transactions a second"
            f" vote, take votes back and rename. After {conditions.before_s:g} s the front page is asked for: all"
            " stories with the count of their votes, the 25 with the most. Another view is read meanwhile, whose rows"
            " are in memory. Each answer of the front page says how many transactions it includes, and is compared"
            f" with what it must be after these. {conditions.after_s:g} s after the first answer the writer ends, and"
            f" {conditions.compared:,} stories are compared with the database. Time 0 is when the view was asked for."
            " Nothing is pinned."
        ),
        results=[
            Figure(BENCH, "the same SQL, once on the database", Measurement.of([query_s]), "s"),
            *(figure for built in builds for figure in figures(BENCH, built.way, built, conditions)),
        ],
        tables=[table for built in builds for table in wrong_table(built.way, built)],
        plots=_plots(builds),
    )


def _query(url: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        begin = monotonic()
        connection.execute(FRONT_PAGE.sql.encode()).fetchall()
        return monotonic() - begin


def figures(bench: str, name: str, built: Built, conditions: view_build.BuildConditions) -> list[Result]:
    """Figures of one build."""
    if built.ready_s is None:
        return [Skipped(bench, f"{name}: not readable within {conditions.patience_s:g} s{_after(built.ended)}")]
    ready = built.ready_s
    during, quiet = built.hits_between(0, ready), built.hits_between(-conditions.before_s, 0)
    engine = max((mib for _, mib, _ in built.memory), default=0.0)
    spark = max((mib for _, _, mib in built.memory), default=0.0)
    wrong = built.wrong_versions + built.wrong
    told = f"of {built.versions} versions at which it was read and {built.compared} keys at the end"
    return [
        Figure(bench, f"{name}: until it can be read", Measurement.of([ready]), "s", detail=built.ended),
        Figure(bench, f"{name}: wrong answers", Measurement.of([float(wrong)]), "", 0.0, False, told),
        Figure(bench, f"{name}: memory of the engine's process, most", Measurement.of([engine]), "MiB"),
        Figure(bench, f"{name}: memory of Spark's processes, most", Measurement.of([spark]), "MiB"),
        Figure(
            bench,
            f"{name}: hits of another view meanwhile, p99",
            Measurement.of([_p99(during)]),
            "ms",
            detail=f"{_p99(quiet):.3g} ms before; {len(during):,} hits",
        ),
        Figure(
            bench,
            f"{name}: longest time without a hit",
            Measurement.of([1000 * built.longest_block_s(0, ready)]),
            "ms",
            detail=f"{1000 * built.longest_block_s(-conditions.before_s, 0):.0f} ms before; one is due every 5 ms",
        ),
        Figure(
            bench,
            f"{name}: transactions written meanwhile",
            Measurement.of([built.rate_between(0, ready)]),
            "/s",
            detail=f"{number(built.rate_between(-conditions.before_s, 0))}/s before, {conditions.rate:g}/s asked for",
        ),
    ]


def wrong_table(name: str, built: Built) -> list[ReportTable]:
    """A table of wrong answers, if there were any."""
    return (
        [ReportTable(f"{name}: wrong", ("what",), [(text[:500],) for text in built.examples[:20]])]
        if built.examples
        else []
    )


def _after(ended: str) -> str:
    return f", {ended}" if ended else ""


def _p99(values: Sequence[float]) -> float:
    return values[min(len(values) - 1, int(0.99 * len(values)))] if values else 0.0


def _plots(builds: Sequence[Built]) -> list[Plot]:
    def plot(title: str, unit: str, lines: Sequence[PlotLine]) -> Plot:
        marks = [(built.ready_s, f"{built.way}: readable") for built in builds if built.ready_s is not None]
        return Plot(title, "s from when the view was asked for", unit, lines, marks=((0.0, "asked for"), *marks))

    memory = [
        line
        for built in builds
        for line in (
            PlotLine(f"{built.way}: engine", [at for at, _, _ in built.memory], [mib for _, mib, _ in built.memory]),
            PlotLine(
                f"{built.way}: Spark",
                [at for at, _, _ in built.memory],
                [mib for _, _, mib in built.memory],
                dashed=True,
            ),
        )
    ]
    return [
        plot("Memory", "MiB", memory),
        plot("Slowest hit of another view in each second", "ms", [_slowest(built) for built in builds]),
        plot("Transactions written", "/s", [_rates(built) for built in builds]),
    ]


def _slowest(built: Built) -> PlotLine:
    by_second: dict[int, float] = {}
    for at, ms in built.hits:
        second = int(at // _PLOTTED_S)
        by_second[second] = max(ms, by_second.get(second, 0.0))
    return PlotLine(built.way, [second * _PLOTTED_S for second in by_second], list(by_second.values()))


def _rates(built: Built) -> PlotLine:
    some = built.written[:: max(1, round(_PLOTTED_S / 0.25))]
    pairs = list(itertools.pairwise(some))
    return PlotLine(built.way, [b[0] for _, b in pairs], [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs])


__all__ = ["Options", "RunConditions", "command", "run"]
