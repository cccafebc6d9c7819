"""Breaks under load: the stream's connection, the engine, the whole service, at 70 % of the news site's highest rate.

One run: every `interval` seconds something is broken, and heals by itself or is restarted. Hits are compared with those
of the half minute before the break; statements and their time, of all that the database was asked
(``pg_stat_statements``), with the minute before it.

Not here: whether answers are right (`tests.faults`).
"""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Annotated

import httpx
import psycopg
import typer

from load.driver.freshness import TABLE_SQL, VIEW, FreshnessProbe
from load.driver.outcome import Moment, RunOutcome
from load.driver.run import run_load
from load.driver.search import highest_rate
from load.processes import RunConditions
from load.progress import Tell, number
from load.report.figures import Figure, Measurement, Result
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.sides.admin_client import AdminClient
from load.sides.postgres import running_upstream
from load.sides.restartable import RestartableService, restartable_upquery
from load.sides.side import Side, SideError, UpstreamDatabase
from load.site import SiteDefinition
from load.workloads.lobsters.bulk_load import load
from load.workloads.lobsters.dataset import LobstersSize
from load.workloads.lobsters.site import lobsters
from load.workloads.lobsters.workload import LobstersSpec

NAME = "breaks"
SHORT = ("--scale", "0.02", "--rate", "20", "--warm", "10", "--interval", "15")
#: Permanent slots need a limit.
_SETTINGS = {"shared_preload_libraries": "pg_stat_statements", "max_slot_wal_keep_size": "4GB"}
WALSENDER, ENGINE = "walsender ended", "engine killed"
_LOAD = 0.7
_SEARCH_S = 15.0
_P95_MS = 100.0
#: Of before, at which hits count as back.
_BACK = 0.95
#: For so many seconds.
_STEADY_S = 5
_BEFORE_S, _FIRST_S, _MINUTE_S = 30, 10, 60
_STATEMENTS = (
    "SELECT sum(calls), sum(total_exec_time) FROM pg_stat_statements WHERE query !~ '(pg_stat_statements|freshness)'"
)


@dataclass(frozen=True, slots=True)
class Options:
    size: LobstersSize = field(default_factory=LobstersSize)
    rate: float | None = None
    warm_s: float = 300.0
    interval_s: int = 90
    memory: str = "3GiB"


#: Counters that only grow; evictions begin again at 0 with another engine.
COUNTED = ("statements", "statement_ms", "evictions")


@dataclass(frozen=True, slots=True)
class Broken:
    """One break of a run. `away_s`: until the service was ready again."""

    what: str
    second: int
    away_s: float


