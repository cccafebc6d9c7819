"""Demands from their beginning to their end: answered, forwarded upstream, failed, or waiting for flights.

*Theory*: `upquery` tries to cover what a demand wants; this module decides what follows from that. A read that cannot
be filled (it waited too often, a table is joining, a key is too large, a node failed) is answered upstream; a demand of
a pin, a load or a refill waits for the next heartbeat, or is given up.

*Invariants*: `_reads` has the demands of reads that were neither answered nor forwarded; a step answers a read from the
leaf as the step leaves it.

Not here: filling (`upquery`), lookups (`flights`, `lookup_results`), reads on their way upstream (`forwarded_reads`).
"""

from collections.abc import Iterable, Iterator, Sequence

from dataflow.engine.backfills import Backfills
from dataflow.engine.context import Context
from dataflow.engine.effects import Answer, FailRead, ViewStatus
from dataflow.engine.events import CancelRead, Read, ReadBatch
from dataflow.engine.evictions import Evictions, views_above
from dataflow.engine.flights import FlightKey
from dataflow.engine.forwarded_reads import ForwardedReads
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import Stored
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.quarantine import Quarantine
from dataflow.engine.ranking import Ranking
from dataflow.engine.reads import wants_of
from dataflow.engine.refresh_leaf import RefreshRead
from dataflow.engine.refreshed_views import RefreshedViews
from dataflow.engine.ring import Ring
from dataflow.engine.upquery import Demand, NodeFailure, Upqueries, Want, say_why
from dataflow.errors import EvaluationError, contained
from dataflow.types import ReadId


