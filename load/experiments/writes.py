"""Writes a second into one dataflow until the service falls behind (thesis, §6.8), and what the limit is.

The rate rises until the service is more than a second behind; then the highest that it keeps up with is searched. The
service has a core of its own; the database and the writer share the other, since it is the dataflow that is measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from multiprocessing.connection import Connection as Pipe
from statistics import median
from threading import Event
from time import monotonic
from typing import Annotated

import psycopg
import typer

from load import processes
from load.experiments import vote
from load.experiments.profile import Profile, profile
from load.experiments.warm_up import read_all
from load.experiments.write_load import LagWatch, WriteJob, ready_writer
from load.processes import RunConditions
from load.programs import MissingProgramError
from load.progress import Tell, number
from load.report.figures import Figure, Measurement, Result, Skipped
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.sides.admin_client import AdminClient
from load.sides.postgres import running_upstream
from load.sides.side import Side, UpstreamDatabase
from load.sides.upquery import upquery
from load.workloads.changes import ChangeWorkload, notifications, votes

BENCH = "writes"
SHORT = ("--stories", "20000", "--scale", "0.02", "--seconds", "3", "--start-rate", "500", "--most-rate", "1000")
#: Updates a second of Noria's dataflow for notifications (thesis, §6.8).
_NORIA = 4_300.0
#: A service that keeps up is at most that much behind at the end of a run, and hardly falls back in its second half.
_BEHIND_S = 1.0
_FALLEN_BACK_S = 0.25
#: Less than this share of what was asked for is not what was asked for; the last transactions of a run may be missing.
_WRITTEN = 0.95
_PRECISION = 1.15
_CATCH_UP_S = 120.0
_PROFILE_S = 6.0
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Options:
    stories: int = 200_000
    votes_each: int = 5
    alpha: float = 1.15
    hottest: int = 50_000
    #: Of the whole Lobsters site.
    scale: float = 1.0
    seconds: float = 8.0
    #: Changes of a transaction.
    many: Sequence[int] = (1, 100)
    start_rate: float = 1000.0
    most_rate: float = 200_000.0


@dataclass(frozen=True, slots=True)
class _Run:
    rate: float
    written_per_s: float
    #: Rows that came and went: an update is two.
    applied_per_s: float
    #: Seconds behind at the end: the median of the last quarter's samples.
    behind_s: float
    #: How much more that is than in the second quarter.
    fallen_back_s: float
    #: Cores that were used, by whom.
    cpu: dict[str, float]

    @property
    def kept_up(self) -> bool:
        return self.behind_s <= _BEHIND_S and self.fallen_back_s <= _FALLEN_BACK_S

    @property
    def was_written(self) -> bool:
        return self.written_per_s >= _WRITTEN * self.rate


@dataclass(slots=True)
class _Ramp:
    """All rates of one kind of change."""

    name: str
    runs: list[_Run] = field(default_factory=list)
    profile: Profile | None = None
    why_no_profile: str = ""

    @property
    def best(self) -> _Run | None:
        """The highest rate that all sustained."""
        return max((run for run in self.runs if run.kept_up and run.was_written), key=lambda r: r.rate, default=None)


def command(
    stories: vote.StoriesOption = 200_000,
    votes_each: vote.VotesOption = 5,
    alpha: vote.AlphaOption = 1.15,
    scale: Annotated[float, typer.Option(help="Scale of the Lobsters site.")] = 1.0,
    seconds: vote.SecondsOption = 8.0,
    many: Annotated[list[int] | None, typer.Option(help="Changes in a transaction. Default: 1 and 100.")] = None,
    start_rate: Annotated[float, typer.Option(help="Changes a second at the start.")] = 1000.0,
    most_rate: Annotated[float, typer.Option(help="Maximum changes a second.")] = 200_000.0,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Changes a second into one dataflow until it falls behind: votes, and Lobsters' notifications; with a profile."""
    options = Options(
        stories, votes_each, alpha, min(50_000, stories), scale, seconds, many or (1, 100), start_rate, most_rate
    )
    perform(BENCH, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: RunConditions, tell: Tell) -> Report:
    """Both kinds of changes, in transactions of each size."""
    kinds = (
        votes(options.stories, options.votes_each, options.alpha, options.hottest),
        notifications(options.scale),
    )
    ramps = [ramp for changes in kinds for ramp in _ramps(changes, options, conditions, tell)]
    return Report(
        title="Writes: how many changes a dataflow takes",
        about=(
            f"Votes: {options.stories:,} stories, skew {options.alpha}, the {options.hottest:,} hottest in memory."
            f" Notifications: Lobsters at {options.scale:g} of its size, everybody's notifications in memory; people"
            " see a story again, any as likely. A procedure in the database commits the changes one transaction after"
            f" the other. A rate is sustained if the service is at most {_BEHIND_S:g} s behind after"
            f" {options.seconds:g} s, and does not fall back. The service has one core; database and writer share"
            " the other."
        ),
        results=[figure for ramp in ramps for figure in _figures(ramp)],
        tables=[table for ramp in ramps for table in _tables(ramp)],
        plots=[_plot(ramps)],
    )


