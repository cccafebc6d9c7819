"""Digests of nodes: nodes of two engines with equal ones hold the same state at the same position.

A digest covers the node's plan with all that is below it, and the columns of the tables that it reads. Routes and
what is covered are no part of it: they are free in each engine.

Not here: whether two tables of one name and form are the same table (`engine.restoration`'s caller).
"""

from dataflow.canonical import Digests
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import Stored


class StateDigests:
    """Digests of one graph's nodes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._digests = Digests()

    def of(self, node: Stored) -> bytes | None:
        """Returns the digest of a node; None if its plan has none."""
        tables = self._graph.catalog.tables
        below = [(name, tables[name].columns) for name in sorted(self._graph.tables_of(node)) if name in tables]
        plan = node.view if isinstance(node, Leaf) else node.relation
        try:
            return self._digests.of((type(node).__name__, plan, tuple(below)))
        except TypeError:
            return None
