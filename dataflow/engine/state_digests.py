"""Digests of nodes: nodes of two engines with equal ones hold the same state at the same position.

A digest covers the node's plan with all that is below it, and the columns of the tables that it reads. Routes and
what is covered are no part of it: they are free in each engine. Routes have digests of their own: where these are
equal, too, a key needs the same to be covered.

Not here: whether two tables of one name and form are the same table (`engine.restoration`'s caller).
"""

from typing import Any

from dataflow.canonical import Digests
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import RouteUse, Stored
from dataflow.state.intervals import Cover


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
        return self._digests.found((type(node).__name__, plan, tuple(below)))

    def of_routes(self, node: Stored, cover: Cover) -> bytes | None:
        """Returns the digest of the routes by which keys of a coverage are filled, with the coverages that they read;
        None if they have none."""
        if isinstance(node, Leaf):
            # It has one coverage, which two routes fill if it is an ordered one.
            uses, merges = list(node.uses.items()), list(node.merges.values())
        else:
            uses = [(cover, node.uses[cover])] if cover in node.uses else []
            merges = [merge for columns, merge in node.merges.items() if columns == cover]
        routes = frozenset([(filled, *_route(use)) for filled, use in uses])
        return self._digests.found((routes, frozenset([(m.columns, m.cover, m.key_positions) for m in merges])))


def _route(use: RouteUse) -> tuple[Any, ...]:
    return use.columns, use.route, tuple(use.covers)
