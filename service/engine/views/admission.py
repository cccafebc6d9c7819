"""What can never fit into the memory budget is not let in: views that are kept whole, and what plans need whole inside.

What is kept whole cannot be evicted, so all of it together must fit. What is there is taken for what it takes, what is
being loaded or still to come for what it was estimated to take.

*Invariants*: a view is refused before anything of it is in the engine; what the upstream has no statistics of is let
in.

Not here: the estimates (`dataflow.plan.estimate`), keeping to the budget (`service.engine.loop.memory_budget`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dataflow.engine.explain import Explanation
from dataflow.engine.graph import Graph
from dataflow.engine.nodes import ChainNode, GroupingNode, InnerNode, Leaf, Stored
from dataflow.plan.estimate import Sizes, estimated_bytes, estimated_leaf_bytes
from dataflow.plan.nodes import Aggregate, Chain, Relation, View
from dataflow.schema import Catalog
from service.engine.loop.dispatcher import Dispatcher
from service.engine.upstream.upstream import UpstreamSession
from service.engine.views.registry import ViewPlan
from service.ground.errors import ApiError
from service.leaf_store.writer import LeafWriter

#: What is kept whole: rows inside the engine by their relation, those of a view in the leaf store by the view.
Whole = Relation | View


@dataclass(slots=True)
class Admission:
    """*State*: `_expected`, what was let in, with the bytes it was estimated to take."""

    dispatcher: Dispatcher
    leaf: LeafWriter
    budget_bytes: int
    _expected: dict[Whole, float] = field(default_factory=dict)

    def restart(self) -> None:
        """Nothing is in the engine, and all views are to come."""
        self._expected.clear()

    async def admit(self, session: UpstreamSession, plans: Iterable[ViewPlan], catalog: Catalog) -> None:
        """Lets plans in that are to be installed next, all or none.

        Raises `ApiError` ``too_large``, `UpstreamError`.
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
        whole = Explanation(view, catalog, whole=plan.whole).kept_whole
        new = [node for node in whole if not self._is_let_in(node) and not _has(running, node)]
        if not new:
            return
        # Also what is there already: what is new may be made of it.
        sizes = await session.expected_sizes(dict.fromkeys(r for n in whole if (r := _looked_up(n))), catalog)
        wanted = {whole: size for node in new for whole, size in [_expected(node, catalog, sizes)] if size is not None}
        free = self.budget_bytes - self._taken(running)
        if sum(wanted.values()) > free:
            raise _too_large(view, sum(wanted.values()), free, self.budget_bytes)
        self._expected.update(wanted)

    def _is_let_in(self, node: Stored) -> bool:
        """Whether another view needs it whole too, and was let in with it."""
        return not isinstance(node, Leaf) and node.relation in self._expected

    def _taken(self, running: Graph | None) -> float:
        """What is kept whole, or will be, takes."""
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
    """Whether the running engine keeps this whole already, so that a plan with it adds nothing."""
    if running is None or isinstance(node, Leaf):
        return False
    there = running.stores.get(node.relation)
    return there is not None and () in there.coverages() and there.covered((), ())


def _looked_up(node: Stored) -> Chain | Aggregate | None:
    """What the upstream is asked for to fill the node."""
    if not isinstance(node.source, ChainNode):
        return None
    return node.relation if isinstance(node, GroupingNode) else node.source.relation


def _expected(node: Stored, catalog: Catalog, sizes: Sizes) -> tuple[Whole, float | None]:
    if isinstance(node, Leaf):
        return node.view, estimated_leaf_bytes(node.view, catalog, sizes)
    return node.relation, estimated_bytes(node.relation, catalog, sizes)


def _too_large(view: View, wanted: float, free: float, budget_bytes: int) -> ApiError:
    # Without what is free right now: a view that stays refused has the same reason each time.
    others = ", and other views that are kept whole leave less than that" if wanted <= budget_bytes else ""
    return ApiError(
        "too_large",
        f"View {view.name!r} needs about {_megabytes(wanted)} for full materializations. The memory budget is "
        f"{_megabytes(budget_bytes)}{others}.",
        "Give [engine] memory more; or give the view a parameter that is compared with a column of a table, so that "
        "only what is read is kept; or put it with tier = 'refresh'.",
        members={
            "estimated_bytes": round(wanted),
            "available_bytes": max(0, round(free)),
            "budget_bytes": budget_bytes,
        },
    )


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e7 else f"{size / 1e6:.1f} MB"
