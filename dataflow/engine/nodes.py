"""Nodes of a graph: stateless functions, and the nodes with coverage over them.

Kinds: a *chain node*, a *block node* and a *union node* are stateless functions; a *store* (rows), a *grouping*
(groups), *partitions* (what windows and top-k make of them) and a *leaf* (coverage only, its rows live in the leaf
store) hold state over one of those.

Not here: which nodes there are (`graph`), leaves (`leaf`).
"""

from abc import ABCMeta, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.counts import NodeCounts
from dataflow.engine.parametric_rows import Keys
from dataflow.ops.aggregate import Grouping
from dataflow.ops.block import BlockJoin, Combination, Condition, InputChange, RowCondition, where_row
from dataflow.ops.groups import Group
from dataflow.ops.partitions import Partition, Partitioned
from dataflow.plan.nodes import Aggregate, Block, Chain, Relation, TopK, Union, Window, column_types
from dataflow.plan.parts import Interval
from dataflow.plan.routes import Completion, Route, Source
from dataflow.state.coverage import Coverage
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.state.materialization import Materialization, as_bag, consolidate
from dataflow.types import Columns, Delta, Key, NodeId, Row


class BlockNode:
    """A join block over stored inputs."""

    def __init__(self, id_: NodeId, block: Block, inputs: list["InnerNode"], counters: "Counter[str]") -> None:
        self.id = id_
        self.relation = block
        self.types = column_types(block)
        self.inputs = inputs
        self.join = BlockJoin(block, [node.materialization for node in inputs], counters)
        self.children: list[Stored] = []

    @property
    def uses(self) -> Iterator["RouteUse"]:
        """The routes through this block."""
        for child in self.children:
            yield from child.uses.values()

    def delta(self, changes: Sequence[InputChange | None]) -> Delta:
        """The block's change, given each input's (None: unchanged), without rows that belong to no covered key, as far
        as an input's row says so. A key that is not stored may join very many."""
        return self.join.delta(changes, [None if c is None else self._matters(i) for i, c in enumerate(changes)])

    def _matters(self, input_: int) -> Condition | None:
        """Returns a test whether a row of an input belongs to a covered key; None if a row alone does not say so."""
        uses = list(self.uses)
        if any(use.route.full or use.route.driver != input_ for use in uses):
            return None
        return lambda combination: any(use.drives(combination) for use in uses)


class UnionNode:
    """UNION ALL of stored inputs."""

    def __init__(self, id_: NodeId, union: Union, inputs: list["InnerNode"]) -> None:
        self.id = id_
        self.relation = union
        self.types = column_types(union)
        self.inputs = inputs
        self.children: list[Stored] = []

    def delta(self, deltas: Mapping[NodeId, Delta]) -> Delta:
        """The union's change, given its inputs'. An input that is there twice counts twice."""
        removed: list[Row] = []
        added: list[Row] = []
        for node in self.inputs:
            if node.id in deltas:
                removed += deltas[node.id][0]
                added += deltas[node.id][1]
        return consolidate((removed, added))

    def rows(self, columns: Columns, key: Key) -> list[Row]:
        """The known rows under a key that all inputs are covered by."""
        bags = [node.materialization.indexes[columns].get(key) for node in self.inputs]
        return [row for bag in bags for row, times in bag.items() for _ in range(times)]


@dataclass(eq=False, slots=True)
class SemijoinStep:
    """A step of a route whose keys are in the driving rows (`semijoins`): `links` there, `columns` of `node` here."""

    node: "InnerNode"
    columns: Columns
    links: Columns
    #: About how often some of its keys were not covered, of late.
    _need: float = 1.0

    @property
    def is_worthwhile(self) -> bool:
        """True if its keys are to be looked up together with the driving rows."""
        return self._need >= 0.5

    def note(self, *, needed: bool) -> None:
        """Notes whether keys were missing when the driving rows were there."""
        # A key that is missing is noted twice while the step is not worthwhile: also as covered, when it has come.
        self._need += (1 - self._need) / 8 if needed else -self._need / 16