def _ramps(changes: ChangeWorkload, options: Options, conditions: RunConditions, tell: Tell) -> list[_Ramp]:
    tell(f"{changes.name}: loading")
    with (
        running_upstream(changes.site, changes.load) as upstream,
        upquery("8GiB")(upstream, changes.site) as side,
    ):
        keys = list(changes.keys())
        read_all(side, changes.view, (dict(key) for key in keys), len(keys), tell)
        return [_Bench(changes, many, side, upstream, options, conditions, tell).ramp() for many in options.many]


class _Bench:
    """One kind of change, in transactions of one size."""

    def __init__(
        self,
        changes: ChangeWorkload,
        many: int,
        side: Side,
        upstream: UpstreamDatabase,
        options: Options,
        conditions: RunConditions,
        tell: Tell,
    ) -> None:
        self._changes, self._many = changes, many
        self._side, self._upstream = side, upstream
        self._options, self._conditions, self._tell = options, conditions, tell
        self._admin = AdminClient.of(side)
        self._name = f"{changes.name}, {many} a transaction"

    def ramp(self) -> _Ramp:
        """Rates that double, then between the last good and the first bad one; then a profile beyond the limit."""
        ramp = _Ramp(self._name)
        low, high = 0.0, self._options.start_rate
        while self._is_good(high, ramp):
            low = high
            if high >= self._options.most_rate:
                return ramp
            high = min(self._options.most_rate, 2 * high)
        while low and high / low > _PRECISION:
            middle = sqrt(low * high)
            low, high = (middle, high) if self._is_good(middle, ramp) else (low, middle)
        self._profile(high * 2, ramp)
        return ramp

    def _is_good(self, rate: float, ramp: _Ramp) -> bool:
        run = self._run(rate, self._options.seconds)
        ramp.runs.append(run)
        self._tell(
            f"{self._name}: {number(rate)}/s asked for, {number(run.written_per_s)}/s written,"
            f" {run.behind_s:.2g} s behind at the end"
        )
        return run.kept_up and run.was_written

    def _profile(self, rate: float, ramp: _Ramp) -> None:
        """Profile of the engine while it is overloaded."""
        engine = self._admin.stats().engine_pid
        found: list[Profile] = []
        try:
            self._run(rate, _PROFILE_S + 3, lambda: found.append(profile(engine, _PROFILE_S)))
        except (MissingProgramError, RuntimeError) as error:
            ramp.why_no_profile = str(error)
        ramp.profile = found[0] if found else None

    def _run(self, rate: float, seconds: float, meanwhile: Callable[[], None] | None = None) -> _Run:
        self._pin()
        job = WriteJob(
            self._upstream.url,
            self._ids(),
            self._changes.alpha,
            self._many,
            rate,
            seconds,
            self._conditions.client_cores,
        )
        watch = LagWatch(self._upstream.url, self._admin)
        with ready_writer(job) as writer, watch:
            before = self._cpu()
            begin = monotonic()
            writer.send(0)
            if meanwhile is not None:
                meanwhile()
            written = self._written(writer, seconds)
            end = monotonic()
            used = {name: (seen - before[name]) / (end - begin) for name, seen in self._cpu().items()}
            self._catch_up()
        quarter = (end - begin) / 4
        early = median(watch.samples.lags(begin + quarter, begin + 2 * quarter) or [0.0])
        late = median(watch.samples.lags(end - quarter, end) or [0.0])
        applied_per_s = watch.samples.rows_per_s(begin + quarter, end)
        return _Run(rate, written / (end - begin), applied_per_s, late, late - early, used)

    def _written(self, writer: Pipe, seconds: float) -> int:
        if not writer.poll(seconds + _CATCH_UP_S):
            raise RuntimeError("the writer did not end in time")
        return int(writer.recv())

    def _catch_up(self) -> None:
        """Wait until the service is where the database is now; not for ever."""
        pause = Event()
        deadline = monotonic() + _CATCH_UP_S
        before = -1
        while (rows := self._admin.stats().counter("rows")) != before and monotonic() < deadline:
            before = rows
            pause.wait(1.0)

    def _ids(self) -> int:
        with psycopg.connect(self._upstream.url) as connection:
            row = connection.execute(self._changes.count_sql.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def _pin(self) -> None:
        servers, clients = self._conditions.server_cores, self._conditions.client_cores
        if servers is not None and clients is not None:
            database = self._upstream.pids()
            processes.pin(set(self._side.pids()) - set(database), *servers)
            processes.pin(database, *clients)

    def _cpu(self) -> dict[str, float]:
        """CPU seconds so far."""
        engine = self._admin.stats().engine_pid
        database = self._upstream.pids()
        senders = [pid for pid in database if "walsender" in processes.title(pid)]
        rest = set(self._side.pids()) - set(database) - {engine}
        return {
            "engine": processes.cpu_seconds([engine]),
            "rest of the service": processes.cpu_seconds(rest),
            "database, sending its log": processes.cpu_seconds(senders),
            "database, else": processes.cpu_seconds(set(database) - set(senders)),
        }


def _figures(ramp: _Ramp) -> list[Result]:
    best = ramp.best
    if best is None:
        return [Skipped(BENCH, f"{ramp.name}: not even the lowest rate was sustained")]
    beyond = [run for run in ramp.runs if run.rate > best.rate]
    limited = (
        "" if not beyond or any(not run.kept_up for run in beyond) else "; the database or the writer was the limit"
    )
    capacity = max((run.applied_per_s for run in ramp.runs), default=0.0)
    goal = _NORIA if ramp.name.startswith("notifications") else None
    detail = (
        f"{best.behind_s:.2g} s behind; engine {best.cpu['engine']:.0%} of a core"
        f"; {number(capacity)} rows/s applied when there was more to do{limited}"
    )
    return [
        Figure(
            BENCH,
            f"{ramp.name}: sustained changes/s",
            Measurement.of([best.written_per_s]),
            "/s",
            goal,
            True,
            detail,
        )
    ]


def _tables(ramp: _Ramp) -> list[ReportTable]:
    runs = sorted(ramp.runs, key=lambda run: run.rate)
    columns = ("asked for /s", "written /s", "rows applied /s", "s behind", *(f"{name}, cores" for name in runs[0].cpu))
    rows = [
        (
            number(run.rate),
            number(run.written_per_s),
            number(run.applied_per_s),
            f"{run.behind_s:.2g}",
            *(f"{used:.2f}" for used in run.cpu.values()),
        )
        for run in runs
    ]
    tables = [ReportTable(ramp.name, columns, rows)]
    if ramp.profile is not None:
        tables += [
            ReportTable(
                f"{ramp.name}: the engine process beyond its limit, by part",
                ("part", "of its time"),
                [(name, f"{share:.1%}") for name, share in ramp.profile.by_part[:_SHOWN]],
            ),
            ReportTable(
                f"{ramp.name}: by function",
                ("function, with what it calls outside", "of its time"),
                [(name, f"{share:.1%}") for name, share in ramp.profile.by_function[:_SHOWN]],
            ),
        ]
    elif ramp.why_no_profile:
        tables.append(ReportTable(f"{ramp.name}: no profile", ("why",), [(ramp.why_no_profile,)]))
    return tables


def _plot(ramps: Sequence[_Ramp]) -> Plot:
    lines = []
    for ramp in ramps:
        runs = sorted(ramp.runs, key=lambda run: run.rate)
        lines.append(
            PlotLine(ramp.name, [run.written_per_s for run in runs], [max(0.01, run.behind_s) for run in runs])
        )
    return Plot(
        "How far behind, over the rate",
        "changes written a second",
        "s behind at the end of a run",
        lines,
        "Where a line turns upwards, the service no longer keeps up.",
        x_scale="log",
        y_scale="log",
        marks_y=(_BEHIND_S,),
    )
