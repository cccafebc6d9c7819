"""Counters by view and by node of the engine, collected from the parts that count.

Not here: the numbers' names for Prometheus (`metrics`).
"""

from collections.abc import Mapping
from dataclasses import asdict

from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import SourceNode, Stored
from dataflow.engine.refresh_leaf import RefreshLeaf
from dataflow.types import NodeId
from service.engine.admin.explain import nodes_above
from service.engine.reads.lookup_tasks import LookupCounts
from service.engine.session.runtime import Runtime
from service.engine.views.registry import RegisteredView
from service.protocol.admin_models import NodeCounters, PlanNode, ViewCounters

Looked = Mapping[NodeId, LookupCounts]
_NONE = LookupCounts()


def node_counters(node: SourceNode | Stored, looked: Looked) -> NodeCounters:
    """Counters of one node."""
    if not isinstance(node, Stored):
        return NodeCounters()
    found = looked.get(node.id, _NONE)
    return NodeCounters(
        **asdict(node.counts),
        lookups=found.lookups,
        lookup_keys=found.keys,
        lookup_rows=found.rows,
        lookup_s=found.duration_s,
    )


def counted(nodes: list[PlanNode], graph: Graph, looked: Looked) -> list[PlanNode]:
    """Nodes of a running graph with what they have counted."""
    for node in nodes:
        node.counters = node_counters(graph.by_id[NodeId(node.id)], looked)
    return nodes


def view_counters(runtime: Runtime, registered: RegisteredView) -> ViewCounters:
    """Counters of one view: its readers', its own and its nodes'."""
    counters = ViewCounters()
    seen = runtime.workers.reads_of(registered.definition.name)
    counters.hits, counters.misses = seen.hits, seen.misses
    _add_missed(counters, registered)
    leaf = leaf_of(runtime, registered)
    if leaf is not None:
        counters.leaf_bytes = runtime.leaf.bytes_by_view().get(leaf.view_id, 0)
        counters.covered_keys = len(leaf.coverage.keys)
        _add_kept(counters, leaf)
    if isinstance(leaf, Leaf):
        _add_nodes(counters, leaf, runtime.lookup_tasks.counts)
    return counters


def leaf_of(runtime: Runtime, registered: RegisteredView) -> Leaf | RefreshLeaf | None:
    """The view's leaf, if it is in the engine."""
    engine, installed = runtime.dispatcher.engine, registered.installed
    if engine is None or installed is None:
        return None
    return engine.graph.leaves.get(installed.id) or engine.refreshes.leaves.get(installed.id)


def _add_missed(counters: ViewCounters, registered: RegisteredView) -> None:
    missed = registered.missed
    counters.upqueries = missed.upqueries.count
    counters.upquery_s = missed.upqueries.sum_s
    counters.upquery_max_s = missed.upqueries.max_s
    counters.forwarded, counters.failed = missed.forwarded, missed.failed
    counters.lookups = counters.lookup_keys = missed.refreshes
    counters.lookup_rows = missed.refresh_rows
    counters.lookup_s = missed.refresh_s


def _add_kept(counters: ViewCounters, leaf: Leaf | RefreshLeaf) -> None:
    counts = leaf.counts
    counters.filled, counters.evicted, counters.refilled = counts.filled, counts.evicted, counts.refilled
    counters.evicted_by_budget = counts.evicted_by_budget
    counters.rows_applied, counters.rows_dropped = counts.rows_applied, counts.rows_dropped


def _add_nodes(counters: ViewCounters, leaf: Leaf, looked: Looked) -> None:
    for node in nodes_above(leaf):
        if isinstance(node, Stored):
            counters.inner_bytes += node.state_bytes()
            found = looked.get(node.id, _NONE)
            counters.lookups += found.lookups
            counters.lookup_keys += found.keys
            counters.lookup_rows += found.rows
            counters.lookup_s += found.duration_s
