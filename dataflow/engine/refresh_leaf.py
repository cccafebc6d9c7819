"""Leaves of refreshed views: covered keys, and what is under way for others: reads and fetches.

Not here: when a key is fetched or dropped (`refreshed_views`), which changes make it stale (`invalidation`).
"""

from dataclasses import dataclass, field

from dataflow.engine.counts import NodeCounts
from dataflow.engine.events import RefreshDone, TableDelta
from dataflow.engine.invalidation import Invalidator, invalidators_of
from dataflow.engine.key_sizes import KeyLimits, KeySizes
from dataflow.engine.outstanding import UpstreamQuery
from dataflow.engine.upquery import Demand
from dataflow.plan.refresh import RefreshView
from dataflow.state.coverage import Coverage
from dataflow.types import Key, ReadId, RefreshId, ViewId


class RefreshLeaf:
    """A refreshed view's covered keys. Its rows live in the leaf store."""

    def __init__(self, view_id: ViewId, view: RefreshView, limits: KeyLimits) -> None:
        self.view_id = view_id
        self.view = view
        self.coverage = Coverage(tuple(range(len(view.parameters))))
        #: By table. Nothing invalidates a view that expires.
        self.invalidators: dict[str, list[Invalidator]] = {} if view.ttl_ms is not None else invalidators_of(view)
        #: Subscriptions by key.
        self.pins: dict[Key, int] = {}
        #: It is never kept whole.
        self.full = False
        #: What fetching a key costs, on average (1.0: one lookup).
        self.refill_cost = 1.0
        self.counts = NodeCounts()
        self.broken: str | None = None
        #: Its keys do not change in place.
        self.sizes: KeySizes | None = None
        self.limits = limits

    @property
    def tables(self) -> frozenset[str]:
        """The tables whose changes count."""
        return frozenset(self.invalidators)

    def invalidated(self, table: str, delta: TableDelta, among: Coverage) -> list[Key]:
        """The keys of `among` whose answers a change of `table` may have changed."""
        found: dict[Key, None] = {}
        for invalidator in self.invalidators.get(table, ()):
            found.update(dict.fromkeys(invalidator.keys(delta, among)))
        return list(found)


@dataclass(eq=False, slots=True)
class RefreshRead:
    """A read that wants keys of refreshed views, and of others by `demand`."""

    id: ReadId
    keys: list[tuple[RefreshLeaf, Key]]
    demand: Demand
    #: How often something was missing that it did not wait for yet.
    rounds: int = 0
    #: Answers that it waited for and could not use: transactions crossed them, or they were older than the read.
    unusable: int = 0

    @property
    def alone(self) -> bool:
        """True if it wants one refreshed key and nothing else."""
        return len(self.keys) == 1 and not self.demand.wants


@dataclass(eq=False, slots=True)
class Fetch(UpstreamQuery[RefreshDone]):
    """A key that is being run upstream."""

    id: RefreshId
    leaf: RefreshLeaf
    key: Key
    #: Reads that wait for it. None wait for what a subscription wants, or is hot.
    waiting: dict[ReadId, None] = field(default_factory=dict)
    #: Begun because the key was hot when it became stale.
    hot: bool = False

    @property
    def tables(self) -> frozenset[str]:
        return self.leaf.tables

    @property
    def follows_stream(self) -> bool:
        """False if nothing invalidates the view."""
        return bool(self.leaf.invalidators)

    @property
    def is_awaited(self) -> bool:
        """True if it goes on: for a read or a subscription, or since the key is hot."""
        return bool(self.waiting) or self.hot or self.key in self.leaf.pins
