"""A new view under load (thesis, §6.6, Figure 6.9): how soon it answers and hits, and what everybody else notices.

Three loads beside each other, each with its own clock: reads of a view that is there, writes that are read back, and,
from when the new view is asked for, reads of that. Once with a partial new view, once with one that is kept whole.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Event
from time import monotonic
from typing import Annotated

import typer

from load.driver.connection import Broken, SingleConnection
from load.driver.outcome import Moment, Outcome
from load.driver.run import run_load
from load.driver.visit import Spec, get
from load.experiments import vote
from load.experiments.experiment import Conditions, Report, Tell
from load.experiments.upquery_stats import Admin
from load.experiments.warming import read_all
from load.report.figures import Figure, Result, Skipped, Spread
from load.report.plots import Line, Plot
from load.report.write import JsonOption, OutputOption, perform
from load.sides.postgres import running_upstream
from load.sides.side import Side, Upstream
from load.sides.upquery import upquery
from load.workloads.ratings import NEW_VIEW, SITE, Readers, Writers, load_ratings
from load.workloads.vote import VIEW
from load.workloads.zipf import Zipf

BENCH = "migration"
SHORT = ("--stories", "20000", "--before", "3", "--after", "6", "--rate", "100", "--writes", "20", "--hottest", "2000")
#: Options of the new view.
KINDS: Mapping[str, Mapping[str, str]] = {"partial": {}, "full": {"materialization": "full"}}
_FAST_ENOUGH = 0.9
_LOADS = 3
_PATIENCE_S = 60.0
_PAUSE_S = 0.02
_LEAST_WARM_S = 0.05


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    stories: int = 1_000_000
    votes_each: int = 5
    alpha: float = 1.15
    #: Reads of each view, and writes, a second.
    rate: float = 300.0
    writes: float = 50.0
    before_s: float = 15.0
    after_s: float = 60.0
    hottest: int = 20_000


@dataclass(frozen=True, slots=True)
class _Told:
    """A load's seconds, on the clock of the experiment: 0 is when the view was asked for."""

    outcome: Outcome
    begin: float

    def series(self, installed: float, value: Callable[[Moment], float | None]) -> tuple[list[float], list[float]]:
        """Times and values, without those that are None."""
        points = [(self.begin + moment.second + 1 - installed, value(moment)) for moment in self.outcome.moments]
        there = [(x, y) for x, y in points if y is not None]
        return [x for x, _ in there], [y for _, y in there]


@dataclass(slots=True)
class _Migration:
    """What happened with one kind of new view."""

    kind: str
    reads: _Told
    writes: _Told
    new: _Told
    installed: float
    #: Seconds from asking for the view to the reply, and to the first rows from it.
    replied_s: float
    first_answer_s: float | None
    #: (time, ms): how far the service was behind.
    ages: list[tuple[float, float]] = field(default_factory=list)

    @property
    def hitting_s(self) -> float | None:
        """When nine of ten reads of the new view hit, for a second."""
        x, y = self.new.series(self.installed, _hit_share)
        return next((time for time, share in zip(x, y, strict=True) if share >= _FAST_ENOUGH), None)


