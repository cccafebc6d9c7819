"""The nodes of the views that are installed, shared where their relations are equal (joint optimization, OSDI'18 §5.1).

Kinds: a *chain node* and a *block node* are stateless functions; a *store* (rows), a *grouping* (groups) and a
*leaf* (coverage only, its rows live in the leaf store) hold state over one of those. A child's id is larger than
its parents', so ascending ids are a topological order.

*Maintains*: `Stored.uses` and `Stored.dependents` mirror each other; a node without users is gone.

Not here: propagation, upqueries and eviction, which walk this graph.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from dataflow.engine.events import TableDelta
from dataflow.ops.aggregate import Grouping
from dataflow.ops.block import BlockJoin
from dataflow.ops.chain import ChainFunction
from dataflow.plan.nodes import Aggregate, Block, Chain, Relation, View, column_types
from dataflow.plan.routes import (
    Completion,
    Route,
    aggregate_input_columns,
    block_route,
    completion,
    lookup_completion,
    parent_columns,
    relevant_columns,
)
from dataflow.schema import Catalog
from dataflow.state.coverage import Coverage
from dataflow.state.index import key_function
from dataflow.state.materialization import Materialization, grouped
from dataflow.types import Columns, Delta, Key, NodeId, Row, ViewId


class ChainNode:
    """A chain's function, shared by all that hold state over it."""

    def __init__(self, id_: NodeId, chain: Chain) -> None:
        self.id = id_
        self.relation = chain
        self.function = ChainFunction(chain)
        self.types = column_types(chain)
        self.children: list[Stored] = []

    @property
    def table(self) -> str:
        """The base table."""
        return self.relation.table


class BlockNode:
    """A join block over stored inputs."""

    def __init__(
        self, id_: NodeId, block: Block, inputs: list["Store | GroupingNode"], counters: "Counter[str]"
    ) -> None:
        self.id = id_
        self.relation = block
        self.types = column_types(block)
        self.inputs = inputs
        self.join = BlockJoin(block, [node.materialization for node in inputs], counters)
        self.children: list[Stored] = []

    @property
    def uses(self) -> Iterator["Use"]:
        """The routes through this block."""
        for child in self.children:
            yield from child.uses.values()


@dataclass(eq=False, slots=True)
class Use:
    """A route that fills `columns` of `target` through a block, and what it depends on."""

    target: "Stored"
    columns: Columns
    block: BlockNode
    route: Route
    #: Per input of the route, in its order: the columns that must be covered there, ``()`` where there is no route.
    covers: list[Columns]
    #: Per input of the block; none for a full route.
    completions: list[Completion] = field(default_factory=list)
    #: Per step of the route: how to find the combinations that look a key up (input, columns, positions, completion).
    lookers: list[tuple[int, Columns, tuple[int, ...], Completion]] = field(default_factory=list)
    #: Per input of the block: the columns by which the route finds its way; none for a full route.
    relevant: list[Columns] = field(default_factory=list)
    #: Steps that look up the children of rows of one earlier input by a validated foreign key: (position, that input).
    parents: list[tuple[int, int]] = field(default_factory=list)

    @property
    def key_positions(self) -> tuple[int, ...]:
        """The positions of a target's key that a driving row determines."""
        return self.route.key_positions

    def parent_tables(self) -> set[str]:
        """The tables whose new rows have no children yet, for this route."""
        sources = [self.block.inputs[parent].source for _, parent in self.parents]
        return {source.table for source in sources if isinstance(source, ChainNode)}

    def node_at(self, position: int) -> "Store | GroupingNode":
        """The input at a position of the route."""
        return self.block.inputs[self.route.order()[position]]


@dataclass(eq=False, slots=True)
class Dependent:
    """`use` reads the node that holds this at `position` of its route."""

    use: Use
    position: int


class Stored(ABC):
    """A node with coverage, over a chain or a block."""

    def __init__(self, id_: NodeId, source: ChainNode | BlockNode, relation: Relation) -> None:
        self.id = id_
        self.source = source
        self.relation = relation
        self.types = column_types(relation)
        #: By the columns that they fill. A node over a chain has none: it is looked up.
        self.uses: dict[Columns, Use] = {}
        #: The routes that read this node.
        self.dependents: list[Dependent] = []
        #: Blocks that have this node as an input.
        self.children: list[BlockNode] = []

    @abstractmethod
    def coverage_of(self, columns: Columns) -> Coverage:
        """The coverage of a column set that was required before."""

    @abstractmethod
    def coverages(self) -> dict[Columns, Coverage]:
        """All coverage."""

    def covered(self, columns: Columns, key: Key) -> bool:
        """Whether `key` is known to be complete."""
        return key in self.coverage_of(columns).keys


