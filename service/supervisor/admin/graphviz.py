"""Nodes of the engine as a Graphviz digraph."""

from service.protocol.admin_models import PlanNode


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