@dataclass(slots=True)
class Breaker:
    """Breaks a service at times of a run, and samples counters each second."""

    side: Side
    service: RestartableService
    upstream: UpstreamDatabase
    cores: tuple[int, ...] | None
    interval_s: int
    tell: Tell
    begin: float = 0.0
    broken: list[Broken] = field(default_factory=list)
    #: `COUNTED` at the beginning of each second.
    samples: list[dict[str, float]] = field(default_factory=list)

    @property
    def breaks(self) -> dict[str, Callable[[], None]]:
        return {
            WALSENDER: self._end_walsender,
            ENGINE: self._kill_engine,
            "service restarted": self._restart,
        }

    @property
    def seconds(self) -> int:
        """Length of the run."""
        return self.interval_s * (len(self.breaks) + 1)

    def run(self) -> None:
        """Break one thing after another; returns shortly before the run ends."""
        self.begin = monotonic()
        pause = threading.Event()
        with (
            ThreadPoolExecutor(1, initializer=self._on_server_cores) as thread,
            psycopg.connect(self.upstream.url, autocommit=True) as connection,
        ):
            breaking = []
            for second in range(self.seconds):
                pause.wait(max(0.0, self.begin + second - monotonic()))
                self.samples.append(self._sample(connection))
                number, rest = divmod(second, self.interval_s)
                if number and not rest:
                    breaking.append(thread.submit(self._break, [*self.breaks.items()][number - 1]))
            for each in breaking:
                each.result()

    def _break(self, named: tuple[str, Callable[[], None]]) -> None:
        what, do = named
        self.tell(f"{self.side.name}: {what}")
        started = monotonic()
        do()
        self.broken.append(Broken(what, int(started - self.begin), monotonic() - started))

    def _sample(self, connection: psycopg.Connection) -> dict[str, float]:
        row = connection.execute(_STATEMENTS).fetchone()
        assert row is not None
        evictions = self.samples[-1]["evictions"] if self.samples else 0
        with suppress(SideError, httpx.HTTPError):
            evictions = AdminClient.of(self.side).stats().counter("leaf_evictions")
        return dict(zip(COUNTED, (float(row[0] or 0), float(row[1] or 0), evictions), strict=True))

    def _on_server_cores(self) -> None:
        """Run what this thread starts on the servers' cores."""
        if self.cores is not None:
            os.sched_setaffinity(0, self.cores)

    def _end_walsender(self) -> None:
        with psycopg.connect(self.upstream.url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")

    def _kill_engine(self) -> None:
        os.kill(AdminClient.of(self.side).stats().engine_pid, signal.SIGKILL)

    def _restart(self) -> None:
        self.service.stop()
        self.service.start()


def command(
    scale: Annotated[float, typer.Option(min=0.005, max=1.0, help="Scale of the site; 1 is its full size.")] = 1.0,
    rate: Annotated[float | None, typer.Option(help="Visits a second. Default: 70 % of the highest rate.")] = None,
    warm: Annotated[float, typer.Option(min=1.0, help="Seconds of load before.")] = 300.0,
    interval: Annotated[int, typer.Option(min=15, help="Seconds between breaks.")] = 90,
    memory: Annotated[str, typer.Option(help="Memory budget.")] = "3GiB",
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Breaks at 70 % of Lobsters' highest rate: stream, engine, service; hits, statements and delays afterwards."""
    options = Options(LobstersSize(scale), rate, warm, interval, memory)
    perform(NAME, lambda conditions, tell: run(options, conditions, tell), as_json=as_json, output=output)


def run(options: Options, conditions: RunConditions, tell: Tell) -> Report:
    """Load the site, warm it, and break the service."""
    tell("lobsters: writing the site")
    site = _with_probe(lobsters())
    with (
        running_upstream(site, lambda url: load(url, options.size), _SETTINGS) as upstream,
        restartable_upquery(upstream, site, options.memory) as (side, service),
    ):
        spec = LobstersSpec(options.size)
        rate = options.rate or _LOAD * _highest(side, spec, options, conditions, tell)
        breaker = Breaker(side, service, upstream, conditions.server_cores, options.interval_s, tell)
        with FreshnessProbe(side, upstream) as probe:
            outcome = run_load(
                side,
                spec,
                rate=rate,
                seconds=breaker.seconds,
                warm_s=options.warm_s,
                conditions=conditions,
                tell=tell,
                during=breaker.run,
            )
        return _report(options, rate, outcome, breaker, probe)


def _with_probe(site: SiteDefinition) -> SiteDefinition:
    extension = "CREATE EXTENSION pg_stat_statements;\n"
    return replace(site, schema_sql=extension + TABLE_SQL + site.schema_sql, views=(*site.views, VIEW))


def _highest(side: Side, spec: LobstersSpec, options: Options, conditions: RunConditions, tell: Tell) -> float:
    """The highest rate with p95 within the limit, after the same warming as the run."""
    run_load(side, spec, rate=20.0, seconds=options.warm_s, conditions=conditions, tell=tell)
    found = highest_rate(
        side, spec, p95_ms=_P95_MS, seconds=_SEARCH_S, start_rate=16.0, conditions=conditions, tell=tell, precision=0.1
    )
    return found.best.achieved_per_s if found.best else 8.0


def _report(options: Options, rate: float, outcome: RunOutcome, breaker: Breaker, probe: FreshnessProbe) -> Report:
    rows = [_Row(each, outcome.moments, breaker, probe) for each in breaker.broken]
    return Report(
        title="Breaks under load",
        about=(
            f"The news site at {options.size.scale:g} of its size, {number(rate)} pages a second after"
            f" {options.warm_s:g} s of the same load; {number(breaker.interval_s)} s between breaks. Hits are compared"
            f" with the {_BEFORE_S} s before, seconds in which the service was away left out; statements of the"
            " database with as long a time before."
        ),
        results=[figure for row in rows for figure in row.figures()],
        tables=[ReportTable("Breaks", _Row.COLUMNS, [row.cells() for row in rows])],
        plots=[_plot(outcome.moments, breaker.broken)],
        outcomes=[outcome],
    )


def _plot(moments: Sequence[Moment], broken: Sequence[Broken]) -> Plot:
    seconds = [float(moment.second) for moment in moments]
    lines = [
        PlotLine("hits", seconds, [_hit_rate([moment]) for moment in moments]),
        PlotLine("pages that failed", seconds, [moment.failed / max(1, moment.offered) for moment in moments]),
    ]
    marks = [(float(each.second), each.what) for each in broken]
    return Plot("Share of hits, and of pages that failed", "seconds", "share", lines, marks=marks)


def _hit_rate(moments: Sequence[Moment]) -> float:
    """Share of hits. A page that failed counts as a miss: that is what was refused, while hits went on."""
    hits = sum(moment.hits for moment in moments)
    return hits / max(1, hits + sum(moment.misses + moment.failed for moment in moments))


class _Row:
    """One break in the report."""

    COLUMNS = (
        "break",
        "away s",
        "pages failed",
        "hits before",
        f"hits in the first {_FIRST_S} s, of before",
        f"seconds until {_BACK:.0%} of before",
        "longest time without a change, s",
        "keys evicted, and before",
        "statements, of before",
        "their time, of before",
    )

    def __init__(self, broken: Broken, moments: Sequence[Moment], breaker: Breaker, probe: FreshnessProbe) -> None:
        self.broken = broken
        begin, back = broken.second, broken.second + int(broken.away_s)
        end = begin + breaker.interval_s
        after = moments[back:end]
        self.before = _hit_rate(moments[max(0, begin - _BEFORE_S) : begin])
        self.first = _hit_rate(after[:_FIRST_S]) / max(self.before, 1e-9)
        back_at = (i for i in range(len(after)) if _hit_rate(after[i : i + _STEADY_S]) >= _BACK * self.before)
        self.until = next(back_at, len(after))
        self.failed = sum(moment.failed for moment in moments[begin:end])
        self.late_s = probe.longest_s(breaker.begin + begin, breaker.begin + end - 2)
        self._samples, self._begin, self._span = breaker.samples, begin, min(_MINUTE_S, breaker.interval_s - 1)

    def figures(self) -> list[Result]:
        """The figures of this break."""
        what = self.broken.what
        if what == WALSENDER:
            late = Measurement.of([self.late_s])
            return [Figure(NAME, f"{what}: longest time without a change", late, "s", 1.0, more_is_better=False)]
        hits = Figure(NAME, f"{what}: hits of the first {_FIRST_S} s", Measurement.of([self.first]), "x", _BACK)
        if what == ENGINE:
            until = Measurement.of([float(self.until)])
            name = f"{what}: until hits are {_BACK:.0%} of before"
            return [hits, Figure(NAME, name, until, "s", 5.0, more_is_better=False)]
        asked = Measurement.of([self._ratio("statements")])
        return [hits, Figure(NAME, f"{what}: statements after it", asked, "x", 1.2, more_is_better=False)]

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        evictions = "{1:,.0f}, {0:,.0f}".format(*self._around("evictions")) if self.broken.what == WALSENDER else ""
        return (
            self.broken.what,
            f"{self.broken.away_s:.1f}",
            f"{self.failed:,}",
            f"{self.before:.1%}",
            f"{self.first:.3f}",
            f"{self.until}",
            f"{self.late_s:.2f}",
            evictions,
            f"{self._ratio('statements'):.2f}",
            f"{self._ratio('statement_ms'):.2f}",
        )

    def _ratio(self, name: str) -> float:
        before, after = self._around(name)
        return after / max(1.0, before)

    def _around(self, name: str) -> tuple[float, float]:
        """Growth of a counter before the break, and in as many seconds from there."""
        at, samples = self._begin, self._samples
        earlier, later = max(0, at - self._span), min(at + self._span, len(samples) - 1)
        first, middle, last = (samples[second][name] for second in (earlier, at, later))
        return middle - first, last - middle
