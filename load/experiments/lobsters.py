"""A news site at its real size: pages a second with p95 below 100 ms, and wrong answers (thesis §6.2).

Every side begins with the same warm-up load. Rates double until one is too high, then bisection finds the highest that
is not. Afterwards, at half that rate, visitors vote and check that their votes show; and when all is quiet, a sample of
the reads is repeated and compared with the database.

A side that is within the limit at no rate is overloaded instead: its rate then, whatever the latency, is its maximum.

The database and Redis are measured twice: with the queries that Upquery has, and over counter columns that the
application maintains, without which the site could not be run (thesis §6.3).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Annotated

import typer

from load.driver.audit import AuditResult, audit
from load.driver.outcome import RunOutcome
from load.driver.run import run_load
from load.driver.search import Search, highest_rate
from load.processes import RunConditions
from load.programs import MissingProgramError
from load.progress import Tell, number
from load.report.figures import Figure, Measurement, Result, Skipped
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import ReportTable
from load.report.report import Report
from load.sides.cache_aside import redis
from load.sides.direct import direct
from load.sides.postgres import running_upstream
from load.sides.side import Side, StartSide, UpstreamDatabase
from load.sides.upquery import upquery
from load.site import SiteDefinition
from load.workloads.lobsters.bulk_load import load
from load.workloads.lobsters.dataset import LobstersSize, site
from load.workloads.lobsters.probes import OwnWrites, looking, reads_of
from load.workloads.lobsters.site import ORDERED, lobsters
from load.workloads.lobsters.workload import LobstersSpec

NAME = "lobsters"
SHORT = ("--scale", "0.02", "--seconds", "3", "--warm", "5", "--most-rate", "40", "--audit-visits", "20")
#: What the front page is late by at most on a side that only expires it.
_TTL_S = 60
_SIDES = ("upquery", "direct", "redis", "direct-counters", "redis-counters")
_GOALS = {"direct": 20.0, "direct-counters": 20.0, "redis": 2.0, "redis-counters": 2.0}
#: Suffix of sides whose database maintains counts of votes and hotness.
_COUNTERS = "-counters"
#: Of the highest rate, while people look for their own writes.
_PROBED_AT = 0.5
#: Users who look; more would be other users.
_LOOKERS = 100
_READS_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Options:
    size: LobstersSize = field(default_factory=LobstersSize)
    seconds: float = 20.0
    warm_s: float = 120.0
    warm_rate: float = 20.0
    p95_ms: float = 100.0
    start_rate: float = 16.0
    most_rate: float = 2_000.0
    audit_visits: int = 60


@dataclass(frozen=True, slots=True)
class SideResult:
    side: str
    search: Search
    #: The run of a side that is overloaded at every rate.
    overloaded: RunOutcome | None
    own: OwnWrites
    audited: AuditResult | None
    state_mib: float
    resident_mib: float

    @property
    def rate(self) -> float:
        """Pages a second: within the limit, or at most."""
        best = self.search.best or self.overloaded
        return best.achieved_per_s if best else 0.0


def command(
    sides: Annotated[list[str] | None, typer.Argument(help=f"Some of: {', '.join(_SIDES)}. Default: all.")] = None,
    scale: Annotated[float, typer.Option(min=0.005, max=1.0, help="Scale of the site; 1 is its full size.")] = 1.0,
    seconds: Annotated[float, typer.Option(min=1.0, help="Length of one run.")] = 20.0,
    warm: Annotated[float, typer.Option(min=0.0, help="Seconds of load before the first run.")] = 120.0,
    warm_rate: Annotated[float, typer.Option(help="Visits a second of that load.")] = 20.0,
    p95_ms: Annotated[float, typer.Option(help="Limit of the 95th percentile.")] = 100.0,
    start_rate: Annotated[float, typer.Option(help="Visits a second at the start.")] = 16.0,
    most_rate: Annotated[float, typer.Option(help="Maximum visits a second.")] = 2_000.0,
    audit_visits: Annotated[int, typer.Option(min=0, help="Visits whose reads are compared afterwards.")] = 60,
    memory: Annotated[str, typer.Option(help="Memory budget of Upquery.")] = "3GiB",
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Lobsters at production scale: pages a second with p95 below 100 ms; wrong answers are counted."""
    if unknown := set(sides or ()) - set(_SIDES):
        raise typer.BadParameter(f"no side named {', '.join(sorted(unknown))}")
    options = Options(LobstersSize(scale), seconds, warm, warm_rate, p95_ms, start_rate, most_rate, audit_visits)
    starts: dict[str, StartSide] = {"upquery": upquery(memory), "direct": direct, "redis": redis(ttl_s=_TTL_S)}
    starts |= {f"{name}{_COUNTERS}": _with_counters(starts[name]) for name in ("direct", "redis")}
    wanted = {name: starts[name] for name in sides or _SIDES}

    def work(conditions: RunConditions, tell: Tell) -> Report:
        return run(options, wanted, conditions=conditions, tell=tell)

    perform(NAME, work, as_json=as_json, output=output)


