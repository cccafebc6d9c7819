"""Steps of routes that can be looked up together with the route's driving rows.

*Theory*: a route looks up its driving rows by a key, and then rows of other inputs by values of these rows, so each
step takes a round trip. A *semijoin lookup* reads the rows of another input that join with the rows of a lookup, in the
round of that lookup. Its keys are part of its answer and come from its own snapshot, so the answer is exact whatever
the other lookup sees. It is speculative: no demand waits for it, and if it fails, its keys are looked up as soon as
they are known.

Not here: the decision to send one (`upquery`), its course (`flights`, `lookup_results`), its SQL (`dataflow.lookups`).
"""

from collections.abc import Iterator

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.nodes import BlockNode, InnerNode, RouteUse, SemijoinStep, Store, Stored, looked_up_relation
from dataflow.plan.table_access import unsupported_by_index
from dataflow.schema import Catalog
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.types import Columns


def semijoin_steps(use: RouteUse, catalog: Catalog) -> Iterator[tuple[int, SemijoinStep]]:
    """Yields the steps of a route, by position, that a semijoin can look up: both inputs are chains, the values have
    one type, so that the upstream compares them as keys are compared, and an index serves them."""
    driver = use.node_at(0)
    if not isinstance(driver, Store) or not _is_looked_up(driver) or not use.covers[0]:
        return
    for position in range(1, len(use.covers)):
        sources = use.covered_sources(position)
        links = tuple(source.column for source in sources)
        if not all(source.input == use.route.driver for source in sources) or set(links) <= {*use.route.driver_columns}:
            continue
        step = _looked_up_below(use.node_at(position), use.covers[position], links)
        if (
            step is not None
            and [driver.types[c] for c in step.links] == [step.node.types[c] for c in step.columns]
            and unsupported_by_index(looked_up_relation(step.node), step.columns, catalog) is None
        ):
            yield position, step


def _looked_up_below(node: InnerNode, cover: Cover, links: Columns) -> SemijoinStep | None:
    """Returns the step whose lookup covers `node` first: its own, or that of the driving input of its route."""
    while isinstance(node.source, BlockNode) and cover in node.uses:
        use = node.uses[cover]
        links = tuple(links[use.route.key_positions[p]] for p in use.picks[0])
        node, cover = use.node_at(0), use.covers[0]
    if isinstance(cover, OrderedCover) or not cover or not _is_looked_up(node):
        return None
    return SemijoinStep(node, cover, links)


def _is_looked_up(node: Stored) -> bool:
    return isinstance(node.source, ChainNode) and node.source.parametric is None and not node.source.empty
