"""What the engine process counts since its start."""

from dataclasses import dataclass


@dataclass(slots=True)
class Counters:
    """Plain numbers that only grow."""

    steps: int = 0
    transactions: int = 0
    rows: int = 0
    leaf_commits: int = 0
    leaf_evictions: int = 0
    reads: int = 0
    reads_answered: int = 0
    reads_forwarded: int = 0
    reads_streamed: int = 0
    reads_failed: int = 0
    lookups: int = 0
    lookup_keys: int = 0
    lookup_rows: int = 0
    lookup_failures: int = 0
    lookups_too_large: int = 0
    loads: int = 0
    load_rows: int = 0
    load_failures: int = 0
    refreshes: int = 0
    refresh_rows: int = 0
    refresh_failures: int = 0
    heartbeats: int = 0
    pushes: int = 0
    streams: int = 0
    streams_lost: int = 0
    engine_failures: int = 0
    budget_slices: int = 0
    touches: int = 0
