"""Transactions through the graph: once, in topological order, each node with the deltas of all its parents.

Nothing is published before everything went through; what met a hole on its way is evicted at the end of the step.

Not here: who reads (`upquery`), what the leaf store does with changes (`service.leaf_store`).
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.context import Context
from dataflow.engine.derivations import Derivations
from dataflow.engine.effects import LeafChange, LeafClear
from dataflow.engine.events import TableDelta, Transaction
from dataflow.engine.evictions import Evictions, Target, downstream
from dataflow.engine.graph import Graph, merged
from dataflow.engine.incongruence import Incongruence
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import BlockNode, InnerNode, Stored, UnionNode
from dataflow.engine.ranking import Ranking
from dataflow.errors import contained
from dataflow.ops.block import InputChange
from dataflow.state.materialization import consolidate
from dataflow.types import Columns, Delta, Key, NodeId, Row

_NOTHING: Delta = ([], [])
#: Covers a key of a node by some columns with exactly these rows.
Fill = Callable[[Stored, Columns, Key, list[Row]], bool]


class Propagation:
    """Applies transactions to the nodes of a graph."""

    def __init__(
        self,
        context: Context,
        graph: Graph,
        ranking: Ranking,
        evictions: Evictions,
        derivations: Derivations,
        fill: Fill,
    ) -> None:
        self._counters = context.counters
        self._limits = context.limits
        self._emit = context.emit
        self._graph = graph
        self._ranking = ranking
        self._evictions = evictions
        self._derivations = derivations
        self._fill = fill
        #: Leaves' keys that partial changes evict and whose rows they bring, which are collected until they are filled.
        self._refilled: dict[Leaf, dict[Key, list[Row]]] = {}
        self._incongruence = Incongruence(context.counters)
        #: Nodes for which this step's rows made an expression fail, and all that is computed from them.
        self._spoiled: dict[NodeId, Stored] = {}
        #: Of these, the ones that failed in a way that the upstream does not know, and how.
        self._failed: list[tuple[Stored, Exception]] = []

    def apply_transactions(self, transactions: list[Transaction]) -> None:
        """Applies committed transactions, as one up to the next that has partial changes."""
        for together in _runs(transactions):
            self._apply_together(_by_table(together))

    def _apply_together(self, tables: dict[str, TableDelta]) -> None:
        own: dict[NodeId, Delta] = {}
        self._refilled = {}
        for table, delta in tables.items():
            if delta.overflow:
                self._forget_table(table)
            self._forget_surplus(table, delta)
            if delta.partial or delta.implied:
                own.update(self._resolve(table, delta))
        self._spoiled = {}
        targets = self._propagate(tables, own)
        self._evictions.spoil(self._spoiled.values())
        for target in targets:
            self._evictions.evict(*target)
        for leaf, keys in self._refilled.items():
            if not leaf.stopped and leaf.id not in self._spoiled:
                for key, rows in keys.items():
                    self._counters["partial_refilled"] += 1
                    self._fill(leaf, leaf.coverage.columns, key, rows)

    def take_failed(self) -> list[tuple[Stored, Exception]]:
        """The nodes that failed since it was asked last."""
        failed, self._failed = self._failed, []
        return failed

    def _forget_table(self, table: str) -> None:
        """A transaction too large to be applied row by row: everything it may have touched is a hole."""
        self._counters["overflow"] += 1
        for node in list(self._graph.over(table)):
            self._evictions.evict_all(node)

    def _forget_surplus(self, table: str, change: TableDelta) -> None:
        """Evicts the oldest of the keys by whose parameters a row of a change would be looked at too often."""
        for chain in self._graph.by_table.get(table, ()):
            if chain.parametric is None:
                continue
            rows = (*change.removed, *change.added)
            for child in chain.children:
                for cover, coverage in child.coverages().items():
                    keys = child.source_columns(coverage.columns), coverage
                    for key in chain.parametric.surplus(rows, keys, self._limits.active_tuples):
                        self._counters["surplus_tuples"] += 1
                        self._evictions.evict(child, cover, key)

    def _resolve(self, table: str, delta: TableDelta) -> dict[NodeId, Delta]:
        """Returns what partial and implied changes of a table are for each node over it, after evicting what they leave
        unknown."""
        found: dict[NodeId, Delta] = {}
        lost: dict[Target, None] = {}
        for chain in self._graph.by_table.get(table, ()):
            images = self._graph.images_of(chain)
            for child in chain.children:
                change = images.change_of(child, delta.partial, delta.implied)
                found[child.id] = change.delta
                lost.update(dict.fromkeys(change.lost))
                if isinstance(child, Leaf) and change.known:
                    self._refilled[child] = {key: [] for key in change.known}
        self._counters["partial_changes"] += len(delta.partial)
        self._counters["implied_changes"] += len(delta.implied)
        self._counters["partial_evicted"] += len(lost)
        for target in lost:
            self._evictions.evict(*target)
        return found

    def _propagate(self, tables: dict[str, TableDelta], own: dict[NodeId, Delta]) -> list[Target]:
        deltas: dict[NodeId, Delta] = {}
        dirty: list[NodeId] = []
        for table, change in tables.items():
            for chain in self._graph.by_table.get(table, ()):
                self._enter(chain, change, own, deltas, dirty)
        to_evict: list[Target] = []
        done: set[NodeId] = set()
        while dirty:
            node_id = heappop(dirty)
            if node_id in done:
                continue
            done.add(node_id)
            node = self._graph.by_id[node_id]
            if isinstance(node, BlockNode | UnionNode) and not any(i.id in self._spoiled for i in node.inputs):
                self._pass(node, deltas, dirty)
                if isinstance(node, BlockNode):
                    to_evict.extend(self._met_holes(node, deltas))
        return to_evict

    def _pass(self, node: BlockNode | UnionNode, deltas: dict[NodeId, Delta], dirty: list[NodeId]) -> None:
        changes = self._input_changes(node, deltas) if isinstance(node, BlockNode) else []
        try:
            delta = node.delta(deltas) if isinstance(node, UnionNode) else node.delta(changes)
        except Exception as error:
            self._spoil(node.children, error)
            return
        self._derivations.follow(node, delta, deltas, changes)
        if delta[0] or delta[1]:
            for child in node.children:
                self._absorb(child, delta, False, deltas, dirty)

    def _met_holes(self, block: BlockNode, deltas: dict[NodeId, Delta]) -> list[Target]:
        try:
            return self._incongruence.targets(block, deltas)
        except Exception as error:
            # The rest of an ON was asked for combinations that may not be there.
            self._spoil(block.children, error)
            return []

    def _enter(
        self,
        chain: ChainNode,
        change: TableDelta,
        own: dict[NodeId, Delta],
        deltas: dict[NodeId, Delta],
        dirty: list[NodeId],
    ) -> None:
        together = [chain.children] if chain.parametric is None else [[child] for child in chain.children]
        for children in together:
            try:
                delta = chain.delta(change.removed, change.added, children[0])
            except Exception as error:
                self._spoil(children, error)
                continue
            for child in children:
                removed, added = own.get(child.id, _NOTHING)
                total = consolidate((delta[0] + removed, delta[1] + added)) if removed or added else delta
                if total[0] or total[1] or change.truncated:
                    self._absorb(child, total, change.truncated, deltas, dirty)

    def _spoil(self, nodes: Sequence[Stored], error: Exception) -> None:
        """A row came for which an expression fails, as it does upstream. What these nodes hold is looked up again: a
        key that has such a row then fails as the upstream does, the others live on. Whatever else is raised, the step
        is finished around these nodes: their parents are consistent."""
        self._failed += [(node, contained(error)) for node in nodes]
        self._counters["spoiled"] += 1
        self._spoiled.update((node.id, node) for node in downstream(nodes))

    def _absorb(
        self, node: Stored, delta: Delta, truncated: bool, deltas: dict[NodeId, Delta], dirty: list[NodeId]
    ) -> None:
        """Gives a node its source's change; its own goes on to the blocks below."""
        if node.id in self._spoiled:
            return
        if isinstance(node, Leaf):
            try:
                for row in delta[1] if node in self._refilled else ():
                    if (rows := self._refilled[node].get(node.key_of(row))) is not None:
                        rows.append(row)
                self._absorb_leaf(node, delta, truncated)
            except Exception as error:
                self._spoil([node], error)
        elif isinstance(node, InnerNode):
            try:
                known = node.absorb(delta, truncated)
            except Exception as error:
                self._spoil([node], error)
                return
            if known[0] or known[1]:
                deltas[node.id] = known
                for child in node.children:
                    heappush(dirty, child.id)

    def _absorb_leaf(self, leaf: Leaf, delta: Delta, truncated: bool) -> None:
        if truncated and leaf.coverage.keys:
            self._emit(LeafClear(leaf.view_id))
            self._ranking.cleared(leaf)
        changes = leaf.changes(delta)
        applied = 0
        if changes:
            self._emit(LeafChange(leaf.view_id, changes))
            applied = self._ranking.changed(leaf, changes)
        leaf.counts.rows_applied += applied
        leaf.counts.rows_dropped += len(delta[0]) + len(delta[1]) - applied

    def _input_changes(self, block: BlockNode, deltas: dict[NodeId, Delta]) -> list[InputChange | None]:
        made: dict[NodeId, InputChange] = {}
        changes: list[InputChange | None] = []
        for node in block.inputs:
            delta = deltas.get(node.id)
            if delta is None:
                changes.append(None)
            else:
                if node.id not in made:
                    made[node.id] = InputChange(node.materialization, delta)
                changes.append(made[node.id])
        return changes


def _runs(transactions: list[Transaction]) -> Iterator[list[Transaction]]:
    """Splits transactions so that one with partial or implied changes, whose old rows are those before it, is alone."""
    together: list[Transaction] = []
    for transaction in transactions:
        if any(delta.partial or delta.implied for delta in transaction.tables.values()):
            if together:
                yield together
            yield [transaction]
            together = []
        else:
            together.append(transaction)
    if together:
        yield together


def _by_table(transactions: list[Transaction]) -> dict[str, TableDelta]:
    by_table: dict[str, list[TableDelta]] = {}
    for transaction in transactions:
        for table, delta in transaction.tables.items():
            by_table.setdefault(table, []).append(delta)
    return {table: deltas[0] if len(deltas) == 1 else merged(deltas) for table, deltas in by_table.items()}
