"""Request and response bodies of the admin port."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from service.settings.view_options import MOST, OptionFields

ViewName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$")]


TierName = Literal["incremental", "refresh", "ttl"]
NodeKind = Literal["chain", "block", "union", "rows", "groups", "partitions", "view"]


class Model(BaseModel):
    """A response's body. Validators are built at first use: the engine process needs few of them."""

    model_config = ConfigDict(defer_build=True)


class Body(BaseModel):
    """A request's body; unknown members are rejected."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class PutView(OptionFields, Body):
    """A view to register."""

    sql: str = Field(min_length=1, max_length=100_000, examples=["SELECT id, title FROM stories WHERE id = :id"])


class PlanView(PutView):
    """SQL to explain without installing it."""

    name: ViewName = "view"


class EvictKeys(Body):
    """Keys to evict: those of a view, or those chosen by the eviction policy until `state_bytes` are freed."""

    view: str | None = None
    #: Parameters by name, one object for each key; absent: all keys of the view.
    keys: list[dict[str, str]] | None = None
    state_bytes: int | None = Field(default=None, ge=1, le=MOST, strict=True)


class Named(Model):
    """A parameter or a column."""

    name: str
    type: str


class NodeCounters(Model):
    """Counters of keys, changes and lookups. A changed row is *dropped* if its key is not cached."""

    #: Filled keys, or parts of keys.
    filled: int = 0
    #: Evicted keys; of these, by the memory budget.
    evicted: int = 0
    evicted_by_budget: int = 0
    #: Hot keys refilled before the next read.
    refilled: int = 0
    rows_applied: int = 0
    rows_dropped: int = 0
    #: Statements run upstream, with their keys and rows.
    lookups: int = 0
    lookup_keys: int = 0
    lookup_rows: int = 0
    #: Total seconds of these.
    lookup_s: float = 0.0


class ViewCounters(NodeCounters):
    """Counters and memory of a view. Lookups and inner bytes are those of all nodes of its plan, including
    shared ones; these counters restart with each engine."""

    hits: int = 0
    misses: int = 0
    #: Reads that missed: answered after filling, with total and maximum seconds; answered by the upstream;
    #: not answered.
    upqueries: int = 0
    upquery_s: float = 0.0
    upquery_max_s: float = 0.0
    forwarded: int = 0
    failed: int = 0
    covered_keys: int = 0
    #: Bytes of rows in the leaf store, and of state in the engine.
    leaf_bytes: int = 0
    inner_bytes: int = 0


class ViewState(Model):
    """A registered view."""

    name: str
    sql: str
    origin: Literal["config", "http", "adhoc"]
    #: None for a view without a plan.
    tier: TierName | None
    #: None for a view that is not maintained incrementally.
    materialization: Literal["partial", "full"] | None
    #: ``quarantined``: its computation failed; its reads fall back to the upstream until a retry succeeds.
    #: ``outdated``: it is planned again after a schema change; its reads fall back to the upstream until then.
    #: ``elsewhere``: a view that belongs to another shard.
    status: Literal["building", "ready", "quarantined", "outdated", "broken", "elsewhere"]
    #: Reason why it is not ready or, if it is, not maintained incrementally.
    reason: str | None = None
    #: Seconds after which an answer of the ttl tier expires.
    ttl: float | None = None
    #: Options as given in the PUT or the configuration file.
    options: OptionFields = OptionFields()
    #: Whether a replacement is being built.
    replacing: bool = False
    #: Its tables with an open breaker: misses fail at once, except for trials.
    resting_tables: list[str] = []
    parameters: list[Named]
    columns: list[Named]
    counters: ViewCounters = ViewCounters()


class ViewList(Model):
    """All registered views."""

    views: list[ViewState]


class PlanNode(Model):
    """A node of a plan."""

    id: int
    kind: NodeKind
    relation: str
    #: Registered views of which this node is the leaf.
    views: list[str] = []
    inputs: list[int]
    #: ``full``, or the columns of its keys; empty for nodes without state.
    coverage: list[str] = []
    covered_keys: int = 0
    #: Bytes in the engine; rows of a view are in the leaf store.
    state_bytes: int = 0
    #: The statements of its lookups.
    lookups: list[str] = []
    warnings: list[str] = []
    #: All zero for a plan that is not installed.
    counters: NodeCounters = NodeCounters()


#: Indexes into ``inner``.
Places = list[int]


class FootprintNode(Model):
    """Memory of an inner node, its part for tables by key, its keys and rows; whether these are looked up rather than
    derived."""

    state_bytes: int
    table_bytes: int
    covered_keys: int
    rows: int
    looked_up: bool


class FootprintView(Model):
    """Keys of a view: texts, bytes of the rows as the eviction policy weighs them, inner keys that each has read
    itself, and others that it may depend on. A sample, if there are many keys."""

    covered_keys: int
    keys: list[tuple[list[str | None], int, Places, Places]]


class Footprints(Model):
    """Inner keys that keys of views need: an inner key stays while a cached key depends on it. ``inner``: the index of
    its node, its approximate bytes, inner keys that it has read itself, and others that it may depend on."""

    nodes: list[FootprintNode]
    inner: list[tuple[int, int, Places, Places]]
    views: dict[str, FootprintView]


class Plan(Model):
    """The plan of a view: its nodes, parents first."""

    name: str
    sql: str
    tier: Literal["incremental", "refresh", "ttl"]
    #: None if it is not maintained incrementally.
    materialization: Literal["partial", "full"] | None
    reason: str
    #: Estimated size of its full materializations, by the upstream's statistics.
    estimated_bytes: int | None = None
    #: Other views with identical rows.
    shared_with: list[str] = []
    #: Indexes that the upstream lacks.
    warnings: list[str] = []
    #: Tree of operators, each with its materialization and the views that share it.
    plan: dict[str, Any] | None = None
    #: Changes that invalidate an answer, by table, if it is not maintained incrementally.
    reads: list[dict[str, Any]] = []
    #: The plan as text, and as a Graphviz graph.
    text: str
    dot: str
    nodes: list[PlanNode] = []


class Evicted(Model):
    """Result of an eviction request."""

    views: int
    keys: int


class StartAudit(Body):
    """Scope and limits of an audit."""

    #: Absent: all views.
    views: list[str] | None = None
    #: Number of random keys of each view; absent: all.
    sample: int | None = Field(default=None, ge=1, le=MOST, strict=True)
    #: Reader of the database: a few connections of the service, or Spark.
    way: Literal["direct", "spark"] = "direct"
    #: Maximum number of differences in the result.
    shown: int = Field(default=20, ge=0, le=1000, strict=True)
    #: Time limit in seconds; keys not compared by then are reported as skipped.
    time_s: float = Field(default=600.0, gt=0, le=86_400)


class AuditedView(Model):
    """Result of an audit for a view: cached keys, compared keys, differing keys, and keys not compared, by reason."""

    view: str
    tier: str
    keys: int
    compared: int
    differences: int
    skipped: dict[str, int]


class AuditDifference(Model):
    """A key whose cached rows differ from the database's: rows as JSON, the first of many."""

    view: str
    key: list[str | None]
    missing: list[str]
    extra: list[str]
    missing_rows: int
    extra_rows: int
    #: The same rows, in another order.
    reordered: bool


