"""Loads: lookups of everything that are answered in slices, with a redo log of their own.

A load *reads* until it has all its rows, as one exact snapshot sees them; they are staged. What transactions do to its
table meanwhile that the snapshot does not see goes to its log: first what the ring has of that, which kept all since
the lookup was issued, then what is applied. When the stream has reached the load's bound, it *catches up*: the
log is replayed, slice by slice, until nothing is left; in the step that finds it so, everything is covered.

*Invariants*: a load's log has what its snapshot does not see of all that was applied, in stream order, no more. A
TRUNCATE, an implied change, or more than the stream carries, that the snapshot does not see ends it: the lookup is
repeated. So does a partial change, unless the rows are staged in a store that has their identity and the new row can be
completed there.

Not here: where rows are put (`staging`), who goes on when (`backfills`), logs on disk (the shell has those).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.events import LoadBegun, LookupDone, TableDelta, Transaction
from dataflow.engine.flights import FlightKey, LookupQuery
from dataflow.engine.graph import Graph
from dataflow.engine.nodes import Store, Stored
from dataflow.engine.partial_images import PartialImages
from dataflow.engine.redo_log import RedoLog
from dataflow.engine.staging import Staged, Staging, Twin
from dataflow.errors import InvariantViolation
from dataflow.sizing import sampled_bytes
from dataflow.state.materialization import consolidate
from dataflow.types import Delta, LookupId, PartialChange, Position, Row

#: Puts the rows of a lookup where they belong, given what makes them current.
Install = Callable[[LookupQuery, LookupDone, list[Delta]], None]


class Gathered(Staged):
    """All rows of a key that is read part by part, otherwise: in memory until they are installed, in one step."""

    def __init__(self, sent: LookupQuery, event: LoadBegun, install: Install) -> None:
        self._sent = sent
        self._event = event
        self._install = install
        self._rows: list[Row] = []
        self._redo: list[Delta] = []

    def stage(self, delta: Delta) -> None:
        self._redo.append(delta)

    def stage_found(self, rows: list[Row]) -> None:
        self._rows += rows

    def end(self) -> None:
        result = LookupDone(self._event.id, self._rows, self._event.snapshot, self._event.bound)
        self._install(self._sent, result, self._redo)

    def abandon(self) -> None:
        """Nobody knows of it."""

    def state_bytes(self) -> int:
        return sampled_bytes(self._rows)

    def check(self) -> None:
        """There is nothing to be seen."""


@dataclass(eq=False, slots=True)
class Load:
    """A lookup of everything that is under way."""

    sent: LookupQuery
    begun: LoadBegun
    chain: ChainNode
    log: RedoLog
    staged: Staged
    counters: "Counter[str]"
    #: Rows that came.
    rows: int = 0
    #: Whether that were all.
    complete: bool = False
    #: A partial change could not be replayed.
    lost: bool = False
    #: Conversion of partial changes; None if they cannot be replayed.
    images: PartialImages | None = None

    @property
    def node(self) -> Stored:
        """The node that it fills."""
        return self.sent.node

    @property
    def flight(self) -> FlightKey:
        """The flight of its lookup."""
        return next(self.sent.flight_keys())

    def is_ready(self, applied: Position) -> bool:
        """Return whether it can catch up."""
        return self.complete and applied >= self.begun.bound

    def note(self, deltas: Iterable[TableDelta]) -> bool:
        """Logs what the snapshot does not see of its table; whether that can be."""
        for delta in deltas:
            if delta.truncated or delta.overflow or delta.implied or (delta.partial and self.images is None):
                return False
            if delta.removed or delta.added or delta.partial:
                self.log.append(delta)
        return True

    def work(self, rows: int) -> bool:
        """Catches up by about so many rows; whether everything is covered now."""
        if self.log.rows:
            self.counters["load_redo"] += 1
            for logged in self.log.take(rows):
                delta = self.chain.function.delta(logged.removed, logged.added)
                if logged.partial:
                    delta = self._with_partial(delta, logged.partial)
                    if self.lost:
                        return False
                if delta[0] or delta[1]:
                    self.staged.stage(delta)
        if self.log.rows or not self.staged.settle(rows):
            return False
        self.staged.end()
        self.counters["loaded"] += 1
        return True

    def _with_partial(self, delta: Delta, changes: list[PartialChange]) -> Delta:
        assert self.images is not None
        assert isinstance(self.staged, Twin)
        change = self.images.change_of(self.staged.twin, changes)
        self.lost = self.lost or bool(change.lost)
        return consolidate((delta[0] + change.delta[0], delta[1] + change.delta[1]))


class Loads:
    """All loads under way."""

    def __init__(
        self, graph: Graph, staging: Staging, install: Install, logs: Callable[[], RedoLog], counters: "Counter[str]"
    ) -> None:
        self._graph = graph
        self._staging = staging
        self._install = install
        self._logs = logs
        self._counters = counters
        self.under_way: dict[LookupId, Load] = {}

    def begin_load(self, sent: LookupQuery, event: LoadBegun, unseen: list[TableDelta]) -> bool:
        """Begins a load, given what the ring has that its snapshot does not see. Whether there is one now: after a
        TRUNCATE there is not."""
        if sent.columns or sent.part is not None or not event.snapshot.exact:
            raise InvariantViolation(f"lookup {sent.id} cannot be answered in slices")
        if any(delta.truncated or delta.overflow for delta in unseen):
            return False
        staged = self._staging.staged_for(sent.node) or Gathered(sent, event, self._install)
        load = Load(sent, event, sent.chain, self._logs(), staged, self._counters)
        images = self._graph.images_of(sent.chain)
        if isinstance(staged, Twin) and isinstance(staged.twin, Store) and images.unique is not None:
            load.images = images
        if not load.note(unseen):
            load.log.close()
            staged.abandon()
            return False
        self._counters["load_from_ring"] += bool(unseen)
        self.under_way[sent.id] = load
        return True

    def stage_rows(self, lookup: LookupId, rows: list[Row]) -> None:
        """Some rows of a load came; nothing happens if nobody wants them any more."""
        load = self.under_way.get(lookup)
        if load is not None:
            if load.complete:
                raise InvariantViolation(f"rows of load {lookup}, which had all")
            load.rows += len(rows)
            load.staged.stage_found(rows)

    def complete_load(self, lookup: LookupId, bound: Position) -> Load | None:
        """A load has all its rows, which count when the stream is at `bound`; None if nobody wants them any more."""
        load = self.under_way.get(lookup)
        if load is not None:
            load.complete = True
            load.begun = replace(load.begun, bound=max(bound, load.begun.bound))
        return load

    def log_transactions(self, transactions: list[Transaction]) -> list[Load]:
        """Transactions were applied; returns the loads that cannot go on."""
        lost: list[Load] = []
        for load in self.under_way.values():
            table, snapshot = load.chain.table, load.begun.snapshot
            deltas = [
                delta
                for t in transactions
                if (delta := t.tables.get(table)) is not None and not snapshot.sees(t.id, t.end)
            ]
            if not load.note(deltas):
                self._counters["load_truncated"] += 1
                lost.append(load)
        return lost

    def end_load(self, load: Load) -> None:
        """A load is over, or its node has gone."""
        del self.under_way[load.sent.id]
        load.log.close()

    def abandon(self, sent: LookupQuery) -> None:
        """Ends the load of a lookup without a result, if there is one; its node goes on."""
        load = self.under_way.get(sent.id)
        if load is not None:
            self.end_load(load)
            self._counters["load_abandoned"] += 1
            load.staged.abandon()