def _with_counters(start: StartSide) -> StartSide:
    @contextmanager
    def named(upstream: UpstreamDatabase, site: SiteDefinition) -> Iterator[Side]:
        with start(upstream, site) as side:
            yield replace(side, name=f"{side.name}, counter columns")

    return named


def run(options: Options, sides: Mapping[str, StartSide], *, conditions: RunConditions, tell: Tell) -> Report:
    """Each side in turn, on one database of its kind."""
    measured: dict[str, SideResult] = {}
    skipped: list[Result] = []

    def measure(names: Sequence[str], *, counters: bool) -> None:
        if not names:
            return
        tell("lobsters: writing the site")
        with running_upstream(lobsters(), lambda url: load(url, options.size, counter_columns=counters)) as upstream:
            for name in names:
                try:
                    measured[name] = _measure(sides[name], upstream, options, conditions, tell)
                except MissingProgramError as missing:
                    skipped.append(Skipped(NAME, f"{name}: {missing}"))

    measure([name for name in sides if not name.endswith(_COUNTERS)], counters=False)
    measure([name for name in sides if name.endswith(_COUNTERS)], counters=True)
    return Report(
        title="Lobsters: pages a second",
        about=_about(options),
        results=[*_figures(measured, options), *skipped],
        tables=[_table(measured)],
        outcomes=[outcome for each in measured.values() for outcome in _outcomes(each)],
    )


def _measure(
    start: StartSide, upstream: UpstreamDatabase, options: Options, conditions: RunConditions, tell: Tell
) -> SideResult:
    spec = LobstersSpec(options.size)
    tell("lobsters: starting a side, building what it keeps whole")
    with start(upstream, lobsters()) as side:

        def at(rate: float, seconds: float) -> RunOutcome:
            return run_load(side, spec, rate=rate, seconds=seconds, conditions=conditions, tell=tell)

        if options.warm_s and side.state_bytes():
            at(options.warm_rate, options.warm_s)
        search = highest_rate(
            side,
            spec,
            p95_ms=options.p95_ms,
            seconds=options.seconds,
            conditions=conditions,
            tell=tell,
            start_rate=options.start_rate,
            most_rate=options.most_rate,
            precision=0.1,
            tries=2,
        )
        overloaded = None if search.best else at(options.start_rate, options.seconds)
        rate = search.best.offered_per_s if search.best else 0.5
        state, resident = side.state_bytes(), side.resident_bytes()
        with looking(side, _lookers(options.size), seed=1) as own:
            at(max(0.5, _PROBED_AT * rate), options.seconds)
        audited = _audited(side, upstream, spec, len(search.tried), options, tell) if side.state_bytes() else None
        return SideResult(side.name, search, overloaded, own, audited, state / 2**20, resident / 2**20)


def _lookers(size: LobstersSize) -> list[int]:
    """People who visit, from the busiest."""
    votes = site(size).user_votes
    return sorted(range(1, len(votes) + 1), key=lambda user: -votes[user - 1])[:_LOOKERS]