class Store(Stored):
    """Rows of a chain or a block, known in part."""

    def __init__(self, id_: NodeId, source: ChainNode | BlockNode) -> None:
        super().__init__(id_, source, source.relation)
        self.materialization = Materialization(self.types)

    def coverage_of(self, columns: Columns) -> Coverage:
        return self.materialization.coverage[columns]

    def coverages(self) -> dict[Columns, Coverage]:
        return self.materialization.coverage

    def absorb(self, delta: Delta, truncated: bool) -> Delta:
        """Applies what is known of the source's change; returns it."""
        if not truncated:
            return self.materialization.absorb(delta)
        gone = list(self.materialization.known_rows())
        for row in gone:
            self.materialization.delete(row)
        return gone, self.materialization.absorb(([], delta[1]))[1]

    def fill_rows(self, columns: Columns, key: Key, rows: dict[Row, int]) -> None:
        """Covers `key` with exactly these rows."""
        self.materialization.fill(columns, key, rows)

    def cover_known(self, columns: Columns, key: Key) -> None:
        """Covers `key`, whose rows are known already or do not exist."""
        self.materialization.fill(columns, key, {})

    def forget(self, columns: Columns, key: Key) -> None:
        """Makes `key` a hole."""
        self.materialization.evict(columns, key)


class GroupingNode(Stored):
    """Groups of an aggregate, known in part."""

    relation: Aggregate

    def __init__(self, id_: NodeId, source: ChainNode | BlockNode, aggregate: Aggregate) -> None:
        super().__init__(id_, source, aggregate)
        self.materialization = Materialization(self.types)
        self.grouping = Grouping(aggregate, self.materialization)

    def coverage_of(self, columns: Columns) -> Coverage:
        return self.materialization.coverage[columns]

    def coverages(self) -> dict[Columns, Coverage]:
        return self.materialization.coverage

    def absorb(self, delta: Delta, truncated: bool) -> Delta:
        """Applies what is known of the source's change; returns the change of the groups' rows."""
        if not truncated:
            return self.grouping.absorb(delta)
        gone = self.grouping.truncate()
        come = self.grouping.absorb(([], delta[1]))
        return gone[0] + come[0], gone[1] + come[1]

    def cover_known(self, columns: Columns, key: Key) -> None:
        """Covers `key`, whose groups are known already or do not exist."""
        self.grouping.cover_known(columns, key)

    def forget(self, columns: Columns, key: Key) -> None:
        """Makes `key` a hole."""
        self.grouping.evict(columns, key)


class Leaf(Stored):
    """A view's covered keys. Its rows live in the leaf store."""

    def __init__(self, id_: NodeId, source: ChainNode | BlockNode, view_id: ViewId, view: View) -> None:
        super().__init__(id_, source, source.relation)
        self.view_id = view_id
        self.view = view
        self.key_of = key_function(view.key_columns, self.types)
        #: Of `view.key_columns`, or of ``()`` for a full view. Set when the route is known.
        self.coverage = Coverage(())
        #: Subscriptions by key.
        self.pins: dict[Key, int] = {}
        self.broken: str | None = None
        self.loaded = False

    @property
    def full(self) -> bool:
        """Whether the view is kept whole."""
        return not self.coverage.columns

    def coverage_of(self, columns: Columns) -> Coverage:
        del columns
        return self.coverage

    def coverages(self) -> dict[Columns, Coverage]:
        return {self.coverage.columns: self.coverage}

    def covering_key(self, key: Key) -> Key:
        """The key that must be covered for a read of `key`."""
        return () if self.full else key

    def changes(self, delta: Delta) -> dict[Key, Delta]:
        """What of the source's change is under covered keys, by key. A NULL parameter matches nothing."""
        covered = self.coverage.keys
        if not covered:
            return {}
        changes = grouped(delta, self.key_of)
        if self.full:
            return {key: change for key, change in changes.items() if None not in key}
        return {key: change for key, change in changes.items() if key in covered}


