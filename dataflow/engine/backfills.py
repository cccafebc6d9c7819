"""Backfills of full materializations: loads and derivations, the order of their turns, and their progress.

*Invariants*: a node has at most one of a load and a derivation under way; a load's lookup is among the flights that are
loading.

Not here: loading (`loads`), deriving (`derivations`), the demands that wait (`demands`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from dataflow.engine.derivations import Derivation, Derivations
from dataflow.engine.flights import FlightKey, Flights, LookupQuery
from dataflow.engine.leaf import Leaf
from dataflow.engine.loads import Load, Loads
from dataflow.engine.nodes import InnerNode, Stored
from dataflow.engine.upquery import Upqueries
from dataflow.errors import InvariantViolation, contained
from dataflow.types import LookupId, NodeId, Position, ViewId

READING, CATCHING_UP, DERIVING = "reading", "catching up", "deriving"


@dataclass(frozen=True, slots=True)
class LoadState:
    """Progress of a load or a derivation."""

    #: None if it is derived.
    lookup: LookupId | None
    node: NodeId
    #: The base table that is read.
    table: str | None
    #: ``reading``, ``catching up`` or ``deriving``.
    phase: str
    #: Rows that came, or were derived.
    rows: int
    #: Rows that are to be replayed, or derived from; None while it is read.
    rows_left: int | None
    #: Views that wait for it.
    views: tuple[ViewId, ...]


@dataclass(frozen=True, slots=True)
class Ended:
    """A load or a derivation of a node is over: everything is covered, or (`error`) cannot be, or not by this lookup,
    which is to be repeated."""

    node: Stored
    flight: FlightKey
    rows: int
    error: Exception | None = None
    repeated: LookupQuery | None = None


class Backfills:
    """Gives loads and derivations their turns."""

    def __init__(self, loads: Loads, derivations: Derivations, flights: Flights, upqueries: Upqueries) -> None:
        self._loads = loads
        self._derivations = derivations
        self._flights = flights
        self._upqueries = upqueries
        self._turn = 0

    def _ready(self, applied: Position) -> list[Load | Derivation]:
        loads = [load for load in self._loads.under_way.values() if load.is_ready(applied)]
        return [*loads, *self._derivations.under_way.values()]

    def working(self, applied: Position) -> bool:
        """Return whether anything can go on."""
        return bool(self._ready(applied))

    def work(self, rows: int, applied: Position) -> Ended | None:
        """Continues the next one by about so many rows; returns it if that has ended it."""
        ready = self._ready(applied)
        if not ready:
            return None
        self._turn += 1
        task = ready[self._turn % len(ready)]
        error: Exception | None = None
        try:
            if not task.work(rows):
                if isinstance(task, Load) and task.lost:
                    return Ended(task.node, task.flight, task.rows, repeated=task.sent)
                return None
        except Exception as failed:
            error = contained(failed)
        if isinstance(task, Load):
            self._flights.take(task.sent.id)
            self._flights.land(task.sent)
            self._loads.end_load(task)
        else:
            self._derivations.forget(task.node)
        if error is not None:
            task.staged.abandon()
        return Ended(task.node, task.flight, task.rows, error)

    def abandon(self, sent: LookupQuery) -> None:
        """Ends a lookup, of which nothing comes; its flights go on under another, or are to be landed."""
        self._loads.abandon(sent)
        self._flights.abandon(sent)

    def stop(self, leaf: Leaf) -> None:
        """Ends what is under way for a view that is broken, or in quarantine."""
        self._derivations.lost(leaf)
        for sent in [sent for sent in self._flights.loading.values() if sent.node is leaf]:
            self.abandon(sent)
            self._flights.land(sent)

    def forget(self, node: Stored) -> None:
        """The node has gone."""
        for load in [load for load in self._loads.under_way.values() if load.node is node]:
            self._loads.end_load(load)
        self._derivations.forget(node)

    def states(self) -> list[LoadState]:
        found = [
            LoadState(
                load.sent.id,
                load.node.id,
                load.chain.table,
                CATCHING_UP if load.complete else READING,
                load.rows,
                load.log.rows + load.staged.unsettled if load.complete else None,
                self._views(load.flight),
            )
            for load in self._loads.under_way.values()
        ]
        found += [
            LoadState(
                None,
                derivation.node.id,
                None,
                DERIVING,
                derivation.rows,
                derivation.supply.pending + derivation.staged.unsettled,
                self._views(derivation.flight),
            )
            for derivation in self._derivations.under_way.values()
        ]
        return found

    def _views(self, flight: FlightKey) -> tuple[ViewId, ...]:
        demands = self._upqueries.waiting_for(flight)
        return tuple(dict.fromkeys(want.leaf.view_id for demand in demands for want in demand.wants))

    def state_bytes(self) -> int:
        """About what is staged and pending takes."""
        loads = sum(load.staged.state_bytes() for load in self._loads.under_way.values())
        return loads + sum(derivation.state_bytes() for derivation in self._derivations.under_way.values())

    def check(self, has: Callable[[NodeId], bool]) -> None:
        """Asserts the invariants; `has` says whether a node exists. For tests."""
        if self._flights.loading.keys() != self._loads.under_way.keys():
            raise InvariantViolation("lookups are loading that no load is for, or the other way round")
        tasks: list[Load | Derivation] = [*self._loads.under_way.values(), *self._derivations.under_way.values()]
        for task in tasks:
            if not has(task.node.id):
                raise InvariantViolation(f"node {task.node.id} has gone, it is still loaded")
            if isinstance(task.node, InnerNode) and task.node.covered((), ()):
                raise InvariantViolation(f"node {task.node.id} is loaded although it is covered whole")
        for load in self._loads.under_way.values():
            load.staged.check()
        for derivation in self._derivations.under_way.values():
            derivation.check()
