"""``upquery bench workload_model``: hit rates predicted by a workload model, against measured ones.

The reads of a workload go to a service with an access log and memory for all of them; that log is modelled
(``upquery workload report``). Then the same requests go to services with smaller budgets, each from a cold start, and
their hit rates are compared with the model's.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Annotated, Any

import typer

from load.driver.connection import Broken, SingleConnection
from load.driver.visit import READS, HttpCall, Visit
from load.processes import RunConditions
from load.progress import Tell, number
from load.report.figures import Figure, Measurement
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.sides.admin_client import AdminClient
from load.sides.direct import direct
from load.sides.postgres import running_upstream
from load.sides.side import Side, SideError, UpstreamDatabase
from load.sides.upquery import upquery
from load.site import SiteDefinition
from load.workloads import vote
from load.workloads.lobsters.bulk_load import load as load_lobsters
from load.workloads.lobsters.dataset import LobstersSize
from load.workloads.lobsters.site import lobsters
from load.workloads.lobsters.workload import LobstersSpec

BENCH = "workload_model"
SHORT = ("--stories", "5000", "--reads", "20000", "--lobsters-visits", "150", "--scale", "0.01", "--per-s", "500")
#: Budgets, as shares of what all keys that are read take.
SHARES = (0.10, 0.25, 0.50, 0.80)
_GOAL = 2.0
_AMPLE = "4GiB"
_MIB = 1 << 20
#: Until the workers have reported all reads, and how often it is looked.
_COUNTED_S = 60.0
_REPORT_S = 2.5


@dataclass(frozen=True, slots=True)
class _Trace:
    """Requests that only read, in order. `per_s`: how many are sent each second, at most; None: each once the one
    before is answered. The service's policy hears of reads each second, so who is slower where more is missing is to be
    as slow where nothing is."""

    name: str
    about: str
    site: SiteDefinition
    calls: Sequence[HttpCall]
    per_s: float | None = None


@dataclass(frozen=True, slots=True)
class _Compared:
    trace: str
    share: float
    budget_bytes: int
    predicted: float
    measured: float

    @property
    def off_points(self) -> float:
        """By how much the prediction is off."""
        return 100 * abs(self.predicted - self.measured)


def command(
    stories: Annotated[int, typer.Option(min=100, help="Stories of the vote workload.")] = 100_000,
    reads: Annotated[int, typer.Option(min=0, help="Reads of the vote workload; 0: none.")] = 150_000,
    alpha: Annotated[float, typer.Option(help="Skew of the stories.")] = 0.9,
    lobsters_visits: Annotated[int, typer.Option(min=0, help="Page visits of Lobsters; 0: none.")] = 3_000,
    scale: Annotated[float, typer.Option(min=0.001, max=1, help="Scale of the Lobsters site.")] = 0.1,
    per_s: Annotated[float, typer.Option(min=1, help="Maximum requests a second to Lobsters.")] = 50,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Predicted against measured hit rates at four budgets, for vote and Lobsters."""

    def work(_: RunConditions, tell: Tell) -> Report:
        compared = _vote(stories, reads, alpha, seed, tell) if reads else []
        if lobsters_visits:
            compared += _lobsters(LobstersSize(scale), lobsters_visits, per_s, seed, tell)
        return _report(compared)

    perform(BENCH, work, as_json=as_json, output=output)


def _vote(stories: int, reads: int, alpha: float, seed: int, tell: Tell) -> list[_Compared]:
    workload, random = vote.VoteSpec(stories, alpha, read_share=1.0).start(0, 1), Random(seed)
    calls = [call for _ in range(reads) for call in next(workload.visit(random)[1])]
    trace = _Trace("vote", f"{reads:,} reads of {stories:,} stories, skew {alpha}", vote.SITE, calls)
    tell(f"vote: loading {stories:,} stories")
    with running_upstream(vote.SITE, vote.load_stories(stories, 5)) as upstream:
        return _compare(trace, upstream, tell)


def _lobsters(size: LobstersSize, visits: int, per_s: float, seed: int, tell: Tell) -> list[_Compared]:
    site = lobsters()
    tell("lobsters: writing the site")
    with running_upstream(site, lambda url: load_lobsters(url, size, counter_columns=True)) as upstream:
        calls: list[HttpCall] = []
        workload, random = LobstersSpec(size).start(0, 1), Random(seed)
        with direct(upstream, site) as side, SingleConnection(side.reads_url, side.writes_url) as connection:
            for number_ in range(visits):
                if number_ % 100 == 0:
                    tell(f"lobsters: visit {number_:,} of {visits:,}")
                _make(connection, _noted(workload.visit(random)[1], calls))
        trace = _Trace("lobsters", f"{visits:,} visits at scale {size.scale:g}", site, calls, per_s)
        return _compare(trace, upstream, tell)


def _make(connection: SingleConnection, visit: Visit) -> None:
    """A page may find what another one has taken away."""
    try:
        connection.make(visit)
    except (Broken, LookupError, OSError, ValueError):
        return


def _noted(visit: Visit, calls: list[HttpCall]) -> Visit:
    """The visit; what it reads is noted, without the version that it wants."""
    try:
        asked = next(visit)
        while True:
            calls += [_plain(call) for call in asked if call.server == READS]
            asked = visit.send((yield asked))
    except StopIteration:
        return