def command(
    stories: vote.StoriesOption = 1_000_000,
    votes_each: vote.VotesOption = 5,
    alpha: vote.AlphaOption = 1.15,
    rate: Annotated[float, typer.Option(help="Reads of each view a second.")] = 300.0,
    writes: Annotated[float, typer.Option(help="Votes and ratings a second.")] = 50.0,
    before: Annotated[float, typer.Option(min=1.0, help="Seconds before the view is installed.")] = 15.0,
    after: Annotated[float, typer.Option(min=2.0, help="Seconds from then on.")] = 60.0,
    hottest: Annotated[int, typer.Option(min=0, help="Stories of the old view that are read before.")] = 20_000,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """A new view installed under load, partial and full: first answer, hit rate, and what others notice."""
    options = Options(stories, votes_each, alpha, rate, writes, before, after, hottest)
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: Conditions, tell: Tell) -> Report:
    """One kind after the other, each on a service of its own."""
    tell(f"{options.stories:,} stories with {options.votes_each} votes each: loading")
    with running_upstream(SITE, load_ratings(options.stories, options.votes_each)) as upstream:
        migrations = [_migrate(kind, upstream, options, conditions, tell) for kind in KINDS]
    return Report(
        title="Migration: a new view under load",
        about=(
            f"{options.stories:,} stories with {options.votes_each} votes and a rating each. {options.rate:g} reads a"
            f" second of a view that is there, and {options.writes:g} votes or ratings a second, each read back as new"
            f" as it was written. After {options.before_s:g} s a view is installed that adds votes and ratings (thesis,"
            f" Listing 6.2), and {options.rate:g} reads a second of it begin; refused until it answers. Skew"
            f" {options.alpha}. Time 0 is when the view was asked for."
        ),
        results=[figure for migration in migrations for figure in _figures(migration)],
        plots=_plots(migrations),
        outcomes=[told.outcome for m in migrations for told in (m.reads, m.writes, m.new)],
    )


def _migrate(kind: str, upstream: Upstream, options: Options, conditions: Conditions, tell: Tell) -> _Migration:
    with upquery("16GiB", name=f"Upquery, {kind}")(upstream, SITE) as side:
        hottest = list(Zipf(options.stories, options.alpha).hottest(options.hottest))
        read_all(side, VIEW, ({"id": story} for story in reversed(hottest)), len(hottest), tell)
        stop = Event()
        with ThreadPoolExecutor(_LOADS + 2) as threads:
            try:
                return _watched(kind, _Loads(side, conditions, threads), options, tell, stop)
            finally:
                # Also after an error: what watches would not end.
                stop.set()


def _watched(kind: str, loads: "_Loads", options: Options, tell: Tell, stop: Event) -> _Migration:
    """Load, then the view, until all loads have ended."""
    side, total_s = loads.side, options.before_s + options.after_s
    reads = loads.begin("old view", Readers(VIEW, options.stories, options.alpha), options.rate, total_s, tell)
    writes = loads.begin("writes", Writers(options.stories, options.alpha), options.writes, total_s, _silent)
    ages = loads.threads.submit(_watch_age, side, stop)
    stop.wait(options.before_s)
    begun = Event()
    readers = Readers(NEW_VIEW.name, options.stories, options.alpha)
    new = loads.begin("new view", readers, options.rate, options.after_s, lambda _: begun.set())
    # The first thing that is told is that visits begin.
    begun.wait(_PATIENCE_S)
    tell(f"{side.name}: installing the view")
    installed = monotonic()
    first = loads.threads.submit(_first_answer, side, installed, stop)
    Admin(side).put(NEW_VIEW.name, NEW_VIEW.sql, **KINDS[kind])
    replied = monotonic()
    told = reads.result(), writes.result(), new.result()
    stop.set()
    return _Migration(
        kind,
        *told,
        installed,
        replied - installed,
        first.result(),
        [(time - installed, age) for time, age in ages.result()],
    )


class _Loads:
    """Loads that run beside each other."""

    def __init__(self, side: Side, conditions: Conditions, threads: ThreadPoolExecutor) -> None:
        self.side = side
        self.threads = threads
        self._conditions = conditions

    def begin(self, name: str, spec: Spec, rate: float, seconds: float, tell: Tell) -> Future[_Told]:
        """Begin one."""
        return self.threads.submit(self._run, name, spec, rate, seconds, tell)

    def _run(self, name: str, spec: Spec, rate: float, seconds: float, tell: Tell) -> _Told:
        begins: list[float] = []

        def on_second(moment: Moment) -> None:
            begins.append(monotonic() - moment.second - 1)

        outcome = run_load(
            _named(self.side, name),
            spec,
            rate=rate,
            seconds=seconds,
            conditions=self._conditions,
            tell=tell,
            warm_s=_LEAST_WARM_S,
            on_second=on_second,
        )
        # What was told latest after its second is the least exact.
        return _Told(outcome, min(begins))


def _named(side: Side, load: str) -> Side:
    return replace(side, name=f"{side.name}: {load}")


