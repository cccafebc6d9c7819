"""Counters of engine and worker processes since their start. An engine's have the help texts of their metrics
(``upquery_…_total``)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, TypeVar, get_type_hints


@dataclass(slots=True)
class Counters:
    """Plain numbers that only grow."""

    steps: Annotated[int, "Events processed by the engine."] = 0
    transactions: Annotated[int, "Upstream transactions applied."] = 0
    rows: Annotated[int, "Rows of upstream transactions applied."] = 0
    leaf_commits: Annotated[int, "Commits of the leaf store."] = 0
    leaf_evictions: Annotated[int, "Evicted keys of views."] = 0
    reads: Annotated[int, "Reads that missed the leaf store."] = 0
    reads_answered: Annotated[int, "Missed reads answered after filling."] = 0
    reads_forwarded: Annotated[int, "Missed reads answered by the upstream as a fallback."] = 0
    reads_streamed: Annotated[int, "Answers too large to buffer, streamed from the upstream."] = 0
    reads_failed: Annotated[int, "Missed reads that could not be answered."] = 0
    lookups: Annotated[int, "Lookups run upstream."] = 0
    lookup_rounds: Annotated[int, "Rounds of lookups that ran together on one connection."] = 0
    lookup_keys: Annotated[int, "Keys of lookups."] = 0
    lookup_rows: Annotated[int, "Rows that lookups returned."] = 0
    lookup_failures: Annotated[int, "Lookups that failed."] = 0
    lookups_too_large: Annotated[int, "Lookups cancelled because they exceeded the limits of a key."] = 0
    loads: Annotated[int, "Initial loads started."] = 0
    load_rows: Annotated[int, "Rows read by initial loads."] = 0
    load_failures: Annotated[int, "Initial loads that failed."] = 0
    refreshes: Annotated[int, "Queries of refreshed views, by key."] = 0
    refresh_rows: Annotated[int, "Rows returned by queries of refreshed views."] = 0
    refresh_failures: Annotated[int, "Queries of refreshed views that failed."] = 0
    heartbeats: Annotated[int, "Heartbeats."] = 0
    pushes: Annotated[int, "Messages that advanced an idle stream."] = 0
    streams: Annotated[int, "Change streams started."] = 0
    streams_lost: Annotated[int, "Change streams lost."] = 0
    streams_resumed: Annotated[int, "Broken connections of change streams that were replaced without a loss."] = 0
    engine_failures: Annotated[int, "Failed steps, after each of which the engine was rebuilt."] = 0
    budget_slices: Annotated[int, "Slices of eviction by the memory budget."] = 0
    touches: Annotated[int, "Keys in the workers' samples of reads."] = 0

    #: Counted by the parts of the engine process that they belong to, and copied here when they are reported.
    upstream_statements: Annotated[int, "Statements run upstream."] = 0
    abandoned_statements: Annotated[
        int, "Statements cancelled upstream because no reader waited for them any more."
    ] = 0
    adhoc_statements: Annotated[int, "Ad-hoc queries run upstream."] = 0
    adhoc_installed: Annotated[int, "Ad-hoc queries that became views."] = 0
    adhoc_dropped: Annotated[int, "Views of ad-hoc queries dropped for lack of use."] = 0


#: Help texts of the metrics, by counter.
HELP: Mapping[str, str] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Counters, include_extras=True).items()
}


@dataclass(slots=True)
class ReadCounters:
    """Reads of a view by a worker."""

    hits: int = 0
    misses: int = 0


@dataclass(slots=True)
class SubscriptionCounts:
    """Counters of subscriptions, of a worker or of all together."""

    topics: int = 0
    subscribers: int = 0
    changes: int = 0
    must_refetches: int = 0
    bytes: int = 0


@dataclass(slots=True)
class AccessLogCounts:
    """Reads that a worker has logged, and those that it has dropped."""

    lines: int = 0
    dropped: int = 0


@dataclass(slots=True)
class WorkerCounts:
    """Counters of a worker process. `wire`: requests to the engine, by operation."""

    requests: int
    connections: int
    #: Negative: unlimited.
    files_left: int
    problems: dict[str, int]
    wire: dict[str, int]
    #: Batches over several shards, by the way in which they reached one version.
    outcomes: dict[str, int]
    access_log: AccessLogCounts
    log_left_out: int


C = TypeVar("C", Counters, ReadCounters, SubscriptionCounts)


def total(kind: type[C], counts: Iterable[C]) -> C:
    """The sums of all fields."""
    sums = kind()
    for each in counts:
        for field in fields(kind):
            setattr(sums, field.name, getattr(sums, field.name) + getattr(each, field.name))
    return sums
