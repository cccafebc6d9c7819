"""Counters as metrics. Names follow Prometheus' conventions: unit last, counters end in ``_total``."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from service.ground.latency import BOUNDS_S
from service.ground.log_repeats import REPEATS
from service.protocol.admin_models import NodeCounters, ViewCounters
from service.protocol.counters import HELP, SubscriptionCounts, WorkerCounts
from service.protocol.stats import EngineSizes, LoadStats, NodeStats, Stats
from service.supervisor.admin.prometheus import Histogram, MetricSample

Labels = tuple[tuple[str, str], ...]
#: Of views and of nodes, counters: the metric's name, its value, its help.
_COUNTED: tuple[tuple[str, Callable[[NodeCounters], float], str], ...] = (
    ("filled_keys", lambda counted: counted.filled, "Filled keys, or parts of keys."),
    ("refilled_keys", lambda counted: counted.refilled, "Hot keys refilled before the next read."),
    ("applied_rows", lambda counted: counted.rows_applied, "Changed rows of cached keys."),
    ("dropped_rows", lambda counted: counted.rows_dropped, "Changed rows of uncached keys."),
    ("lookups", lambda counted: counted.lookups, "Lookups to fill keys."),
    ("lookup_keys", lambda counted: counted.lookup_keys, "Keys of these lookups."),
    ("lookup_rows", lambda counted: counted.lookup_rows, "Rows returned by these lookups."),
    ("lookup_seconds", lambda counted: counted.lookup_s, "Duration of these lookups."),
)


def samples_of(stats: Stats | None, children: Iterable[Any]) -> Iterator[MetricSample]:
    """The samples; without an engine only those of the supervisor."""
    yield MetricSample("upquery_engine_up", float(stats is not None), "Whether the engine process answers.")
    yield from process_samples(children)
    if stats is not None:
        for shard, each in _of_shards(stats):
            for sample in _shard_samples(each):
                yield replace(sample, labels=(*shard, *sample.labels)) if shard else sample
            yield left_out("-".join(("engine", *(number for _, number in shard))), each.log_left_out)
        for number, counted in stats.worker_processes.items():
            yield from _worker_samples((("worker", number),), counted)
            yield left_out(f"worker-{number}", counted.log_left_out)


def process_samples(children: Iterable[Any]) -> Iterator[MetricSample]:
    """Metrics of a supervisor."""
    yield left_out("supervisor", REPEATS.left_out)
    for child in children:
        labels = (("process", child.name),)
        yield MetricSample("upquery_process_up", float(child.alive), "Whether a process runs.", labels)
        yield MetricSample(
            "upquery_process_restarts", float(child.restarts), "Restarts of a process.", labels, counter=True
        )
        yield MetricSample(
            "upquery_process_silent",
            float(child.silent),
            "Whether a process runs without a heartbeat: it hangs.",
            labels,
        )
        help_ = "Times that a process was ended because it hung."
        yield MetricSample("upquery_process_hangs", float(child.hangs), help_, labels, counter=True)


def left_out(process: str, lines: int) -> MetricSample:
    """Lines omitted from the log of a process."""
    help_ = "Warnings and errors omitted from the log because there were many of their kind."
    return MetricSample("upquery_log_left_out", lines, help_, (("process", process),), counter=True)


def http_samples(worker: Labels, requests: int, connections: int, problems: dict[str, int]) -> Iterator[MetricSample]:
    """Metrics of a worker of a stack or a gateway."""
    yield MetricSample("upquery_http_requests", requests, "Requests answered.", worker, counter=True)
    yield MetricSample("upquery_http_connections", connections, "Connections of clients.", worker)
    for code, answered in problems.items():
        labels = (*worker, ("code", code))
        yield MetricSample("upquery_http_problems", answered, "Error responses, by code.", labels, counter=True)


def _of_shards(stats: Stats) -> list[tuple[Labels, Stats]]:
    """Counters of each shard, with the label that distinguishes it from others, if there are any."""
    if stats.shards is None:
        return [((), stats)]
    return [((("shard", str(each.shard)),), each) for each in stats.shards]


def _shard_samples(stats: Stats) -> Iterator[MetricSample]:
    yield from _engine_samples(stats)
    yield from _view_samples(stats.views)
    yield from _subscription_samples(stats.subscriptions)
    for node in stats.nodes:
        yield from _node_samples(node)
    for load in stats.loads:
        yield from _load_samples(load)


def histograms_of(stats: Stats | None) -> Iterator[Histogram]:
    """The histograms; without an engine none."""
    if stats is None:
        return
    for shard, each in _of_shards(stats):
        for histogram in _shard_histograms(each):
            yield replace(histogram, labels=(*shard, *histogram.labels))


def _shard_histograms(stats: Stats) -> Iterator[Histogram]:
    for name, counts in stats.upqueries.items():
        yield Histogram(
            "upquery_view_upquery_seconds",
            "Duration of misses answered after filling, as seen by the worker.",
            BOUNDS_S,
            counts,
            stats.views[name].upquery_s,
            (("view", name),),
        )


def _engine_samples(stats: Stats) -> Iterator[MetricSample]:
    for name, help_ in HELP.items():
        yield MetricSample(f"upquery_{name}", getattr(stats.counters, name), help_, counter=True)
    for name, value in stats.engine.items():
        labels = (("event", name),)
        yield MetricSample(
            "upquery_engine_events", value, "Occurrences of rare events in the engine.", labels, counter=True
        )
    for name, size in EngineSizes.model_fields.items():
        yield MetricSample(f"upquery_{_in_units(name)}", getattr(stats.sizes, name), size.description or "")
    yield MetricSample(
        "upquery_age_seconds", stats.age_ms / 1000, "Age: upper bound of the lag of answers behind the upstream."
    )
    yield MetricSample("upquery_streaming", float(stats.streaming), "Whether the change stream is up.")
    for table in stats.resting_tables:
        help_ = "Tables whose breaker is open after timeouts; only trial statements are run."
        yield MetricSample("upquery_table_resting", 1.0, help_, (("table", table),))
    yield MetricSample("upquery_position_bytes", stats.position, "The applied position in the upstream's log.")


def _subscription_samples(counts: SubscriptionCounts) -> Iterator[MetricSample]:
    yield MetricSample("upquery_subscribers", counts.subscribers, "Open subscriptions at all workers.")
    help_ = "Answers with subscribers, and those that linger."
    yield MetricSample("upquery_subscription_topics", counts.topics, help_)
    yield MetricSample("upquery_subscription_bytes", counts.bytes, "Memory of these answers and their logs of changes.")
    help_ = "Changes, each sent to all subscribers of an answer."
    yield MetricSample("upquery_subscription_changes", counts.changes, help_, counter=True)
    help_ = "Subscribers that were too slow, and answers that ended."
    yield MetricSample("upquery_subscription_must_refetches", counts.must_refetches, help_, counter=True)


def _worker_samples(worker: Labels, counted: WorkerCounts) -> Iterator[MetricSample]:
    yield from http_samples(worker, counted.requests, counted.connections, counted.problems)
    for operation, asked in counted.wire.items():
        labels = (*worker, ("operation", operation))
        yield MetricSample(
            "upquery_wire_requests", asked, "Requests of a worker to the engine, by operation.", labels, counter=True
        )
    for outcome, answered in counted.outcomes.items():
        labels = (*worker, ("outcome", outcome))
        help_ = "Requests over several shards, by how they reached one version."
        yield MetricSample("upquery_sharded_requests", answered, help_, labels, counter=True)
    if (left := counted.files_left) >= 0:
        yield MetricSample(
            "upquery_files_left",
            left,
            "Files and connections that a worker may still open; at 0 it accepts none.",
            worker,
        )
    log = counted.access_log
    yield MetricSample("upquery_access_log_lines", log.lines, "Reads written to the access log.", worker, counter=True)
    yield MetricSample(
        "upquery_access_log_dropped", log.dropped, "Reads dropped from the access log.", worker, counter=True
    )


def _in_units(name: str) -> str:
    return f"{name.removesuffix('_s')}_seconds" if name.endswith("_s") else name


def _view_samples(views: Mapping[str, ViewCounters]) -> Iterator[MetricSample]:
    for name, counters in views.items():
        outcomes = {
            "hits": counters.hits,
            "misses": counters.misses,
            "forwarded": counters.forwarded,
            "failed": counters.failed,
        }
        for outcome, reads in outcomes.items():
            labels = (("view", name), ("outcome", outcome))
            help_ = "Reads of a view at the workers; of its misses, fallbacks to the upstream and errors."
            yield MetricSample("upquery_view_reads", reads, help_, labels, counter=True)
    for name, counters in views.items():
        labels_ = (("view", name),)
        yield MetricSample("upquery_view_covered_keys", counters.covered_keys, "Cached keys of a view.", labels_)
        yield MetricSample(
            "upquery_view_leaf_bytes", counters.leaf_bytes, "Bytes of a view in the leaf store.", labels_
        )
        yield MetricSample(
            "upquery_view_inner_bytes",
            counters.inner_bytes,
            "Bytes of all nodes of a view's plan, including shared ones.",
            labels_,
        )
        yield MetricSample(
            "upquery_view_upquery_max_seconds", counters.upquery_max_s, "The longest upquery of a view.", labels_
        )
        yield from _counted("view", counters, labels_)


def _node_samples(node: NodeStats) -> Iterator[MetricSample]:
    labels = (("node", str(node.id)), ("kind", node.kind))
    yield MetricSample("upquery_node_covered_keys", node.keys, "Stored keys of a node.", labels)
    yield MetricSample("upquery_node_state_bytes", node.state_bytes, "Bytes of a node's state.", labels)
    yield from _counted("node", node, labels)


def _load_samples(load: LoadStats) -> Iterator[MetricSample]:
    labels = (
        ("node", str(load.node)),
        ("table", load.table or ""),
        ("phase", load.phase),
        ("way", load.way or ""),
    )
    yield MetricSample(
        "upquery_load_progress_rows", load.rows, "Rows of an initial load read or derived so far.", labels
    )
    if load.expected_rows is not None:
        yield MetricSample(
            "upquery_load_expected_rows", load.expected_rows, "Estimated rows of an initial load.", labels
        )
    if load.rows_left is not None:
        help_ = "Rows of an initial load still to be replayed or derived."
        yield MetricSample("upquery_load_left_rows", load.rows_left, help_, labels)


def _counted(kind: str, counters: NodeCounters, labels: Labels) -> Iterator[MetricSample]:
    for name, counted, help_ in _COUNTED:
        yield MetricSample(f"upquery_{kind}_{name}", counted(counters), help_, labels, counter=True)
    by_budget = counters.evicted_by_budget
    for reason, evicted in (("budget", by_budget), ("other", counters.evicted - by_budget)):
        help_ = "Evicted keys, by the memory budget or for another reason."
        yield MetricSample(f"upquery_{kind}_evicted_keys", evicted, help_, (*labels, ("reason", reason)), counter=True)
