"""Counters of an engine process since its start, with the help texts of their metrics (``upquery_…_total``)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, get_type_hints


@dataclass(slots=True)
class Counters:
    """Plain numbers that only grow."""

    steps: Annotated[int, "Events that the engine handled."] = 0
    transactions: Annotated[int, "Upstream transactions applied."] = 0
    rows: Annotated[int, "Rows of upstream transactions applied."] = 0
    leaf_commits: Annotated[int, "Commits of the leaf store."] = 0
    leaf_evictions: Annotated[int, "Keys of views that were forgotten, for whatever reason."] = 0
    reads: Annotated[int, "Reads that missed the leaf store."] = 0
    reads_answered: Annotated[int, "Missed reads answered after filling."] = 0
    reads_forwarded: Annotated[int, "Missed reads answered by the upstream."] = 0
    reads_streamed: Annotated[int, "Answers too large to be held, sent as the upstream's rows came."] = 0
    reads_failed: Annotated[int, "Missed reads that could not be answered."] = 0
    lookups: Annotated[int, "Lookups run upstream."] = 0
    lookup_keys: Annotated[int, "Keys of lookups."] = 0
    lookup_rows: Annotated[int, "Rows that lookups returned."] = 0
    lookup_failures: Annotated[int, "Lookups that failed."] = 0
    lookups_too_large: Annotated[
        int, "Lookups that were broken off: they had more rows or bytes than one key may have."
    ] = 0
    loads: Annotated[int, "Loads begun: lookups of everything that are read in slices."] = 0
    load_rows: Annotated[int, "Rows that these returned."] = 0
    load_failures: Annotated[int, "Loads that failed."] = 0
    refreshes: Annotated[int, "Keys of refreshed views that were run upstream."] = 0
    refresh_rows: Annotated[int, "Rows that these returned."] = 0
    refresh_failures: Annotated[int, "Refreshes that failed."] = 0
    heartbeats: Annotated[int, "Heartbeats."] = 0
    pushes: Annotated[int, "Logical messages that pushed the stream."] = 0
    streams: Annotated[int, "Change streams started."] = 0
    streams_lost: Annotated[int, "Change streams lost."] = 0
    engine_failures: Annotated[int, "Steps that failed; the engine was built anew."] = 0
    budget_slices: Annotated[int, "Slices of eviction by the memory budget."] = 0
    touches: Annotated[int, "Keys in the samples of what readers read."] = 0

    #: Counted by the parts of the engine process that they belong to, and copied here when they are reported.
    upstream_statements: Annotated[int, "Statements run upstream."] = 0
    abandoned_statements: Annotated[
        int, "Statements that were ended upstream, since nobody waited for them any more."
    ] = 0
    adhoc_statements: Annotated[int, "Queries that name no view, run upstream."] = 0
    adhoc_installed: Annotated[int, "Queries that became views."] = 0
    adhoc_dropped: Annotated[int, "Such views that were dropped, because nobody asked."] = 0


#: Help texts of the metrics, by counter.
HELP: Mapping[str, str] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Counters, include_extras=True).items()
}
