"""Bounds of an engine. Everything that can grow has one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What an engine may take at once."""

    #: Lookups upstream at the same time; more wait their turn (a cold start must not flatten the upstream).
    lookups_in_flight: int = 16
    #: Keys in one lookup.
    lookup_keys: int = 500
    #: Rows that the ring may hold before the oldest lookups are abandoned and issued again.
    ring_rows: int = 500_000
    #: Rows under one key of a partial materialization; above it, reads of the key are forwarded.
    key_rows: int = 100_000
    #: After so many heartbeats a key that was too large is tried again: it may have shrunk.
    oversized_heartbeats: int = 60
    #: Times that a read is retried before it is forwarded upstream.
    read_rounds: int = 20
    #: Times that a forwarded read is repeated because transactions crossed it.
    forward_rounds: int = 3