def _silent(text: str) -> None:
    """Of several loads one speaks."""


def _first_answer(side: Side, installed: float, stop: Event) -> float | None:
    """Seconds until the new view answers with rows; None: it has not."""
    request = get(NEW_VIEW.name, {"id": 1})
    with SingleConnection(side.reads_url, side.writes_url) as connection:
        while not stop.wait(_PAUSE_S):
            with suppress(OSError, Broken):
                if connection.ask(request).status == 200:
                    return monotonic() - installed
    return None


def _watch_age(side: Side, stop: Event) -> list[tuple[float, float]]:
    """How far the service is behind, now and then."""
    admin = Admin(side)
    ages: list[tuple[float, float]] = []
    while not stop.wait(0.5):
        age = admin.stats().age_ms
        ages.append((monotonic(), age))
    return ages


def _hit_share(moment: Moment) -> float | None:
    told = moment.hits + moment.misses
    return moment.hits / told if told else None


def _figures(migration: _Migration) -> list[Result]:
    kind = migration.kind
    hitting = migration.hitting_s
    results: list[Result] = []
    if migration.first_answer_s is None:
        results.append(Skipped(BENCH, f"{kind}: the new view did not answer before the end"))
    else:
        results.append(
            Figure(
                BENCH,
                f"{kind}: to the first answer",
                Spread.of([migration.first_answer_s]),
                "s",
                detail=f"asking for it took {migration.replied_s:.3g} s",
            )
        )
    if hitting is not None:
        results.append(Figure(BENCH, f"{kind}: to 90 % hits", Spread.of([hitting]), "s"))
    for name, told in (("reads of the old view", migration.reads), ("writes and reading them back", migration.writes)):
        results += _noticed(f"{kind}: {name}", told, migration.installed)
    behind = max((age for time, age in migration.ages if time > 0), default=0.0)
    quiet = max((age for time, age in migration.ages if time <= 0), default=0.0)
    results.append(
        Figure(
            BENCH, f"{kind}: furthest behind the database", Spread.of([behind]), "ms", detail=f"{quiet:.0f} ms before"
        )
    )
    return results


def _noticed(name: str, told: _Told, installed: float) -> list[Result]:
    """The 95th percentile of the seconds after, over that before."""
    x, y = told.series(installed, lambda moment: moment.p95_ms if moment.done else None)
    before = [value for time, value in zip(x, y, strict=True) if time <= 0]
    after = [value for time, value in zip(x, y, strict=True) if time > 0]
    if not before or not after:
        return []
    quiet = Spread.of(before).median
    value = Spread.of([value / quiet for value in after])
    detail = f"median before {quiet:.3g} ms; worst second {max(after):.3g} ms; {told.outcome.failed:,} failed"
    return [Figure(BENCH, f"{name}, p95 of a second", value, "x of before", detail=detail)]


def _plots(migrations: Sequence[_Migration]) -> list[Plot]:
    def plot(title: str, unit: str, lines: Sequence[Line], caption: str) -> Plot:
        return Plot(title, "s from when the view was asked for", unit, lines, caption, marks=((0.0, "installed"),))

    def lines(of: Callable[[_Migration], _Told], value: Callable[[Moment], float | None]) -> list[Line]:
        return [Line(m.kind, *of(m).series(m.installed, value)) for m in migrations]

    def p95(moment: Moment) -> float:
        return moment.p95_ms

    ages = [Line(m.kind, [time for time, _ in m.ages], [age for _, age in m.ages]) for m in migrations]
    return [
        plot(
            "Hit rate of the new view",
            "share of hits",
            lines(lambda m: m.new, _hit_share),
            "No line: it does not answer yet.",
        ),
        plot("Writes read back, done", "/s", lines(lambda m: m.writes, lambda moment: moment.done), ""),
        plot("Writes read back, p95 of each second", "ms", lines(lambda m: m.writes, p95), ""),
        plot("Reads of the old view, p95 of each second", "ms", lines(lambda m: m.reads, p95), ""),
        plot("Behind the database", "ms", ages, "As the service says."),
    ]
