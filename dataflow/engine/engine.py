"""The engine: `step(event) -> effects` is the only mutator, pure and without I/O (ARCHITECTURE.md, "The engine").

One step runs to completion before the next, so there are no races inside. This file only dispatches: `graph` holds
the nodes, `propagation` applies transactions, `demands` and `upquery` fill holes, `flights` and `lookup_results` make
lookups current, `evictions` forget.

*Invariants* (asserted by `check`, which tests call after every step): I1-I3 (`dataflow/README.md`); every demand waits
for flights that exist.
"""

from collections.abc import Callable, Iterator, Set
from typing import Any

from dataflow.engine import events, invariants
from dataflow.engine.abandonment import Abandonment
from dataflow.engine.backfills import Backfills, LoadState
from dataflow.engine.budget import Budget
from dataflow.engine.checkpoint import chunks
from dataflow.engine.chunks import Chunk
from dataflow.engine.context import Context
from dataflow.engine.demands import Demands
from dataflow.engine.derivations import Derivations
from dataflow.engine.effects import Effect, LeafDrop, LeafEvict, ViewStatus
from dataflow.engine.evictions import Evictions
from dataflow.engine.flights import Flights
from dataflow.engine.graph import Graph
from dataflow.engine.installation import Installation
from dataflow.engine.leaf import Leaf
from dataflow.engine.limits import Limits, key_bytes
from dataflow.engine.loads import Loads
from dataflow.engine.lookup_results import LookupResults
from dataflow.engine.nodes import Stored
from dataflow.engine.outstanding import Outstanding
from dataflow.engine.pins import Pins, needed_keys
from dataflow.engine.propagation import Propagation
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.ranking import LeafKey, Ranking
from dataflow.engine.redo_log import MemoryLog, RedoLog
from dataflow.engine.refills import Refills
from dataflow.engine.restoration import Restoration
from dataflow.engine.ring import Ring
from dataflow.engine.staging import Staging
from dataflow.engine.uncertain_visibility import UncertainVisibility
from dataflow.engine.upquery import Demand, Upqueries, Want
from dataflow.errors import InvariantViolation
from dataflow.eviction.policy import Policy
from dataflow.eviction.s3_fifo import S3Fifo
from dataflow.milestones import between
from dataflow.schema import Catalog
from dataflow.types import Key, NodeId, Position, Snapshot