class Audit(Model):
    """An audit: its progress, or its result."""

    status: Literal["none", "running", "done", "failed"]
    way: Literal["direct", "spark"]
    #: The current step.
    text: str
    done: int
    keys: int
    #: The version of the comparison.
    version: str | None
    #: Snapshots taken until the engine's state matched one; total and longest time without applied changes.
    tries: int
    held_ms: float
    held_max_ms: float
    seconds: float
    views: list[AuditedView]
    differences: list[AuditDifference]
    #: Reason of the failure.
    reason: str | None


class PrewarmKeys(Body):
    """Keys to fill before they are read: texts of a view's parameters in their order, hottest first."""

    view: str
    keys: list[list[str | None]] = Field(min_length=1, max_length=1_000_000)


class Prewarmed(Model):
    """Progress of a prewarming request. Refused keys do not fit the view's parameters, or the database refuses them."""

    view: str
    keys: int
    filled: int
    refused: int
    status: Literal["waiting", "running", "done", "stopped"]
    #: Reason of the stop.
    reason: str | None = None


class PrewarmList(Model):
    """Recent prewarming requests, oldest first."""

    prewarmed: list[Prewarmed]


class MemoryState(Model):
    """The memory budget: engine state and leaf store."""

    budget_bytes: int
    used_bytes: int
    #: Whether more is used and no key is left to evict.
    over_budget: bool


class WarmingUp(Model):
    """Hot keys that the first readiness waits for."""

    keys: int
    filled: int


class Health(Model):
    """The engine's part of `Readiness`. `ready`: it has caught up with the database once; it may be warming up yet."""

    ready: bool
    streaming: bool
    age_ms: int
    version: str
    memory: MemoryState
    warming_up: WarmingUp | None = None
    held_up: str | None = None
    schema_changes: Literal["exact", "heartbeat"] | None = None
    building: list[str] = []
    quarantined: dict[str, str] = {}
    outdated: dict[str, str] = {}
    broken: dict[str, str] = {}


class Readiness(Model):
    """Readiness: reads can be answered as configured; and current problems."""

    ready: bool
    engine: bool
    streaming: bool
    workers: int
    age_ms: int | None = None
    version: str | None = None
    memory: MemoryState | None = None
    #: Hot keys that the first readiness waits for, up to `[state] warm_timeout_s`; null if it does not wait for any.
    warming_up: WarmingUp | None = None
    #: Description of the transaction that the change stream waits for before it can begin.
    held_up: str | None = None
    #: Start of answers with the new schema after DDL: its commit (``exact``), or one heartbeat later.
    schema_changes: Literal["exact", "heartbeat"] | None = None
    #: Processes without a heartbeat: they are ended and restarted if that lasts.
    silent: list[str] = []
    building: list[str] = []
    quarantined: dict[str, str] = {}
    outdated: dict[str, str] = {}
    broken: dict[str, str] = {}
