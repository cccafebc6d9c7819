"""How far shards go: reads and visible changes a second of 1 and 2 shards with 1 and 2 API workers, what each kind of
process spends on them, and from that what 1 to 64 pods would do (`shard_scale_model`).

Each side is started anew for each round, in turns, so that none follows the stream of another's writes. With
``--gateway`` two pods behind a gateway are a side, too. On a machine with few cores rates of several shards say little,
since they share them; CPU time for a thing done does not depend on that, and is what the model is given.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from load import processes
from load.experiments import vote
from load.experiments.experiment import Conditions, Report, Tell
from load.experiments.shard_scale_model import Machines
from load.experiments.shard_scale_report import (
    ALONE,
    APART,
    BENCH,
    Mix,
    Way,
    costs_of,
    figures,
    mixes,
    model,
    table_of_costs,
    tables_of_turns,
)
from load.experiments.shard_scale_turns import ENGINE, GATEWAY, READER, WORKER, Pids, Running, Sizes, Turn, turn
from load.report.figures import number
from load.report.write import JsonOption, OutputOption, perform
from load.sides.pods import PodSettings, running_pods
from load.sides.postgres import running_upstream
from load.sides.side import Upstream
from load.sides.upquery import upquery
from load.workloads.changes import votes

SHORT = (
    "--stories",
    "5000",
    "--hottest",
    "1000",
    "--misses",
    "1000",
    "--changes",
    "10000",
    "--seconds",
    "1",
    "--rounds",
    "1",
    "--gateway",
)
#: One machine's.
WAYS = (ALONE, Way(1, 2), Way(2, 1), Way(2, 2))
_VOTES_EACH = 3
_MEMORY = "2GiB"


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    sizes: Sizes
    rounds: int
    ways: Sequence[Way]
    #: What the model is asked.
    mixes: Sequence[Mix]
    machines: Machines


def command(
    stories: vote.StoriesOption = 50_000,
    hottest: Annotated[int, typer.Option(min=100, help="Stories that are in memory.")] = 10_000,
    misses: Annotated[int, typer.Option(min=100, help="Stories that are read once.")] = 5_000,
    changes: Annotated[int, typer.Option(min=1000, help="Votes of a backlog.")] = 100_000,
    seconds: vote.SecondsOption = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Starts of each side, in turns.")] = 3,
    gateway: Annotated[bool, typer.Option(help="Two pods behind a gateway, too.")] = False,
    model_changes: Annotated[float, typer.Option(help="Computed: changes a second meanwhile.")] = 1000.0,
    model_misses: Annotated[float, typer.Option(min=0, max=1, help="Computed: share of misses.")] = 0.02,
    model_keys: Annotated[int, typer.Option(min=2, help="Computed: keys of a batch.")] = 50,
    model_whole: Annotated[float, typer.Option(min=0, max=1, help="Computed: share of a whole view.")] = 0.05,
    pod_workers: Annotated[int, typer.Option(min=1, help="Computed: API workers of a pod.")] = 2,
    database_cores: Annotated[float, typer.Option(help="Computed: cores of the database.")] = 8.0,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """1 and 2 shards with 1 and 2 API workers, and a gateway: rates, CPU time, and a model of up to 64 pods."""
    options = Options(
        Sizes(stories, hottest, misses, changes, seconds),
        rounds,
        (*WAYS, APART) if gateway else WAYS,
        mixes(model_changes, model_misses, model_keys, model_whole),
        Machines(workers=pod_workers, database_cores=database_cores),
    )
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: Conditions, tell: Tell) -> Report:
    """All starts, in turns; then the model."""
    sizes = options.sizes
    turns: dict[Way, list[Turn]] = {way: [] for way in options.ways}
    changes = votes(sizes.stories, _VOTES_EACH, 0.0, sizes.hottest)
    tell(f"{sizes.stories:,} stories with {_VOTES_EACH} votes each: loading")
    with running_upstream(changes.site, changes.load) as upstream:
        for _ in range(options.rounds):
            for way, made in turns.items():
                with _running(way, upstream) as running:
                    made.append(turn(running, sizes, conditions, tell))
    costs = costs_of(turns)
    computed, plots = model(costs, options.mixes, options.machines)
    return Report(
        title="Shards: how far they go",
        about=_about(options),
        results=figures(turns),
        tables=[*tables_of_turns(turns), table_of_costs(costs, turns), *computed],
        plots=plots,
    )


def _about(options: Options) -> str:
    sizes, machines = options.sizes, options.machines
    return (
        f"{sizes.stories:,} stories with their votes, the {sizes.hottest:,} hottest in memory; each side started anew"
        f" in each of {options.rounds} rounds, in turns. Hits and batches: a closed loop of 16 connections for"
        f" {sizes.seconds:g} s, any hot story as likely. Misses: {sizes.misses:,} stories, each read once. Changes:"
        f" {sizes.changes:,} votes, 100 a transaction, written while the engines stand still, and timed from when they"
        " go on until every shard's answers have the last; once before anything was read and once with all voted"
        " stories in memory. All processes that serve share the server's cores: rates of more processes than cores"
        " are no measure of what these could do apart.\n\nComputed: what 1 to 64 shards do, from the CPU time that one"
        f" thing cost each kind of process here; a pod has one engine and {machines.workers} API workers, the database"
        f" {machines.database_cores:g} cores, and {number(options.mixes[0].traffic.changes_per_s)} changes a second"
        " arrive while keys are read. Memory, networks and batches that must be asked again are not in it."
    )


@contextmanager
def _running(way: Way, upstream: Upstream) -> Iterator[Running]:
    # Votes are not written through the side.
    site = replace(votes(1, 1, 0.0, 1).site, writes=())
    if way.gateway:
        settings = PodSettings(workers=way.workers // way.shards, memory=_MEMORY)
        with running_pods(upstream, site, way.shards, settings) as gateway:
            pods = gateway.behind.pods
            kinds = _kinds([pid for pod in pods for pid in pod.pids()])
            gateways = _kinds(processes.family(gateway.served.pid))[WORKER]
            yield Running(gateway.side, upstream, {**kinds, GATEWAY: gateways})
        return
    sections = {"engine": {"shards": way.shards}}
    with upquery(_MEMORY, workers=way.workers, name=way.name, sections=sections)(upstream, site) as side:
        yield Running(side, upstream, _kinds(side.pids()))


def _kinds(pids: Sequence[int]) -> Pids:
    """What supervisors have started, by kind: their names are the last words of their commands."""
    names = {
        pid: title.split()[-1] for pid in pids if "service.supervisor.child_main" in (title := processes.title(pid))
    }
    prefixes = {ENGINE: "engine", READER: "stream", WORKER: "worker"}
    found = {kind: [pid for pid in names if names[pid].startswith(prefix)] for kind, prefix in prefixes.items()}
    return {kind: of_kind for kind, of_kind in found.items() if of_kind}
