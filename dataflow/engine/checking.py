"""Asserts the engine's invariants; only tests call it."""

from dataflow.engine.flights import Flights
from dataflow.engine.graph import Graph, GroupingNode, Store, Stored, Use
from dataflow.engine.upquery import Upqueries
from dataflow.errors import InvariantViolation
from dataflow.types import Key


def check_graph(graph: Graph) -> None:
    """I2, the nodes' own structure, and I3 for every route of every covered key."""
    for node in graph.stored():
        if isinstance(node, Store | GroupingNode):
            node.materialization.check()
        if isinstance(node, GroupingNode):
            node.grouping.check()
        for columns, use in node.uses.items():
            for key in node.coverages().get(columns, ()):
                _check_route(node, use, key)
        for dependent in node.dependents:
            if dependent.use.target.id not in graph.by_id:
                raise InvariantViolation(f"node {node.id} has a dependent that has gone")


def _check_route(node: Stored, use: Use, key: Key) -> None:
    """I3: along the route, for each combination of known rows bound so far, the next lookup key is covered."""
    route, join = use.route, use.block.join
    part = tuple(key[p] for p in route.key_positions)
    _check_covered(node, use, 0, part)
    known = join.known(route.driver, route.driver_columns, part)
    combinations = [join.start(route.driver, row) for row in known]
    for position, step in enumerate(route.steps, start=1):
        for step_key in join.keys_at(step, combinations):
            if step_key is not None:
                _check_covered(node, use, position, step_key)
        combinations = join.bind(step, combinations)


def _check_covered(node: Stored, use: Use, position: int, key: Key) -> None:
    cover = use.covers[position]
    read = use.node_at(position)
    if not read.covered(cover, key if cover else ()):
        raise InvariantViolation(f"I3: node {node.id} covers by {use.columns}, but {key} of node {read.id} is a hole")


def check_demands(upqueries: Upqueries, flights: Flights) -> None:
    """Every demand waits for flights that exist."""
    for demand in upqueries.demands:
        for flight in demand.waits:
            if flight not in flights:
                raise InvariantViolation(f"a demand waits for {flight}, which nobody looks up")
        if not demand.waits and not demand.paused:
            raise InvariantViolation("a demand waits for nothing")
