"""The engine's invariants: assertions for tests, and whether a restored key is supported (`restoration`)."""

from collections.abc import Mapping

from dataflow.engine.derivations import Derivations
from dataflow.engine.flights import Flights
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import InnerNode, Merge, OperatorNode, RouteUse, Store, Stored
from dataflow.engine.upquery import Upqueries
from dataflow.errors import InvariantViolation
from dataflow.state.intervals import Cover, OrderedCover, OrderedCoverage
from dataflow.types import Key, Row


def check_graph(graph: Graph) -> None:
    """I2, the nodes' own structure, and I3 for every route of every covered key."""
    for node in graph.stored():
        if isinstance(node, InnerNode):
            node.materialization.check()
        if isinstance(node, OperatorNode):
            node.operator.check()
        for cover, coverage in node.coverages().items():
            for key in coverage:
                _check_key(node, cover, key)
        if node.measure() < 0:
            raise InvariantViolation(f"node {node.id} takes {node.state_bytes()} bytes")
        for target in [d.use.target for d in node.dependents] + [merge.target for merge in node.merged_by]:
            if target.id not in graph.by_id:
                raise InvariantViolation(f"node {node.id} has a dependent that has gone")


def is_supported(node: Stored, cover: Cover, key: Key) -> bool:
    """Return whether every key that a covered key's route reads is covered."""
    try:
        _check_key(node, cover, key)
    except InvariantViolation:
        return False
    return True


def _check_key(node: Stored, cover: Cover, key: Key) -> None:
    use = node.uses.get(cover)
    if use is not None and not (isinstance(node, Leaf) and _supported_in_part(node, key)):
        _check_route(node, use, key)
    for merge in node.merges.values():
        if merge.columns == cover:
            _check_merge(node, merge, key)


def _supported_in_part(leaf: Leaf, key: Key) -> bool:
    """I3 of a key that is covered by its ordered route: the driving input's intervals hold the leaf's, and what their
    rows look up is covered. A key that is not whole has no other route."""
    if leaf.ordered is None or leaf.ordered not in leaf.uses:
        return False
    use, coverage = leaf.uses[leaf.ordered], leaf.coverage
    driver, cover = use.node_at(0), use.covers[0]
    assert isinstance(coverage, OrderedCoverage)
    assert isinstance(cover, OrderedCover)
    assert isinstance(driver, Store)
    part = tuple(key[p] for p in use.route.key_positions)
    driven = driver.materialization.ordered[cover]
    if any(driven.gaps(part, interval) for interval in coverage.covered(key)):
        if coverage.whole(key):
            return False
        raise InvariantViolation(f"I3: leaf {leaf.id} covers more of {key} than its driving input")
    known = use.block.join.known(use.route.driver, use.route.driver_columns, part)
    try:
        _check_steps(leaf, use, {row: n for row, n in known.items() if _in_any(coverage, driven, key, row)})
    except InvariantViolation:
        if not coverage.whole(key):
            raise
        return False
    return True


def _in_any(coverage: OrderedCoverage, driven: OrderedCoverage, key: Key, row: Row) -> bool:
    return coverage.contains(key, driven.ordering.place_of_row(row))


def _check_merge(node: Stored, merge: Merge, key: Key) -> None:
    """I3: every input of the union is covered by the same key."""
    for read in merge.union.inputs:
        if not read.covered(merge.cover, merge.part(key)):
            raise InvariantViolation(f"I3: node {node.id} covers {key}, but it is a hole of input {read.id}")


def _check_route(node: Stored, use: RouteUse, key: Key) -> None:
    """I3: along the route, for each combination of known rows bound so far, the next lookup key is covered. Inputs of a
    full route are covered whole."""
    if use.route.full:
        for position in range(len(use.covers)):
            _check_covered(node, use, position, ())
        return
    part = use.driving_key(key)
    _check_covered(node, use, 0, part)
    _check_steps(node, use, use.block.join.known(use.route.driver, use.route.driver_columns, part))


def _check_steps(node: Stored, use: RouteUse, driving: Mapping[Row, int]) -> None:
    route, join = use.route, use.block.join
    combinations = use.start(driving)
    for position, step in enumerate(route.steps, start=1):
        for step_key in join.keys_at(step, combinations):
            if step_key is not None:
                _check_covered(node, use, position, step_key)
        combinations = use.bind(position, combinations)


def _check_covered(node: Stored, use: RouteUse, position: int, key: Key) -> None:
    cover = use.covers[position]
    read = use.node_at(position)
    if not read.holds(cover, use.cover_key(position, key)):
        raise InvariantViolation(f"I3: node {node.id} covers by {use.columns}, but {key} of node {read.id} is a hole")


def check_demands(upqueries: Upqueries, flights: Flights, derivations: Derivations) -> None:
    """Every demand waits for flights, or derivations, that exist."""
    derived = {derivation.flight for derivation in derivations.under_way.values()}
    for demand in upqueries.demands:
        for flight in demand.waits:
            if flight not in flights and flight not in derived:
                raise InvariantViolation(f"a demand waits for {flight}, which nobody looks up")
        if not demand.waits and not demand.paused:
            raise InvariantViolation("a demand waits for nothing")
