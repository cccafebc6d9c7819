"""What is to be there: what a read that is answered asked for; and at the end of a run, all that anybody waits for."""

from typing import TYPE_CHECKING

from dataflow.state.ordering import END, Interval
from dataflow.types import Key, ViewId
from tests.simulation.configuration import Asked
from tests.simulation.plans import FAILING
from tests.simulation.report import require

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


def is_covered(run: "Simulation", asked: Asked) -> bool:
    """Whether the leaf has what a read asked for."""
    leaf = run.leaf.views.get(asked.view)
    if run.leaf.covers(asked.view, asked.key) or asked.extent is None:
        return run.leaf.covers(asked.view, asked.key)
    order = run.order_of(asked.view)
    covered = () if leaf is None else leaf.covered(asked.key)
    if isinstance(asked.extent, Interval):
        rows = run.expectations.of(run.views[asked.view].relation, run.views[asked.view].key_columns)
        wanted = [row for row in rows.expected(asked.key) if order.within(row, asked.extent)]
        return all(any(order.within(row, interval) for interval in covered) for row in wanted)
    reached = order.reaching(covered, asked.extent.start)
    return reached is not None and (reached == END or asked.base is None or order.further(reached, asked.base))


def require_quiet(run: "Simulation") -> None:
    """Liveness: all reads are answered, all pinned keys and full views are there."""
    require(not run.under_way(), f"lookups without end: {run.under_way()}")
    require(not run.reads, f"reads without an answer: {run.reads}")
    require(not uncovered_pins(run), f"pinned keys are not covered: {uncovered_pins(run)}")
    require(not run.engine.loading(), f"loads without end: {run.engine.loading()}")
    require(not unready(run), f"views kept whole are not ready: {unready(run)}")


def unready(run: "Simulation") -> list[ViewId]:
    """Views that are kept whole and not there."""
    leaves = run.engine.graph.leaves.values()
    return [x.view_id for x in leaves if x.full and not x.broken and not run.leaf.covers(x.view_id, ())]


def uncovered_pins(run: "Simulation") -> list[tuple[ViewId, Key]]:
    """Pinned keys that are holes although they need not be."""
    if not run.configuration.stores_all:
        return []
    needed = [pin for pin in run.pins if pin[0] not in run.broken and not run.views[pin[0]].name.startswith(FAILING)]
    leaves = run.engine.graph.leaves
    in_part = {view_id for view_id, leaf in leaves.items() if leaf.ordered is not None}
    return [pin for pin in needed if pin[0] not in in_part and not run.leaf.covers(*pin)]
