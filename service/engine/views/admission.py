"""Admission: refuses views whose fully materialized state cannot fit into the memory budget.

Fully materialized views, and full state inside other plans, cannot be evicted, so all of it together must fit. Existing
state counts by its size, state that is loading or expected by its estimate.

*Invariants*: a view is refused before any of it is in the engine; relations without statistics are admitted.

Not here: the estimates (`dataflow.plan.estimate`), eviction (`service.engine.loop.memory_budget`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.explain import Explanation
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import GroupingNode, InnerNode, Stored
from dataflow.plan.estimate import Sizes, estimated_bytes, estimated_leaf_bytes
from dataflow.plan.nodes import Aggregate, Chain, Relation, View
from dataflow.schema import Catalog
from service.engine.loop.dispatcher import Dispatcher
from service.engine.upstream.upstream import UpstreamSession
from service.engine.views.registry import ViewPlan
from service.ground.errors import ApiError
from service.leaf_store.writer import LeafWriter

#: Key of full state: the relation for rows inside the engine, the view for rows in the leaf store.
Whole = Relation | View


@dataclass(slots=True)
class Admission:
    """Admitted plans. *State*: `_expected`, what was admitted, with its estimated bytes."""

    dispatcher: Dispatcher
    leaf: LeafWriter
    budget_bytes: int
    _expected: dict[Whole, float] = field(default_factory=dict)

    def restart(self) -> None:
        """Resets for a new engine, whose views are all still to be installed."""
        self._expected.clear()

    async def admit(self, session: UpstreamSession, plans: Iterable[ViewPlan], catalog: Catalog) -> None:
        """Admits plans that are installed next, all or none.

        Raises ApiError(too_large), `UpstreamError`.
        """
        running = None if self.dispatcher.engine is None else self.dispatcher.engine.graph
        if running is not None:
            there = {*running.stores, *(leaf.view for leaf in running.leaves.values())}
            self._expected = {whole: size for whole, size in self._expected.items() if whole in there}
        before = dict(self._expected)
        try:
            for plan in plans:
                if isinstance(plan.view, View):
                    await self._admit(session, plan, plan.view, catalog, running)
        except ApiError:
            self._expected = before
            raise

    async def _admit(
        self, session: UpstreamSession, plan: ViewPlan, view: View, catalog: Catalog, running: Graph | None
    ) -> None:
        whole = Explanation(view, catalog, whole=plan.whole).fully_materialized
        new = [node for node in whole if not self._is_let_in(node) and not _has(running, node)]
        if not new:
            return
        # Include existing state: new state may depend on it.
        sizes = await session.expected_sizes(dict.fromkeys(r for n in whole if (r := _looked_up(n))), catalog)
        wanted = {whole: size for node in new for whole, size in [_expected(node, catalog, sizes)] if size is not None}
        free = self.budget_bytes - self._taken(running)
        if sum(wanted.values()) > free:
            raise _too_large(view, sum(wanted.values()), free, self.budget_bytes)
        self._expected.update(wanted)

    def _is_let_in(self, node: Stored) -> bool:
        """True if another admitted view needs the node fully materialized too."""
        return not isinstance(node, Leaf) and node.relation in self._expected

    def _taken(self, running: Graph | None) -> float:
        """Bytes of full state, present and expected."""
        if running is None:
            return sum(self._expected.values())
        bytes_by_view = self.leaf.bytes_by_view()
        there = {*running.stores, *(leaf.view for leaf in running.leaves.values())}
        taken = sum(size for whole, size in self._expected.items() if whole not in there)
        for node in running.stored():
            if isinstance(node, Leaf) and node.full:
                expected = self._expected.get(node.view, 0.0)
                taken += bytes_by_view.get(node.view_id, 0) if node.loaded else expected
            elif isinstance(node, InnerNode):
                loaded = () in node.coverages() and node.covered((), ())
                taken += node.state_bytes() if loaded else self._expected.get(node.relation, 0.0)
        return taken


def _has(running: Graph | None, node: Stored) -> bool:
    """True if the running engine already materializes this fully, so that the plan adds nothing."""
    if running is None or isinstance(node, Leaf):
        return False
    there = running.stores.get(node.relation)
    return there is not None and () in there.coverages() and there.covered((), ())


def _looked_up(node: Stored) -> Chain | Aggregate | None:
    """Returns the relation that a lookup reads to fill the node."""
    if not isinstance(node.source, ChainNode):
        return None
    return node.relation if isinstance(node, GroupingNode) else node.source.relation


def _expected(node: Stored, catalog: Catalog, sizes: Sizes) -> tuple[Whole, float | None]:
    if isinstance(node, Leaf):
        return node.view, estimated_leaf_bytes(node.view, catalog, sizes)
    return node.relation, estimated_bytes(node.relation, catalog, sizes)


def _too_large(view: View, wanted: float, free: float, budget_bytes: int) -> ApiError:
    # The text omits the currently free bytes, so that a view that stays refused keeps the same reason.
    others = ", of which other fully materialized views leave too little" if wanted <= budget_bytes else ""
    return ApiError(
        "too_large",
        f"View {view.name!r} needs about {_megabytes(wanted)} for full materializations. The memory budget is "
        f"{_megabytes(budget_bytes)}{others}.",
        "Give [engine] memory more; or give the view a parameter that is compared with a column of a table, so that "
        "it is filled by its reads; or put it with tier = 'refresh'.",
        members={
            "estimated_bytes": round(wanted),
            "available_bytes": max(0, round(free)),
            "budget_bytes": budget_bytes,
        },
    )


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:.1f} MB"
