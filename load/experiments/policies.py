"""``upquery bench policies``: hit rates of eviction policies on traces of the workloads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from load.micro.policy_replay import DEFAULT, POLICIES, replay
from load.processes import RunConditions
from load.progress import Tell
from load.report.figures import Figure, Measurement, Result
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.traces import lobsters, vote
from load.traces.trace import Trace, read_trace, write_trace
from load.workloads.lobsters.dataset import LobstersSize
from load.workloads.vote import VoteSpec

#: Sizes of the memory that are compared, as shares of the keys that are read at all; and more of them for plots.
COMPARED = (0.01, 0.05, 0.10, 0.25)
PLOTTED = (0.002, 0.005, 0.01, 0.02, 0.05, 0.10, 0.25, 0.5)
#: How far the default may be behind the best one, in percentage points.
GOAL_POINTS = 1.0
#: Arguments of a short run.
SHORT = ("--reads", "50000", "--lobsters-visits", "300", "--scale", "0.02", "--no-plots")

_ABOUT = (
    "Reads of traces go through a memory that holds a share of the keys (or of the bytes) that the trace reads;"
    " on a miss, the key is filled and others go by the policy. “Keys alike” counts keys. “In samples” is the same, but"
    " the policy gets hits as in the service: 5,000 at a time. “Weighed” has a budget of bytes, each key with its"
    " bytes and the lookups that computing it takes, and counts the lookups saved; it is reported where keys differ."
)


@dataclass(frozen=True, slots=True)
class Mode:
    name: str
    weighted: bool
    sample: int

    def rate(self, policy: str, trace: Trace, share: float) -> float:
        """Hit rate, or weighted rate, as a percentage."""
        replayed = replay(policy, trace, share, weighted=self.weighted, sample=self.sample)
        return 100 * (replayed.saved_rate if self.weighted else replayed.hit_rate)


MODES = (Mode("keys alike", False, 0), Mode("in samples", False, 5_000), Mode("weighed", True, 0))


def command(
    reads: Annotated[int, typer.Option(min=1_000, help="Reads of each vote trace.")] = 300_000,
    stories: Annotated[int, typer.Option(min=1_000, help="Stories of the vote traces.")] = 1_000_000,
    lobsters_visits: Annotated[int, typer.Option(min=0, help="Page visits of the Lobsters trace; 0: none.")] = 3_000,
    scale: Annotated[float, typer.Option(min=0.001, max=1, help="Scale of the Lobsters site.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    trace: Annotated[list[Path] | None, typer.Option(help="Recorded traces to use instead.")] = None,
    keep: Annotated[Path | None, typer.Option(help="Folder to save the traces in.")] = None,
    plots: Annotated[bool, typer.Option(help="Measure more memory sizes, and plot them.")] = True,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Hit rates of the eviction policies on traces of vote and Lobsters. Some five minutes."""

    def work(_: RunConditions, tell: Tell) -> Report:
        if trace:
            return run([read_trace(path) for path in trace], PLOTTED if plots else COMPARED, tell=tell)
        traces = list(record(reads, stories, lobsters_visits, LobstersSize(scale), seed, tell))
        if keep is not None:
            _keep(traces, keep)
        return run(traces, PLOTTED if plots else COMPARED, tell=tell)

    perform("policies", work, as_json=as_json, output=output)


def record(reads: int, stories: int, visits: int, size: LobstersSize, seed: int, tell: Tell) -> Iterator[Trace]:
    tell("vote: making the traces")
    yield vote.steady(VoteSpec(stories), reads, seed)
    yield vote.shifting(VoteSpec(stories, shift_every=20), reads, seed)
    yield vote.scanned(VoteSpec(stories), reads, seed)
    if visits:
        yield lobsters.record(size, visits, seed, tell)


def _keep(traces: Sequence[Trace], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for trace in traces:
        write_trace(trace, folder / f"{trace.name.replace(', ', '-')}.trace.gz")


def run(traces: Sequence[Trace], shares: Sequence[float], *, tell: Tell) -> Report:
    """Compare all policies on all traces."""
    results: list[Result] = []
    tables, plots = [_traces(traces)], []
    for trace in traces:
        for mode in MODES if _differ(trace) else MODES[:2]:
            tell(f"{trace.name}, {mode.name}")
            rates = {p: {share: mode.rate(p, trace, share) for share in shares} for p in POLICIES}
            results.append(_behind(trace, mode, rates))
            tables.append(_table(trace, mode, rates))
            plots.append(_plot(trace, mode, rates))
    return Report("Eviction policies", _ABOUT, results, tables, plots)


def _differ(trace: Trace) -> bool:
    return len({(key.weight_bytes, key.cost) for key in trace.keys}) > 1


def _traces(traces: Sequence[Trace]) -> ReportTable:
    rows = [
        (
            trace.name,
            trace.about,
            f"{len(trace.reads):,}",
            f"{len(trace.keys):,}",
            f"{sum(key.weight_bytes for key in trace.keys) / 2**20:,.1f} MiB",
        )
        for trace in traces
    ]
    return ReportTable("Traces", ("trace", "of", "reads", "keys", "bytes"), rows)


#: Policy -> share of the memory -> percentage.
Rates = dict[str, dict[float, float]]


def _behind(trace: Trace, mode: Mode, rates: Rates) -> Figure:
    """How far the default is behind the best at each compared size."""
    shares = [share for share in COMPARED if share in rates[DEFAULT]]
    behind = [max(of[share] for of in rates.values()) - rates[DEFAULT][share] for share in shares]
    rate = ", ".join(f"{share:.0%}: {rates[DEFAULT][share]:.1f} %" for share in shares)
    return Figure(
        "policies",
        f"{trace.name}, {mode.name}: {DEFAULT} behind the best policy",
        Measurement(max(behind), min(behind), max(behind)),
        "points",
        GOAL_POINTS,
        more_is_better=False,
        detail=f"the worst of the memory sizes ({rate})",
    )


def _table(trace: Trace, mode: Mode, rates: Rates) -> ReportTable:
    rows = [
        (f"{share:.2%}".replace(".00", ""), *(f"{of[share]:.1f}" for of in rates.values())) for share in rates[DEFAULT]
    ]
    return ReportTable(f"{trace.name}, {mode.name}: {_counted(mode)}, %", ("memory", *rates), rows)


def _plot(trace: Trace, mode: Mode, rates: Rates) -> Plot:
    lines = [PlotLine(policy, [100 * share for share in of], list(of.values())) for policy, of in rates.items()]
    held = "bytes" if mode.weighted else "keys"
    return Plot(
        f"{trace.name}, {mode.name}",
        f"memory, % of all {held} read",
        f"{_counted(mode)}, %",
        lines,
        caption=f"{trace.about}. Higher is better.",
        x_scale="log",
    )


def _counted(mode: Mode) -> str:
    return "lookups saved" if mode.weighted else "hit rate"
