"""The engine: `step(event) -> effects` is the only mutator, pure and without I/O (ARCHITECTURE.md, "The engine").

One step runs to completion before the next, so there are no races inside. This file only dispatches: `graph` holds
the nodes, `propagation` applies transactions, `upquery` fills holes, `flights` and `ring` make lookups current,
`evictions` forget.

*Invariants* (asserted by `check`, which tests call after every step): I1-I3 of `dataflow/README.md`; every
demand waits for flights that exist.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from dataflow.engine import events, invariants
from dataflow.engine.abandonment import Abandonment
from dataflow.engine.backfills import Backfills, LoadState
from dataflow.engine.budget import Budget
from dataflow.engine.derivations import Derivations
from dataflow.engine.effects import Answer, Effect, FailRead, LeafDrop, LeafEvict, Reach, ViewStatus
from dataflow.engine.evictions import Evictions, views_above
from dataflow.engine.flights import FlightKey, Flights, Sent
from dataflow.engine.forwarded_reads import ForwardedReads
from dataflow.engine.graph import Graph
from dataflow.engine.installation import Installation, chain_of, reached
from dataflow.engine.limits import Limits, key_bytes
from dataflow.engine.loads import Loads
from dataflow.engine.nodes import Leaf, Stored
from dataflow.engine.pins import Pins, needed_keys
from dataflow.engine.propagation import Propagation
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.quarantine import Quarantine
from dataflow.engine.ranking import LeafKey, Ranking
from dataflow.engine.reads import question
from dataflow.engine.redo_log import MemoryLog, RedoLog
from dataflow.engine.refills import Refills
from dataflow.engine.refreshed_views import RefreshedViews, RefreshRead
from dataflow.engine.ring import Ring
from dataflow.engine.staging import Staging
from dataflow.engine.uncertain_visibility import UncertainVisibility
from dataflow.engine.upquery import Demand, NodeFailure, Upqueries, Want, say_why
from dataflow.errors import EvaluationError, InvariantViolation, contained
from dataflow.eviction.policy import Policy
from dataflow.eviction.s3_fifo import S3Fifo
from dataflow.milestones import between
from dataflow.schema import Catalog
from dataflow.types import Key, NodeId, Position, ReadId, Snapshot


class Engine:
    """Views of an upstream, kept right by its change stream."""

    def __init__(
        self,
        catalog: Catalog,
        limits: Limits | None = None,
        policy: Policy[LeafKey] | None = None,
        logs: Callable[[], RedoLog] = MemoryLog,
    ) -> None:
        self.limits = limits or Limits()
        #: All transactions that end at or before it are applied.
        self.applied: Position = 0
        #: How often rare things happened; tests prove with it that they did.
        self.counters: Counter[str] = Counter()
        self.graph, self.ring = Graph(catalog, self.counters), Ring()
        self._effects: list[Effect] = []
        #: Whom this step answers from the leaf as the step leaves it, and the tables of refreshed views in the answer.
        self._answered: dict[Demand, frozenset[str]] = {}
        self._flights = Flights(self.limits)
        self._ranking = Ranking(policy if policy is not None else S3Fifo())
        staging = Staging(self._ranking, self._emit)
        self._derivations = Derivations(staging, self.limits, self.counters)
        self._upqueries = Upqueries(self._flights, self._derivations, self._ranking, self.counters, self._emit)
        self._evictions = Evictions(self.counters, self._leaf_evicted, self._derivations.lost)
        self._propagation = Propagation(
            self.graph, self._ranking, self._evictions, self._derivations, self.counters, self._emit
        )
        self._installation = Installation(self.ring, self._upqueries, self.limits, self.counters)
        self._loads = Loads(staging, self._installation.install, logs, self.counters)
        self._backfills = Backfills(self._loads, self._derivations, self._flights, self._upqueries)
        self._uncertain = UncertainVisibility(self.ring, catalog)
        self._barrier = PublicationBarrier(self.ring)
        self._forwards = ForwardedReads(self.ring, self.limits, self._barrier.sees_enough)
        #: The first counts issues of lookups and arrivals of snapshots, to order them.
        self._now = self._heartbeats = 0
        self._reads: dict[ReadId, Demand] = {}
        self.refreshes = RefreshedViews(
            self.ring, self.limits, self._ranking, self.counters, self._barrier.sees_enough, self._emit,
            self._demand, self._forward, self._end_demand,
        )  # fmt: skip
        self._quarantine = Quarantine(
            self.limits, self.counters, self._emit, self._evictions, self._stop, self._end_quarantined
        )
        self._pins = Pins(self.graph, self._ranking, self._attempt)
        self._refills = Refills(self._upqueries, self.graph, self.limits, self.counters, self._attempt)
        self._budget = Budget(
            self.graph, self._ranking, self._evictions, self._upqueries, self.refreshes, self.limits, self.counters
        )
        self._abandonment = Abandonment(self._flights, self._upqueries, self.refreshes, self.limits, self.counters)
        #: Results that a lookup was not allowed to give yet; repeated at the next heartbeat.
        self._postponed: list[Sent] = []
        self._handlers = self._handling()

    def _handling(self) -> dict[type, Callable[[Any], None]]:
        return {
            events.StreamStarted: self._stream_started,
            events.Apply: self._apply,
            events.Advance: lambda event: self._reach(event.position),
            events.SnapshotTaken: self._snapshot_taken,
            events.TableJoined: self._table_joined,
            events.InstallView: self._install_view,
            events.InstallRefresh: lambda event: self.refreshes.install(event.id, event.view, event.limits),
            events.DropView: self._drop_view,
            events.Read: self._read,
            events.CancelRead: self._cancel_read,
            events.CancelUnawaited: lambda _: self._effects.extend(self._abandonment.look()),
            events.LookupDone: self._lookup_done,
            events.LookupFailed: self._lookup_failed,
            events.LookupTooLarge: self._lookup_too_large,
            events.LoadBegun: self._load_begun,
            events.LoadRows: self._load_rows,
            events.LoadDone: self._load_done,
            events.Work: self._work,
            events.ForwardDone: self._forward_done,
            events.RefreshDone: self._refresh_done,
            events.RefreshFailed: self._refresh_failed,
            events.Pin: self._pin,
            events.Unpin: self._unpin,
            events.EvictKey: self._evict_key,
            events.EvictInner: self._evict_inner,
            events.Touched: lambda event: self._ranking.touched(event.keys),
            events.EvictSome: lambda event: self._budget.evict_some(event.keys, self._now),
            events.SchemaChanged: self._schema_changed,
        }

    def step(self, event: events.Event) -> list[Effect]:
        """Handles one event and returns what it wants done, in order."""
        self._effects.clear()
        self._answered.clear()
        self._handlers[type(event)](event)
        self._begin_again()
        self._refills.attempt(lost_to_correctness=type(event) is events.Apply)
        self._now += 1
        self._effects.extend(self._flights.send(self._now))
        return list(self._effects)

    def _emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    # The stream

    def _stream_started(self, event: events.StreamStarted) -> None:
        """Everything known belongs to another stream: it goes, and what is wanted is looked up anew."""
        for node in self.graph.stored():
            self._evictions.evict_all(node)
        self.ring.clear()
        self._upqueries.oversized.clear()
        self._barrier.restart(event.snapshot)
        self.applied = event.position
        for sent in self._flights.every() + self._postponed:
            self._repeat(sent)
        self._postponed.clear()
        self.refreshes.restart(self._now)
        for forwarded in list(self._forwards.reads.values()):
            del self._forwards.reads[forwarded.read]
            self._emit(FailRead(forwarded.read, "the change stream was lost", retryable=True))

    def _apply(self, event: events.Apply) -> None:
        for transactions in between(event.transactions):
            for transaction in transactions:
                self.ring.append(transaction)
            self._propagation.apply(transactions)
            for node, error in self._propagation.take_failed():
                self._contain([node], error)
            for load in self._loads.applied(transactions):
                self._repeat(load.sent)
        self.refreshes.apply(event.transactions, self._now)
        for leaf, key in self._budget.evict_outgrown():
            self._refills.forget(leaf, key)
        self._reach(event.position)
        self._bound_ring()

    def _reach(self, position: Position) -> None:
        if position < self.applied:
            raise InvariantViolation(f"the stream went back from {self.applied} to {position}")
        self.applied = position
        self._barrier.reach(position)
        for sent in [s for s in self._flights.held if s.result is not None and reached(s.result, position)]:
            self._flights.held.remove(sent)
            self._settle(sent)
        self._effects += self._forwards.settle(position, self._now)
        self.refreshes.reach(position, self._now)
        self._trim()

    def _snapshot_taken(self, event: events.SnapshotTaken) -> None:
        self._note_snapshot(event.snapshot)
        self._heartbeats += 1
        if self._heartbeats % self.limits.oversized_heartbeats == 0:
            self._upqueries.oversized.clear()
        for leaf in self._quarantine.heartbeat():
            for key in needed_keys(leaf):
                self._refills.owe(leaf, key)
        self._effects += self._forwards.heartbeat(event.snapshot, self._now)
        self.refreshes.heartbeat(event.snapshot, self._now)
        postponed, self._postponed = self._postponed, []
        for sent in postponed:
            self._repeat(sent)
        for demand in self._unanswered([d for d in self._upqueries.demands if d.paused]):
            demand.paused = False
            self._attempt(demand)
        self._trim()

    def _table_joined(self, event: events.TableJoined) -> None:
        self._barrier.join(event.table, event.snapshot)
        self.refreshes.table_joined(event.table)

    def _note_snapshot(self, snapshot: Snapshot, bound: Position | None = None) -> None:
        """Takes a snapshot that arrived; by `bound`, all that it sees is in the stream."""
        self._now += 1
        self.ring.note(snapshot, self._now)
        self._barrier.note(snapshot, bound)
        self._barrier.reach(self.applied)

    def _trim(self) -> None:
        oldest = (self._flights.oldest_issue(), self._forwards.oldest_issue(), self.refreshes.oldest_issue())
        issues = [i for i in oldest if i is not None]
        self.counters["ring_trimmed"] += self.ring.trim(min(issues, default=None))

    def _bound_ring(self) -> None:
        """A ring past its limit abandons the lookups that keep it, and issues them again."""
        if self.ring.rows > self.limits.ring_rows:
            for sent in self._flights.issued_before(self.ring.newest_snapshot()):
                self.counters["abandoned"] += 1
                self._repeat(sent)
            self.refreshes.abandon_before(self.ring.newest_snapshot(), self._now)
            self._trim()

    # Lookups

    def _lookup_done(self, event: events.LookupDone) -> None:
        sent = self._flights.in_flight.pop(event.id, None)
        self._note_snapshot(event.snapshot, event.bound)
        if sent is not None:
            if reached(event, self.applied):
                sent.result = event
                self._settle(sent)
            else:
                self._flights.hold(sent, event)
                self._emit(Reach(event.bound))
        self._trim()

    def _settle(self, sent: Sent) -> None:
        """Installs a result that the stream has reached, or looks up again what it may not give."""
        result = sent.result
        if result is None:
            raise InvariantViolation(f"lookup {sent.id} has no result")
        if not self._admissible(sent, result.snapshot):
            self.counters["repeated"] += 1
            sent.result = None
            self._postponed.append(sent)
            return
        unseen = self._installation.unseen(sent, result)
        if result.snapshot.exact and any(delta.truncated or delta.overflow for delta in unseen):
            self.counters["repeated"] += 1
            self._repeat(sent)
            return
        try:
            verdict = self._uncertain.judge(sent, result, unseen)
            if verdict.again:
                self._look_again(sent, verdict.again)
            if not sent.keys:
                return
            self.counters["replaced"] += verdict.replaced
            self._installation.install(sent, result, verdict.redo)
        except Exception as error:
            self._flights.land(sent)
            self._give_up(self._waiting_for(sent), contained(error), sent.node)
            return
        self._land(sent)

    def _look_again(self, sent: Sent, keys: Collection[Key]) -> None:
        """Looks keys up again of which cannot be told what was seen: at once if a read waits that has not waited too
        often, with the next heartbeat if only pins and loads wait, and not at all if nobody does any more."""
        self.counters["unsure"] += 1
        again = self._flights.split(sent, keys)
        for demand in self._unanswered(self._waiting_for(again)):
            demand.rounds += 1
            if demand.read is not None and self._must_forward(demand):
                self._forward(demand)
            elif demand.idle and self._must_forward(demand):
                self._upqueries.finish(demand)
        waiting = self._waiting_for(again)
        if any(demand.read is not None for demand in waiting):
            self._flights.repeat(again)
        elif waiting:
            self._postponed.append(again)
        else:
            self._flights.land(again)

    def _admissible(self, sent: Sent, snapshot: Snapshot) -> bool:
        """Whether a lookup may give what it brought."""
        return self._barrier.sees_enough(snapshot, self.graph.tables_of(sent.node))

    def _land(self, sent: Sent) -> None:
        self._flights.land(sent)
        self._landed(list(sent.flight_keys()), 0 if sent.result is None else len(sent.result.rows))

    def _landed(self, flights: list[FlightKey], rows: int) -> None:
        for demand in self._unanswered(self._upqueries.landed(flights, rows)):
            demand.rounds += 1
            self._attempt(demand)

    def _repeat(self, sent: Sent) -> None:
        """Looks the same keys up again, later than what made the first result unusable."""
        self._abandon(sent)
        self._flights.repeat(sent)

    def _abandon(self, sent: Sent) -> None:
        self._loads.abandon(sent)
        self._effects += self._flights.abandon(sent)

    def _lookup_failed(self, event: events.LookupFailed) -> None:
        sent = self._flights.take(event.id)
        if sent is None:
            return
        self._loads.abandon(sent)
        self._flights.land(sent)
        if event.evaluation:
            self._give_up(self._waiting_for(sent), EvaluationError(event.reason), sent.node)
        elif not event.retryable:
            self._break(views_above(sent.node), event.reason)
        for demand in self._unanswered(self._waiting_for(sent)):
            self._fail(demand, event.reason, event.retryable)
        self._trim()

    def _lookup_too_large(self, event: events.LookupTooLarge) -> None:
        """Looks each half of the keys up apart, or has reads of the one key forwarded."""
        if (sent := self._flights.take(event.id)) and not self._flights.halve(sent):
            self._upqueries.refuse(sent.node, sent.columns, *sent.keys)
            self._land(sent)
        self._trim()

    # What is kept whole

    def _load_begun(self, event: events.LoadBegun) -> None:
        sent = self._flights.in_flight.get(event.id)
        self._note_snapshot(event.snapshot, event.bound)
        if sent is not None:
            unseen = self.ring.unseen(chain_of(sent).table, event.snapshot)
            if isinstance(sent.node, Leaf) and sent.node.stopped:
                self._abandon(sent)
                self._flights.land(sent)
            elif not self._admissible(sent, event.snapshot):
                self.counters["repeated"] += 1
                self._abandon(sent)
                self._postponed.append(sent)
            elif not self._loads.begin(sent, event, unseen):
                self.counters["repeated"] += 1
                self._repeat(sent)
            else:
                self._flights.load(sent)
        self._trim()

    def _load_rows(self, event: events.LoadRows) -> None:
        try:
            self._loads.read(event.id, event.rows)
        except Exception as error:
            sent = self._loads.under_way[event.id].sent
            waiting = self._waiting_for(sent)
            self._abandon(sent)
            self._flights.land(sent)
            self._give_up(waiting, contained(error), sent.node)

    def _load_done(self, event: events.LoadDone) -> None:
        load = self._loads.complete(event.id, event.bound)
        if load is not None and not load.is_ready(self.applied):
            self._emit(Reach(load.begun.bound))

    def _work(self, event: events.Work) -> None:
        ended = self._backfills.work(event.rows, self.applied)
        if ended is None:
            return
        if ended.error is None:
            self._landed([ended.flight], ended.rows)
        else:
            self._give_up(self._upqueries.waiting_for(ended.flight), ended.error, ended.node)

    def _begin_again(self) -> None:
        """Who waits for what is not derived any more asks again."""
        while lost := self._derivations.take_lost():
            for flight in lost:
                self._landed([flight], 0)

    def _waiting_for(self, sent: Sent) -> list[Demand]:
        waiting: dict[Demand, None] = {}
        for flight in sent.flight_keys():
            waiting.update(dict.fromkeys(self._upqueries.waiting_for(flight)))
        return list(waiting)

    def _unanswered(self, demands: list[Demand]) -> Iterator[Demand]:
        """These demands one by one, but those that what was done about an earlier one has ended."""
        return (demand for demand in demands if demand in self._upqueries.demands)

    # Demands

    def _attempt(self, demand: Demand) -> None:
        """Answers a demand if all it wants is covered; forwards a read that cannot be."""
        broken = next((want.leaf.broken for want in demand.wants if want.leaf.broken), None)
        if broken is not None:
            self._fail(demand, broken, retryable=False)
            return
        if any(want.leaf.quarantine or (want.leaf.recovering and demand.read is not None) for want in demand.wants):
            self._answer_upstream(demand)
            return
        try:
            met = self._upqueries.attempt(demand)
        except NodeFailure as failure:
            self._give_up([demand], failure.error, failure.node)
            return
        except Exception as error:
            self._give_up([demand], contained(error))
            return
        if met:
            self._met(demand)
        elif demand.read is None:
            if self._upqueries.met_oversized or (demand.idle and self._must_forward(demand)):
                self._upqueries.finish(demand)
        elif self._must_forward(demand) or self._upqueries.met_oversized:
            self._forward(demand)

    def _forward(self, demand: Demand, others: frozenset[str] = frozenset()) -> None:
        """Has a read answered upstream; `others` are tables of refreshed views that it did not wait for yet."""
        read = demand.read
        assert read is not None
        self._upqueries.finish(demand)
        self._reads.pop(read, None)
        tables = self.refreshes.leave(read).union(others, *[self.graph.tables_of(want.leaf) for want in demand.wants])
        self._emit(self._forwards.forward(read, tables, demand.since, self._now))

    def _give_up(self, demands: list[Demand], error: Exception, node: Stored | None = None) -> None:
        """Filling fails. If the data makes an expression fail, the upstream answers reads, with its own error if it
        fails there too, and views that are kept whole go into quarantine. Anything else is a failure of `node`, or of
        the views."""
        if isinstance(error, EvaluationError):
            self._contain([want.leaf for demand in demands if demand.read is None for want in demand.wants], error)
        else:
            wanted = dict.fromkeys(want.leaf for demand in demands for want in demand.wants)
            self._contain([node] if node is not None else list(wanted), error)
        for demand in self._unanswered(demands):
            self._answer_upstream(demand)

    def _contain(self, nodes: Sequence[Stored], error: Exception) -> None:
        """Nodes failed. An expression that fails on the data concerns the keys that have such a row, and so all of what
        is kept whole; anything else concerns all that is computed from the nodes."""
        if isinstance(error, EvaluationError):
            nodes = [leaf for node in nodes for leaf in views_above(node) if leaf.full]
        if nodes:
            self._quarantine.contain(nodes, error)

    def _answer_upstream(self, demand: Demand) -> None:
        """A demand is over: filling does not meet it."""
        if demand.read is not None:
            self._forward(demand)
        else:
            self._upqueries.finish(demand)

    def _end_quarantined(self) -> None:
        """Nobody waits for, or is answered by this step from, what a view in quarantine has."""
        for demand in self._unanswered([d for d in self._upqueries.demands if any(w.leaf.quarantine for w in d.wants)]):
            self._answer_upstream(demand)
        for demand in [d for d in self._answered if any(w.leaf.quarantine for w in d.wants)]:
            assert demand.read is not None
            self._effects.remove(Answer(demand.read))
            self._forward(demand, self._answered.pop(demand))

    def _must_forward(self, demand: Demand) -> bool:
        if demand.rounds > self.limits.read_rounds:
            return True
        joining = self._barrier.joining.keys()
        return any(not joining.isdisjoint(self.graph.tables_of(want.leaf)) for want in demand.wants)

    def _met(self, demand: Demand) -> None:
        if demand.read is not None:
            del self._reads[demand.read]
            refreshed = self.refreshes.tables_of(demand.read)
            if self.refreshes.confirm(demand.read):
                self._emit(Answer(demand.read))
                self._answered[demand] = refreshed
        for want in demand.wants:
            want.leaf.counts.refilled += demand.hot
            self.counters["hot_refilled"] += demand.hot

    def _fail(self, demand: Demand, reason: str, retryable: bool) -> None:
        self._upqueries.finish(demand)
        if demand.read is not None:
            del self._reads[demand.read]
            self.refreshes.leave(demand.read)
            self._emit(FailRead(demand.read, reason, retryable))
        elif retryable and not demand.idle:
            demand.paused = True
            self._upqueries.demands[demand] = None
            say_why(demand, reason, self._emit)

    def _read(self, event: events.Read) -> None:
        try:
            asked = question(event, self.graph, self.refreshes, self.limits)
        except Exception as error:
            self._emit(FailRead(event.id, f"the values cannot be looked up: {contained(error)}", retryable=False))
            return
        if asked is None:
            self._emit(FailRead(event.id, "the view was dropped", retryable=False))
            return
        demand = Demand(asked.wants, event.id, self.applied)
        is_full = event.forward and self._upqueries.behind >= self.limits.fills_behind
        if asked.forwards or (is_full and not asked.refreshed):
            self._forward(demand, asked.tables)
        elif asked.refreshed:
            self.refreshes.open(RefreshRead(event.id, asked.refreshed, demand), self._now)
        else:
            self._demand(demand)
            if event.forward and event.id in self._reads:
                self._forward(demand)
                self._fill_behind(event.id, [want for want in asked.wants if not want.leaf.full])

    def _fill_behind(self, read: ReadId, wants: list[Want]) -> None:
        """Fills what a read wants that the upstream answers meanwhile, unless that is under way."""
        under_way = next((d for d in self._upqueries.demands if d.behind and d.wants == wants), None)
        self._forwards.reads[read].behind = behind = under_way or Demand(wants, behind=True)
        if wants and under_way is None:
            self.counters["filled_behind"] += 1
            self._attempt(behind)

    def _demand(self, demand: Demand) -> None:
        assert demand.read is not None
        self._reads[demand.read] = demand
        self._attempt(demand)

    def _end_demand(self, read: ReadId) -> None:
        demand = self._reads.pop(read, None)
        if demand is not None:
            self._upqueries.finish(demand)

    def _cancel_read(self, event: events.CancelRead) -> None:
        self._end_demand(event.id)
        self.refreshes.leave(event.id)
        if (behind := self._forwards.leave(event.id)) is not None and not event.refused:
            self._upqueries.finish(behind)

    def _forward_done(self, event: events.ForwardDone) -> None:
        self._note_snapshot(event.snapshot, event.bound)
        forwarded = self._forwards.reads.get(event.id)
        if forwarded is not None:
            forwarded.result = event
            if self.applied < event.bound:
                self._emit(Reach(event.bound))
            self._effects += self._forwards.settle(self.applied, self._now)
        self._trim()

    def _refresh_done(self, event: events.RefreshDone) -> None:
        self._note_snapshot(event.snapshot, event.bound)
        self.refreshes.done(event, self.applied, self._now)
        self._trim()

    def _refresh_failed(self, event: events.RefreshFailed) -> None:
        self.refreshes.failed(event, self._now)
        self._trim()

    # Pins and refills

    def _pin(self, event: events.Pin) -> None:
        if key_bytes(event.key) <= self.limits.key_bytes:
            self.refreshes.pin(event.view, event.key, self._now)
            self._pins.pin(event.view, event.key)

    def _unpin(self, event: events.Unpin) -> None:
        self.refreshes.unpin(event.view, event.key)
        self._pins.unpin(event.view, event.key)

    def _leaf_evicted(self, leaf: Leaf, key: Key) -> None:
        self._emit(LeafEvict(leaf.view_id, key))
        if self._ranking.lost(leaf, key):
            self._refills.lost_hot(leaf, key)
        if leaf.full and leaf.loaded:
            leaf.loaded = False
            if not leaf.stopped:
                self._emit(ViewStatus(leaf.view_id, "building"))
        if leaf.full or (leaf.ordered is None and key in leaf.pins):
            self._refills.owe(leaf, key)

    # Eviction

    def _evict_key(self, event: events.EvictKey) -> None:
        self.refreshes.evict(event.view, event.key, self._now)
        leaf = self.graph.leaves.get(event.view)
        if leaf is not None:
            self._evictions.evict(leaf, leaf.coverage.columns, leaf.covering_key(event.key))

    def _evict_inner(self, event: events.EvictInner) -> None:
        node = self.graph.by_id.get(NodeId(event.node))
        if isinstance(node, Stored) and event.columns in node.coverages():
            self._evictions.evict(node, event.columns, event.key)

    # Views

    def _install_view(self, event: events.InstallView) -> None:
        leaf = self.graph.install(event.id, event.view, event.whole, event.limits)
        self._emit(ViewStatus(event.id, "building" if leaf.full else "ready"))
        if leaf.full:
            self._attempt(Demand([Want(leaf, ())]))

    def _drop_view(self, event: events.DropView) -> None:
        self.refreshes.drop(event.id)
        leaf = self.graph.leaves.get(event.id)
        if leaf is None:
            return
        for demand in [d for d in self._upqueries.demands if any(w.leaf is leaf for w in d.wants)]:
            self._fail(demand, "the view was dropped", retryable=False)
        before = list(self.graph.stored())
        self._ranking.dropped(leaf)
        self._quarantine.forget(leaf)
        self.graph.drop(leaf)
        self._emit(LeafDrop(event.id))
        self._abandon_orphans(before)
        self._trim()

    def _abandon_orphans(self, before: list[Stored]) -> None:
        """Ends the flights of nodes that have gone."""
        for node in before:
            if node.id not in self.graph.by_id:
                self._backfills.forget(node)
                self._flights.forget_wanted(node)
                for sent in self._flights.of_node(node):
                    self._effects += self._flights.abandon(sent)
                    self._flights.land(sent)
                for sent in [s for s in self._postponed if s.node is node]:
                    self._postponed.remove(sent)
                    self._flights.land(sent)

    def _schema_changed(self, event: events.SchemaChanged) -> None:
        self._break(self.graph.leaves_reading(event.table), event.reason)
        self.refreshes.break_views(event.table, event.reason)

    def _break(self, leaves: list[Leaf], reason: str) -> None:
        for leaf in leaves:
            if leaf.broken is None:
                leaf.broken = reason
                self._quarantine.forget(leaf)
                self._emit(ViewStatus(leaf.view_id, "broken", reason))
                self._evictions.evict_all(leaf)
                self._stop(leaf)
        for demand in [d for d in self._upqueries.demands if any(w.leaf.broken for w in d.wants)]:
            self._fail(demand, reason, retryable=False)

    def _stop(self, leaf: Leaf) -> None:
        """A view that is broken, or in quarantine, is not loaded any more."""
        self._derivations.lost(leaf)
        for sent in [s for s in self._flights.loading.values() if s.node is leaf]:
            self._abandon(sent)
            self._flights.land(sent)

    # Looking in

    def state_bytes(self) -> int:
        """About what the engine's state takes: nodes, what is under way, the ring and the policy. The leaf store counts
        its own."""
        own = self._flights.state_bytes() + self._upqueries.state_bytes() + self._backfills.state_bytes()
        own += self.refreshes.state_bytes() + self.ring.state_bytes() + self._ranking.state_bytes()
        return own + sum(node.state_bytes() for node in self.graph.stored())

    @property
    def working(self) -> bool:
        """Whether a `Work` would do something now."""
        return self._backfills.working(self.applied)

    def loading(self) -> list[LoadState]:
        """How far is what is kept whole and not there yet."""
        return self._backfills.states()

    def seen_by(self, position: Position) -> Callable[[Snapshot], bool] | None:
        """As `PublicationBarrier.seen_by`; None if `position` has not been applied."""
        return self._barrier.seen_by(position) if position <= self.applied else None

    @property
    def exhausted(self) -> bool:
        """Whether the last `EvictSome` found nothing that may go, neither a key of a view nor what was left behind."""
        return self._budget.exhausted

    @property
    def evictable(self) -> int:
        """How many keys of views `EvictSome` may choose among."""
        return len(self._ranking)

    def check(self) -> None:
        """Asserts every invariant that can be seen from inside (I2, I3 and structure); for tests."""
        invariants.check_graph(self.graph)
        invariants.check_demands(self._upqueries, self._flights, self._derivations)
        self._backfills.check(self.graph.by_id.__contains__)
        self.refreshes.check(self._reads)
        self._ranking.check([*self.graph.leaves.values(), *self.refreshes.leaves.values()])
