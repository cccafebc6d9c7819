"""One run of the engine in the simulated world.

A run is a list of actions. An action is a name and a number; the number seeds whatever the action draws, so an action
does the same in a replay even if actions before it were left out, and one that does not apply does nothing. That is
what makes a failing run small (`minimise`).

After every step of the engine: its own `check()` (I2, I3), every covered key of every materialization and of the leaf
against the oracle at the position that was applied (I1), and the rules of the effects themselves (a lookup is issued
once, a read is answered once and only when all of its keys are covered, a dropped view is silent). At the end the world
is drained: everything commits, everything is delivered, and then every read must have been answered and every pinned
key and every full view be covered.
"""

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

from dataflow.engine.effects import (
    Answer,
    AnswerForward,
    AnswerRefresh,
    CancelLookup,
    CancelRefresh,
    Effect,
    FailRead,
    Forward,
    LeafEffect,
    Reach,
    Refresh,
    ViewStatus,
)
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Advance,
    Ahead,
    Apply,
    CancelRead,
    CancelUnawaited,
    DropView,
    Event,
    EvictInner,
    EvictKey,
    EvictSome,
    ForwardDone,
    LoadDone,
    LookupFailed,
    LookupsDone,
    LookupTooLarge,
    Pin,
    Read,
    SchemaChanged,
    SnapshotTaken,
    StreamStarted,
    TableJoined,
    Touched,
    Unpin,
    Work,
)
from dataflow.engine.limits import Limits
from dataflow.plan.nodes import View, column_types, table_of
from dataflow.plan.parts import Lookup
from dataflow.plan.rules.old_rows import with_old_rows
from dataflow.types import Key, LookupId, ReadId, Snapshot, ViewId
from load.micro.policies import by_name
from tests.simulation.alterations import alter_identity, check_identities
from tests.simulation.checkpoints import restart_from_checkpoint
from tests.simulation.configuration import Asked, Configuration, Flight, ForwardedRead, done
from tests.simulation.expectation import BaseTables, Expectations, compare_materializations
from tests.simulation.faults import Fault, Faults
from tests.simulation.forwarding import compare_forward, run_forward
from tests.simulation.leaf_model import LeafModel
from tests.simulation.loading import may_be_sliced, slices
from tests.simulation.memory import any_touches, check_eviction, count_refill
from tests.simulation.oracle_values import ERROR
from tests.simulation.ordered import RowOrder, within
from tests.simulation.ordered_views import ORDERED_VIEWS
from tests.simulation.plans import FAILING, tables_of
from tests.simulation.questions import any_key, inner_keys, is_key
from tests.simulation.refreshed_views import REFRESHED, expires, installation
from tests.simulation.refreshing import Fetch, Refreshing
from tests.simulation.report import DivergenceError, brief, describe, require
from tests.simulation.schema import LATE_TABLE, TABLES
from tests.simulation.server_crashes import resume
from tests.simulation.views import VIEWS
from tests.simulation.waiting import excuse, is_covered
from tests.simulation.world import World

VIEW_BY_NAME = {view.name: view for view in (*VIEWS, *ORDERED_VIEWS, *(r.view for r in REFRESHED.values()))}


