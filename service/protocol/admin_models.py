"""The control plane's bodies, as clients see them."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from service.settings.view_options import MOST, OptionFields

ViewName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$")]


TierName = Literal["incremental", "refresh", "ttl"]
NodeKind = Literal["chain", "block", "union", "rows", "groups", "partitions", "view"]


class Model(BaseModel):
    """A response's body. What checks it is built when it is first needed: the engine's process needs few of them."""

    model_config = ConfigDict(defer_build=True)


class Body(BaseModel):
    """A request's body: what is not known is refused."""

    model_config = ConfigDict(extra="forbid", defer_build=True)


class PutView(OptionFields, Body):
    """A view to register."""

    sql: str = Field(min_length=1, max_length=100_000, examples=["SELECT id, title FROM stories WHERE id = :id"])


class PlanView(PutView):
    """SQL to explain without installing it."""

    name: ViewName = "view"


class EvictKeys(Body):
    """What to forget: keys of a view, or whatever the eviction policy names until so many bytes less are used."""

    view: str | None = None
    #: Parameters by name, one object for each key; absent: all keys of the view.
    keys: list[dict[str, str]] | None = None
    state_bytes: int | None = Field(default=None, ge=1, le=MOST, strict=True)


class Named(Model):
    """A parameter or a column."""

    name: str
    type: str


class NodeCounters(Model):
    """What became of keys and of changes, and what was looked up. A row of a change is *dropped* where it is under no
    key in memory."""

    #: Keys, or parts of them, that were filled.
    filled: int = 0
    #: Keys that were forgotten, for whatever reason; of these, by the memory budget.
    evicted: int = 0
    evicted_by_budget: int = 0
    #: Hot keys that were filled again before somebody asked.
    refilled: int = 0
    rows_applied: int = 0
    rows_dropped: int = 0
    #: Statements run upstream, with how many keys and rows.
    lookups: int = 0
    lookup_keys: int = 0
    lookup_rows: int = 0
    #: Seconds that these took, added up.
    lookup_s: float = 0.0


class ViewCounters(NodeCounters):
    """What a view was asked for and what it takes. Lookups and inner bytes are those of all nodes of its plan, also of
    those that it shares with other views; of these, what is counted begins anew with each engine."""

    hits: int = 0
    misses: int = 0
    #: Reads that missed: answered after filling, with the seconds that took added up and at most; answered by the
    #: upstream; not answered.
    upqueries: int = 0
    upquery_s: float = 0.0
    upquery_max_s: float = 0.0
    forwarded: int = 0
    failed: int = 0
    covered_keys: int = 0
    #: Rows, ready to send; and what is in the engine.
    leaf_bytes: int = 0
    inner_bytes: int = 0


class ViewState(Model):
    """A registered view."""

    name: str
    sql: str
    origin: Literal["config", "http", "adhoc"]
    #: None of a view that has no plan.
    tier: TierName | None
    #: None of a view that is not kept incrementally.
    materialization: Literal["partial", "full"] | None
    #: ``quarantined``: computing it failed, its reads are forwarded, and it is tried again after a while.
    #: ``elsewhere``: of one shard, a view that another one keeps.
    status: Literal["building", "ready", "quarantined", "broken", "elsewhere"]
    #: Why it is not ready; of one that is, why it is not kept incrementally.
    reason: str | None = None
    #: Seconds for which an answer is good, of a view that only expires.
    ttl: float | None = None
    #: As they were given.
    options: OptionFields = OptionFields()
    #: A replacement is being built beside it.
    replacing: bool = False
    #: Tables that it reads and that do not answer: its misses are refused at once, but for trials.
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
    #: Registered views that it is what readers read of.
    views: list[str] = []
    inputs: list[int]
    #: ``full``, or the columns that keys are made of; absent for nodes without state.
    coverage: list[str] = []
    covered_keys: int = 0
    #: In the engine; rows of a view are in the leaf store.
    state_bytes: int = 0
    #: The statements of its lookups.
    lookups: list[str] = []
    warnings: list[str] = []
    #: All zero where a plan is explained that is not installed.
    counters: NodeCounters = NodeCounters()


#: Places in ``inner``.
Places = list[int]


class FootprintNode(Model):
    """What a node inside takes, how much of that are tables by key, and of how many keys and rows; whether these are
    looked up, not derived."""

    state_bytes: int
    table_bytes: int
    covered_keys: int
    rows: int
    looked_up: bool


class FootprintView(Model):
    """Keys of a view: texts, bytes of its rows as the eviction policy weighs them, which inner keys each has read
    itself, and which others it may depend on. Of many keys some are told."""

    covered_keys: int
    keys: list[tuple[list[str | None], int, Places, Places]]


