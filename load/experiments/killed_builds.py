"""Builds with processes killed in the middle: each view must become ready by itself, and be right.

The same view as in `initial_state`, once undisturbed, then once with each of these killed at a random moment: the
job, its Java, the engine's process, the snapshot's connection; and once with a disk that is too small.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from threading import Event
from time import monotonic
from typing import Annotated, Any

import httpx
import psycopg
import typer

from load import processes
from load.experiments import view_build
from load.experiments.initial_state import (
    ComparedOption,
    PatienceOption,
    RateOption,
    StoriesOption,
    VotesOption,
    WayOption,
    figures,
    ways_of,
    wrong_table,
)
from load.experiments.view_build import Built, build, spark_of
from load.progress import Tell
from load.report.figures import Result, Skipped
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import ReportTable
from load.report.report import Report
from load.sides.admin_client import AdminClient
from load.sides.postgres import running_upstream
from load.sides.side import Side, SideError, UpstreamDatabase
from load.workloads.front_page import SITE, load_front_page

BENCH = "killed_builds"
SHORT = ("--stories", "20000", "--votes", "400000", "--rate", "200", "--before", "1", "--after", "3", "--kill", "java")
#: What can be ended, and of which ways it is a part.
KILLS = {
    "job": ("spark",),
    "java": ("spark",),
    "engine": ("spark", "direct"),
    "holder": ("spark", "direct"),
    "disk": ("spark",),
}
_POLL_S = 0.05
#: Of the time that a build takes: what reads upstream is gone before its end.
_FIRST = 0.5
#: Large enough for a manifest, and for nothing else.
_DISK_BYTES = 64 << 10
_HOLDERS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'upquery'"
    " AND backend_type = 'client backend' AND state <> 'idle' AND xact_start < clock_timestamp() - interval '100 ms'"
    " ORDER BY xact_start LIMIT 1"
)


@dataclass(frozen=True, slots=True)
class Options:
    stories: int
    votes: int
    ways: Sequence[str]
    kills: Sequence[str]
    #: A kill comes within so many seconds; None: within the time that the undisturbed build took.
    limit_s: float | None
    seed: int
    building: view_build.BuildConditions


def command(
    stories: StoriesOption = 1_000_000,
    votes: VotesOption = 20_000_000,
    rate: RateOption = 1000.0,
    way: WayOption = None,
    kill: Annotated[
        list[str] | None, typer.Option(help=f"Processes to kill: {', '.join(KILLS)}. Default: all.")
    ] = None,
    limit: Annotated[float | None, typer.Option(help="Latest second of a kill. Default: the build's.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the moments of the kills.")] = 1,
    before: Annotated[float, typer.Option(help="Seconds before the view is put.")] = 5.0,
    after: Annotated[float, typer.Option(help="Seconds after it is ready.")] = 15.0,
    patience: PatienceOption = 1800.0,
    compared: ComparedOption = 2000,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2]",
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Kill parts of builds in the middle: job, Java, engine, snapshot, disk. Each build must finish, and be right."""
    for name in kill or ():
        if name not in KILLS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(KILLS)}")
    conditions = view_build.BuildConditions(stories, rate, before, after, patience, compared, master)
    options = Options(stories, votes, ways_of(way), kill or tuple(KILLS), limit, seed, conditions)
    perform(BENCH, lambda _, tell: run(options, tell), as_json=as_json, output=output)


def run(options: Options, tell: Tell) -> Report:
    """Each way undisturbed, then with each thing that is ended."""
    tell(f"{options.stories:,} stories and {options.votes:,} votes: loading")
    with running_upstream(SITE, load_front_page(options.stories, options.votes, tell)) as upstream:
        results: list[Result] = []
        tables: list[ReportTable] = []
        for way in options.ways:
            for name, found in _builds(way, upstream, options, tell):
                if isinstance(found, Skipped):
                    results.append(found)
                else:
                    results += figures(BENCH, name, found, options.building)
                    tables += wrong_table(name, found)
    return Report(
        title="Builds that are ended in the middle",
        about=(
            f"The front page of {options.stories:,} stories and about {options.votes:,} votes, built while"
            f" {options.building.rate:g} transactions a second arrive. Each build but the first of a way is ended once"
            f" at a random moment (seed {options.seed}): the process of Spark's job, its Java, the engine's process,"
            " the connection that holds the snapshot (of a direct build, the one that reads); or it has a disk that is"
            " too small. Compared as in initial_state: answers at their versions, stories at the end."
        ),
        results=results,
        tables=tables,
    )


def _builds(
    way: str, upstream: UpstreamDatabase, options: Options, tell: Tell
) -> Iterator[tuple[str, Built | Skipped]]:
    undisturbed = build(way, upstream, options.building, tell)
    yield f"{way}, undisturbed", undisturbed
    limit = options.limit_s or undisturbed.ready_s or options.building.patience_s / 2
    random = Random(options.seed)
    for kill in options.kills:
        name = f"{way}, {kill}"
        if way not in KILLS[kill]:
            continue
        tell(f"{name}: begins")
        if kill == "disk":
            yield name, _on_a_small_disk(way, upstream, options, tell)
        else:
            moment = random.uniform(0, limit if kill == "engine" else _FIRST * limit)
            yield name, build(way, upstream, options.building, tell, partial(_end, kill, upstream, moment, limit))


def _on_a_small_disk(way: str, upstream: UpstreamDatabase, options: Options, tell: Tell) -> Built | Skipped:
    try:
        with _small_disk() as directory:
            conditions = replace(options.building, spark={"directory": str(directory)})
            found = build(way, upstream, conditions, tell)
            found.ended = f"a disk of {_DISK_BYTES >> 10} KiB"
            return found
    except (OSError, subprocess.CalledProcessError) as error:
        return Skipped(BENCH, f"{way}, disk: a small file system cannot be mounted here: {error}")


@contextmanager
def _small_disk() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="upquery-disk-"))
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(directory)],
            check=True,
            capture_output=True,
        )
        try:
            yield directory
        finally:
            subprocess.run(["umount", "-l", str(directory)], check=False, capture_output=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _end(kill: str, upstream: UpstreamDatabase, moment: float, limit: float, side: Side, stop: Event) -> str:
    """End it at that moment, or as soon after it as it is there; what was done."""
    begun = monotonic()
    stop.wait(moment)
    ends: dict[str, Callable[[], bool]] = {
        "job": lambda: _kill(_jobs(side)),
        "java": lambda: _kill(_javas(side)),
        "engine": lambda: _kill_engine(side),
        "holder": lambda: _terminate(upstream.url),
    }
    while not stop.is_set() and monotonic() - begun < 3 * limit:
        with suppress(OSError, httpx.HTTPError, SideError, psycopg.OperationalError):
            if ends[kill]():
                return f"{kill} ended after {monotonic() - begun:.1f} s"
        stop.wait(_POLL_S)
    return f"{kill} was not there to be ended"


def _jobs(side: Side) -> list[int]:
    return [pid for pid in side.pids() if "-m dataflow.spark.build" in processes.title(pid)]


def _javas(side: Side) -> list[int]:
    titles = {pid: processes.title(pid) for pid in spark_of(side.pids())}
    return [pid for pid, title in titles.items() if title.split(" ")[0].endswith("/java")]


def _kill(pids: list[int]) -> bool:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(pids)


def _kill_engine(side: Side) -> bool:
    return _kill([AdminClient.of(side).stats().engine_pid])


def _terminate(url: str) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        found: list[tuple[Any, ...]] = connection.execute(_HOLDERS.encode()).fetchall()
        for (pid,) in found:
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])
    return bool(found)