def _audited(
    side: Side, upstream: UpstreamDatabase, spec: LobstersSpec, runs: int, options: Options, tell: Tell
) -> AuditResult:
    """Compares answers to the reads of the first visitors of the search's last run with the database's."""
    tell(f"{side.name}: comparing answers with the database's")
    with direct(upstream, lobsters()) as truth:
        visitors = Random(f"{runs} visits 0")
        reads = reads_of(spec.start(0, 1), visitors, options.audit_visits, side)
        return audit(side, truth, reads, ordered=ORDERED, at_once=_READS_AT_ONCE)


def _outcomes(measured: SideResult) -> list[RunOutcome]:
    return [*measured.search.tried, *([measured.overloaded] if measured.overloaded else [])]


def _about(options: Options) -> str:
    size = "all of it" if options.size.scale == 1 else f"{options.size.scale:g} of it"
    return (
        f"The news site lobste.rs as it was in March 2018, {size}: whole, it is 9,200 accounts, 40,650 stories, 121,270"
        " comments and 940,000 votes. Pages come as often as there (thesis, Table 6.1), each asks its real queries, in"
        " a few requests that depend on each other; who votes much visits much, and stories with many votes are viewed"
        " more. Visits come as a Poisson process, however slow the side is, and are timed from when they were due. The"
        f" highest rate is that at which p95 over all pages stays within {options.p95_ms:g} ms. All that serves a side,"
        " the database too, shares one core. Queries are the 'natural' ones: no column that the application would have"
        " to maintain by hand; sides with counter columns have votes and hotness counted by their writes, in the same"
        " transaction, as the site's own code does. Redis is read first and filled on a miss; a write deletes what its"
        f" author knows to be wrong then, and everything expires after {_TTL_S} s."
    )


def _figures(measured: Mapping[str, SideResult], options: Options) -> list[Result]:
    figures: list[Result] = []
    for name, each in measured.items():
        figures.append(
            Figure(
                NAME,
                f"{each.side}: pages/s with p95 ≤ {options.p95_ms:g} ms",
                Measurement.of([each.rate]),
                "/s",
                detail=_detail(each),
            )
        )
        if name in _GOALS and "upquery" in measured and each.rate:
            ratio = measured["upquery"].rate / each.rate
            figures.append(
                Figure(
                    NAME,
                    f"Upquery against {each.side}",
                    Measurement.of([ratio]),
                    "x",
                    _GOALS[name],
                    detail="" if each.search.best else "against the most it does when overloaded",
                )
            )
    if "upquery" in measured:
        figures.append(_wrong(measured["upquery"]))
    return figures


def _detail(measured: SideResult) -> str:
    if measured.overloaded is not None:
        late = measured.overloaded.latency
        return f"at no rate: overloaded, with p50 {number(late.p50_ms)} ms and p95 {number(late.p95_ms)} ms"
    best = measured.search.best
    cpu = "" if best is None else f"; {number(best.server_cpu_us)} µs of CPU a page"
    return measured.search.verdict + cpu


def _wrong(measured: SideResult) -> Figure:
    stale = measured.own.not_shown + (measured.audited.different if measured.audited else 0)
    return Figure(NAME, "stale answers of Upquery", Measurement.of([float(stale)]), "", 0.0, more_is_better=False)


def _table(measured: Mapping[str, SideResult]) -> ReportTable:
    columns = (
        "side",
        "answers compared when quiet",
        "wrong",
        "own votes looked for",
        "not shown",
        "failed",
        "state MiB",
        "resident MiB",
        "an example",
    )
    return ReportTable("Wrong answers, and memory", columns, [_row(each) for each in measured.values()])


def _row(measured: SideResult) -> tuple[str, ...]:
    audited, own = measured.audited, measured.own
    return (
        measured.side,
        f"{audited.compared:,}" if audited else "",
        f"{audited.different:,}" if audited else "",
        f"{own.looked:,}",
        f"{own.not_shown:,}",
        f"{own.failed:,}",
        number(measured.state_mib),
        number(measured.resident_mib),
        audited.examples[0][:200] if audited and audited.examples else "",
    )
