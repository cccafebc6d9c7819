"""Standard contents of a report about its runs: a table, and the plots that every comparison has."""

from collections.abc import Callable, Sequence

from load.driver.outcome import Moment, RunOutcome
from load.progress import number
from load.report.plots import Plot, PlotLine, ReportTable

_MIB = 1 << 20
#: A generator as busy as that may have been late itself.
_BUSY = 0.8


def table_of_runs(runs: Sequence[RunOutcome]) -> ReportTable:
    columns = (
        "side",
        "due/s",
        "done/s",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "max ms",
        "hits",
        "server µs",
        "generator µs",
        "resident MiB",
        "state MiB",
        "remarks",
    )
    return ReportTable("Runs", columns, [_row(run) for run in runs])


#: Of the columns, those that fit on a console.
_ON_A_CONSOLE = (0, 1, 2, 3, 4, 7, 8, 12)


def narrow_table_of_runs(runs: Sequence[RunOutcome]) -> ReportTable:
    whole = table_of_runs(runs)
    rows = [tuple(row[column] for column in _ON_A_CONSOLE) for row in whole.rows]
    return ReportTable(whole.title, tuple(whole.columns[column] for column in _ON_A_CONSOLE), rows)


def _row(run: RunOutcome) -> tuple[str, ...]:
    latency = run.latency
    last = run.moments[-1] if run.moments else None
    return (
        run.side,
        number(run.offered_per_s),
        number(run.achieved_per_s),
        number(latency.p50_ms),
        number(latency.p95_ms),
        number(latency.p99_ms),
        number(latency.max_ms),
        "" if run.hit_rate is None else f"{run.hit_rate:.1%}",
        number(run.server_cpu_us) if run.server_cpu_s else "",
        number(run.client_cpu_us),
        number(last.resident_bytes / _MIB) if last and last.resident_bytes else "",
        number(last.state_bytes / _MIB) if last and last.state_bytes else "",
        _remarks(run),
    )


def _remarks(run: RunOutcome) -> str:
    remarks = [
        "" if run.limit == "none" else f"{run.limit}'s limit",
        f"{run.failed:,} failed" if run.failed else "",
        f"{run.unanswered:,} unanswered" if run.unanswered else "",
        f"generator {run.generator_busy:.0%} busy" if run.limit == "none" and run.generator_busy > _BUSY else "",
    ]
    return ", ".join(remark for remark in remarks if remark)


def table_of_pages(runs: Sequence[RunOutcome]) -> ReportTable | None:
    """p95 of each page and side, in the runs that are shown; None where pages are all alike."""
    best = best_runs(runs)
    pages = sorted({page for run in best for page in run.by_page})
    if len(pages) < 2:
        return None
    rows = []
    for page in pages:
        latencies = [run.by_page.get(page) for run in best]
        rows.append((page, *("" if latency is None else number(latency.p95_ms) for latency in latencies)))
    return ReportTable("p95 ms by page", ("page", *(_named(run) for run in best)), rows)


def plots_of_runs(runs: Sequence[RunOutcome]) -> list[Plot]:
    """Throughput against p95; then, for the highest rate that each side sustained: latency, memory, hits."""
    if not runs:
        return []
    best = best_runs(runs)
    plots = [_throughput(runs)] if len(runs) > len(best) else []
    plots.append(_distribution(best))
    plots += _memory(best)
    plots += _hits(best)
    return plots


def best_runs(runs: Sequence[RunOutcome]) -> list[RunOutcome]:
    """Picks for each side the run with the highest rate that it served; if it served none, the lowest."""
    best: list[RunOutcome] = []
    for side in _sides(runs):
        mine = sorted((run for run in runs if run.side == side), key=lambda run: run.offered_per_s)
        kept_up = [run for run in mine if run.kept_up]
        best.append(kept_up[-1] if kept_up else mine[0])
    return best


def _sides(runs: Sequence[RunOutcome]) -> list[str]:
    return list(dict.fromkeys(run.side for run in runs))


def _throughput(runs: Sequence[RunOutcome]) -> Plot:
    lines = []
    for side in _sides(runs):
        mine = sorted(
            (run for run in runs if run.side == side and run.latency.count), key=lambda run: run.offered_per_s
        )
        lines.append(PlotLine(side, [run.offered_per_s for run in mine], [run.latency.p95_ms for run in mine]))
    return Plot(
        "Throughput against latency",
        "visits due a second",
        "p95 ms",
        lines,
        "Each point is a run at one rate. A side is at its limit where its line turns upwards: it falls behind, and"
        " what is due waits ever longer.",
        x_scale="log" if _is_wide([x for line in lines for x in line.x]) else "linear",
        y_scale="log",
    )


def _is_wide(values: Sequence[float]) -> bool:
    """Return whether values lie so far apart that the small ones would vanish on a linear axis."""
    positive = [value for value in values if value > 0]
    return bool(positive) and max(positive) > 20 * min(positive)


def _named(run: RunOutcome) -> str:
    return f"{run.side}, {number(run.offered_per_s)}/s"


def _distribution(best: Sequence[RunOutcome]) -> Plot:
    lines = []
    for run in best:
        points = [(ms, share) for share, ms in run.latency.curve if ms > 0]
        lines.append(PlotLine(_named(run), [ms for ms, _ in points], [share * 100 for _, share in points], run.side))
    return Plot(
        "Latency",
        "ms from when a visit was due to its last answer",
        "% of visits at most",
        lines,
        "Of each side, at the highest rate that it sustained. Further left is faster; the top shows the slowest.",
        x_scale="log",
        marks_y=(95.0,),
    )


def _memory(best: Sequence[RunOutcome]) -> list[Plot]:
    resident = _over_time(best, lambda moment: moment.resident_bytes / _MIB, "resident")
    state = _over_time(best, lambda moment: moment.state_bytes / _MIB, "own state", dashed=True)
    if not resident and not state:
        return []
    caption = "What the kernel counts for the processes of the cache, and what they say that their state takes."
    return [Plot("Memory over time", "s", "MiB", [*resident, *state], caption, y_range=(0, None))]


def _hits(best: Sequence[RunOutcome]) -> list[Plot]:
    def rate(moment: Moment) -> float:
        return 100 * moment.hits / max(1, moment.hits + moment.misses)

    lines = _over_time([run for run in best if run.hit_rate is not None], rate, "")
    caption = "Answers that were in memory already, each second."
    return [Plot("Hit rate over time", "s", "% hits", lines, caption, y_range=(0, 102))] if lines else []


def _over_time(
    runs: Sequence[RunOutcome], value: Callable[[Moment], float], what: str, *, dashed: bool = False
) -> list[PlotLine]:
    lines = []
    for run in runs:
        y = [value(moment) for moment in run.moments]
        if any(y):
            name = f"{_named(run)}: {what}" if what else _named(run)
            lines.append(PlotLine(name, [moment.second + 1 for moment in run.moments], y, run.side, dashed))
    return lines
