"""Expected coverage: after a read, the extent that it requested; at the end of a run, everything that is waited for."""

from random import Random
from typing import TYPE_CHECKING

from dataflow.engine.effects import FailRead
from dataflow.engine.events import Advance, Event, LookupFailed, RefreshFailed, SnapshotTaken, StreamStarted, Work
from dataflow.engine.outstanding import CROSSED, NOT_ENDED
from dataflow.plan.parts import END, Interval
from dataflow.types import Key, ViewId
from tests.simulation.configuration import Asked
from tests.simulation.plans import FAILING
from tests.simulation.report import require
from tests.simulation.server_crashes import catch_up

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


#: Of deliveries, until nothing is left.
_DRAIN_ROUNDS = 300


def is_covered(run: "Simulation", asked: Asked) -> bool:
    """Return whether the leaf has what a read asked for."""
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


def excuse(run: "Simulation", answer: FailRead, keys: tuple[Asked, ...], event: Event) -> None:
    """A read fails for a reason only."""
    views = {asked.view for asked in keys}
    excused = any(v in run.dropped or v in run.broken or v not in run.views for v in views)
    crossed = answer.reason in (CROSSED, NOT_ENDED) or any(f.id == answer.read for f in run.forwards)
    run.counters["not_ended" if answer.reason == NOT_ENDED else "crossed"] += answer.retryable and crossed
    retry = answer.retryable and (crossed or isinstance(event, LookupFailed | RefreshFailed | StreamStarted))
    refused = answer.code != "" and isinstance(event, RefreshFailed)
    require(excused or retry or refused, answer, "without a reason to fail")


def drain(run: "Simulation") -> None:
    """The end of a run: everything ends, everything arrives. Then nobody may be waiting."""
    run.rng.seed(run.configuration.seed)
    for transaction in list(run.world.open.values()):
        run.world.commit(transaction, run.rng)
    catch_up(run, run.rng)
    run.world.reveal_all()
    for _ in range(_DRAIN_ROUNDS):
        if not _drain_once(run, run.rng):
            break
    _require_quiet(run)
    run.counters += run.engine.counters


def _drain_once(run: "Simulation", rng: Random) -> bool:
    """Deliver what is there; whether anything is left or was issued again by the heartbeat."""
    while run.next_entry < len(run.world.log):
        run.apply(3, rng)
    run.position = run.world.wal
    run.step(Advance(run.position))
    run.step(SnapshotTaken(run.world.visibility.landmark()))
    # The end of one may begin what waited for it; views that fail whatever is done begin again with each heartbeat.
    for _ in range(_DRAIN_ROUNDS):
        for flight in run.under_way():
            if flight.result is None:
                run.execute(flight, rng)
            while flight in run.under_way():
                run.deliver(flight, rng)
    while run.engine.working:
        run.step(Work(rng.choice((1, 100))))
    for _ in list(run.forwards):
        run.do_execute_forward(rng)
        run.do_forward_done(rng)
    waiting = run.under_way() or run.forwards or run.reads or _uncovered_pins(run) or _unready(run)
    return bool(waiting or run.engine.loading())


def _require_quiet(run: "Simulation") -> None:
    """Liveness: all reads are answered, all pinned keys and full views are there."""
    require(not run.under_way(), f"lookups without end: {run.under_way()}")
    require(not run.reads, f"reads without an answer: {run.reads}")
    require(not _uncovered_pins(run), f"pinned keys are not covered: {_uncovered_pins(run)}")
    require(not run.engine.loading(), f"loads without end: {run.engine.loading()}")
    require(not _unready(run), f"views kept whole are not ready: {_unready(run)}")


def _unready(run: "Simulation") -> list[ViewId]:
    """Views that are kept whole and not there although they need not fail."""
    leaves = [leaf for leaf in run.engine.graph.leaves.values() if not leaf.view.name.startswith(FAILING)]
    return [x.view_id for x in leaves if x.full and not x.broken and not run.leaf.covers(x.view_id, ())]


def _uncovered_pins(run: "Simulation") -> list[tuple[ViewId, Key]]:
    """Pinned keys that are holes although they need not be."""
    if not run.configuration.stores_all:
        return []
    needed = [pin for pin in run.pins if pin[0] not in run.broken and not run.views[pin[0]].name.startswith(FAILING)]
    leaves = run.engine.graph.leaves
    in_part = {view_id for view_id, leaf in leaves.items() if leaf.ordered is not None}
    return [pin for pin in needed if pin[0] not in in_part and not run.leaf.covers(*pin)]
