"""State behind the keys of views, walked in slices.

*Invariants*: of the engine's time no more than half, and never more than about `SLICE_S` at once.

Not here: the walk (`dataflow.engine.footprints`); merging those of several engines (`service.supervisor.admin.merge`).
"""

import asyncio
from collections.abc import Mapping
from time import perf_counter

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.footprints import InnerFootprints as KeyNeeds
from dataflow.engine.graph import Graph
from dataflow.engine.nodes import InnerNode
from dataflow.types import ViewId
from service.protocol.admin_models import FootprintNode, Footprints, FootprintView

SLICE_S = 0.002


async def footprints(graph: Graph, names: Mapping[ViewId, str]) -> Footprints:
    """State behind the keys of the views that have `names`. The models are not validated: keys may be many."""
    found = KeyNeeds()
    until = perf_counter() + SLICE_S
    for _ in found.walk({view: leaf for view, leaf in graph.leaves.items() if view in names}):
        if perf_counter() > until:
            await asyncio.sleep(SLICE_S)
            until = perf_counter() + SLICE_S
    nodes = [node for node in graph.stored() if isinstance(node, InnerNode)]
    place = {node.id: place for place, node in enumerate(nodes)}
    return Footprints.model_construct(
        nodes=[_node(node) for node in nodes],
        inner=[(place[node], n.size, n.reads, n.keeps) for node, n in found.inner],
        views={
            names[view]: FootprintView.model_construct(
                covered_keys=len(graph.leaves[view].coverage.keys),
                keys=[(list(n.key), n.size, n.reads, n.keeps) for n in needs],
            )
            for view, needs in found.keys.items()
            if view in graph.leaves
        },
    )


def _node(node: InnerNode) -> FootprintNode:
    return FootprintNode(
        state_bytes=node.state_bytes(),
        covered_keys=sum(len(coverage.keys) for coverage in node.coverages().values()),
        rows=node.materialization.row_count,
        table_bytes=node.materialization.table_bytes(),
        looked_up=isinstance(node.source, ChainNode),
    )
