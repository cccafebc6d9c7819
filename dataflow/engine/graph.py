"""Nodes of the installed views, shared where relations are equal (Noria's joint optimization, OSDI 2018, §5.1).

A child's id is larger than its parents', so ascending ids are a topological order.

*Maintains*: `Stored.uses` and `Stored.dependents` mirror each other, as `merges` and `merged_by` do; a node without
users is gone.

Not here: what a node does (`nodes`); propagation, upqueries and eviction, which walk this graph.
"""

from collections import Counter
from collections.abc import Iterator

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.events import TableDelta
from dataflow.engine.key_sizes import UNLIMITED, KeyLimits, KeySizes
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import (
    BlockNode,
    Dependent,
    GroupingNode,
    InnerNode,
    Merge,
    PartitionNode,
    RouteUse,
    SourceNode,
    Store,
    Stored,
    UnionNode,
)
from dataflow.engine.partial_images import PartialImages
from dataflow.engine.semijoins import semijoin_steps
from dataflow.errors import InvariantViolation
from dataflow.plan.nodes import Aggregate, Chain, OrderTerm, Relation, Source, TopK, Union, View, Window, inputs_of
from dataflow.plan.parametric import parametric_chains
from dataflow.plan.route_conditions import on_inputs, paddings_read, relevant_columns
from dataflow.plan.routes import (
    Route,
    block_route,
    completion,
    coverable,
    lookup_completion,
    ordered_route,
    union_columns,
)
from dataflow.schema import Catalog
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.types import Columns, NodeId, ViewId