class Footprints(Model):
    """What keys of views need inside: an inner key stays while anything that is kept depends on it. ``inner``: the
    place of its node, about what it takes, which inner keys it has read itself, and which others it may depend on."""

    nodes: list[FootprintNode]
    inner: list[tuple[int, int, Places, Places]]
    views: dict[str, FootprintView]


class Plan(Model):
    """How a view is kept: its nodes, parents first."""

    name: str
    sql: str
    tier: Literal["incremental", "refresh", "ttl"]
    #: None if it is not kept incrementally.
    materialization: Literal["partial", "full"] | None
    reason: str
    #: What is kept whole takes, about, by the upstream's statistics.
    estimated_bytes: int | None = None
    #: Other views with the very same rows.
    shared_with: list[str] = []
    #: Indexes that the upstream lacks.
    warnings: list[str] = []
    #: The steps, a tree; each with how it is kept and with which views it is shared.
    plan: dict[str, Any] | None = None
    #: Which changes make an answer stale, table by table, if it is not kept incrementally.
    reads: list[dict[str, Any]] = []
    #: The same for people, and as a picture.
    text: str
    dot: str
    nodes: list[PlanNode] = []


class Evicted(Model):
    """What an eviction request did."""

    views: int
    keys: int


class StartAudit(Body):
    """What to compare with the database."""

    #: Absent: all views.
    views: list[str] | None = None
    #: So many keys of each view, at random; absent: all.
    sample: int | None = Field(default=None, ge=1, strict=True)
    #: Who computes the answers anew: a few connections of the service's own, or Spark.
    way: Literal["direct", "spark"] = "direct"
    #: Differences that are said in full.
    shown: int = Field(default=20, ge=0, le=1000, strict=True)
    #: Seconds; what is not compared by then is left out, and said to be.
    time_s: float = Field(default=600.0, gt=0, le=86_400)


class AuditedView(Model):
    """What an audit found of a view: keys that are cached, how many were compared, how many of these differ; how many
    were not compared, by reason."""

    view: str
    tier: str
    keys: int
    compared: int
    differences: int
    skipped: dict[str, int]


class AuditDifference(Model):
    """A key whose cached rows are not the database's: rows as JSON, of many the first."""

    view: str
    key: list[str | None]
    missing: list[str]
    extra: list[str]
    missing_rows: int
    extra_rows: int
    #: The same rows, in another order.
    reordered: bool


class Audit(Model):
    """An audit: how far it is, or what it found."""

    status: Literal["none", "running", "done", "failed"]
    way: Literal["direct", "spark"]
    #: What it does now.
    text: str
    done: int
    keys: int
    #: At which all was compared.
    version: str | None
    #: Snapshots that were taken until the engine could be brought to one; for how long nothing was applied, in all and
    #: at most.
    tries: int
    held_ms: float
    held_max_ms: float
    seconds: float
    views: list[AuditedView]
    differences: list[AuditDifference]
    #: Why it failed.
    reason: str | None


class PrewarmKeys(Body):
    """Keys to fill before they are read: texts of a view's parameters in their order, hottest first."""

    view: str
    keys: list[list[str | None]] = Field(min_length=1, max_length=1_000_000)


class Prewarmed(Model):
    """How far a request to fill keys is. Refused keys are none of the view's, or the database refuses them."""

    view: str
    keys: int
    filled: int
    refused: int
    status: Literal["waiting", "running", "done", "stopped"]
    #: Why it stopped.
    reason: str | None = None


class PrewarmList(Model):
    """The last requests to fill keys, oldest first."""

    prewarmed: list[Prewarmed]


class MemoryState(Model):
    """The memory budget: engine state and leaf store."""

    budget_bytes: int
    used_bytes: int
    #: More is used, and nothing is left to evict.
    over_budget: bool


class ControlRequest(Body):
    """An operation for a gateway, as the control socket has it."""

    operation: str
    arguments: dict[str, Any] = {}


class Readiness(Model):
    """Whether reads can be answered as configured, and what is not as it should be."""

    ready: bool
    engine: bool
    streaming: bool
    workers: int
    age_ms: int | None = None
    version: str | None = None
    memory: MemoryState | None = None
    #: The transaction that the change stream waits for before it can begin, in words.
    held_up: str | None = None
    #: From where on answers are of the new schema, after DDL: from its commit on (``exact``), or one heartbeat later.
    schema_changes: Literal["exact", "heartbeat"] | None = None
    #: Processes that run and do not say so: they are ended and started again if that lasts.
    silent: list[str] = []
    building: list[str] = []
    quarantined: dict[str, str] = {}
    broken: dict[str, str] = {}
