"""``python -m service.supervisor.admin.metrics_table``: writes the tables of metrics in docs/telemetry.md.

The rows are the samples of a service in which everything has been counted once, with their help texts.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from service.ground.latency import BOUNDS_S
from service.protocol.admin_models import ViewCounters
from service.protocol.counters import AccessLogCounts, Counters, SubscriptionCounts, WorkerCounts
from service.protocol.stats import EngineSizes, LoadStats, NodeStats, Stats
from service.supervisor.admin.metrics import histograms_of, samples_of
from service.supervisor.admin.prometheus import Histogram, MetricSample

DOCUMENT = Path(__file__).parents[3] / "docs" / "telemetry.md"
_BEGIN = "<!-- Written by python -m service.supervisor.admin.metrics_table. -->\n"
_END = "<!-- End of the written part. -->\n"
#: Titles of the tables, by the first label of their metrics.
_TITLES = {
    "process": "of processes",
    "worker": "of workers",
    "": "of an engine process",
    "view": "of views",
    "node": "of nodes of the engine (`/v1/graph` describes them), and of their initial loads",
}


def tables() -> str:
    """Return the tables, as Markdown."""
    rows: dict[str, dict[str, str]] = {title: {} for title in _TITLES}
    for metric in _metrics():
        labels = [label for label, _ in metric.labels]
        name = f"{metric.name}_total" if isinstance(metric, MetricSample) and metric.counter else metric.name
        shown = f"{name}{{{','.join(labels)}}}" if labels else name
        group = labels[0] if labels and labels[0] in _TITLES else ""
        rows[group].setdefault(f"| `{shown}` |", f" {_about(metric)} |")
    texts = ([f"| {_TITLES[group]} | meaning |", "|---|---|", *map("".join, rows[group].items())] for group in rows)
    return "\n".join("\n".join(lines) + "\n" for lines in texts)


def _about(metric: MetricSample | Histogram) -> str:
    return f"Histogram. {metric.help}" if isinstance(metric, Histogram) else metric.help


def _metrics() -> Iterator[MetricSample | Histogram]:
    child = SimpleNamespace(name="engine", alive=True, restarts=0, silent=False, hangs=0)
    stats = _stats()
    yield from samples_of(stats, [child])
    yield from histograms_of(stats)


def _stats() -> Stats:
    worker = WorkerCounts(
        requests=0,
        connections=0,
        files_left=0,
        problems={"": 0},
        wire={"": 0},
        outcomes={"": 0},
        access_log=AccessLogCounts(),
        log_left_out=0,
    )
    load = LoadStats(
        views=[], node=0, table="", phase="", way="", rows=0, rows_left=0, expected_rows=0, seconds=0, text=""
    )
    return Stats(
        counters=Counters(),
        engine={"": 0},
        sizes=EngineSizes(**dict.fromkeys(EngineSizes.model_fields, 0)),
        views={"": ViewCounters()},
        upqueries={"": [0] * (len(BOUNDS_S) + 1)},
        nodes=[NodeStats(id=0, kind="view", keys=0, state_bytes=0)],
        loads=[load],
        recent_errors=[],
        log_left_out=0,
        pid=0,
        workers=1,
        worker_processes={"0": worker},
        subscriptions=SubscriptionCounts(),
        position=0,
        version="",
        age_ms=0,
        streaming=True,
        resting_tables=[""],
    )


def written(document: str) -> str:
    """Return a document with the tables in place of those that it has."""
    head, _, rest = document.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}\n{tables()}\n{_END}{tail}"


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