class Engine:
    """Views of an upstream, maintained by its change stream."""

    def __init__(
        self,
        catalog: Catalog,
        limits: Limits | None = None,
        policy: Policy[LeafKey] | None = None,
        logs: Callable[[], RedoLog] = MemoryLog,
    ) -> None:
        self._context = context = Context(limits or Limits())
        self.limits = context.limits
        #: How often rare things happened; tests prove with it that they did.
        self.counters = context.counters
        self.graph, self.ring = Graph(catalog, self.counters), Ring()
        self._barrier = PublicationBarrier(self.ring)
        self._flights = Flights(context, self._barrier)
        self._ranking = Ranking(policy if policy is not None else S3Fifo())
        staging = Staging(self._ranking, context.emit)
        self._derivations = Derivations(context, staging)
        self._upqueries = Upqueries(context, self._flights, self._derivations, self._ranking)
        self._evictions = Evictions(self.counters, self._leaf_evicted, self._derivations.lost)
        self._propagation = Propagation(
            context, self.graph, self._ranking, self._evictions, self._derivations, self._upqueries.fill_rows
        )
        installation = Installation(context, self.ring, self._upqueries)
        loads = Loads(self.graph, staging, installation.install, logs, self.counters)
        self._backfills = Backfills(loads, self._derivations, self._flights, self._upqueries)
        self._demands = Demands(
            context,
            self.graph,
            self.ring,
            self._ranking,
            self._barrier,
            self._upqueries,
            self._evictions,
            self._backfills,
        )
        self._lookup_results = LookupResults(
            context,
            self.ring,
            self._flights,
            self._upqueries,
            self._demands,
            installation,
            UncertainVisibility(self.ring, self.graph),
            loads,
            self._derivations,
            self._backfills,
        )
        self._forwards, self.refreshes = self._demands.forwards, self._demands.refreshes
        self._quarantine = self._demands.quarantine
        self._pins = Pins(self.graph, self._ranking, self._demands.attempt)
        self._refills = Refills(context, self._upqueries, self.graph, self._demands.attempt)
        self._budget = Budget(context, self.graph, self._ranking, self._evictions, self._upqueries, self.refreshes)
        self._abandonment = Abandonment(context, self._flights, self._upqueries, self.refreshes)
        #: Until a `Restored`: views that are kept whole do not begin to load. The state is taken once there is a chunk.
        self._restoring = False
        self._restoration: Restoration | None = None
        self._heartbeats = 0
        self._handlers = self._handling()

    def _handling(self) -> dict[type, Callable[[Any], None]]:
        demands, results = self._demands, self._lookup_results
        return {
            events.StreamStarted: self._stream_started,
            events.StreamResumed: lambda _: self._stream_resumed(),
            events.Restore: self._restore,
            events.Restored: lambda _: self._restored(),
            events.Apply: self._apply,
            events.Advance: lambda event: self._reach(event.position),
            events.SnapshotTaken: self._snapshot_taken,
            events.TableJoined: self._table_joined,
            events.InstallView: self._install_view,
            events.InstallRefresh: lambda event: self.refreshes.install(event.id, event.view, event.limits),
            events.DropView: self._drop_view,
            events.Read: demands.open_read,
            events.ReadBatch: demands.open_reads,
            events.CancelRead: demands.cancel_read,
            events.CancelUnawaited: lambda _: self._abandonment.cancel_unawaited(),
            events.LookupsDone: self._lookups_done,
            events.LookupFailed: self._then_trim(results.lookup_failed),
            events.LookupTooLarge: self._then_trim(results.lookup_too_large),
            events.LoadBegun: self._with_snapshot(results.load_begun, self._flights.outstanding),
            events.LoadRows: results.load_rows,
            events.LoadDone: results.load_done,
            events.Work: results.work,
            events.ForwardDone: self._with_snapshot(self._forwards.forward_done, self._forwards.outstanding),
            events.RefreshDone: self._with_snapshot(self.refreshes.refresh_done, self.refreshes.fetches),
            events.RefreshFailed: self._then_trim(self.refreshes.refresh_failed),
            events.Pin: self._pin,
            events.Unpin: self._unpin,
            events.EvictKey: self._evict_key,
            events.EvictInner: self._evict_inner,
            events.Touched: lambda event: self._ranking.touched(event.keys),
            events.EvictSome: lambda event: self._budget.evict_some(event.keys),
            events.SchemaChanged: self._schema_changed,
        }

    def step(self, event: events.Event) -> list[Effect]:
        """Handles one event; returns its effects, in the order in which they must be performed."""
        self._context.effects.clear()
        self._demands.begin_step()
        self._handlers[type(event)](event)
        self._lookup_results.begin_lost_derivations()
        self._refills.attempt_refills(lost_to_correctness=type(event) is events.Apply)
        self._context.now += 1
        self._flights.send()
        return list(self._context.effects)

    @property
    def applied(self) -> Position:
        """All transactions that end at or before it are applied."""
        return self._context.applied

    # The stream

    def _stream_started(self, event: events.StreamStarted) -> None:
        """Evicts everything, which belongs to another stream, and issues lookups again."""
        self._restoring, self._restoration = event.restoring, None
        for node in self.graph.stored():
            self._evictions.evict_all(node)
        self.ring.clear()
        self._upqueries.oversized.clear()
        self._barrier.restart(event.snapshot)
        self._context.applied = event.position
        self._lookup_results.restart()
        self.refreshes.restart()
        self._forwards.restart()

    def _stream_resumed(self) -> None:
        """Drops the answers that the stream has not passed, and issues their queries again."""
        self.ring.forget_snapshots()
        self._lookup_results.resume()
        self.refreshes.resume()
        self._forwards.resume()

    def _restore(self, event: events.Restore) -> None:
        if self._restoration is None:
            self._restoration = Restoration(self._context, self.graph, self._ranking, event.changed)
        self._restoration.take(event.chunk)

    def _restored(self) -> None:
        """Ends the restoration: what is kept whole and is not there begins to load."""
        restoration, self._restoration = self._restoration, None
        self._restoring = False
        if restoration is not None:
            restoration.finish()
        for leaf in self.graph.leaves.values():
            if leaf.full and not leaf.loaded and not leaf.stopped:
                self._demands.attempt(Demand([Want(leaf, ())]))

    def _apply(self, event: events.Apply) -> None:
        for transactions in between(event.transactions):
            for transaction in transactions:
                self.ring.append(transaction)
            self._propagation.apply_transactions(transactions)
            for node, error in self._propagation.take_failed():
                self._demands.contain([node], error)
            self._lookup_results.log_transactions(transactions)
        self.refreshes.invalidate(event.transactions)
        for leaf, key in self._budget.evict_outgrown():
            self._refills.forget(leaf, key)
        self._reach(event.position)
        self._bound_ring()

    def _reach(self, position: Position) -> None:
        if position < self.applied:
            raise InvariantViolation(f"the stream went back from {self.applied} to {position}")
        self._context.applied = position
        self._barrier.reach(position)
        self._lookup_results.settle_due()
        self._forwards.settle_due()
        self.refreshes.settle_due()
        self._trim()

    def _snapshot_taken(self, event: events.SnapshotTaken) -> None:
        self._note_snapshot(event.snapshot)
        self._heartbeats += 1
        if self._heartbeats % self.limits.oversized_heartbeats == 0:
            self._upqueries.oversized.clear()
        for leaf in self._quarantine.heartbeat():
            for key in needed_keys(leaf):
                self._refills.owe(leaf, key)
        self._forwards.heartbeat(event.snapshot)
        self.refreshes.heartbeat(event.snapshot)
        self._lookup_results.heartbeat()
        self._demands.heartbeat()
        self._trim()

    def _table_joined(self, event: events.TableJoined) -> None:
        self._barrier.join(event.table, event.snapshot)
        self.refreshes.table_joined(event.table)

    def _note_snapshot(self, snapshot: Snapshot, bound: Position | None = None) -> None:
        """Takes a snapshot that arrived; by `bound`, all that it sees is in the stream."""
        self._context.now += 1
        self.ring.note(snapshot, self._context.now)
        self._barrier.note(snapshot, bound)
        self._barrier.reach(self.applied)

    def _trim(self) -> None:
        queries = self._flights.outstanding, self._forwards.outstanding, self.refreshes.fetches
        issues = [oldest for kind in queries if (oldest := kind.oldest_issue()) is not None]
        self.counters["ring_trimmed"] += self.ring.trim(min(issues, default=None))

    def _bound_ring(self) -> None:
        """A ring past its limit abandons the lookups that keep it, and issues them again."""
        if self.ring.rows > self.limits.ring_rows:
            newest = self.ring.newest_snapshot()
            self._lookup_results.abandon_before(newest)
            self.refreshes.abandon_before(newest)
            self._trim()

    # Answers of the upstream

    def _with_snapshot(self, handler: Callable[[Any], None], queries: Outstanding[Any, Any]) -> Callable[[Any], None]:
        """A handler of an answer, which brings a snapshot: notes it, unless it is outdated, then trims the ring."""

        def handle(event: Any) -> None:
            if queries.expects(event.id):
                self._note_snapshot(event.snapshot, event.bound)
            handler(event)
            self._trim()

        return handle

    def _lookups_done(self, event: events.LookupsDone) -> None:
        for result in event.results:
            if self._flights.outstanding.expects(result.id):
                self._note_snapshot(result.snapshot, result.bound)
        self._lookup_results.lookups_done(event.results)
        self._trim()

    def _then_trim(self, handler: Callable[[Any], None]) -> Callable[[Any], None]:
        """A handler of an event that ends a query without a snapshot: trims the ring."""

        def handle(event: Any) -> None:
            handler(event)
            self._trim()

        return handle

    # Pins and evictions

    def _pin(self, event: events.Pin) -> None:
        if key_bytes(event.key) <= self.limits.key_bytes:
            self.refreshes.pin(event.view, event.key)
            self._pins.pin(event.view, event.key)

    def _unpin(self, event: events.Unpin) -> None:
        self.refreshes.unpin(event.view, event.key)
        self._pins.unpin(event.view, event.key)

    def _leaf_evicted(self, leaf: Leaf, key: Key) -> None:
        self._context.emit(LeafEvict(leaf.view_id, key))
        if self._ranking.lost(leaf, key):
            self._refills.lost_hot(leaf, key)
        if leaf.full and leaf.loaded:
            leaf.loaded = False
            if not leaf.stopped:
                self._context.emit(ViewStatus(leaf.view_id, "building"))
        if leaf.full or (leaf.ordered is None and key in leaf.pins):
            self._refills.owe(leaf, key)

    def _evict_key(self, event: events.EvictKey) -> None:
        self.refreshes.evict(event.view, event.key)
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
        self._context.emit(ViewStatus(event.id, "building" if leaf.full else "ready"))
        if leaf.full and not self._restoring:
            self._demands.attempt(Demand([Want(leaf, ())]))

    def _drop_view(self, event: events.DropView) -> None:
        self.refreshes.drop(event.id)
        leaf = self.graph.leaves.get(event.id)
        if leaf is None:
            return
        self._demands.fail_view(leaf, "the view was dropped")
        before = list(self.graph.stored())
        self._ranking.dropped(leaf)
        self._quarantine.forget(leaf)
        self.graph.drop(leaf)
        self._context.emit(LeafDrop(event.id))
        for node in before:
            if node.id not in self.graph.by_id:
                self._backfills.forget(node)
                self._flights.forget(node)
        self._trim()

    def _schema_changed(self, event: events.SchemaChanged) -> None:
        self._demands.break_views(self.graph.leaves_reading(event.table), event.reason)
        self.refreshes.break_views(event.table, event.reason)

    # Looking in

    def chunks(self) -> Iterator[Chunk]:
        """Yields the state at `applied`, for a `Restore` of another engine each. No step may be taken meanwhile."""
        return chunks(self.graph, self._ranking)

    def ranked(self) -> Iterator[LeafKey]:
        """Yields the keys of views that may be evicted, first those that were read again. No step may be taken
        meanwhile."""
        return (item for item, _ in self._ranking.standings())

    def state_bytes(self) -> int:
        """About what the engine's state takes: nodes, what is under way, the ring and the policy. The leaf store counts
        its own."""
        own = self._flights.state_bytes() + self._upqueries.state_bytes() + self._backfills.state_bytes()
        own += self.refreshes.state_bytes() + self.ring.state_bytes() + self._ranking.state_bytes()
        return own + sum(node.state_bytes() for node in self.graph.stored())

    @property
    def working(self) -> bool:
        """True if a `Work` would do something now."""
        return self._backfills.working(self.applied)

    def loading(self) -> list[LoadState]:
        """Progress of the full materializations that are being filled."""
        return self._backfills.states()

    def seen_by(self, position: Position) -> Callable[[Snapshot], bool] | None:
        """See `PublicationBarrier.seen_by`; None if `position` has not been applied."""
        return self._barrier.seen_by(position) if position <= self.applied else None

    @property
    def stalled(self) -> Set[str]:
        """The tables whose reads wait for transactions that were open when the table joined."""
        return self._barrier.stalled

    @property
    def exhausted(self) -> bool:
        """True if the last `EvictSome` found nothing that may go, neither a key of a view nor what was left behind."""
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
        self._demands.check()
        self._ranking.check([*self.graph.leaves.values(), *self.refreshes.leaves.values()])