class Graph:
    """All nodes, and the tables they read."""

    def __init__(self, catalog: Catalog, counters: "Counter[str]") -> None:
        self.catalog = catalog
        self._counters = counters
        self.leaves: dict[ViewId, Leaf] = {}
        #: Stateless nodes by their relation; stores by their source's, groupings by their own.
        self.sources: dict[Chain | Block, ChainNode | BlockNode] = {}
        self.stores: dict[Relation, Store | GroupingNode] = {}
        self.by_id: dict[NodeId, ChainNode | BlockNode | Stored] = {}
        self.by_table: dict[str, list[ChainNode]] = {}
        #: Routes that lead from new rows of a table to their children, by that table.
        self.parent_uses: dict[str, list[Use]] = {}
        self._last_id = 0

    # Reading

    def stored(self) -> Iterator[Stored]:
        """All nodes with coverage, parents before children."""
        for node in self.by_id.values():
            if isinstance(node, Stored):
                yield node

    def over(self, table: str) -> Iterator[Stored]:
        """The nodes with coverage over chains of `table`."""
        for chain in self.by_table.get(table, ()):
            yield from chain.children

    def leaves_reading(self, table: str) -> list[Leaf]:
        """The views whose plans read `table`."""
        return [leaf for leaf in self.leaves.values() if table in self.tables_of(leaf)]

    def tables_of(self, node: Stored) -> frozenset[str]:
        """The base tables below a node."""
        if isinstance(node.source, ChainNode):
            return frozenset([node.source.table])
        return frozenset().union(*[self.tables_of(i) for i in node.source.inputs])

    # Changing

    def install(self, view_id: ViewId, view: View) -> Leaf:
        """Adds a view's nodes, those that are not there yet."""
        source = self._source(view.relation)
        leaf = Leaf(self._next_id(), source, view_id, view)
        self._adopt(leaf)
        self.leaves[view_id] = leaf
        columns = self.resolve(leaf, view.key_columns)
        leaf.coverage = Coverage(columns)
        return leaf

    def drop(self, leaf: Leaf) -> None:
        """Takes a view's nodes away, those that no other view needs."""
        del self.leaves[leaf.view_id]
        self._remove(leaf)

    def resolve(self, node: Stored, columns: Columns) -> Columns:
        """The columns to cover for a lookup by `columns`: these, or ``()`` if there is no route for them.

        Makes the route, and what it needs of the nodes above, if it is not there yet.
        """
        if isinstance(node.source, ChainNode):
            routable = parent_columns(node.relation, columns) is not None  # type: ignore[arg-type]
            resolved = columns if routable else ()
        else:
            resolved = self._resolve_through(node, node.source, columns)
        if not isinstance(node, Leaf):
            node.materialization.require_coverage(resolved)  # type: ignore[attr-defined]
        return resolved

    def _resolve_through(self, node: Stored, block: BlockNode, columns: Columns) -> Columns:
        if columns in node.uses:
            return columns
        below = _columns_of_source(node, columns)
        route = block_route(block.relation, below) if below is not None else None
        if route is None:
            return self._resolve_through(node, block, ())
        node.uses[columns] = self._use(node, columns, block, route)
        return columns

    def _use(self, node: Stored, columns: Columns, block: BlockNode, route: Route) -> Use:
        inputs = [block.inputs[i] for i in route.order()]
        wanted = [route.driver_columns, *(step.columns for step in route.steps)]
        covers = [self.resolve(i, () if route.full else w) for i, w in zip(inputs, wanted, strict=True)]
        use = Use(node, columns, block, route, covers)
        block.inputs[route.driver].materialization.require_index(route.driver_columns)
        block.join.require_indexes(route.steps)
        if not route.full:
            self._complete(use)
        for position, input_ in enumerate(inputs):
            input_.dependents.append(Dependent(use, position))
        return use

    def _complete(self, use: Use) -> None:
        """Plans how a route is walked from any of its inputs. A full one never is: its inputs are covered whole."""
        block, route, join = use.block.relation, use.route, use.block.join
        use.completions = [completion(route, i) for i in range(len(block.inputs))]
        use.lookers = [lookup_completion(route, step) for step in route.steps]
        for complete in use.completions:
            join.require_indexes(complete.before)
        for first, columns, _, complete in use.lookers:
            use.block.inputs[first].materialization.require_index(columns)
            join.require_indexes(complete.before)
        use.relevant = [relevant_columns(route, i) for i in range(len(block.inputs))]
        use.parents = self._parent_steps(use)
        for table in use.parent_tables():
            self.parent_uses.setdefault(table, []).append(use)

    def _parent_steps(self, use: Use) -> list[tuple[int, int]]:
        """Steps from a parent's key to its children by a validated foreign key (architecture §3, "A new parent")."""
        found = []
        for position, step in enumerate(use.route.steps, start=1):
            inputs = {source.input for source in step.sources}
            if len(inputs) != 1 or use.covers[position] != step.columns:
                continue
            (parent,) = inputs
            if self._is_foreign_key(use, parent, tuple(s.column for s in step.sources), step.input, step.columns):
                found.append((position, parent))
        return found

    def _is_foreign_key(self, use: Use, parent: int, keys: Columns, child: int, columns: Columns) -> bool:
        parent_node, child_node = use.block.inputs[parent], use.block.inputs[child]
        if not isinstance(parent_node, Store) or not isinstance(parent_node.source, ChainNode):
            return False
        if not isinstance(child_node.source, ChainNode):
            return False
        parent_base = parent_columns(parent_node.source.relation, keys)
        child_base = parent_columns(child_node.relation, columns)  # type: ignore[arg-type]
        table = self.catalog.tables.get(child_node.source.table)
        if parent_base is None or child_base is None or table is None:
            return False
        pairs = set(zip(child_base, parent_base, strict=True))
        return any(
            key.parent == parent_node.source.table and pairs == set(zip(key.columns, key.parent_columns, strict=True))
            for key in table.foreign_keys
        )

    # Nodes

    def _next_id(self) -> NodeId:
        self._last_id += 1
        return NodeId(self._last_id)

    def _source(self, relation: Chain | Block) -> ChainNode | BlockNode:
        node = self.sources.get(relation)
        if node is not None:
            return node
        if isinstance(relation, Chain):
            node = ChainNode(self._next_id(), relation)
            self.by_table.setdefault(relation.table, []).append(node)
        else:
            inputs = [self._input(item.relation) for item in relation.inputs]
            node = BlockNode(self._next_id(), relation, inputs, self._counters)
            for input_ in dict.fromkeys(inputs):
                input_.children.append(node)
        self.sources[relation] = node
        self.by_id[node.id] = node
        return node

    def _input(self, relation: Relation) -> Store | GroupingNode:
        node = self.stores.get(relation)
        if node is not None:
            return node
        if isinstance(relation, Aggregate):
            source = self._source(relation.input)
            node = GroupingNode(self._next_id(), source, relation)
        else:
            node = Store(self._next_id(), self._source(relation))
        self.stores[relation] = node
        self._adopt(node)
        return node

    def _adopt(self, node: Stored) -> None:
        self.by_id[node.id] = node
        node.source.children.append(node)

    def _remove(self, node: Stored) -> None:
        """Takes a stored node away, and what only it needed."""
        del self.by_id[node.id]
        if not isinstance(node, Leaf):
            del self.stores[node.relation]
        source = node.source
        source.children.remove(node)
        for use in node.uses.values():
            for input_ in dict.fromkeys(use.block.inputs):
                input_.dependents = [d for d in input_.dependents if d.use is not use]
            for table in use.parent_tables():
                self.parent_uses[table].remove(use)
        if not source.children:
            self._remove_source(source)

    def _remove_source(self, source: ChainNode | BlockNode) -> None:
        del self.by_id[source.id]
        del self.sources[source.relation]
        if isinstance(source, ChainNode):
            nodes = self.by_table[source.table]
            nodes.remove(source)
            if not nodes:
                del self.by_table[source.table]
            return
        for input_ in dict.fromkeys(source.inputs):
            input_.children.remove(source)
            if not input_.children:
                self._remove(input_)


def _columns_of_source(node: Stored, columns: Columns) -> Columns | None:
    if isinstance(node.relation, Aggregate):
        return aggregate_input_columns(node.relation, columns)
    return columns


def merged(deltas: list[TableDelta]) -> TableDelta:
    """Several transactions' changes of one table, in stream order, as one."""
    total = TableDelta()
    for delta in deltas:
        if delta.truncated:
            total = TableDelta([], list(delta.added), True, total.overflow or delta.overflow)
        else:
            total.removed.extend(delta.removed)
            total.added.extend(delta.added)
            total.overflow = total.overflow or delta.overflow
    return total