def _plain(call: HttpCall) -> HttpCall:
    head, separator, body = call.request.partition(b"\r\n\r\n")
    dropped = (b"upquery-min-version:", b"prefer:")
    lines = [line for line in head.split(b"\r\n") if not line.startswith(dropped)]
    return HttpCall(call.server, b"\r\n".join(lines) + separator + body)


def _compare(trace: _Trace, upstream: UpstreamDatabase, tell: Tell) -> list[_Compared]:
    with tempfile.TemporaryDirectory(prefix="upquery-workload-") as directory:
        model = _modelled(trace, upstream, Path(directory), tell)
    points = {point["share"]: point for point in model["curve"]}
    found = []
    for share in SHARES:
        point = points[share]
        tell(f"{trace.name}: {share:.0%} of the memory")
        with upquery(str(point["budget_bytes"]))(upstream, trace.site) as side:
            _replay(side, trace)
            measured = _hit_rate(side)
        found.append(_Compared(trace.name, share, point["budget_bytes"], point["hit_rate"], measured))
    return found


def _modelled(trace: _Trace, upstream: UpstreamDatabase, directory: Path, tell: Tell) -> dict[str, Any]:
    """The model of a service with ample memory."""
    tell(f"{trace.name}: {len(trace.calls):,} requests with memory for all")
    log = directory / "log"
    sections = {"access_log": {"path": str(log), "buffer_reads": 1_000_000}}
    with upquery(_AMPLE, sections=sections)(upstream, trace.site) as side:
        _replay(side, trace)
        _hit_rate(side)
        (directory / "measured.json").write_text(json.dumps(_documents(side)), encoding="utf-8")
    tell(f"{trace.name}: modelling its log")
    more = ("--measured", str(directory / "measured.json"), "--reads", "1000000")
    done = subprocess.run(report_command(log, directory, *more), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SideError(f"the log cannot be modelled: {done.stderr[-2000:]}")
    model: dict[str, Any] = json.loads((directory / "model.json").read_text(encoding="utf-8"))
    return model


def report_command(log: Path, out: Path, *more: str) -> list[str]:
    """The arguments of ``upquery workload report`` in a process of its own."""
    program = (sys.executable, "-c", "from service.command.cli import app; app()")
    return [*program, "workload", "report", "--log", str(log), "--out", str(out), *more]


def _replay(side: Side, trace: _Trace) -> None:
    started = monotonic()
    with SingleConnection(side.reads_url, side.writes_url) as connection:
        for place, call in enumerate(trace.calls):
            if trace.per_s is not None:
                sleep(max(0.0, started + place / trace.per_s - monotonic()))
            connection.ask(call)


def _documents(side: Side) -> dict[str, Any]:
    admin = AdminClient.of(side)
    return {"views": admin.views(), **{name: admin.get(f"/v1/{name}") for name in ("stats", "graph", "footprints")}}


def _hit_rate(side: Side) -> float:
    """Hit rate of all reads, once the workers have reported them: two equal counts, one report interval apart."""
    before, deadline = (-1, -1), monotonic() + _COUNTED_S
    admin = AdminClient.of(side)
    while monotonic() < deadline:
        views = admin.get("/v1/stats")["views"].values()
        counted = (sum(view["hits"] for view in views), sum(view["misses"] for view in views))
        if counted == before and counted != (0, 0):
            return counted[0] / (counted[0] + counted[1])
        before = counted
        sleep(_REPORT_S)
    raise SideError("the workers go on counting reads")


def _report(compared: Sequence[_Compared]) -> Report:
    columns = ("workload", "memory", "budget MiB", "predicted", "measured", "off by points")
    rows = [
        (
            c.trace,
            f"{c.share:.0%}",
            number(c.budget_bytes / _MIB),
            f"{c.predicted:.2%}",
            f"{c.measured:.2%}",
            f"{c.off_points:.2f}",
        )
        for c in compared
    ]
    traces = list(dict.fromkeys(c.trace for c in compared))
    figures = []
    lines = []
    for trace in traces:
        of_trace = [c for c in compared if c.trace == trace]
        off = [c.off_points for c in of_trace]
        figures.append(
            Figure(
                BENCH,
                f"{trace}: prediction off by at most",
                Measurement(max(off), min(off), max(off)),
                "points",
                _GOAL,
                more_is_better=False,
            )
        )
        shares = [100 * c.share for c in of_trace]
        lines.append(PlotLine(f"{trace}, predicted", shares, [100 * c.predicted for c in of_trace], trace, dashed=True))
        lines.append(PlotLine(f"{trace}, measured", shares, [100 * c.measured for c in of_trace], trace))
    return Report(
        "Workload models: predicted against measured hit rates",
        "The reads of each workload went to a service with memory for all keys; its access log was modelled. Then the"
        " same requests went to services with budgets of shares of what all keys take, beginning with nothing.",
        figures,
        [ReportTable("Hit rates", columns, rows)],
        [Plot("Hit rate over memory", "memory, % of all keys'", "hits, %", lines)],
    )