class Simulation:
    """A world, an engine, and everything that is under way between them."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.rng = Random(configuration.seed)
        self.world = World(
            configuration.variant,
            self.rng,
            configuration.upstream,
            configuration.identities,
            configuration.cascades,
        )
        self.steps = 0
        self.counters: Counter[str] = Counter()
        self.trace: list[str] | None = None
        self.views: dict[ViewId, View] = {}
        self.dropped: set[ViewId] = set()
        self.broken: set[ViewId] = set()
        self.quarantined: set[ViewId] = set()
        #: Views that are kept whole although there may be routes.
        self.whole: set[ViewId] = set()
        self.last_id = 0
        self.join_snapshot: Snapshot | None = None
        self.joined = False
        self.new_engine()
        self.start_stream()

    # --- the engine's side of the world ------------------------------------------------------------------------------

    def new_engine(self) -> None:
        """A new engine, which knows nothing; the old one is forgotten."""
        policy = by_name(self.configuration.policy)
        self.engine = Engine(self.world.catalog, Limits(**self.configuration.limits), policy)
        self.faults = Faults(self.engine)
        self.leaf = LeafModel()
        self.flights: list[Flight] = []
        self.lookup_ids: set[LookupId] = set()
        self.refreshing = Refreshing(self.world, self.views, self.counters)
        self.reads: dict[ReadId, tuple[Asked, ...]] = {}
        #: Where the engine was when a read was asked: an answer from before would go back in time.
        self.asked_at: dict[ReadId, int] = {}
        self.pins: list[tuple[ViewId, Key]] = []
        #: Pinned keys that are holes because correctness evicted them.
        self.refilling: set[tuple[ViewId, Key]] = set()
        self.forwards: list[ForwardedRead] = []
        self.heartbeats: list[Snapshot] = []
        self.broken.clear()
        self.quarantined.clear()

    def start_stream(self) -> None:
        """A new slot: the stream begins at the end of the log."""
        for transaction in [t for t in self.world.open.values() if t.missed]:
            self.world.roll_back(transaction)
        self.world.flush()
        self.next_entry = len(self.world.log)
        self.position = self.world.wal
        self.base = BaseTables({name: self.world.committed_rows(name) for name in self.world.catalog.tables})
        self.expectations = Expectations(self.base)
        #: (position, all tables from there on): what an answer that was exact at a position is compared with.
        self.past: list[tuple[int, dict[str, list[Any]]]] = [(self.position, dict(self.base.rows))]
        self.step(StreamStarted(self.position, self.world.visibility.start()))

    def step(self, event: Event) -> None:
        """Let the engine handle one event, carry out its effects, check everything."""
        if self.trace is not None:
            self.trace.append(f"-> {brief(event)}")
        with self.faults.stepping():
            effects = self.engine.step(event)
        self.steps += 1
        if self.trace is not None:
            self.trace.extend(f"     {brief(effect)}" for effect in effects)
        answers = [e for e in effects if isinstance(e, Answer | AnswerForward | AnswerRefresh | FailRead)]
        if isinstance(event, EvictSome | EvictKey):
            check_eviction(event, effects, self.pins, self.counters)
        with self.refreshing.counting(event, self.leaf):
            for effect in effects:
                self.perform_effect(effect, event)
        for answer in answers:
            self.finish_read(answer, event)
        # One that has left quarantine is said to be in it until it is loaded.
        leaves = self.engine.graph.leaves
        in_it = {view for view in self.quarantined & leaves.keys() if leaves[view].quarantine}
        for view in (self.broken | in_it) & self.leaf.views.keys():
            leaf = self.leaf.views[view]
            require(not leaf.full and not leaf.rows, "view", view, "is broken or in quarantine, its leaf is not empty")
        require(not self.leaf.loaded, "views", self.leaf.loaded, "have all their rows and are not ready")
        self.engine.check()
        self.compare(event, bool(effects))

    def perform_effect(self, effect: Effect, event: Event) -> None:
        """Perform an effect like the shell, and check its rules."""
        if isinstance(effect, LeafEffect):
            require(effect.view in self.views or isinstance(event, DropView), effect, "for a dropped view")
            self.leaf.apply(effect)
            self.counters["pinned_refilled"] += count_refill(effect, self.pins, self.refilling)
        elif isinstance(effect, Lookup):
            self.begin_lookup(effect)
        elif isinstance(effect, Refresh | CancelRefresh):
            self.refreshing.perform(effect)
        elif isinstance(effect, CancelLookup):
            for flight in self.flights:
                if flight.lookup.id == effect.id:
                    flight.cancelled = True
        elif isinstance(effect, Forward):
            require(effect.read in self.reads, effect, "of a read that is over")
            self.forwards = [f for f in self.forwards if f.id != effect.read]
            self.forwards.append(ForwardedRead(effect.read))
            self.counters["forwarded"] += 1
        elif isinstance(effect, ViewStatus):
            self.leaf.report(effect)
            require(effect.view not in self.dropped, effect, "of a dropped view")
            data = "integer out of range" if self.views[effect.view].name.startswith(FAILING) else Fault.__name__
            failed = str(effect.reason).startswith((Fault.__name__, data))
            expected = effect.status != "quarantined" or failed or effect.view in self.quarantined
            require(expected, effect, "although nothing was made to fail")
            for status, views in (("broken", self.broken), ("quarantined", self.quarantined)):
                (views.add if effect.status == status else views.discard)(effect.view)
        elif isinstance(effect, Reach):
            require(effect.position <= self.world.wal, effect, "lies behind the end of the log")

    def begin_lookup(self, lookup: Lookup) -> None:
        """A lookup is on its way upstream."""
        require(lookup.id not in self.lookup_ids, lookup, "has an id that was used before")
        require(bool(lookup.keys) == (lookup.semijoin is None), lookup, "has no keys, or its own beside those it finds")
        require(len(set(lookup.keys)) == len(lookup.keys), lookup, "repeats keys")
        require(all(is_key(lookup, key) for key in lookup.keys), lookup, "has odd keys")
        self.lookup_ids.add(lookup.id)
        self.flights.append(Flight(lookup))
        tables = [table_of(f.lookup.relation) for f in self.flights if not f.cancelled and f.slices is None]
        require(tables.count(table_of(lookup.relation)) <= self.engine.limits.lookups_of_table, tables, "are too many")

    def finish_read(self, answer: Answer | AnswerForward | AnswerRefresh | FailRead, event: Event) -> None:
        """A read is over."""
        keys = self.reads.pop(answer.read, None)
        require(keys is not None, answer, "of a read that is over already")
        assert keys is not None
        if isinstance(answer, Answer):
            self.counters["answered"] += 1
            self.counters["answered_mixed"] += len({self.refreshing.is_refreshed(asked.view) for asked in keys}) > 1
            for asked in keys:
                require(is_covered(self, asked), answer, "with", asked, "not covered")
        elif isinstance(answer, FailRead):
            excuse(self, answer, keys, event)
        else:
            require(answer.position <= self.position, f"{answer} beyond what was applied ({self.position})")
            require(answer.position >= self.asked_at[answer.read], f"{answer} from before it was asked")
            base = self.tables_at(answer.position)
            if isinstance(answer, AnswerRefresh):
                self.refreshing.compare_answer(answer, keys, base)
            else:
                forward = next(f for f in self.forwards if f.id == answer.read)
                compare_forward(answer, forward, keys, self.views, base)
                self.counters["answered_forward"] += 1
        self.forwards = [f for f in self.forwards if f.id != answer.read]

    def order_of(self, view_id: ViewId) -> RowOrder:
        """The order of a view's rows."""
        view = self.views[view_id]
        return RowOrder(view.storage_order, column_types(view.relation))

    # --- comparing ---------------------------------------------------------------------------------------------------

    def compare(self, event: Event, changed: bool) -> None:
        """I1, for the leaf and for every materialization."""
        moved = isinstance(event, Apply | StreamStarted)
        views = self.leaf.views if moved else self.leaf.touched & self.leaf.views.keys()
        for view in list(views):
            self.compare_leaf(view)
        self.leaf.touched.clear()
        if moved or changed or not isinstance(event, Advance | SnapshotTaken | CancelRead):
            compare_materializations(self.engine, self.expectations, self.base)

    def compare_leaf(self, view_id: ViewId) -> None:
        """Every covered key of a view holds exactly the rows of the oracle."""
        view, leaf = self.views[view_id], self.leaf.views[view_id]
        keyed = self.expectations.of(view.relation, view.key_columns)
        refreshed = self.refreshing.is_refreshed(view_id)
        if refreshed:
            coverage = self.engine.refreshes.leaves[view_id].coverage.keys
            require(coverage.keys() == leaf.rows.keys(), "view", view_id, "covers", coverage, "not", leaf.rows)
        keys: Iterable[Key] = leaf.rows
        if leaf.full:
            if not leaf.ready:
                return
            keys = {k for k in keyed.by_key if None not in k} | leaf.rows.keys()
        for key in keys:
            bag = leaf.rows.get(key, Counter())
            if keyed.loose:
                bag = Counter(keyed.comparable(row) for row in bag.elements())
            expected = self.refreshing.expected(view_id, key, keyed) if refreshed else keyed.expected(key)
            if key in leaf.parts:
                expected = within(expected, leaf.parts[key], self.order_of(view_id))
            if bag != expected:
                raise DivergenceError(
                    f"view {view_id} {view.name} key {key}: {describe(bag)} should be {describe(expected)}"
                )

    def tables_at(self, position: int) -> BaseTables:
        """The tables at a position of the stream."""
        tables = [rows for end, rows in self.past if end <= position]
        require(tables, f"{position} lies before the stream")
        return BaseTables(tables[-1])

    # --- actions: the upstream ---------------------------------------------------------------------------------------

    def act(self, name: str, number: int) -> None:
        """One action."""
        self.rng.seed(number)
        getattr(self, f"do_{name}")(self.rng)

    def do_write(self, rng: Random) -> None:
        """A statement, in a transaction that is open or in a new one."""
        world = self.world
        opened = list(world.open.values())
        transaction = rng.choice(opened) if opened and (len(opened) > 3 or rng.random() < 0.6) else world.begin()
        for _ in range(rng.randint(1, 3)):
            if transaction.id in world.open:
                world.random_statement(transaction, rng)

    def do_transaction(self, rng: Random) -> None:
        """A whole transaction."""
        transaction = self.world.begin()
        for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
            if transaction.id in self.world.open:
                self.world.random_statement(transaction, rng)
        if transaction.id in self.world.open:
            self.world.commit(transaction, rng, limbo=rng.random() < 0.5)

    def do_commit(self, rng: Random) -> None:
        """COMMIT."""
        if self.world.open:
            transaction = rng.choice(list(self.world.open.values()))
            self.world.commit(transaction, rng, limbo=rng.random() < 0.6)

    def do_overflow(self, rng: Random) -> None:
        """COMMIT of a transaction that the stream does not carry row by row."""
        if self.world.open:
            transaction = rng.choice(list(self.world.open.values()))
            self.world.commit(transaction, rng, overflow=True, limbo=rng.random() < 0.6)

    def do_roll_back(self, rng: Random) -> None:
        """ROLLBACK, at times to a savepoint only."""
        if self.world.open:
            transaction = rng.choice(list(self.world.open.values()))
            self.world.roll_back(transaction, rng.choice((None, 1, 2)))

    def do_truncate(self, rng: Random) -> None:
        """TRUNCATE, and then rows again."""
        world = self.world
        transaction = world.begin()
        if rng.random() < 0.3:
            world.random_statement(transaction, rng)
        if transaction.id in world.open and world.random_truncate(transaction, rng):
            for _ in range(rng.randint(0, 4)):
                if transaction.id in world.open:
                    world.random_statement(transaction, rng)
        if transaction.id in world.open:
            world.commit(transaction, rng, limbo=rng.random() < 0.6)

    def do_reveal(self, rng: Random) -> None:
        """A commit becomes visible, and others are known to be."""
        self.world.visibility.catch_up(rng)
        if self.world.limbo:
            self.world.reveal(rng.choice(sorted(self.world.limbo)))
            self.world.vacuum(self.next_entry)

    def do_noise(self, rng: Random) -> None:
        """The log grows by what concerns nobody."""
        self.world.wal += rng.randint(1, 3)

    def do_execute(self, rng: Random) -> None:
        """A lookup, or a refreshed view's SQL, takes its snapshot and reads."""
        waiting = [f for f in self.under_way() if f.result is None]
        if waiting:
            self.execute(rng.choice(waiting), rng)

    def under_way(self) -> list[Flight | Fetch]:
        """Lookups and fetches in flight."""
        return [*self.flights, *self.refreshing.fetches]

    def execute(self, flight: Flight | Fetch, rng: Random) -> None:
        """Run it now."""
        if isinstance(flight, Fetch):
            self.refreshing.execute(flight, rng)
        else:
            flight.result = self.world.look_up(flight.lookup, rng)

    def do_execute_forward(self, rng: Random) -> None:
        """A forwarded read takes its snapshot and reads."""
        waiting = [f for f in self.forwards if f.snapshot is None and f.id in self.reads]
        if waiting:
            forward = rng.choice(waiting)
            run_forward(forward, self.reads[forward.id], self.views, self.world, rng)

    # --- actions: events ---------------------------------------------------------------------------------------------

    def do_apply(self, rng: Random) -> None:
        """Some transactions of the stream."""
        log = self.world.log
        if self.next_entry == len(log):
            return
        self.apply(rng.choice((1, 1, 1, 2, 3, 5)), rng)

    def apply(self, number: int, rng: Random) -> None:
        """The next transactions in which the stream has something (no stream has others), and how far it is then."""
        log = self.world.log
        batch = log[self.next_entry : self.next_entry + number]
        self.next_entry += len(batch)
        for committed in batch:
            self.base.apply(committed.changes)
            self.past.append((committed.streamed.end, dict(self.base.rows)))
        limit = log[self.next_entry].streamed.end - 1 if self.next_entry < len(log) else self.world.wal
        self.position = rng.choice((batch[-1].streamed.end, limit))
        self.step(Apply([c.streamed for c in batch if c.streamed.tables], self.position))

    def do_advance(self, rng: Random) -> None:
        """The stream is further, without transactions."""
        log = self.world.log
        limit = log[self.next_entry].streamed.end - 1 if self.next_entry < len(log) else self.world.wal
        self.position = rng.randint(self.position, limit)
        self.step(Advance(self.position))

    def do_heartbeat(self, rng: Random) -> None:
        """Some time has passed. A heartbeat's snapshot is taken, or one that was taken arrives."""
        self.step(CancelUnawaited())
        if self.heartbeats and rng.random() < 0.5:
            self.step(SnapshotTaken(self.heartbeats.pop(rng.randrange(len(self.heartbeats)))))
        elif len(self.heartbeats) < 3:
            self.heartbeats.append(self.world.visibility.landmark())

    def do_join_table(self, rng: Random) -> None:
        """The late table joins: ALTER PUBLICATION commits, then a snapshot is taken, then the engine hears of it."""
        if LATE_TABLE not in self.world.published:
            for _ in range(rng.randint(0, 2)):
                transaction = self.world.begin()
                if rng.random() < 0.5:
                    self.world.followed_newcomer(transaction, rng)
                else:
                    self.world.random_statement(transaction, rng, LATE_TABLE)
            self.world.published.add(LATE_TABLE)
        elif self.join_snapshot is None:
            self.world.flush()
            self.join_snapshot = self.world.visibility.barrier()
        elif not self.joined:
            self.joined = True
            self.step(TableJoined(LATE_TABLE, self.join_snapshot))
        elif rng.random() < 0.1:
            # A table that got columns joins again; what is stored of it goes on.
            self.world.flush()
            self.step(TableJoined(rng.choice(TABLES).name, self.world.visibility.barrier()))

    def do_install(self, rng: Random) -> None:
        """A view is installed."""
        candidates = [
            VIEW_BY_NAME[name]
            for name in self.configuration.views
            if self.joined or LATE_TABLE not in tables_of(VIEW_BY_NAME[name].relation)
        ]
        if candidates and len(self.views) < 6:
            self.last_id += 1
            view_id = ViewId(self.last_id)
            late = [view for view in candidates if LATE_TABLE in tables_of(view.relation)]
            view = rng.choice(late if late and rng.random() < 0.5 else candidates)
            self.whole |= {view_id} if self.configuration.any_whole(rng) else set()
            self.plan(view_id, view.name)

    def plan(self, view_id: ViewId, name: str) -> None:
        """A view is planned by the catalog, and installed."""
        view, planned = VIEW_BY_NAME[name], self.configuration.old_rows and name not in REFRESHED
        self.views[view_id] = with_old_rows(view, self.world.catalog) if planned else view
        self.install(view_id)

    def install(self, view_id: ViewId) -> None:
        """The engine has a view from now on."""
        self.step(installation(view_id, self.views[view_id], self.configuration.limit_rows, view_id in self.whole))

    def do_drop(self, rng: Random) -> None:
        """A view is dropped."""
        if len(self.views) > 1:
            self.drop(rng.choice(sorted(self.views)))

    def drop(self, view_id: ViewId) -> None:
        """The engine has a view no longer."""
        del self.views[view_id]
        self.dropped.add(view_id)
        self.pins = [pin for pin in self.pins if pin[0] != view_id]
        self.step(DropView(view_id))
        require(view_id not in self.leaf.views, f"view {view_id} was dropped, its leaf was not")

    def any_key(self, view_id: ViewId, rng: Random, covered: bool = False) -> Key:
        """A key of a view: one that has rows, one that is covered, or any."""
        view = self.views[view_id]
        keyed = self.expectations.of(view.relation, view.key_columns)
        known: Iterable[Key] = keyed.by_key
        if covered and view_id in self.leaf.views:
            known = self.leaf.views[view_id].rows or known
        key = any_key(view, known, rng)
        return key if covered else self.refreshing.respelled(view_id, key, rng)

    def do_read(self, rng: Random) -> None:
        """A read of one key, or of several of several views."""
        if self.views and len(self.reads) < 20:
            self.last_id += 1
            views = [rng.choice(sorted(self.views)) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
            asked = tuple(self.any_question(v, rng) for v in dict.fromkeys(views))
            read = ReadId(self.last_id)
            self.reads[read], self.asked_at[read] = asked, self.position
            self.step(Read(read, tuple((a.view, a.key, a.extent) for a in asked), self.configuration.any_forward(rng)))

    def any_question(self, view_id: ViewId, rng: Random) -> Asked:
        """A key of a view, or a part of one."""
        view, key = self.views[view_id], self.any_key(view_id, rng)
        if not view.storage_order:
            return Asked(view_id, key)
        order, leaf = self.order_of(view_id), self.leaf.views.get(view_id)
        rows = self.expectations.of(view.relation, view.key_columns).expected(key)
        extent = order.any_extent(sorted(rows, key=order.key), rng)
        base = None
        if isinstance(extent, Ahead) and leaf is not None:
            base = order.reaching(leaf.covered(key), extent.start)
        return Asked(view_id, key, extent, base)

    def do_cancel(self, rng: Random) -> None:
        """A reader goes away."""
        if self.reads:
            self.cancel(rng.choice(sorted(self.reads)))

    def cancel(self, read: ReadId, *, refused: bool = False) -> None:
        """A reader has gone, or got an error from the upstream."""
        del self.reads[read]
        self.forwards = [f for f in self.forwards if f.id != read]
        self.step(CancelRead(read, refused))

    def do_deliver(self, rng: Random) -> None:
        """A lookup's result arrives, or a refreshed view's rows."""
        ready = [f for f in self.under_way() if f.result is not None]
        if ready and (rng.random() < 0.7 or not self.deliver_round(rng)):
            self.deliver(rng.choice(ready), rng)

    def deliver_round(self, rng: Random) -> bool:
        """Report some lookups by keys together, also cancelled ones; False: there are none."""
        ready = [f for f in self.flights if f.result is not None and f.slices is None and f.lookup.columns]
        results = []
        for flight in rng.sample(ready, rng.randint(0, len(ready))):
            result = self.world.arrived(flight.result, rng)
            if result.rows is not None and not self.is_too_large(flight.lookup, len(result.rows)):
                self.flights.remove(flight)
                results.append(done(flight.lookup, result))
        if results:
            self.step(LookupsDone(results))
        return bool(results)

    def deliver(self, flight: Flight | Fetch, rng: Random) -> None:
        """Report a lookup, unless nobody wants it any more and the world does not care to."""
        forgotten = flight.cancelled and rng.random() < 0.5
        if isinstance(flight, Fetch):
            event = self.refreshing.arrive(flight, rng)
            if not forgotten:
                self.step(event)
            return
        if flight.slices is None and self.configuration.loads and may_be_sliced(flight) and rng.random() < 0.7:
            assert flight.result is not None
            flight.slices = slices(flight, self.world.arrived(flight.result, rng), self.rng)
        event = None if flight.slices is None else next(flight.slices)
        if event is None or isinstance(event, LoadDone | LookupFailed) or forgotten:
            self.flights.remove(flight)
        if forgotten:
            return
        if event is not None:
            self.step(event)
            return
        assert flight.result is not None
        result = self.world.arrived(flight.result, rng)
        if result.rows is None:
            self.step(LookupFailed(flight.lookup.id, "integer out of range", True, evaluation=True))
        elif self.is_too_large(flight.lookup, len(result.rows)) and rng.random() < 0.7:
            self.step(LookupTooLarge(flight.lookup.id))
        else:
            self.step(LookupsDone([done(flight.lookup, result)]))

    def is_too_large(self, lookup: Lookup, rows: int) -> bool:
        """Return whether more comes than one key may have, which the upstream is not asked to the end for."""
        return bool(lookup.columns) and rows > self.configuration.limits.get("key_rows", rows)

    def do_work(self, rng: Random) -> None:
        """The engine goes on with what is too much for one step, or there is nothing of that."""
        if self.engine.working or rng.random() < 0.1:
            self.step(Work(rng.choice((1, 1, 1, 2, 3, 100))))

    def do_fault(self, rng: Random) -> None:
        """Something in the engine will fail as nothing does upstream."""
        self.faults.arm(rng)

    def do_fail(self, rng: Random) -> None:
        """A lookup fails; it may be tried again."""
        self.fail("the connection is gone", rng, retryable=True)

    def do_break(self, rng: Random) -> None:
        """A lookup fails for good."""
        self.fail("permission denied", rng, retryable=False)

    def fail(self, reason: str, rng: Random, retryable: bool) -> None:
        """A lookup, or a refreshed view's SQL, has no result."""
        under_way = self.under_way()
        if not under_way:
            return
        flight = rng.choice(under_way)
        if isinstance(flight, Fetch):
            self.step(self.refreshing.fail(flight, reason, retryable, breaks=not retryable and rng.random() < 0.5))
        else:
            self.flights.remove(flight)
            self.step(LookupFailed(flight.lookup.id, reason, retryable))

    def do_change_schema(self, rng: Random) -> None:
        """A table is not what the plans took it for: the views that read it are broken, and say so."""
        table = rng.choice(sorted(self.world.catalog.tables))
        self.step(SchemaChanged(table, "a column was dropped"))
        reading = {i for i, view in self.views.items() if table in tables_of(view.relation) and not expires(view)}
        require(reading <= self.broken, "views", reading - self.broken, "are not broken by a change of", table)

    def do_identity(self, rng: Random) -> None:
        """ALTER TABLE … REPLICA IDENTITY, or a check of the catalog, which finds it."""
        if rng.random() < 0.6:
            alter_identity(self.world, rng)
        else:
            check_identities(self)

    def do_forward_done(self, rng: Random) -> None:
        """A forwarded read's rows arrive."""
        ready = [f for f in self.forwards if f.snapshot is not None and f.id in self.reads]
        if ready:
            forward = rng.choice(ready)
            assert forward.snapshot is not None
            if any(ERROR in row for bag in forward.rows for row in bag):
                self.cancel(forward.id, refused=True)
            else:
                self.step(ForwardDone(forward.id, *self.world.visibility.arrived(forward.snapshot, forward.bound, rng)))

    def do_pin(self, rng: Random) -> None:
        """A subscription."""
        if self.views and len(self.pins) < 5:
            view_id = rng.choice(sorted(self.views))
            pin = (view_id, self.any_key(view_id, rng))
            self.pins.append(pin)
            self.step(Pin(*pin))

    def do_unpin(self, rng: Random) -> None:
        """A subscription ends."""
        if self.pins:
            self.step(Unpin(*self.pins.pop(rng.randrange(len(self.pins)))))

    def do_evict_key(self, rng: Random) -> None:
        """A view's key is evicted."""
        if self.views:
            view_id = rng.choice(sorted(self.views))
            leaf = self.leaf.views.get(view_id)
            full = leaf is not None and leaf.full and rng.random() < 0.5
            self.step(EvictKey(view_id, () if full else self.any_key(view_id, rng, covered=True)))

    def do_evict_inner(self, rng: Random) -> None:
        """A key of an inner materialization is evicted."""
        candidates = inner_keys(self.engine)
        if candidates:
            node, columns, keys = rng.choice(candidates)
            self.step(EvictInner(node, columns, rng.choice(keys)))

    def do_evict_some(self, rng: Random) -> None:
        """Memory is short."""
        self.step(EvictSome(rng.choice((1, 1, 2, 5, 1000))))

    def do_touch(self, rng: Random) -> None:
        """Readers say what they read."""
        touches = any_touches(sorted(self.views), lambda view, covered: self.any_key(view, rng, covered), rng)
        self.step(Touched(touches))

    def do_restart(self, rng: Random) -> None:
        """Continuity is lost: a new slot. What was in flight arrives all the same."""
        del rng
        self.start_stream()

    def do_rejoin(self, rng: Random) -> None:
        """Continuity is lost to this engine only: it joins a stream that goes on, perhaps far behind the log's end."""
        del rng
        self.world.flush()
        self.step(StreamStarted(self.position, self.world.visibility.joined()))

    def do_resume(self, rng: Random) -> None:
        """The stream's connection breaks, perhaps since the upstream crashes, and another one continues the stream."""
        resume(self, rng)

    def do_crash(self, rng: Random) -> None:
        """The engine's process dies; another starts, with the same views."""
        del rng
        self.joined = self.joined or LATE_TABLE in self.world.published
        self.counters += self.engine.counters
        self.new_engine()
        self.start_stream()
        for view_id in list(self.views):
            self.install(view_id)

    def do_checkpoint(self, rng: Random) -> None:
        """The engine's process stops and leaves a checkpoint; another begins with that."""
        restart_from_checkpoint(self, rng)
