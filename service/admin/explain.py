"""How views are kept, as the engine's graph shows it: nodes, what is partial and why, lookups, missing indexes.

Not here: making the graph (`dataflow.engine.graph`), SQL of lookups (`dataflow.plan.lookup`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from dataflow.plan.lookup import lookup_sql

from dataflow.engine.graph import BlockNode, ChainNode, Graph, GroupingNode, Leaf, Stored
from dataflow.plan.nodes import Aggregate, Block, Chain, Relation, View
from dataflow.plan.render import bare, render
from dataflow.plan.routes import parent_columns
from dataflow.scalar import Scalar
from dataflow.schema import Catalog
from dataflow.types import Columns, ViewId
from service.admin.models import NodeKind, Plan, PlanNode

Node = ChainNode | BlockNode | Stored


def explain_sql(view: View, catalog: Catalog) -> Plan:
    """The plan of a view that is not installed."""
    graph = Graph(catalog, Counter())
    return explain(graph, graph.install(ViewId(0), view))


def explain(graph: Graph, leaf: Leaf) -> Plan:
    """The plan of an installed view."""
    nodes = {n.id: n for n in _above(leaf)}
    return Plan(
        name=leaf.view.name,
        sql=leaf.view.sql,
        materialization="full" if leaf.full else "partial",
        reason=_why(leaf),
        nodes=[describe(graph.catalog, nodes[id_]) for id_ in sorted(nodes)],
    )


def explain_all(graph: Graph) -> list[PlanNode]:
    """Every node of the engine."""
    return [describe(graph.catalog, graph.by_id[id_]) for id_ in sorted(graph.by_id)]


def _why(leaf: Leaf) -> str:
    if not leaf.full:
        return "Each key is filled when it is first asked for, by the routes below."
    if not leaf.view.parameters:
        return "The view has no parameters: it is kept whole."
    return "No route leads from the parameters to the tables' columns: the view is kept whole."


def _above(node: Node) -> Iterator[Node]:
    yield node
    for parent in _parents(node):
        yield from _above(parent)


def _parents(node: Node) -> Iterable[Node]:
    if isinstance(node, Stored):
        return [node.source]
    return dict.fromkeys(node.inputs) if isinstance(node, BlockNode) else []


def describe(catalog: Catalog, node: Node) -> PlanNode:
    """One node."""
    described = PlanNode(
        id=node.id,
        kind=_kind(node),
        relation=relation_text(node.relation, catalog),
        inputs=[p.id for p in _parents(node)],
    )
    if isinstance(node, Stored):
        names = column_names(node.relation, catalog)
        for columns, coverage in node.coverages().items():
            described.coverage.append(", ".join(names[c] for c in columns) if columns else "full")
            described.covered_keys += len(coverage.keys)
            if isinstance(node.source, ChainNode):
                described.lookups.append(_lookup(node, columns, catalog))
                described.warnings.extend(_index_warning(node, columns, catalog))
    return described


def _kind(node: Node) -> NodeKind:
    kinds: list[tuple[type, NodeKind]] = [
        (ChainNode, "chain"),
        (BlockNode, "block"),
        (GroupingNode, "groups"),
        (Leaf, "view"),
    ]
    return next((name for kind, name in kinds if isinstance(node, kind)), "rows")


def _lookup(node: Stored, columns: Columns, catalog: Catalog) -> str:
    assert not isinstance(node.relation, Block)
    return lookup_sql(node.relation, columns, catalog)


def _index_warning(node: Stored, columns: Columns, catalog: Catalog) -> Iterator[str]:
    """A lookup that no index of the upstream supports reads the whole table, at every miss."""
    assert isinstance(node.source, ChainNode)
    assert not isinstance(node.relation, Block)
    table = catalog.tables.get(node.source.table)
    base = parent_columns(node.relation, columns)
    if table is None or not columns or base is None:
        return
    if isinstance(node.relation, Aggregate):
        base = parent_columns(node.source.relation, base)
        if base is None:
            return
    wanted = set(base)
    if not any(set(index[: len(wanted)]) == wanted for index in table.indexes):
        names = ", ".join(table.columns[c].name for c in base)
        yield f"No index supports this lookup: CREATE INDEX ON {table.name} ({names});"


# Text


def column_names(relation: Relation, catalog: Catalog) -> list[str]:
    """A name for each column of a relation."""
    if isinstance(relation, Chain):
        table = catalog.tables.get(relation.table)
        names = [bare(c.name) for c in table.columns] if table else []
        return [scalar_text(c, names) for c in relation.columns]
    if isinstance(relation, Aggregate):
        names = column_names(relation.input, catalog)
        calls = [f"{c.function.value.removesuffix('(*)')}({_argument(c.argument, names)})" for c in relation.calls]
        return [names[c] for c in relation.group] + calls
    names = _input_names(relation, catalog)
    return [scalar_text(c, names) for c in relation.columns]


def _argument(argument: Scalar | None, names: list[str]) -> str:
    return "*" if argument is None else scalar_text(argument, names)


def _input_names(block: Block, catalog: Catalog) -> list[str]:
    return [name for item in block.inputs for name in column_names(item.relation, catalog)]


def scalar_text(scalar: Scalar, names: list[str]) -> str:
    """An expression, for people."""
    return render(scalar, lambda column: names[column] if column < len(names) else f"#{column}")


def relation_text(relation: Relation, catalog: Catalog) -> str:
    """A relation in one line, its inputs left out."""
    columns = column_names(relation, catalog)
    if isinstance(relation, Chain):
        table = catalog.tables.get(relation.table)
        base = [bare(c.name) for c in table.columns] if table else []
        where = f" WHERE {scalar_text(relation.predicate, base)}" if relation.predicate is not None else ""
        return f"SELECT {', '.join(columns)} FROM {relation.table}{where}"
    if isinstance(relation, Aggregate):
        group = ", ".join(columns[: len(relation.group)])
        return f"GROUP BY {group or '()'}: {', '.join(columns[len(relation.group) :])}"
    kinds = " ".join("left" if item.left else "inner" for item in relation.inputs)
    where = ""
    if relation.predicate is not None:
        where = f" WHERE {scalar_text(relation.predicate, _input_names(relation, catalog))}"
    return f"JOIN ({kinds}) → {', '.join(columns)}{where}"


def plan_text(plan: Plan) -> str:
    """A plan for a terminal."""
    lines = [f"{plan.name}: {plan.materialization}. {plan.reason}"]
    for node in plan.nodes:
        state = f"  [{'; '.join(node.coverage)}; {node.covered_keys} keys]" if node.coverage else ""
        inputs = f" ← {', '.join(map(str, node.inputs))}" if node.inputs else ""
        lines.append(f"  {node.id} {node.kind}{inputs}: {node.relation}{state}")
        lines.extend(f"      lookup: {' '.join(sql.split())}" for sql in node.lookups)
        lines.extend(f"      warning: {warning}" for warning in node.warnings)
    return "\n".join(lines) + "\n"


def graphviz(nodes: list[PlanNode]) -> str:
    """Nodes as a Graphviz digraph."""
    lines = ["digraph upquery {", "  node [shape=box, fontname=monospace];"]
    for node in nodes:
        label = f"{node.id} {node.kind}\\n{_escaped(node.relation)}"
        style = ", style=bold" if node.kind == "view" else ""
        lines.append(f'  n{node.id} [label="{label}"{style}];')
        lines.extend(f"  n{parent} -> n{node.id};" for parent in node.inputs)
    return "\n".join([*lines, "}"]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
