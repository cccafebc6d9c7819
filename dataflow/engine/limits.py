"""Bounds of an engine. Everything that can grow has one."""

from dataclasses import dataclass

from dataflow.types import Key


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one engine. A service replaces those that are settings (`service.engine.session.session.limits_of`)."""

    #: Lookups of one table at the same time; while they run, further keys are gathered for the next ones. How many of
    #: all tables run at once is the service's to limit (`service.engine.reads.slots`).
    lookups_of_table: int = 10
    #: Keys in one lookup.
    lookup_keys: int = 256
    #: Rows that the ring may hold before the oldest lookups are abandoned and issued again.
    ring_rows: int = 500_000
    #: Rows under one key of a partial materialization; above it, reads of the key are forwarded.
    key_rows: int = 100_000
    #: About how many bytes these may take.
    key_rows_bytes: int = 64 << 20
    #: Bytes of a view's key, as UTF-8; reads of larger ones are forwarded, or answered and not stored.
    key_bytes: int = 4096
    #: Tuples of a parametric chain's values that one row of its table is looked at with (`parametric_rows`), for each
    #: way in which keys are covered; beyond, those that were covered first are forgotten when a row comes.
    active_tuples: int = 1_000
    #: Rows of a union's inputs, or of a join's driving input, from which a full materialization is derived in slices;
    #: fewer are derived in one step, with all their combinations.
    derive_rows: int = 1_000
    #: About how many bytes one `EvictSome` forgets at most, and one key more.
    evict_bytes: int = 1 << 20
    #: Keys that are filled at the same time although their readers were answered by the upstream meanwhile.
    fills_behind: int = 256
    #: Hot keys that correctness evicted and that are filled again at the same time; beyond, they wait for a reader.
    hot_refills: int = 64
    #: Heartbeats that a view stays in quarantine at most; at first it is one, then twice as many each time.
    quarantine_heartbeats: int = 600
    #: After so many heartbeats a key that was too large is tried again: it may have shrunk.
    oversized_heartbeats: int = 60
    #: Looks in a row at which nobody waits for a lookup or a fetch, until it is cancelled (`events.CancelUnawaited`).
    unawaited_looks: int = 5
    #: Times that a read is retried before it is forwarded upstream.
    read_rounds: int = 20
    #: Times that the upstream is asked for a read whose answers cannot be used, because transactions crossed them.
    forward_rounds: int = 3


def key_bytes(key: Key) -> int:
    """Bytes of a key's values, as UTF-8."""
    return sum(len(value.encode()) for value in key if value is not None)
