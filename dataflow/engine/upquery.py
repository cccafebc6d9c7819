"""Upqueries: the demands that wait for keys, and the filling of holes.

A *demand* (a read, a pin, a full view's load) wants keys of leaves covered, or parts of them. It is tried
synchronously: a route is walked over what is covered, and whatever is not becomes a flight, as many as can be known in
this round. When its flights have landed it is tried again, and routes go on where they met holes (`walks`). All keys of
a route are filled within one step, so they are at one position.

*Invariants*: a filled key's rows are exact at the applied position; every key that its route read is covered (I3).

Not here: parts of keys (`extension`), the cascade (`evictions`), the stream (`propagation`), lookups (`flights`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.context import Context
from dataflow.engine.derivations import Derivations, flight_of
from dataflow.engine.effects import Effect, LeafFill, LeafFillAll, ViewStatus
from dataflow.engine.extension import Extensions, Goal
from dataflow.engine.flights import FlightKey, Flights
from dataflow.engine.incongruence import covered_or_subsumed, subsume
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import GroupingNode, InnerNode, Merge, RouteUse, Stored, UnionNode
from dataflow.engine.ranking import ROW_COST, Ranking
from dataflow.engine.staging import say_ready
from dataflow.engine.walks import Walk
from dataflow.errors import EvaluationError, contained
from dataflow.ops.block import Combination
from dataflow.plan.parts import Interval, Part
from dataflow.state.index import key_function
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.types import Columns, Key, NodeId, Position, ReadId, Row

#: What a demand takes, and what it notes of each key that it has fetched.
_DEMAND_BYTES, _FETCHED_BYTES = 900, 700
#: What is noted of a flight that nobody waits for.
_LEFT_BYTES = 300
#: Combinations that the walks of all demands keep, and what one takes with its rows: walks of more begin again with
#: each attempt.
_KEPT_COMBINATIONS = 100_000
_COMBINATION_BYTES = 500


@dataclass(frozen=True, slots=True)
class Want:
    """A key of a leaf that is to be covered: whole, or as far as `goal` says."""

    leaf: Leaf
    key: Key
    goal: Goal | None = None


@dataclass(eq=False, slots=True)
class Demand:
    """Somebody who wants keys of leaves covered, all at once."""

    wants: list[Want]
    #: None for a pin, a load or a refill.
    read: ReadId | None = None
    #: Where the engine was when the read was asked: an answer from before would go back in time.
    since: Position = 0
    #: Flights that it waits for.
    waits: dict[FlightKey, None] = field(default_factory=dict)
    #: Inner keys that it had fetched; the policy leaves them alone until it is done.
    fetched: set[tuple[NodeId, Cover, Key]] = field(default_factory=set)
    rounds: int = 0
    #: Routes on their way, by the key that they are to fill.
    walks: dict[tuple[RouteUse, Key], Walk] = field(default_factory=dict)
    #: How many combinations they keep.
    combinations: int = 0
    #: What its lookups have cost so far (`engine.ranking`).
    cost: float = 0.0
    #: A hot key that was lost: nobody has asked for it, so it is given up when that is difficult.
    hot: bool = False
    #: What a read left to be filled that the upstream answers; given up likewise.
    behind: bool = False
    #: One of the reads that it fills behind was answered: it goes on when the others leave.
    kept: bool = False
    #: Pins and loads whose lookup failed wait for the next heartbeat.
    paused: bool = False
    #: Why it failed last.
    reason: str | None = None

    @property
    def idle(self) -> bool:
        """True if nobody waits for it."""
        return self.hot or self.behind


class NodeFailure(Exception):
    """A node failed while it was filled, perhaps half-way."""

    def __init__(self, node: Stored, error: Exception) -> None:
        super().__init__(str(error))
        self.node = node
        self.error = error


class Upqueries:
    """Demands and the filling of holes."""

    def __init__(
        self,
        context: Context,
        flights: Flights,
        derivations: Derivations,
        ranking: Ranking,
    ) -> None:
        self._counters = context.counters
        self._emit = context.emit
        self._flights = flights
        self._derivations = derivations
        self._ranking = ranking
        self.demands: dict[Demand, None] = {}
        #: What all demands have fetched, and how many of them it was.
        self._fetched: Counter[tuple[NodeId, Cover, Key]] = Counter()
        #: What getting the rows has cost that leaves are filled with now.
        self.spent = 0.0
        #: Combinations that the walks of all demands keep.
        self._combinations = 0
        self._waiting: dict[FlightKey, dict[Demand, None]] = {}
        #: Flights that lost the last demand that waited for them, since they were taken.
        self._left: dict[FlightKey, None] = {}
        #: Flights that the attempt under way found necessary.
        self._missing: dict[FlightKey, None] = {}
        #: Its walks.
        self._walks: dict[tuple[RouteUse, Key], Walk] = {}
        #: What is covered whole, or is to be, for it.
        self._whole: set[tuple[NodeId, Cover, Key]] = set()
        #: Keys with more rows than may be stored.
        self.oversized: set[tuple[NodeId, Columns, Key]] = set()
        #: The attempt under way met an oversized key.
        self._too_large = False
        self._extensions = Extensions(self, self._emit)

    # Demands

    def attempt(self, demand: Demand) -> bool:
        """Tries to cover everything a demand wants; else it waits for what is missing. True if all is covered."""
        self._missing, self._whole, self._walks = {}, set(), demand.walks
        self._too_large = False
        self.demands[demand] = None
        self.spent = demand.cost / max(1, len(demand.wants))
        for want in demand.wants:
            if want.goal is None:
                self.ensure(want.leaf, want.leaf.coverage.columns, want.key)
            else:
                self._extensions.ensure(want.leaf, want.key, want.goal)
        self._keep_walks(demand)
        demand.waits = self._missing
        missing = {(node, _cover(columns, part), key) for node, columns, key, part in self._missing}
        fetched = (missing | self._whole) - demand.fetched
        demand.fetched |= fetched
        for at in fetched:
            self._fetched[at] += 1
        for flight in demand.waits:
            self._waiting.setdefault(flight, {})[demand] = None
        if demand.waits or self._too_large:
            return False
        self.finish(demand)
        return True

    def _keep_walks(self, demand: Demand) -> None:
        """Drops the walks of a demand if all together would keep too much."""
        kept = sum(walk.combinations for walk in demand.walks.values())
        if self._combinations - demand.combinations + kept > _KEPT_COMBINATIONS:
            demand.walks, kept = {}, 0
        self._combinations += kept - demand.combinations
        demand.combinations = kept

    @property
    def met_oversized(self) -> bool:
        """True if the last attempt met a key that is too large to be stored."""
        return self._too_large

    def finish(self, demand: Demand) -> None:
        """Forgets a demand: it is met, or nobody wants it any more."""
        self.demands.pop(demand, None)
        for flight in demand.waits:
            waiting = self._waiting.get(flight)
            if waiting is not None:
                waiting.pop(demand, None)
                if not waiting:
                    del self._waiting[flight]
                    self._left[flight] = None
        demand.waits = {}
        for at in demand.fetched:
            self._fetched[at] -= 1
            if not self._fetched[at]:
                del self._fetched[at]
        demand.fetched = set()
        demand.walks = {}
        self._combinations -= demand.combinations
        demand.combinations = 0

    def state_bytes(self) -> int:
        """About what demands take."""
        left = _LEFT_BYTES * len(self._left)
        walks = _COMBINATION_BYTES * self._combinations
        return walks + _DEMAND_BYTES * len(self.demands) + _FETCHED_BYTES * len(self._fetched) + left

    def is_fetched(self, node: Stored, cover: Cover, key: Key) -> bool:
        """Return whether a demand that is not met yet has fetched a key, or something is being derived from it."""
        return (node.id, cover, key) in self._fetched or (cover == () and self._derivations.reads(node))

    def landed(self, flights: Collection[FlightKey], rows: int) -> list[Demand]:
        """The demands that wait for nothing any more, now that one lookup's flights have ended with so many rows."""
        waited: dict[Demand, None] = {}
        each = _key_cost(len(flights), rows)
        for flight in flights:
            for demand in self._waiting.pop(flight, ()):
                demand.waits.pop(flight, None)
                demand.cost += each
                waited[demand] = None
        for demand in waited:
            demand.cost += 1
        return [demand for demand in waited if not demand.waits]

    @property
    def behind(self) -> int:
        """Demands that fill what the upstream answers meanwhile."""
        return sum(demand.behind for demand in self.demands)

    def take_left(self) -> list[FlightKey]:
        """Flights that nobody waits for any more, of those that somebody waited for at the last call or since."""
        left, self._left = self._left, {}
        return [flight for flight in left if flight not in self._waiting]

    def is_awaited(self, flight: FlightKey) -> bool:
        """Return whether any demand waits for a flight."""
        return flight in self._waiting

    def waiting_for(self, flight: FlightKey) -> list[Demand]:
        """The demands that wait for a flight."""
        return list(self._waiting.get(flight, ()))

    # Filling

    def ensure(self, node: Stored, columns: Columns, key: Key) -> bool:
        """Return whether `key` is covered now; if not, the flights it needs are noted."""
        if node.covered(columns, key):
            return True
        if isinstance(node, Leaf) and self._is_oversized(node, columns, key):
            return False
        if isinstance(node.source, ChainNode):
            if isinstance(node, InnerNode) and subsume(node, columns, (key,), self._counters):
                return True
            if node.source.empty:
                return self.fill_rows(node, columns, key, [])
            self.want(node, columns, key)
            return False
        if not columns and node.id in self._derivations.under_way:
            self._missing[flight_of(node)] = None
            return False
        if not columns:
            rows = self._all_rows(node, node.merges[()] if isinstance(node.source, UnionNode) else node.uses[()])
        elif isinstance(node.source, UnionNode):
            rows = self._gather(node.merges[columns], key)
        else:
            rows = self._walk(node.uses[columns], key)
        return rows is not None and self.fill_rows(node, columns, key, rows)

    def want(self, node: Stored, columns: Columns, key: Key, part: Part | None = None) -> None:
        """The demand under way needs a lookup."""
        if not self._is_oversized(node, columns, key):
            self._missing[self._flights.want(node, columns, key, part)] = None

    def missing(self, node: InnerNode, columns: Columns, keys: Iterable[Key]) -> list[Key]:
        """Keys, of values in any texts, that are not covered; none twice, and none with NULL, which no row joins."""
        key_of = key_function(tuple(range(len(columns))), [node.types[c] for c in columns])
        return [
            key
            for key in dict.fromkeys(map(key_of, keys))
            if None not in key and not covered_or_subsumed(node, columns, key, self._counters)
        ]

    def _is_oversized(self, node: Stored, columns: Columns, key: Key) -> bool:
        oversized = (node.id, columns, key) in self.oversized
        self._too_large |= oversized
        return oversized

    def refuse(self, node: Stored, columns: Columns, key: Key) -> None:
        """A key has more rows than may be stored."""
        self.oversized.add((node.id, columns, key))
        self._too_large = True

    def _all_rows(self, node: Stored, over: RouteUse | Merge) -> list[Row] | None:
        """All rows of a block or a union, whose inputs are asked for at once; None if something is not covered, or if
        they are derived slice by slice."""
        inputs = dict.fromkeys((over.block if isinstance(over, RouteUse) else over.union).inputs)
        self._whole.update((input_.id, (), ()) for input_ in inputs)
        covered = [self.ensure(input_, (), ()) for input_ in inputs]
        if not all(covered):
            return None
        if self._derivations.begin(node, over):
            self._missing[flight_of(node)] = None
            return None
        if isinstance(over, Merge):
            return over.union.rows((), ())
        return self.complete(over, over.block.join.known(over.route.driver, (), ()))

    def _walk(self, use: RouteUse, key: Key) -> list[Row] | None:
        """The rows of a block for a target's key, over what is covered; None if something is not."""
        route, cover = use.route, use.covers[0]
        assert not isinstance(cover, OrderedCover)
        walk = self._walks.get((use, key))
        if walk is not None:
            self._counters["walks_continued" if walk.is_current else "walks_restarted"] += 1
        if walk is None or not walk.is_current:
            self._walks.pop((use, key), None)
            part = use.driving_key(key)
            if not self.ensure(use.node_at(0), cover, use.cover_key(0, part)):
                self._look_ahead(use, part)
                return None
            driving = use.block.join.known(route.driver, route.driver_columns, part)
            walk = self._walks[use, key] = Walk(use, driving, part)
        if not walk.go_on(self._bind):
            self._ask_for_whole_inputs(use)
            return None
        del self._walks[use, key]
        return _filtered(use, key, walk.rows())

    def complete(self, use: RouteUse, driving: Mapping[Row, int]) -> list[Row] | None:
        """The block's rows that come of rows of its driving input; None if a lookup on the way is not covered."""
        walk = Walk(use, driving, None)
        return walk.rows() if walk.go_on(self._bind) else None

    def _ask_for_whole_inputs(self, use: RouteUse) -> None:
        """Asks at once for inputs that are covered whole, although no combination has come that far."""
        for position, cover in enumerate(use.covers):
            if position and not cover:
                self.ensure(use.node_at(position), (), ())

    def _look_ahead(self, use: RouteUse, part: Key) -> None:
        """Asks, in the driving key's own round, for what that key alone says will be looked up, and for what its rows
        will probably say."""
        columns = use.route.driver_columns
        for position, cover in enumerate(use.covers[1:], start=1):
            assert not isinstance(cover, OrderedCover)
            sources = use.covered_sources(position)
            if cover and all(s.input == use.route.driver and s.column in columns for s in sources):
                key = tuple([part[columns.index(s.column)] for s in sources])
                self.ensure(use.node_at(position), cover, part if key == part else key)
        for step in use.semijoins.values():
            if step.is_worthwhile:
                driven = use.covers[0]
                assert not isinstance(driven, OrderedCover)
                self._flights.join(use.node_at(0), driven, use.cover_key(0, part), step)

    def _bind(
        self, use: RouteUse, position: int, combinations: list[Combination], driving: Key | None
    ) -> tuple[list[Combination], list[Combination]]:
        """Covers the lookups of an input, and binds it. Returns the combinations that meet a hole, and what becomes of
        the others. A key that is equal to `driving` is stored as that object."""
        step, cover = use.route.steps[position - 1], use.covers[position]
        assert not isinstance(cover, OrderedCover)
        node = use.node_at(position)
        if not combinations:
            return [], []
        if not cover:
            return ([], use.bind(position, combinations)) if self.ensure(node, (), ()) else (combinations, [])
        keys = use.block.join.keys_at(step, combinations)
        covered = node.coverage_of(cover).keys
        missing = {
            key: part
            for key in dict.fromkeys(keys)
            if key is not None and (part := use.cover_key(position, key)) not in covered
        }
        if missing:
            missing = {key: driving if part == driving else part for key, part in missing.items()}
            subsume(node, cover, dict.fromkeys(missing.values()), self._counters)
        holes = {key for key, part in missing.items() if part not in covered and not self.ensure(node, cover, part)}
        step_ahead = use.semijoins.get(position)
        if step_ahead is not None and not step_ahead.is_worthwhile:
            step_ahead.note(needed=bool(holes))
        if not holes:
            return [], use.bind(position, combinations)
        held = [c for c, key in zip(combinations, keys, strict=True) if key in holes]
        return held, use.bind(position, [c for c, key in zip(combinations, keys, strict=True) if key not in holes])

    def _gather(self, merge: Merge, key: Key) -> list[Row] | None:
        """The rows of a union for a target's key, over what is covered; None if something is not."""
        part = merge.part(key)
        met = [self.ensure(node, merge.cover, part) for node in dict.fromkeys(merge.union.inputs)]
        return _filtered(merge, key, merge.union.rows(merge.cover, part)) if all(met) else None

    def fill_rows(self, node: Stored, columns: Columns, key: Key, rows: list[Row]) -> bool:
        """Covers `key` of a node with exactly these rows of its source, if these are not too many."""
        if isinstance(node, InnerNode):
            try:
                node.fill_rows(columns, key, rows)
            except EvaluationError:
                raise
            except Exception as error:
                raise NodeFailure(node, contained(error)) from error
        elif isinstance(node, Leaf):
            if node.sizes is not None and not node.sizes.limits.hold_rows(rows):
                self.refuse(node, columns, key)
                return False
            self._fill_leaf(node, key, rows)
        return True

    def looked_up(self, keys: int, rows: int) -> None:
        """Leaves are filled now from a lookup that brought so many rows."""
        self.spent = 1 + _key_cost(keys, rows)

    def extend(self, leaf: Leaf, key: Key, interval: Interval, rows: list[Row]) -> None:
        """Covers an interval of a leaf's key with exactly these rows."""
        self._extensions.install(leaf, key, interval, rows)

    def extended(self, leaf: Leaf, key: Key, rows: list[Row]) -> None:
        """A leaf's key has these rows more."""
        leaf.counts.filled += 1
        self._ranking.extended(leaf, key, rows, self.spent)

    def _fill_leaf(self, leaf: Leaf, key: Key, rows: list[Row]) -> None:
        leaf.coverage.add(key)
        leaf.counts.filled += 1
        self._ranking.filled(leaf, key, rows, self.spent)
        if not leaf.full:
            self._emit(LeafFill(leaf.view_id, key, rows))
            return
        by_key: dict[Key, list[Row]] = {}
        for row in rows:
            row_key = leaf.key_of(row)
            if None not in row_key:
                by_key.setdefault(row_key, []).append(row)
        self._emit(LeafFillAll(leaf.view_id, by_key))
        say_ready(leaf, self._emit)


def say_why(demand: Demand, reason: str, emit: Callable[[Effect], None]) -> None:
    """A full view that cannot be loaded for now says why, once."""
    if demand.reason != reason:
        demand.reason = reason
        for leaf in [want.leaf for want in demand.wants if want.leaf.full and not want.leaf.loaded]:
            emit(ViewStatus(leaf.view_id, "quarantined" if leaf.recovering else "building", reason))


def _filtered(use: RouteUse | Merge, key: Key, rows: list[Row]) -> list[Row]:
    """Rows under `key`: what owns only a part of it brings others too."""
    target = use.target
    if len(use.key_positions) == len(use.columns):
        return rows
    columns = use.columns
    if isinstance(target, GroupingNode):
        columns = tuple(target.relation.group[c] for c in columns)
    key_of = key_function(columns, target.source.types)
    return [row for row in rows if key_of(row) == key]


def _key_cost(keys: int, rows: int) -> float:
    """One key's part of what a lookup's keys and rows cost."""
    return (1 + rows / max(1, keys)) * ROW_COST


def _cover(columns: Columns, part: Part | None) -> Cover:
    return columns if part is None else OrderedCover(columns, part.order)
