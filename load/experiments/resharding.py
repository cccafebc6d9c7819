"""One more pod under load: two shards behind a gateway, then three; no answer may be wrong at any moment.

Reads are checked, each at the version that it states, against what one writer wrote; at the end all stories are
compared with the database. The change costs clients latency, and the database the upqueries that fill keys at their new
homes.
"""

from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Annotated, Self

import httpx
import psycopg
import typer

from load.driver.audit import AuditResult, audit
from load.experiments import vote
from load.experiments.resharding_clients import BATCH, Histories, ReadJob, WriterLog, read_on, write_on
from load.experiments.resharding_report import BENCH, GatewaySample, ReshardingRun, figures, plots, sample_of, tables
from load.experiments.warm_up import read_all
from load.postgres_log import log_end
from load.progress import Tell
from load.report.output import JsonOption, OutputOption, perform
from load.report.report import Report
from load.sides.admin_client import AdminClient
from load.sides.direct import direct
from load.sides.pods import GatewaySide, PodSettings, running_pods
from load.sides.postgres import running_upstream
from load.sides.side import Side, SideError, UpstreamDatabase
from load.worker_process import ended, worker_process
from load.workloads.front_page import SITE
from load.workloads.vote import VIEW, load_stories

SHORT = ("--stories", "1000", "--rate", "50", "--reads", "80", "--before", "3", "--move", "4", "--after", "3")
VOTES_EACH = 3
_SAMPLE_S = 0.25
#: Beyond the time within which keys are to move: until new pods answer.
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Options:
    stories: int
    #: Shards at first, and those that come.
    pods: int
    more: int
    #: Transactions and reads a second.
    rate: float
    reads: float
    before_s: float
    move_s: float
    after_s: float


def command(
    stories: vote.StoriesOption = 20_000,
    pods: Annotated[int, typer.Option(min=1, max=8, help="Shards at the start.")] = 2,
    more: Annotated[int, typer.Option(min=1, max=8, help="Shards to add.")] = 1,
    rate: Annotated[float, typer.Option(min=1, help="Transactions a second.")] = 200.0,
    reads: Annotated[float, typer.Option(min=1, help="Reads a second.")] = 300.0,
    before: Annotated[float, typer.Option(help="Seconds before the change.")] = 15.0,
    move: Annotated[float, typer.Option(help="Seconds within which keys move (move_s of a gateway).")] = 30.0,
    after: Annotated[float, typer.Option(help="Seconds after all keys have moved.")] = 15.0,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Two pods behind a gateway, then a third: wrong answers (none), latency and upqueries before, during and after."""
    options = Options(stories, pods, more, rate, reads, before, move, after)
    perform(BENCH, lambda _, tell: run(options, tell), as_json=as_json, output=output)


def run(options: Options, tell: Tell) -> Report:
    """All of it. Nothing is pinned."""
    tell(f"{options.stories:,} stories: loading")
    with (
        running_upstream(SITE, load_stories(options.stories, VOTES_EACH)) as upstream,
        running_pods(upstream, SITE, options.pods, PodSettings(move_s=options.move_s)) as gateway,
    ):
        # Twice: what is read at the very beginning is answered by the database, and not cached.
        for _ in range(2):
            stories = ({"id": story} for story in range(1, options.stories + 1))
            read_all(gateway.side, VIEW, stories, options.stories, tell)
        found = _reshard(options, upstream, gateway, tell)
        found.compared = _compare(options, upstream, gateway.side)
    tell(f"{len(found.wrong)} of {len(found.answers):,} answers are wrong, {len(found.failures)} reads failed")
    return Report(
        title="Resharding: a pod more under load",
        about=(
            f"{options.stories:,} stories, all in memory of {options.pods} pods behind a gateway; {options.rate:g}"
            f" transactions a second vote, take votes back and rename, and {options.reads:g} reads a second come at"
            f" random times, half of one story, half of {BATCH} stories and the number of transactions in one request."
            f" Then {options.more} more are added to the gateway's file; keys move within {options.move_s:g} s. Each"
            " answer is compared with what it must be at the version that it states. Nothing is pinned: pods, gateway,"
            " database and clients share the machine."
        ),
        results=figures(found),
        tables=tables(found),
        plots=plots(found),
    )


def _reshard(options: Options, upstream: UpstreamDatabase, gateway: GatewaySide, tell: Tell) -> ReshardingRun:
    found = ReshardingRun()
    job = ReadJob(gateway.side.reads_url, options.stories, options.reads)
    pause = Event()
    with (
        worker_process(write_on, upstream.url, options.stories, options.rate) as writer,
        worker_process(read_on, job) as reader,
        GatewayWatch(gateway.side) as watch,
    ):
        for pipe in (writer, reader):
            pipe.send(None)
        found.begin = monotonic()
        pause.wait(options.before_s)
        found.added = monotonic()
        gateway.behind.add(options.more, options.pods + options.more)
        tell(f"{len(gateway.behind.pods)} pods are there")
        found.changed = monotonic()
        gateway.use_all()
        tell("the gateway reads its new file")
        watch.wait_until_moved(options.pods + options.more, options.move_s)
        found.moved = monotonic()
        tell(f"all keys have their homes after {found.moved - found.changed:.1f} s")
        pause.wait(options.after_s)
        found.end = monotonic()
        found.answers, found.failures = ended(reader)
        _check(found, ended(writer))
    found.samples = watch.samples
    return found


def _check(found: ReshardingRun, written: WriterLog) -> None:
    """Each answer, at its version."""
    histories = Histories(written, VOTES_EACH)
    found.written = len(written.changes)
    found.behind = [histories.behind_s(answer) for answer in found.answers]
    for answer in found.answers:
        if (wrong := histories.what_is_wrong(answer)) is not None:
            found.wrong.append(f"after {answer.at - found.begin:.1f} s: {wrong}")


def _compare(options: Options, upstream: UpstreamDatabase, side: Side) -> AuditResult:
    """All stories with the database, nobody writing."""
    with psycopg.connect(upstream.url, autocommit=True) as connection:
        end = log_end(connection)
    reads = [(VIEW, {"id": story}) for story in range(1, options.stories + 1)]
    with direct(upstream, SITE) as truth:
        return audit(side, truth, reads, newer_than=end)


class GatewayWatch:
    """Takes samples while entered, in a thread of its own."""

    def __init__(self, side: Side) -> None:
        self._admin = AdminClient.of(side)
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="watch", daemon=True)
        self.samples: list[GatewaySample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait_until_moved(self, shards: int, move_s: float) -> None:
        """Return once the gateway knows so many shards, and has nothing to move to them. Raises `SideError`."""
        end = monotonic() + move_s + _PATIENCE_S
        while monotonic() < end:
            last = self.samples[-1] if self.samples else None
            if last is not None and last.shards == shards and not last.moving:
                return
            self._stop.wait(_SAMPLE_S)
        raise SideError(f"keys did not move to {shards} shards within {move_s + _PATIENCE_S:.0f} s")

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            # A pod that is just starting has no answer.
            with suppress(httpx.HTTPError, SideError):
                self.samples.append(sample_of(self._admin.stats().document, monotonic()))
