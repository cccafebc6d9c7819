"""How many keys must be in memory, for several skews: measured, and as the model says (thesis, §6.7, Figure 6.10).

The model, F(alpha, N), is the number of different keys that are asked for within a second. First a service that may
keep everything takes the load: the keys that it has then are F over the whole run, if both are right. Then ones with
ever smaller budgets: the floor is the smallest that keeps up with the load.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from load.driver.outcome import Outcome
from load.driver.run import run_load
from load.experiments import vote
from load.experiments.experiment import Conditions, Report, Tell
from load.experiments.upquery_stats import Admin, Stats
from load.report.figures import Figure, Result, Spread, number
from load.report.plots import Line, Plot, Table
from load.report.write import JsonOption, OutputOption, perform
from load.sides.postgres import running_upstream
from load.sides.side import Upstream
from load.sides.upquery import upquery
from load.workloads.vote import SITE, VIEW, VoteSpec, load_stories
from load.workloads.zipf import expected_keys, share_of_hottest

BENCH = "skew"
SHORT = ("--stories", "20000", "--seconds", "3", "--rate", "200", "--alpha", "1.15", "--multiple", "4")
ALPHAS = (0.8, 1.0, 1.15, 1.3)
#: Budgets, in multiples of the model's keys of one second.
MULTIPLES = (16.0, 8.0, 4.0, 2.0, 1.0, 0.5)
_MOST = "8GiB"


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    spec: VoteSpec
    alphas: Sequence[float] = ALPHAS
    multiples: Sequence[float] = MULTIPLES
    rate: float = 1000.0
    seconds: float = 10.0
    votes_each: int = 5
    #: A service that keeps up has a p95 within that.
    p95_ms: float = 50.0


@dataclass(frozen=True, slots=True)
class _Run:
    """One budget under load."""

    outcome: Outcome
    keys: int
    state_bytes: int
    multiple: float | None = None


@dataclass(frozen=True, slots=True)
class _Skew:
    """All runs of one skew."""

    alpha: float
    #: F of one second, and of all visits of the first run.
    model: float
    model_of_run: float
    whole: _Run
    budgets: Sequence[_Run]
    floor: _Run | None


def command(
    stories: vote.StoriesOption = 200_000,
    votes_each: vote.VotesOption = 5,
    alpha: Annotated[list[float] | None, typer.Option(help="Skews.")] = None,
    multiple: Annotated[list[float] | None, typer.Option(help="Budgets, in multiples of the model's keys.")] = None,
    rate: Annotated[float, typer.Option(help="Visits a second.")] = 1000.0,
    seconds: vote.SecondsOption = 10.0,
    p95_ms: Annotated[float, typer.Option(help="p95 of a service that keeps up.")] = 50.0,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """The fewest keys that carry a load, for several skews, against the model F(alpha, N)."""
    multiples = sorted(multiple or MULTIPLES, reverse=True)
    options = Options(VoteSpec(stories), sorted(alpha or ALPHAS), multiples, rate, seconds, votes_each, p95_ms)
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: Conditions, tell: Tell) -> Report:
    """All skews, one after another."""
    stories = options.spec.stories
    tell(f"{stories:,} stories with {options.votes_each} votes each: loading")
    with running_upstream(SITE, load_stories(stories, options.votes_each)) as upstream:
        bench = _Bench(options, conditions, tell, upstream)
        skews = [bench.skew(alpha) for alpha in options.alphas]
    return Report(
        title="Skew: how many keys must be in memory",
        about=(
            f"{stories:,} stories, {number(options.rate)} visits a second, {options.spec.read_share:.0%} reads. F is"
            " the number of different stories that the model expects in a second. The floor is the smallest budget, in"
            f" an unbroken row from the largest, that kept up with a p95 within {options.p95_ms:g} ms."
        ),
        results=_figures(skews, options),
        tables=[_table(skews, stories)],
        plots=[_plot(skews, options)],
        outcomes=[run.outcome for skew in skews for run in (skew.whole, *skew.budgets)],
    )


class _Bench:
    """Runs of one site."""

    def __init__(self, options: Options, conditions: Conditions, tell: Tell, upstream: Upstream) -> None:
        self._options = options
        self._conditions = conditions
        self._tell = tell
        self._upstream = upstream

    def skew(self, alpha: float) -> _Skew:
        """Without a limit first, then with budgets until one is too small."""
        options = self._options
        spec = replace(options.spec, alpha=alpha)
        count = spec.stories
        model = expected_keys(count, alpha, options.rate * spec.read_share)
        whole = self._run(spec, _MOST, f"skew {alpha:g}, everything", 0)
        budgets: list[_Run] = []
        floor: _Run | None = None
        for multiple in options.multiples:
            budget = int(model * multiple * whole.state_bytes / max(1, whole.keys))
            name = f"skew {alpha:g}, {multiple:g} F"
            run = replace(self._run(spec, str(budget), name, int(model * multiple)), multiple=multiple)
            budgets.append(run)
            if not _keeps_up(run.outcome, options.p95_ms):
                break
            floor = run
        read = whole.outcome.by_page["read"].count
        return _Skew(alpha, model, expected_keys(count, alpha, read), whole, budgets, floor)

    def _run(self, spec: VoteSpec, memory: str, name: str, hottest: int) -> _Run:
        with upquery(memory, name=name)(self._upstream, SITE) as side:
            vote.read_hottest(side, spec, hottest, self._tell)
            outcome = run_load(
                side,
                spec,
                rate=self._options.rate,
                seconds=self._options.seconds,
                conditions=self._conditions,
                tell=self._tell,
                warm_s=self._options.seconds / 2 if hottest else 0,
            )
            stats: Stats = Admin(side).stats()
        return _Run(outcome, stats.keys(VIEW), stats.state_bytes)


def _keeps_up(outcome: Outcome, p95_ms: float) -> bool:
    return outcome.kept_up and outcome.latency.p95_ms <= p95_ms


def _figures(skews: Sequence[_Skew], options: Options) -> list[Result]:
    kept = [skew.whole.keys / skew.model_of_run for skew in skews]
    results: list[Result] = [
        Figure(
            BENCH, "keys without a limit, against F of the run", Spread.of(kept), "x", detail="the model holds at 1"
        ),
    ]
    for skew in skews:
        if skew.floor is not None:
            share = 100 * skew.floor.keys / options.spec.stories
            results.append(
                Figure(
                    BENCH,
                    f"skew {skew.alpha:g}: floor against F",
                    Spread.of([skew.floor.keys / skew.model]),
                    "x",
                    detail=f"{skew.floor.keys:,} of {options.spec.stories:,} keys ({share:.2g} %), F is"
                    f" {skew.model:,.0f}; hit rate {skew.floor.outcome.hit_rate or 0:.1%}",
                )
            )
    return results


def _table(skews: Sequence[_Skew], stories: int) -> Table:
    columns = ("skew", "budget", "keys", "of F", "hits", "at best", "p95 ms", "kept up")
    rows = [_row(skew, run, stories) for skew in skews for run in (skew.whole, *skew.budgets)]
    return Table("Keys in memory; at best: the hits if they were the hottest", columns, rows)


def _row(skew: _Skew, run: _Run, stories: int) -> tuple[str, ...]:
    outcome = run.outcome
    return (
        f"{skew.alpha:g}",
        "none" if run.multiple is None else f"{run.multiple:g} F",
        f"{run.keys:,}",
        f"{run.keys / skew.model:.2g}",
        f"{outcome.hit_rate or 0:.1%}",
        f"{share_of_hottest(stories, skew.alpha, run.keys):.1%}",
        number(outcome.latency.p95_ms),
        "yes" if outcome.kept_up else f"no: {outcome.limit}",
    )


def _plot(skews: Sequence[_Skew], options: Options) -> Plot:
    return Plot(
        "Keys in memory over skew",
        "skew",
        "keys",
        [
            Line("F, one second", [skew.alpha for skew in skews], [skew.model for skew in skews]),
            Line("floor, measured", [s.alpha for s in skews if s.floor], [s.floor.keys for s in skews if s.floor]),
            Line("kept without a limit", [skew.alpha for skew in skews], [skew.whole.keys for skew in skews]),
            Line("F, of that run", [skew.alpha for skew in skews], [skew.model_of_run for skew in skews]),
        ],
        f"Of {options.spec.stories:,} keys, at {number(options.rate)} visits a second.",
        y_scale="log",
    )