class Graph:
    """All nodes, and the tables they read."""

    def __init__(self, catalog: Catalog, counters: "Counter[str]") -> None:
        self.catalog = catalog
        self._counters = counters
        self.leaves: dict[ViewId, Leaf] = {}
        #: Of the views whose keys have limits of their own.
        self.limited: dict[ViewId, KeySizes] = {}
        #: Stateless nodes by their relation; stores by their source's, groupings and partitions by their own.
        self.sources: dict[Source, SourceNode] = {}
        self.stores: dict[Relation, InnerNode] = {}
        self.by_id: dict[NodeId, SourceNode | Stored] = {}
        #: Of these, the nodes with coverage.
        self._stored: dict[NodeId, Stored] = {}
        #: The chains that a change of a table may change.
        self.by_table: dict[str, list[ChainNode]] = {}
        #: By chain, if its table has partial changes.
        self._images: dict[NodeId, PartialImages] = {}
        self._last_id = 0

    # Reading

    def stored(self) -> Iterator[Stored]:
        """All nodes with coverage, parents before children."""
        return iter(self._stored.values())

    def over(self, table: str) -> Iterator[Stored]:
        """The nodes with coverage over chains of `table`."""
        for chain in self.by_table.get(table, ()):
            yield from chain.children

    def images_of(self, chain: ChainNode) -> PartialImages:
        """Returns the conversion of partial changes of a chain's table."""
        table = self.catalog.tables[chain.table]
        images = self._images.get(chain.id)
        if images is None or images.table is not table:
            images = self._images[chain.id] = PartialImages(chain, table)
        return images

    def leaves_reading(self, table: str) -> list[Leaf]:
        """The views whose plans read `table`."""
        return [leaf for leaf in self.leaves.values() if table in self.tables_of(leaf)]

    def tables_of(self, node: Stored) -> frozenset[str]:
        """The base tables below a node."""
        if isinstance(node.source, ChainNode):
            return node.source.tables
        return frozenset().union(*[self.tables_of(i) for i in node.source.inputs])

    # Changing

    def install(self, view_id: ViewId, view: View, whole: bool = False, limits: KeyLimits = UNLIMITED) -> Leaf:
        """Adds a view's nodes, those that are not there yet. `whole`: no route to a part of it is looked for."""
        source = self._source(view.relation)
        leaf = Leaf(self._next_id(), source, view_id, view)
        self._adopt(leaf)
        self.leaves[view_id] = leaf
        # A key without rows to aggregate has its row only if it is covered itself; one of a parametric chain, its rows.
        whole = whole and not _has_default_rows(view.relation) and not any(parametric_chains(view.relation))
        columns = self.resolve(leaf, () if whole else view.key_columns)
        leaf.cover_by(columns, self._ordered(leaf) if columns == view.key_columns and not whole else None)
        if limits != UNLIMITED and not leaf.full:
            leaf.sizes = KeySizes(limits)
            self.limited[view_id] = leaf.sizes
        return leaf

    def _ordered(self, leaf: Leaf) -> OrderedCover | None:
        """How the view's keys can be covered in part: if its order is one of rows that a lookup can be told to sort."""
        view = leaf.view
        if (
            view.within
            or not view.storage_order
            or not all(leaf.types[term.column].orderable for term in view.storage_order)
        ):
            return None
        cover = OrderedCover(view.key_columns, view.storage_order)
        if isinstance(leaf.source, BlockNode):
            found = ordered_route(leaf.source.relation, view.key_columns, view.storage_order)
            if found is None:
                return None
            route, order = found
            leaf.uses[cover] = self._ordered_use(leaf, leaf.source, route, order)
        return cover if isinstance(leaf.source, ChainNode | BlockNode) else None

    def _ordered_use(self, leaf: Leaf, block: BlockNode, route: Route, order: tuple[OrderTerm, ...]) -> RouteUse:
        """The route of a part of a key: the driving input is covered in part, the others by the keys of its rows."""
        driver = block.inputs[route.driver]
        driven = OrderedCover(route.driver_columns, order)
        driver.materialization.require_ordered(driven)
        covers: list[Cover] = [driven, *(self.resolve(block.inputs[s.input], s.columns) for s in route.steps)]
        return self._registered(RouteUse(leaf, leaf.view.key_columns, block, route, covers))

    def drop(self, leaf: Leaf) -> None:
        """Takes a view's nodes away, those that no other view needs."""
        del self.leaves[leaf.view_id]
        self.limited.pop(leaf.view_id, None)
        self._remove(leaf)

    def resolve(self, node: Stored, columns: Columns) -> Columns:
        """The columns to cover for a lookup by `columns`: these, or those of them for which there is a route (a leaf:
        all or none), or ``()``.

        Makes the route, and what it needs of the nodes above, if it is not there yet.
        """
        resolved = coverable(node.relation, columns)
        if isinstance(node, Leaf):
            resolved = resolved if resolved == columns else ()
        elif isinstance(node, InnerNode):
            node.materialization.require_coverage(resolved)
        if isinstance(node.source, BlockNode) and resolved not in node.uses:
            node.uses[resolved] = self._use(node, resolved, node.source)
        elif isinstance(node.source, UnionNode) and resolved not in node.merges:
            node.merges[resolved] = self._merge(node, resolved, node.source)
        return resolved

    def _merge(self, node: Stored, columns: Columns, union: UnionNode) -> Merge:
        below = node.source_columns(columns)
        cover = union_columns(union.relation, tuple(sorted(set(below))))
        merge = Merge(node, columns, union, cover, tuple(map(below.index, cover)))
        for input_ in dict.fromkeys(union.inputs):
            if self.resolve(input_, cover) != cover:
                raise InvariantViolation(f"a branch of a union is not covered by {cover}")
            input_.merged_by.append(merge)
            whole_key = bool(cover) and merge.key_positions == tuple(range(len(columns)))
            input_.coverage_of(cover).read_by_route(whole_key=whole_key)
        return merge

    def _use(self, node: Stored, columns: Columns, block: BlockNode) -> RouteUse:
        route = block_route(block.relation, node.source_columns(columns), self.catalog)
        if route is None:
            raise InvariantViolation(f"there is no route for {columns} of node {node.id}")
        inputs = [block.inputs[i] for i in route.order()]
        wanted = [route.driver_columns, *(step.columns for step in route.steps)]
        covers = [self.resolve(i, () if route.full else w) for i, w in zip(inputs, wanted, strict=True)]
        use = self._registered(RouteUse(node, columns, block, route, covers))
        use.semijoins.update(semijoin_steps(use, self.catalog))
        return use

    def _registered(self, use: RouteUse) -> RouteUse:
        """The use with all that walking it needs, noted at the nodes that it reads."""
        block, route = use.block, use.route
        for position, cover in enumerate(use.covers):
            whole_key = use.looks_up_whole_key(position) if position else use.drives_by_whole_key
            use.node_at(position).coverage_of(cover).read_by_route(whole_key=whole_key)
        block.inputs[route.driver].materialization.require_index(route.driver_columns)
        block.join.require_indexes(route.steps)
        if not route.full:
            self._complete(use)
        for position in range(len(block.inputs)):
            use.node_at(position).dependents.append(Dependent(use, position))
        return use

    def _complete(self, use: RouteUse) -> None:
        """Plans how a route is walked from any of its inputs. A full one never is: its inputs are covered whole."""
        block, route, join = use.block.relation, use.route, use.block.join
        use.completions = [completion(route, i) for i in range(len(block.inputs))]
        use.lookers = [lookup_completion(route, use.covered_sources(p)) for p in range(1, len(use.covers))]
        for complete in use.completions:
            join.require_indexes(complete.before)
        use.led = [join.condition(on_inputs(block, complete.leads_through())) for *_, complete in use.lookers]
        for first, columns, _, complete in use.lookers:
            use.block.inputs[first].materialization.require_index(columns)
            join.require_indexes(complete.before)
        use.relevant = [relevant_columns(block, route, i) for i in range(len(block.inputs))]
        if isinstance(use.covers[0], OrderedCover):
            # A row that moves within the order may come into a covered interval.
            order = {term.column for term in use.covers[0].order}
            use.relevant[route.driver] = tuple(sorted(order.union(use.relevant[route.driver])))
        use.paddings = paddings_read(block, route)

    # Nodes

    def _next_id(self) -> NodeId:
        self._last_id += 1
        return NodeId(self._last_id)

    def _source(self, relation: Source) -> SourceNode:
        node = self.sources.get(relation)
        if node is not None:
            return node
        if isinstance(relation, Chain):
            node = ChainNode(self._next_id(), relation)
            if not node.empty:
                self.by_table.setdefault(relation.table, []).append(node)
        else:
            inputs = [self._input(below) for below in inputs_of(relation)]
            if isinstance(relation, Union):
                node = UnionNode(self._next_id(), relation, inputs)
            else:
                node = BlockNode(self._next_id(), relation, inputs, self._counters)
            for input_ in dict.fromkeys(inputs):
                input_.children.append(node)
        self.sources[relation] = node
        self.by_id[node.id] = node
        return node

    def _input(self, relation: Relation) -> InnerNode:
        node = self.stores.get(relation)
        if node is not None:
            return node
        if isinstance(relation, Aggregate):
            source = self._source(relation.input)
            node = GroupingNode(self._next_id(), source, relation)
        elif isinstance(relation, Window | TopK):
            source = self._source(relation.input)
            node = PartitionNode(self._next_id(), source, relation)
        else:
            node = Store(self._next_id(), self._source(relation))
        self.stores[relation] = node
        self._adopt(node)
        return node

    def _adopt(self, node: Stored) -> None:
        self.by_id[node.id] = node
        self._stored[node.id] = node
        node.source.children.append(node)

    def _remove(self, node: Stored) -> None:
        """Takes a stored node away, and what only it needed."""
        del self.by_id[node.id]
        del self._stored[node.id]
        if not isinstance(node, Leaf):
            del self.stores[node.relation]
        source = node.source
        source.children.remove(node)
        for use in node.uses.values():
            for input_ in dict.fromkeys(use.block.inputs):
                input_.dependents = [d for d in input_.dependents if d.use is not use]
        for merge in node.merges.values():
            for input_ in dict.fromkeys(merge.union.inputs):
                input_.merged_by.remove(merge)
        if not source.children:
            self._remove_source(source)

    def _remove_source(self, source: SourceNode) -> None:
        del self.by_id[source.id]
        del self.sources[source.relation]
        if isinstance(source, ChainNode):
            self._images.pop(source.id, None)
            nodes = self.by_table.get(source.table, [])
            if source in nodes:
                nodes.remove(source)
            if not nodes:
                self.by_table.pop(source.table, None)
            return
        for input_ in dict.fromkeys(source.inputs):
            input_.children.remove(source)
            if not input_.children:
                self._remove(input_)


def _has_default_rows(relation: Relation) -> bool:
    """Return whether keys have rows that are made of none: aggregates without GROUP BY, by parameters."""
    own = isinstance(relation, Aggregate) and relation.scalar and bool(relation.group)
    return own or any(map(_has_default_rows, inputs_of(relation)))


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