@dataclass(eq=False, slots=True)
class RouteUse:
    """A route that fills `columns` of `target` through a block, and what it depends on.

    The route looks an input up by some columns; covered is what can be had there by them or by fewer, as `picks` says.
    """

    target: "Stored"
    columns: Columns
    block: BlockNode
    route: Route
    #: Per input of the route, in its order: the columns that must be covered there, those of the route's or some of
    #: them, ``()`` where there is no route. Of an ordered route, the first names an ordered coverage.
    covers: Sequence[Cover]
    #: Likewise: the positions of the route's key for the input that the covered key takes.
    picks: list[tuple[int, ...]] = field(init=False)
    #: Likewise: what must be TRUE for the route to go on, once that input is bound.
    conditions: list[RowCondition | None] = field(init=False)
    #: Likewise: the input itself.
    nodes: list["InnerNode"] = field(init=False)
    #: Per input of the block; none for a full route.
    completions: list[Completion] = field(default_factory=list)
    #: Per step of the route: how to find the combinations that look a key up (input, columns, positions, completion).
    lookers: list[tuple[int, Columns, tuple[int, ...], Completion]] = field(default_factory=list)
    #: Likewise: what must be TRUE of these combinations.
    led: list[Condition | None] = field(default_factory=list)
    #: Per input of the block: the columns by which the route finds its way; none for a full route.
    relevant: list[Columns] = field(default_factory=list)
    #: Inputs of the block whose padding can lead the route on, to what it did not look up before; none if it is full.
    paddings: frozenset[int] = frozenset()
    #: By position.
    semijoins: dict[int, SemijoinStep] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted = [self.route.driver_columns, *(step.columns for step in self.route.steps)]
        covered = [cover.columns if isinstance(cover, OrderedCover) else cover for cover in self.covers]
        self.picks = [tuple(map(w.index, c)) for w, c in zip(wanted, covered, strict=True)]
        order = self.route.order()
        self.conditions = self.block.join.conditions(order)
        self.nodes = [self.block.inputs[input_] for input_ in order]

    @property
    def key_positions(self) -> tuple[int, ...]:
        """The positions of a target's key that a driving row determines."""
        return self.route.key_positions

    @property
    def drives_by_whole_key(self) -> bool:
        """True if a target's key is the key that is covered of the driving input, too."""
        every = tuple(range(len(self.columns)))
        return bool(every) and self.route.key_positions == every == self.picks[0]

    def looks_up_whole_key(self, position: int) -> bool:
        """Return whether a step of the route looks up the very key that is to be filled, and that drives the route."""
        driver, columns = self.route.driver, self.route.driver_columns
        sources = [(source.input, source.column) for source in self.covered_sources(position)]
        return self.drives_by_whole_key and sources == [(driver, column) for column in columns]

    def driving_part(self, combination: Combination) -> Key | None:
        """The part of the target's keys that the combination's driving row belongs to; None if that is not bound."""
        driver = self.route.driver
        row = combination[driver]
        if row is None:
            return None
        return self.block.inputs[driver].materialization.indexes[self.route.driver_columns].key_of(row)

    def drives(self, combination: Combination) -> bool:
        """Return whether the combination's driving row belongs to a covered key of the target."""
        part = self.driving_part(combination)
        return part is not None and self.target.coverage_of(self.columns).agrees(self.key_positions, part)

    def driving_key(self, key: Key) -> Key:
        """The part of a target's key that selects rows of the driving input. Both may store one object."""
        part = tuple([key[p] for p in self.route.key_positions])
        return key if part == key else part

    def cover_key(self, position: int, key: Key) -> Key:
        """The key that must be covered at a position of the route where `key` is looked up."""
        picks = self.picks[position]
        return key if len(picks) == len(key) else tuple([key[p] for p in picks])

    def covered_sources(self, position: int) -> tuple[Source, ...]:
        """Sources of the key that must be covered for a step."""
        sources = self.route.steps[position - 1].sources
        return tuple([sources[p] for p in self.picks[position]])

    def start(self, driving: Mapping[Row, int]) -> list[Combination]:
        """The combinations with which the route begins, of rows of the driving input."""
        join, driver = self.block.join, self.route.driver
        started = [join.start(driver, row, times) for row, times in driving.items()]
        return where_row(self.conditions[0], driver, started)

    def bind(self, position: int, combinations: list[Combination]) -> list[Combination]:
        """Binds combinations' lookups at a position of the route, which are covered."""
        return self.block.join.bind(self.route.steps[position - 1], combinations, self.conditions[position])

    def node_at(self, position: int) -> "InnerNode":
        """The input at a position of the route."""
        return self.nodes[position]


@dataclass(eq=False, slots=True)
class Dependent:
    """`use` reads the node that holds this at `position` of its route."""

    use: RouteUse
    position: int


@dataclass(eq=False, slots=True)
class Merge:
    """How `columns` of `target` are filled through a union: every input is covered by the same of its columns."""

    target: "Stored"
    columns: Columns
    union: UnionNode
    #: Columns of the union, ``()`` where not all inputs have a route for some.
    cover: Columns
    #: The positions of a target's key that these take; the others filter.
    key_positions: tuple[int, ...]

    def part(self, key: Key) -> Key:
        """The key that the inputs are covered by for a target's key. Both may store one object."""
        part = tuple([key[p] for p in self.key_positions])
        return key if part == key else part


