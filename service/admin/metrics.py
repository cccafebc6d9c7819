"""What is counted, as metrics. Names follow Prometheus' conventions: unit last, counters end in ``_total``."""

from collections.abc import Iterable, Iterator
from typing import Any

from service.telemetry import Sample

_HELP = {
    "steps": "Events that the engine handled.",
    "transactions": "Upstream transactions applied.",
    "rows": "Rows of upstream transactions applied.",
    "leaf_commits": "Commits of the leaf store.",
    "reads": "Reads that missed the leaf store.",
    "reads_answered": "Missed reads answered after filling.",
    "reads_forwarded": "Missed reads answered by the upstream.",
    "reads_failed": "Missed reads that could not be answered.",
    "lookups": "Lookups run upstream.",
    "lookup_keys": "Keys of lookups.",
    "lookup_rows": "Rows that lookups returned.",
    "lookup_failures": "Lookups that failed.",
    "refreshes": "Keys of refreshed views that were run upstream.",
    "refresh_rows": "Rows that these returned.",
    "refresh_failures": "Refreshes that failed.",
    "heartbeats": "Heartbeats.",
    "pushes": "Logical messages that pushed the stream.",
    "streams": "Change streams started.",
    "streams_lost": "Change streams lost.",
    "engine_failures": "Steps that failed; the engine was built anew.",
    "upstream_statements": "Statements run upstream.",
}


def samples_of(stats: dict[str, Any] | None, children: Iterable[Any]) -> Iterator[Sample]:
    """The samples; without an engine only those of the supervisor."""
    yield Sample("upquery_engine_up", float(stats is not None), "Whether the engine process answers.")
    for child in children:
        labels = (("process", child.name),)
        yield Sample("upquery_process_up", float(child.alive), "Whether a process runs.", labels)
        yield Sample("upquery_process_restarts", float(child.restarts), "Restarts of a process.", labels, counter=True)
    if stats is not None:
        yield from _engine_samples(stats)
        yield from _view_samples(stats["views"])


def _engine_samples(stats: dict[str, Any]) -> Iterator[Sample]:
    for name, value in stats["counters"].items():
        yield Sample(f"upquery_{name}", value, _HELP.get(name, name), counter=True)
    for name, value in stats["engine"].items():
        labels = (("event", name),)
        yield Sample(
            "upquery_engine_events", value, "How often rare things happened in the engine.", labels, counter=True
        )
    for name, value in stats["sizes"].items():
        yield Sample(f"upquery_{name}", value, f"Now: {name.replace('_', ' ')}.")
    yield Sample("upquery_age_seconds", stats["age_ms"] / 1000, "How far answers may be behind the upstream.")
    yield Sample("upquery_streaming", float(stats["streaming"]), "Whether the change stream is up.")
    yield Sample("upquery_position_bytes", stats["position"], "The applied position in the upstream's log.")


def _view_samples(views: dict[str, dict[str, int]]) -> Iterator[Sample]:
    for name, counters in views.items():
        for outcome in ("hits", "misses"):
            labels = (("view", name), ("outcome", outcome))
            yield Sample("upquery_view_reads", counters[outcome], "Reads of a view.", labels, counter=True)
    for name, counters in views.items():
        labels_ = (("view", name),)
        yield Sample("upquery_view_covered_keys", counters["covered_keys"], "Keys of a view in memory.", labels_)
        yield Sample("upquery_view_leaf_bytes", counters["leaf_bytes"], "Bytes of a view in the leaf store.", labels_)
