"""Materialization of views in the engine's graph: nodes, partial ones and the reason, lookups, missing indexes.

Not here: making the graph (`dataflow.engine.graph`), SQL of lookups (`dataflow.lookups`).
"""

from collections import Counter
from collections.abc import Iterable

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.explain import Explanation
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import BlockNode, GroupingNode, PartitionNode, SourceNode, Stored, UnionNode
from dataflow.lookups.shapes import lookup_shape
from dataflow.plan import explain_refresh
from dataflow.plan.nodes import Aggregate, Chain, Relation, TopK, Union, Window
from dataflow.plan.outline import column_names, joined_names, table_columns
from dataflow.plan.refresh import RefreshView
from dataflow.plan.render import render
from dataflow.plan.table_access import unsupported_by_index
from dataflow.scalar import Scalar
from dataflow.schema import Catalog
from dataflow.state.intervals import OrderedCover
from dataflow.types import ViewId
from service.engine.views import registry as planned
from service.protocol.admin_models import NodeKind, Plan, PlanNode

Node = SourceNode | Stored


def explain(plan: planned.ViewPlan, catalog: Catalog, running: Graph | None, leaf: Leaf | None = None) -> Plan:
    """Explain a view, installed or not. `running` is the engine's graph, `leaf` the view's there if it is installed.
    What its nodes have counted is not in it."""
    view = plan.view
    if isinstance(view, RefreshView):
        return _refreshed(view, catalog)
    explanation = Explanation(view, catalog, running, plan.whole)
    if leaf is None:
        leaf = Graph(catalog, Counter()).install(ViewId(0), view, plan.whole)
    nodes = {n.id: n for n in nodes_above(leaf)}
    found = explanation.json()
    return Plan(
        name=view.name,
        sql=view.sql,
        tier="incremental",
        materialization=explanation.materialization,
        reason=explanation.reason,
        estimated_bytes=explanation.estimated_bytes,
        shared_with=found["shared_with"],
        warnings=found["warnings"],
        plan=found["plan"],
        text=explanation.text(),
        dot=explanation.dot(),
        nodes=[describe(catalog, nodes[id_]) for id_ in sorted(nodes)],
    )


def _refreshed(view: RefreshView, catalog: Catalog) -> Plan:
    return Plan(
        name=view.name,
        sql=view.sql,
        tier="refresh" if view.ttl_ms is None else "ttl",
        materialization=None,
        reason=view.reason,
        reads=explain_refresh.explain_json(view, catalog)["reads"],
        text=explain_refresh.explain_text(view, catalog),
        dot=explain_refresh.explain_dot(view, catalog),
    )


def explain_all(graph: Graph) -> list[PlanNode]:
    """Every node of the engine."""
    return [describe(graph.catalog, graph.by_id[id_]) for id_ in sorted(graph.by_id)]


def nodes_above(leaf: Leaf) -> list[Node]:
    """A view's node and all that it is computed from, each once."""
    found: dict[Node, None] = {}
    todo: list[Node] = [leaf]
    while todo:
        node = todo.pop()
        if node not in found:
            found[node] = None
            todo += _parents(node)
    return list(found)


def _parents(node: Node) -> Iterable[Node]:
    if isinstance(node, Stored):
        return [node.source]
    return dict.fromkeys(node.inputs) if isinstance(node, BlockNode | UnionNode) else []


def describe(catalog: Catalog, node: Node) -> PlanNode:
    described = PlanNode(
        id=node.id,
        kind=kind_of(node),
        relation=relation_text(node.relation, catalog),
        inputs=[p.id for p in _parents(node)],
    )
    if isinstance(node, Stored):
        names = column_names(node.relation, catalog)
        described.state_bytes = node.state_bytes()
        for cover, coverage in node.coverages().items():
            columns = cover.columns if isinstance(cover, OrderedCover) else cover
            described.coverage.append(", ".join(names[c] for c in columns) if columns else "full")
            described.covered_keys += len(coverage.keys)
            if isinstance(node.source, ChainNode):
                looked_up = _looked_up(node)
                described.lookups.append(lookup_shape(looked_up, columns, catalog))
                warning = unsupported_by_index(looked_up, columns, catalog)
                described.warnings.extend([warning] if warning else [])
    return described


def kind_of(node: Node) -> NodeKind:
    """The kind of a node."""
    kinds: list[tuple[type, NodeKind]] = [
        (ChainNode, "chain"),
        (BlockNode, "block"),
        (UnionNode, "union"),
        (GroupingNode, "groups"),
        (PartitionNode, "partitions"),
        (Leaf, "view"),
    ]
    return next((name for kind, name in kinds if isinstance(node, kind)), "rows")


def _looked_up(node: Stored) -> Chain | Aggregate:
    """The relation that a lookup reads: of windows and top-k the rows that they are computed from."""
    relation = node.relation if isinstance(node.relation, Aggregate) else node.source.relation
    assert isinstance(relation, Chain | Aggregate)
    return relation


def relation_text(relation: Relation, catalog: Catalog) -> str:
    """A relation in one line, its inputs left out."""
    columns = column_names(relation, catalog)
    if isinstance(relation, Chain):
        return f"SELECT {', '.join(columns)} FROM {relation.table}" + _where(
            relation.predicate, table_columns(relation, catalog)
        )
    if isinstance(relation, Aggregate):
        group = ", ".join(columns[: len(relation.group)])
        return f"GROUP BY {group or '()'}: {', '.join(columns[len(relation.group) :])}"
    if isinstance(relation, Union):
        return f"UNION ALL ({len(relation.inputs)}) → {', '.join(columns)}"
    if isinstance(relation, Window | TopK):
        by = ", ".join(columns[c] for c in relation.partition)
        return f"{'WINDOW' if isinstance(relation, Window) else 'TOP'} BY {by or '()'} → {', '.join(columns)}"
    kinds = " ".join("left" if item.left else "inner" for item in relation.inputs)
    return f"JOIN ({kinds}) → {', '.join(columns)}" + _where(relation.predicate, joined_names(relation, catalog))


def _where(predicate: Scalar | None, names: list[str]) -> str:
    return "" if predicate is None else f" WHERE {render(predicate, names.__getitem__)}"
