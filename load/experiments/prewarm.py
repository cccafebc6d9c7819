"""A cold start under load, with and without the hot keys filled before: hit rate and p95 of the first seconds.

Both sides are the same service, started anew for each run, with nothing cached. One is given the keys that will be read
most (`POST /v1/prewarm`), as a model of the workload would name them, and takes the load when they are in.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import httpx
import typer

from load.driver.outcome import Outcome
from load.driver.run import run_load
from load.experiments import vote
from load.experiments.experiment import Conditions, Report, Tell
from load.report.figures import Figure, Result, Spread, number
from load.report.narrate import bar
from load.report.plots import Line, Plot
from load.report.write import JsonOption, OutputOption, perform
from load.sides.postgres import running_upstream
from load.sides.side import Side, SideError, Upstream
from load.sides.upquery import upquery
from load.workloads.vote import SITE, VIEW, VoteSpec, load_stories
from load.workloads.zipf import Zipf

BENCH = "prewarm"
SHORT = ("--stories", "50000", "--keys", "5000", "--seconds", "5", "--rate", "300")
COLD, WARM = "cold", "filled before"
_LOOK_S, _PATIENCE_S = 0.05, 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    spec: VoteSpec
    keys: int = 20_000
    rate: float = 1000.0
    seconds: float = 10.0
    rounds: int = 3
    votes_each: int = 5


@dataclass(frozen=True, slots=True)
class _Run:
    """One start."""

    outcome: Outcome
    #: What filling took.
    filled_s: float = 0.0


def command(
    stories: vote.StoriesOption = 200_000,
    votes_each: vote.VotesOption = 5,
    alpha: Annotated[float, typer.Option(help="Skew of stories.")] = 1.15,
    keys: Annotated[int, typer.Option(min=1, help="Keys that are filled before, the hottest.")] = 20_000,
    rate: Annotated[float, typer.Option(help="Visits a second.")] = 1000.0,
    seconds: vote.SecondsOption = 10.0,
    rounds: Annotated[int, typer.Option(min=1, help="Starts of each side, in turns.")] = 3,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """A cold start, with and without the hot keys filled before."""
    options = Options(VoteSpec(stories, alpha), keys, rate, seconds, rounds, votes_each)
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: Conditions, tell: Tell) -> Report:
    """All starts, in turns."""
    spec = options.spec
    tell(f"{spec.stories:,} stories with {options.votes_each} votes each: loading")
    runs: dict[str, list[_Run]] = {COLD: [], WARM: []}
    with running_upstream(SITE, load_stories(spec.stories, options.votes_each)) as upstream:
        for _ in range(options.rounds):
            for name, made in runs.items():
                made.append(_start(name, options, upstream, conditions, tell))
    return Report(
        title="Pre-warm: the first seconds after a cold start",
        about=(
            f"{spec.stories:,} stories, skew {spec.alpha:g}, {number(options.rate)} visits a second from the first"
            f" moment on, {spec.read_share:.0%} of them reads. A service with nothing cached, {options.rounds} times"
            f" each way in turns: as it is, and with the {options.keys:,} hottest keys filled before the load began."
        ),
        results=_figures(runs, options),
        plots=[_plot(runs)],
        outcomes=[run.outcome for made in runs.values() for run in made],
    )


def _start(name: str, options: Options, upstream: Upstream, conditions: Conditions, tell: Tell) -> _Run:
    with upquery("1GiB", name=name)(upstream, SITE) as side:
        filled_s = _fill(side, options, tell) if name == WARM else 0.0
        outcome = run_load(
            side, options.spec, rate=options.rate, seconds=options.seconds, conditions=conditions, tell=tell
        )
    return _Run(outcome, filled_s)


def _fill(side: Side, options: Options, tell: Tell) -> float:
    """Has the hottest keys filled; how long that took. Raises `SideError`."""
    hottest = Zipf(options.spec.stories, options.spec.alpha).hottest(options.keys)
    started = time.monotonic()
    with httpx.Client(base_url=side.admin_url or "", timeout=60) as admin:
        body = {"view": VIEW, "keys": [[str(story)] for story in hottest]}
        filling = admin.post("/v1/prewarm", json=body).raise_for_status().json()
        while filling["status"] in ("waiting", "running"):
            if time.monotonic() - started > _PATIENCE_S:
                raise SideError(f"filling {options.keys:,} keys took more than {_PATIENCE_S:.0f} s")
            time.sleep(_LOOK_S)
            filling = admin.get("/v1/prewarm").raise_for_status().json()["prewarmed"][-1]
            tell(f"{side.name}: filling {bar(filling['filled'] / filling['keys'])} {filling['filled']:,}")
    if filling["status"] != "done" or filling["refused"]:
        raise SideError(f"filling stopped: {filling}")
    return time.monotonic() - started


def _figures(runs: dict[str, list[_Run]], options: Options) -> list[Result]:
    results: list[Result] = []
    for name, made in runs.items():
        outcomes = [run.outcome for run in made]
        results += [
            Figure(BENCH, f"{name}: hits in the first {options.seconds:g} s", _hits(outcomes), "%"),
            Figure(BENCH, f"{name}: p95 of reads", Spread.of([o.by_page["read"].p95_ms for o in outcomes]), "ms"),
            Figure(BENCH, f"{name}: hits in the first second", Spread.of([_first(o) for o in outcomes]), "%"),
        ]
    filled = [options.keys / run.filled_s for run in runs[WARM]]
    results.append(Figure(BENCH, "keys filled a second", Spread.of(filled), "/s", detail="before the load began"))
    return results


def _hits(outcomes: Sequence[Outcome]) -> Spread:
    return Spread.of([100 * (outcome.hit_rate or 0) for outcome in outcomes])


def _first(outcome: Outcome) -> float:
    first = outcome.moments[0]
    return 100 * first.hits / max(1, first.hits + first.misses)


def _plot(runs: dict[str, list[_Run]]) -> Plot:
    lines = []
    for name, made in runs.items():
        moments = made[0].outcome.moments
        hits = [100 * m.hits / max(1, m.hits + m.misses) for m in moments]
        lines.append(Line(name, [float(m.second) for m in moments], hits))
    return Plot("Hits after a cold start", "second", "hits, %", lines, "The first start of each side.")