class Demands:
    """All demands, and the reads that they belong to."""

    def __init__(
        self,
        context: Context,
        graph: Graph,
        ring: Ring,
        ranking: Ranking,
        barrier: PublicationBarrier,
        upqueries: Upqueries,
        evictions: Evictions,
        backfills: Backfills,
    ) -> None:
        self._context = context
        self._limits = context.limits
        self._counters = context.counters
        self._emit = context.emit
        self._graph = graph
        self._barrier = barrier
        self._upqueries = upqueries
        self._evictions = evictions
        self._backfills = backfills
        self.quarantine = Quarantine(context, evictions)
        self.forwards = ForwardedReads(context, ring, barrier)
        self.refreshes = RefreshedViews(context, ring, ranking, barrier, self)
        self._reads: dict[ReadId, Demand] = {}
        #: Reads that this step answers, and the tables of refreshed views in the answer.
        self._answered: dict[Demand, frozenset[str]] = {}

    def begin_step(self) -> None:
        """The answers of the last step have gone."""
        self._answered.clear()

    # Reads

    def open_reads(self, event: ReadBatch) -> None:
        """Does as `open_read` for each of them."""
        for read in event.reads:
            self.open_read(read)

    def open_read(self, event: Read) -> None:
        """Answers a read, forwards it, or lets it wait for what is missing."""
        try:
            wanted = wants_of(event, self._graph, self.refreshes, self._limits)
        except Exception as error:
            self._emit(FailRead(event.id, f"the values cannot be looked up: {contained(error)}", retryable=False))
            return
        if wanted is None:
            self._emit(FailRead(event.id, "the view was dropped", retryable=False))
            return
        demand = Demand(wanted.wants, event.id, self._context.applied)
        is_full = event.forward and self._upqueries.behind >= self._limits.fills_behind
        if wanted.forwards or (is_full and not wanted.refreshed):
            self.forward(demand, wanted.tables)
        elif wanted.refreshed:
            self.refreshes.open_read(RefreshRead(event.id, wanted.refreshed, demand))
        else:
            self.start(demand)
            if event.forward and event.id in self._reads:
                self.forward(demand)
                self._fill_behind(event.id, [want for want in wanted.wants if not want.leaf.full])

    def _fill_behind(self, read: ReadId, wants: list[Want]) -> None:
        """Fills what a read wants that the upstream answers meanwhile, unless that is under way."""
        under_way = next((d for d in self._upqueries.demands if d.behind and d.wants == wants), None)
        self.forwards.outstanding.by_id[read].behind = behind = under_way or Demand(wants, behind=True)
        if wants and under_way is None:
            self._counters["filled_behind"] += 1
            self.attempt(behind)

    def start(self, demand: Demand) -> None:
        """Begins the demand of a read."""
        assert demand.read is not None
        self._reads[demand.read] = demand
        self.attempt(demand)

    def leave(self, read: ReadId) -> None:
        """Ends the demand of a read, if there is one."""
        demand = self._reads.pop(read, None)
        if demand is not None:
            self._upqueries.finish(demand)

    def cancel_read(self, event: CancelRead) -> None:
        """Ends a read, wherever it waits."""
        self.leave(event.id)
        self.refreshes.leave(event.id)
        if (behind := self.forwards.leave(event.id)) is not None and not event.refused:
            self._upqueries.finish(behind)

    # Attempts

    def attempt(self, demand: Demand) -> None:
        """Answers a demand if all it wants is covered; forwards a read that cannot be."""
        broken = next((want.leaf.broken for want in demand.wants if want.leaf.broken), None)
        if broken is not None:
            self.fail(demand, broken, retryable=False)
            return
        if any(want.leaf.quarantine or (want.leaf.recovering and demand.read is not None) for want in demand.wants):
            self._answer_upstream(demand)
            return
        try:
            met = self._upqueries.attempt(demand)
        except NodeFailure as failure:
            self.give_up([demand], failure.error, failure.node)
            return
        except Exception as error:
            self.give_up([demand], contained(error))
            return
        if met:
            self._met(demand)
        elif demand.read is None:
            if self._upqueries.met_oversized or (demand.idle and self._must_forward(demand)):
                self._upqueries.finish(demand)
        elif self._must_forward(demand) or self._upqueries.met_oversized:
            self.forward(demand)

    def landed(self, flights: list[FlightKey], rows: int) -> None:
        """Attempts the demands that wait for nothing any more, now that flights have ended with so many rows."""
        for demand in self._unanswered(self._upqueries.landed(flights, rows)):
            demand.rounds += 1
            self.attempt(demand)

    def heartbeat(self) -> None:
        """Attempts the demands again whose lookups failed."""
        for demand in self._unanswered([d for d in self._upqueries.demands if d.paused]):
            demand.paused = False
            self.attempt(demand)

    def repeated(self, flights: list[FlightKey]) -> list[Demand]:
        """Forwards, or gives up, the demands that have waited too often for flights that are to be repeated; returns
        the others."""
        for demand in self._unanswered(self.waiting_for(flights)):
            demand.rounds += 1
            if demand.read is not None and self._must_forward(demand):
                self.forward(demand)
            elif demand.idle and self._must_forward(demand):
                self._upqueries.finish(demand)
        return self.waiting_for(flights)

    def waiting_for(self, flights: Iterable[FlightKey]) -> list[Demand]:
        """The demands that wait for any of these flights."""
        waiting: dict[Demand, None] = {}
        for flight in flights:
            waiting.update(dict.fromkeys(self._upqueries.waiting_for(flight)))
        return list(waiting)

    def _unanswered(self, demands: list[Demand]) -> Iterator[Demand]:
        """These demands one by one, but those that what was done about an earlier one has ended."""
        return (demand for demand in demands if demand in self._upqueries.demands)

    def _must_forward(self, demand: Demand) -> bool:
        if demand.rounds > self._limits.read_rounds:
            return True
        joining = self._barrier.joining.keys()
        return bool(joining) and any(not joining.isdisjoint(self._graph.tables_of(want.leaf)) for want in demand.wants)

    # Ends

    def _met(self, demand: Demand) -> None:
        if demand.read is not None:
            del self._reads[demand.read]
            refreshed = self.refreshes.tables_of(demand.read)
            if self.refreshes.confirm(demand.read):
                self._emit(Answer(demand.read))
                self._answered[demand] = refreshed
        for want in demand.wants:
            want.leaf.counts.refilled += demand.hot
            self._counters["hot_refilled"] += demand.hot

    def forward(self, demand: Demand, others: frozenset[str] = frozenset()) -> None:
        """Has a read answered upstream; `others` are tables of refreshed views that it did not wait for yet."""
        read = demand.read
        assert read is not None
        self._upqueries.finish(demand)
        self._reads.pop(read, None)
        tables = self.refreshes.leave(read).union(others, *[self._graph.tables_of(want.leaf) for want in demand.wants])
        self.forwards.forward(read, tables, demand.since)

    def fail(self, demand: Demand, reason: str, retryable: bool) -> None:
        """Fails a read; a pin, or a load, waits for the next heartbeat if it can be tried again."""
        self._upqueries.finish(demand)
        if demand.read is not None:
            del self._reads[demand.read]
            self.refreshes.leave(demand.read)
            self._emit(FailRead(demand.read, reason, retryable))
        elif retryable and not demand.idle:
            demand.paused = True
            self._upqueries.demands[demand] = None
            say_why(demand, reason, self._emit)

    def fail_waiting(self, flights: Iterable[FlightKey], reason: str, retryable: bool) -> None:
        """Fails the demands that wait for a lookup that has failed."""
        for demand in self._unanswered(self.waiting_for(flights)):
            self.fail(demand, reason, retryable)

    def fail_view(self, leaf: Leaf, reason: str) -> None:
        """Fails the demands that want keys of a view."""
        for demand in [d for d in self._upqueries.demands if any(want.leaf is leaf for want in d.wants)]:
            self.fail(demand, reason, retryable=False)

    def break_views(self, leaves: list[Leaf], reason: str) -> None:
        """Breaks views whose plans do not fit the upstream any more."""
        for leaf in leaves:
            if leaf.broken is None:
                leaf.broken = reason
                self.quarantine.forget(leaf)
                self._emit(ViewStatus(leaf.view_id, "broken", reason))
                self._evictions.evict_all(leaf)
                self._backfills.stop(leaf)
        for demand in [d for d in self._upqueries.demands if any(w.leaf.broken for w in d.wants)]:
            self.fail(demand, reason, retryable=False)

    # Failures of nodes

    def give_up(self, demands: list[Demand], error: Exception, node: Stored | None = None) -> None:
        """Filling fails. If the data makes an expression fail, the upstream answers reads, with its own error if it
        fails there too, and views that are kept whole go into quarantine. Anything else is a failure of `node`, or of
        the views."""
        if isinstance(error, EvaluationError):
            self.contain([want.leaf for demand in demands if demand.read is None for want in demand.wants], error)
        else:
            wanted = dict.fromkeys(want.leaf for demand in demands for want in demand.wants)
            self.contain([node] if node is not None else list(wanted), error)
        for demand in self._unanswered(demands):
            self._answer_upstream(demand)

    def contain(self, nodes: Sequence[Stored], error: Exception) -> None:
        """Nodes failed. An expression that fails on the data concerns the keys that have such a row, and so all of what
        is kept whole; anything else concerns all that is computed from the nodes."""
        if isinstance(error, EvaluationError):
            nodes = [leaf for node in nodes for leaf in views_above(node) if leaf.full]
        if nodes:
            for leaf in self.quarantine.contain(nodes, error):
                self._backfills.stop(leaf)
            self._end_quarantined()

    def _end_quarantined(self) -> None:
        """Answers upstream the demands that wait for, or are answered by this step from, a view in quarantine."""
        for demand in self._unanswered([d for d in self._upqueries.demands if any(w.leaf.quarantine for w in d.wants)]):
            self._answer_upstream(demand)
        for demand in [d for d in self._answered if any(w.leaf.quarantine for w in d.wants)]:
            assert demand.read is not None
            self._context.effects.remove(Answer(demand.read))
            self.forward(demand, self._answered.pop(demand))

    def _answer_upstream(self, demand: Demand) -> None:
        """Ends a demand that filling does not meet."""
        if demand.read is not None:
            self.forward(demand)
        else:
            self._upqueries.finish(demand)

    def check(self) -> None:
        """Asserts the invariants of reads of refreshed views; for tests."""
        self.refreshes.check(self._reads)
