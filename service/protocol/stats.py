"""Counters of a service as the engines report them: the document of ``GET /v1/stats``.

Not here: metric names (`service.supervisor.admin.metrics`); the bodies that OpenAPI describes (`admin_models`).
"""

from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from service.protocol.admin_models import Model, NodeCounters, NodeKind, ViewCounters
from service.protocol.counters import Counters, SubscriptionCounts, WorkerCounts


class _Placed(Model):
    """Counters of one engine among several. `shard` and `replica` are left out of the document where they are None."""

    shard: int | None = None
    replica: int | None = None

    @model_serializer(mode="wrap")
    def _without_none(self, document: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in document(self).items() if value is not None}


class EngineSizes(Model):
    """Memory and queues of an engine process. The descriptions are the metrics' help texts."""

    budget_bytes: int = Field(description="The memory budget.")
    limit_bytes: int = Field(
        description="Effective limit: less than the budget if the process has outgrown it or room is short."
    )
    used_bytes: int = Field(
        description="Memory that counts against the budget: engine state and the leaf store's pages."
    )
    over_budget: int = Field(description="Whether more than the budget is used and no key is left to evict.")
    engine_state_bytes: int = Field(description="Engine state.")
    leaf_bytes: int = Field(description="Pages of the leaf store in use.")
    leaf_free_bytes: int = Field(description="Free pages of the leaf store.")
    process_own_bytes: int = Field(description="Private resident memory of the engine process.")
    process_shared_bytes: int = Field(
        description="Resident memory that the engine process shares: the leaf store, programs."
    )
    process_grown_bytes: int = Field(description="Growth of the engine process since it was empty.")
    longest_eviction_s: float = Field(description="The longest slice of eviction.")
    ring_rows: int = Field(description="Rows of transactions that lookups in flight may not have seen.")
    reads_waiting: int = Field(description="Reads that wait for an upquery.")
    lookups_in_flight: int = Field(description="Lookups that run upstream.")
    loads_under_way: int = Field(description="Tables and nodes that are being read or derived.")
    longest_load_slice_s: float = Field(
        description="The longest slice of a load or derivation, during which other work waits."
    )


class NodeStats(_Placed, NodeCounters):
    """Counters of a node that stores rows."""

    id: int
    kind: NodeKind
    keys: int
    state_bytes: int


class LoadStats(Model):
    """Progress of an initial load, or of a derivation from one (`way` None)."""

    views: list[str]
    node: int
    table: str | None
    phase: str
    way: str | None
    rows: int
    rows_left: int | None
    expected_rows: int | None
    seconds: float | None
    text: str


class GatewayWorkerCounts(Model):
    """Counters of a gateway's worker (`service.gateway.counting`). `requests`: by shard; `away`: addresses of pods that
    it cannot reach."""

    served: int
    connections: int
    problems: dict[str, int]
    requests: dict[str, int]
    outcomes: dict[str, int]
    retries: int
    failed: int
    moved_slots: int
    streams: int
    shards: int
    moving: bool
    away: list[str]
    log_left_out: int


class Stats(_Placed):
    """Counters of one engine, or of several together: then each of them is in `shards`. `gateway`: reports of a
    gateway's workers, by their numbers."""

    counters: Counters
    engine: dict[str, int]
    sizes: EngineSizes
    views: dict[str, ViewCounters]
    #: Buckets of upqueries' durations, by view (`service.ground.latency`).
    upqueries: dict[str, list[int]]
    nodes: list[NodeStats]
    loads: list[LoadStats]
    recent_errors: list[dict[str, str]]
    log_left_out: int
    pid: int
    workers: int
    worker_processes: dict[str, WorkerCounts]
    subscriptions: SubscriptionCounts
    position: int
    version: str
    age_ms: int
    streaming: bool
    resting_tables: list[str]
    shards: "list[Stats] | None" = None
    gateway: dict[str, GatewayWorkerCounts] | None = None