class Stored(metaclass=ABCMeta):
    """A node with coverage, over a chain, a block or a union."""

    def __init__(self, id_: NodeId, source: "SourceNode", relation: Relation) -> None:
        self.id = id_
        self.source = source
        self.relation = relation
        self.types = column_types(relation)
        #: By the columns that they fill, or fill in part. Only a node over a block has some.
        self.uses: dict[Cover, RouteUse] = {}
        #: By the columns that they fill. Only a node over a union has some.
        self.merges: dict[Columns, Merge] = {}
        #: The routes that read this node.
        self.dependents: list[Dependent] = []
        #: What reads this node through a union.
        self.merged_by: list[Merge] = []
        #: Blocks and unions that have this node as an input.
        self.children: list[BlockNode | UnionNode] = []
        self.counts = NodeCounts()
        #: What the counts came to when the node was measured last, and what it held.
        self._measured_at = -1
        self._measured = 0

    def state_bytes(self) -> int:
        """About what the node holds in the engine. The leaf store counts its own."""
        counts = self.counts
        at = counts.filled + counts.evicted + counts.rows_applied
        if at != self._measured_at:
            self._measured, self._measured_at = self.measure(), at
        return self._measured

    @abstractmethod
    def measure(self) -> int:
        """About what the node holds, as of now."""

    @abstractmethod
    def coverage_of(self, cover: Cover) -> Coverage:
        """The coverage of a column set, or of one in an order, that was required before."""

    @abstractmethod
    def coverages(self) -> Mapping[Cover, Coverage]:
        """Coverage by the columns, or the order, of its keys."""

    def source_columns(self, columns: Columns) -> Columns:
        """The columns of the node's source that are columns of the node."""
        return columns

    def source_keys(self) -> list[Keys]:
        """The covered keys, in columns of the source."""
        return [(self.source_columns(coverage.columns), coverage) for coverage in self.coverages().values()]

    def covered(self, columns: Columns, key: Key) -> bool:
        """Return whether all of `key` is covered."""
        return key in self.coverage_of(columns).keys

    def holds(self, cover: Cover, key: Key) -> bool:
        """Return whether something of `key` is covered: all of it, or some intervals."""
        return key in self.coverage_of(cover).keys


class InnerNode(Stored):
    """A node that can be an input: its rows, known in part, are in `materialization`."""

    def __init__(self, id_: NodeId, source: "SourceNode", relation: Relation, packed: bool = False) -> None:
        super().__init__(id_, source, relation)
        self.materialization = Materialization(self.types, packed)
        #: Grows when known rows change, or a key becomes a hole; not when one is filled.
        self.changes = 0

    def coverage_of(self, cover: Cover) -> Coverage:
        return self.materialization.coverage_of(cover)

    def coverages(self) -> Mapping[Cover, Coverage]:
        return self.materialization.coverages()

    def measure(self) -> int:
        return self.materialization.state_bytes()

    @abstractmethod
    def absorb(self, delta: Delta, truncated: bool) -> Delta:
        """Applies what is known of the source's change; returns the change of the node's own rows, and counts it."""

    @abstractmethod
    def fill_rows(self, columns: Columns, key: Key, rows: list[Row]) -> None:
        """Covers `key` with exactly these rows of the source."""

    @abstractmethod
    def cover_known(self, columns: Columns, key: Key) -> None:
        """Covers `key`, of which everything is known already or does not exist."""

    def forget(self, cover: Cover, key: Key) -> None:
        """Makes `key` a hole."""
        self.changes += 1
        self._forget(cover, key)

    @abstractmethod
    def _forget(self, cover: Cover, key: Key) -> None:
        """Makes `key` a hole; `forget` has counted that."""

    def clear(self) -> None:
        """Makes every key a hole, also when a change was applied half-way."""
        self.changes += 1
        self.counts.evicted += sum(map(len, self.coverages().values()))
        self._clear()

    @abstractmethod
    def _clear(self) -> None:
        """Forgets all rows and all coverage."""


class Store(InnerNode):
    """Rows of a chain or a block, known in part."""

    def __init__(self, id_: NodeId, source: "SourceNode") -> None:
        super().__init__(id_, source, source.relation, packed=True)
        if _has_stored_texts(source):
            self.materialization.own_from = len(self.types)

    def absorb(self, delta: Delta, truncated: bool) -> Delta:
        known = self._absorb_truncated(delta) if truncated else self.materialization.absorb(delta)
        applied = len(known[0]) + len(known[1])
        self.changes += bool(applied)
        self.counts.rows_applied += applied
        self.counts.rows_dropped += max(0, len(delta[0]) + len(delta[1]) - applied)
        return known

    def _absorb_truncated(self, delta: Delta) -> Delta:
        gone = list(self.materialization.known_rows())
        for row in gone:
            self.materialization.delete(row)
        return gone, self.materialization.absorb(([], delta[1]))[1]

    def fill_rows(self, columns: Columns, key: Key, rows: list[Row]) -> None:
        self.fill_bag(columns, key, as_bag(rows))

    def fill_bag(self, columns: Columns, key: Key, rows: Mapping[Row, int]) -> None:
        """Covers `key` with exactly these rows."""
        self.counts.filled += 1
        self.materialization.fill(columns, key, rows)

    def extend(self, cover: OrderedCover, key: Key, interval: Interval, rows: Mapping[Row, int]) -> None:
        """Covers an interval of `key` with exactly these rows."""
        self.counts.filled += 1
        self.materialization.extend(cover, key, interval, rows)

    def knows_whole(self, columns: Columns, key: Key) -> bool:
        """Return whether all rows under `key` are known because it is covered whole."""
        coverage = self.materialization.coverage.get(columns)
        return coverage is not None and key in coverage.keys

    def cover_known(self, columns: Columns, key: Key) -> None:
        self.fill_bag(columns, key, {})

    def _forget(self, cover: Cover, key: Key) -> None:
        self.materialization.evict(cover, key)

    def _clear(self) -> None:
        self.materialization.clear()


class OperatorNode(InnerNode):
    """Output of an operator with state of its own, known in part."""

    @property
    @abstractmethod
    def operator(self) -> Grouping | Partitioned:
        """The operator, over the node's materialization."""

    def absorb(self, delta: Delta, truncated: bool) -> Delta:
        operator = self.operator
        before = operator.rows_dropped
        if truncated:
            gone = operator.truncate()
            come = operator.absorb(([], delta[1]))
            known = consolidate((gone[0] + come[0], gone[1] + come[1]))
        else:
            known = operator.absorb(delta)
        self.changes += bool(known[0] or known[1])
        dropped = operator.rows_dropped - before
        self.counts.rows_dropped += dropped
        self.counts.rows_applied += len(delta[0]) + len(delta[1]) - dropped
        return known

    def measure(self) -> int:
        return self.materialization.state_bytes() + self.operator.state_bytes()

    def cover_known(self, columns: Columns, key: Key) -> None:
        self.counts.filled += 1
        self.operator.cover_known(columns, key)

    def _clear(self) -> None:
        self.operator.clear()

    def _forget(self, cover: Cover, key: Key) -> None:
        assert not isinstance(cover, OrderedCover)
        self.operator.evict(cover, key)


class GroupingNode(OperatorNode):
    """Groups of an aggregate, known in part."""

    relation: Aggregate

    def __init__(self, id_: NodeId, source: "SourceNode", aggregate: Aggregate, staged: bool = False) -> None:
        super().__init__(id_, source, aggregate)
        self.grouping = Grouping(aggregate, self.materialization, staged)
        if _has_stored_texts(source):
            self.materialization.own_from = len(aggregate.group)

    @property
    def operator(self) -> Grouping:
        return self.grouping

    def source_columns(self, columns: Columns) -> Columns:
        return tuple([self.relation.group[c] for c in columns])

    def fill_rows(self, columns: Columns, key: Key, rows: list[Row]) -> None:
        self.fill_groups(columns, key, self.grouping.groups_of_rows(rows))

    def fill_groups(self, columns: Columns, key: Key, groups: dict[Key, Group]) -> None:
        """Covers `key` with exactly these groups."""
        self.grouping.fill(columns, key, groups)
        self.counts.filled += 1


class PartitionNode(OperatorNode):
    """Partitions of a window or of a top-k, known in part."""

    relation: Window | TopK

    def __init__(self, id_: NodeId, source: "SourceNode", relation: Window | TopK) -> None:
        super().__init__(id_, source, relation)
        self.partitioned = Partitioned(relation, self.materialization)

    @property
    def operator(self) -> Partitioned:
        return self.partitioned

    def fill_rows(self, columns: Columns, key: Key, rows: list[Row]) -> None:
        self.fill_partitions(columns, key, self.partitioned.partitions_of_rows(rows))

    def fill_partitions(self, columns: Columns, key: Key, partitions: dict[Key, Partition]) -> None:
        """Covers `key` with exactly these partitions."""
        self.partitioned.fill(columns, key, partitions)
        self.counts.filled += 1


def looked_up_relation(node: Stored) -> Chain | Aggregate:
    """The relation that lookups of a node read: of one table."""
    relation = node.relation if isinstance(node.relation, Aggregate) else node.source.relation
    if not isinstance(relation, Chain | Aggregate):
        raise TypeError("only what reads one table is looked up")
    return relation


def _has_stored_texts(source: "SourceNode") -> bool:
    """Return whether the texts of its rows are those of rows that others store; unpacked ones are new."""
    return not isinstance(source, ChainNode) and not any(node.materialization.packed for node in source.inputs)


#: What has no state of its own.
SourceNode = ChainNode | BlockNode | UnionNode
