"""Views that are not maintained incrementally: which of their keys are cached, and when they are stale.

A key that is read and not covered is *fetched*: the view's SQL runs upstream for it (`Refresh`), once however many
wait. What comes back is exact from the last transaction that its snapshot sees and that may touch the key up to just
before the first that it does not see. If that is where the engine is, the key is covered and the leaf store gets the
rows; otherwise they are good for those who asked before, under their own version.

A transaction makes a hole of every covered key whose answer it may have changed: a row that came or went, that may pass
the view's filter on its table, that agrees with the key, and that differs in a column which the view reads.

*Maintains*: a covered key's rows are exact at the applied position (but for views that expire: good for a while); a
read waits for fetches that exist; a fetch counts as a lookup in flight, so the ring keeps what it may not see.

Not here: running the SQL and letting keys expire (`service.engine.reads.refresh_tasks`); which SQL is refreshed
(`dataflow.sql.reads`).
"""

from collections.abc import Container, Iterable, Iterator
from typing import Protocol

from dataflow.engine.context import Context
from dataflow.engine.effects import (
    AnswerRefresh,
    CancelRefresh,
    FailRead,
    LeafDrop,
    LeafEvict,
    LeafFill,
    Refresh,
    ViewStatus,
)
from dataflow.engine.events import RefreshDone, RefreshFailed, Transaction
from dataflow.engine.key_sizes import KeyLimits
from dataflow.engine.limits import key_bytes
from dataflow.engine.outstanding import CROSSED, NOT_ENDED, Outstanding
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.ranking import ROW_COST, Ranking
from dataflow.engine.refresh_leaf import Fetch, RefreshLeaf, RefreshRead
from dataflow.engine.ring import Ring
from dataflow.engine.upquery import Demand
from dataflow.errors import InvariantViolation
from dataflow.plan.refresh import RefreshView
from dataflow.sizing import NUMBER_BYTES, sampled_bytes
from dataflow.state.coverage import Coverage
from dataflow.types import Key, Position, ReadId, RefreshId, Row, Snapshot, ViewId

#: What a fetch takes, with who waits for it.
_FETCH_BYTES = 1200


class RefreshReaders(Protocol):
    """The other part of reads that want refreshed keys (`demands.Demands`)."""

    def start(self, demand: Demand) -> None:
        """Asks for what a read wants besides, now that its refreshed keys are covered."""
        ...

    def forward(self, demand: Demand) -> None:
        """Answers all that a read wants in one upstream snapshot."""
        ...

    def leave(self, read: ReadId) -> None:
        """Ends what a read wants besides, if that has been asked for."""
        ...


class RefreshedViews:
    """All refreshed views, with the reads and fetches of their keys."""

    def __init__(
        self, context: Context, ring: Ring, ranking: Ranking, barrier: PublicationBarrier, readers: RefreshReaders
    ) -> None:
        self._context = context
        self._limits = context.limits
        self._counters = context.counters
        self._emit = context.emit
        self._ring = ring
        self._ranking = ranking
        self._readers = readers
        self.leaves: dict[ViewId, RefreshLeaf] = {}
        self.reads: dict[ReadId, RefreshRead] = {}
        self.fetches = Outstanding[RefreshId, Fetch](context, barrier)
        self._by_key: dict[tuple[ViewId, Key], Fetch] = {}
        self._by_table: dict[str, list[RefreshLeaf]] = {}
        self._last_id = 0

    # Views

    def install(self, view_id: ViewId, view: RefreshView, limits: KeyLimits) -> None:
        """Adds a view; its keys are fetched when they are read."""
        leaf = self.leaves[view_id] = RefreshLeaf(view_id, view, limits)
        for table in leaf.tables:
            self._by_table.setdefault(table, []).append(leaf)
        self._emit(ViewStatus(view_id, "ready"))

    def drop(self, view_id: ViewId) -> None:
        """Takes a view away, if it is a refreshed one; reads that want another one besides fail, too."""
        leaf = self.leaves.pop(view_id, None)
        if leaf is None:
            for read in list(self.reads.values()):
                if any(want.leaf.view_id == view_id for want in read.demand.wants):
                    self._fail(read, "the view was dropped", retryable=False)
            return
        for table in leaf.tables:
            self._by_table[table].remove(leaf)
        self._ranking.dropped(leaf)
        self._end(leaf, "the view was dropped")
        self._emit(LeafDrop(view_id))

    def break_views(self, table: str, reason: str) -> None:
        """`table` is not what these views were analysed with."""
        for leaf in self._by_table.get(table, ()):
            self._break(leaf, reason)

    def _break(self, leaf: RefreshLeaf, reason: str) -> None:
        if leaf.broken is None:
            leaf.broken = reason
            self._emit(ViewStatus(leaf.view_id, "broken", reason))
            self._evict_all(leaf)
            self._end(leaf, reason)

    def _end(self, leaf: RefreshLeaf, reason: str) -> None:
        """Nobody gets an answer of this view any more."""
        for fetch in [f for f in self.fetches.by_id.values() if f.leaf is leaf]:
            self._abandon(fetch)
        for read in [r for r in self.reads.values() if any(wanted is leaf for wanted, _ in r.keys)]:
            self._fail(read, reason, retryable=False)

    # Reads

    def open_read(self, read: RefreshRead) -> None:
        """Answers a read, or fetches what is missing."""
        broken = next((leaf.broken for leaf, _ in read.keys if leaf.broken), None)
        if broken is not None:
            self._emit(FailRead(read.id, broken, retryable=False))
            return
        self.reads[read.id] = read
        self._pursue(read)

    def confirm(self, read_id: ReadId) -> bool:
        """Return whether the refreshed keys of a read are (still) covered, now that all else it wants is; else they are
        fetched again."""
        read = self.reads.get(read_id)
        if read is None:
            return True
        if any(key not in leaf.coverage for leaf, key in read.keys):
            self._pursue(read)
            return False
        del self.reads[read_id]
        return True

    def tables_of(self, read_id: ReadId) -> frozenset[str]:
        """The tables of the refreshed views that a read wants."""
        read = self.reads.get(read_id)
        return frozenset() if read is None else frozenset[str]().union(*(leaf.tables for leaf, _ in read.keys))

    def leave(self, read_id: ReadId) -> frozenset[str]:
        """A read that is not waited for any more; the tables of the refreshed views that it wanted."""
        tables = self.tables_of(read_id)
        read = self.reads.pop(read_id, None)
        if read is None:
            return tables
        for leaf, key in read.keys:
            fetch = self._by_key.get((leaf.view_id, key))
            if fetch is not None:
                fetch.waiting.pop(read_id, None)
        return tables

    def _pursue(self, read: RefreshRead) -> None:
        """Goes on with what a read wants besides, or waits for what is missing; forwards it if what came is gone again
        before the rest is there, time after time."""
        missing = [(leaf, key) for leaf, key in read.keys if key not in leaf.coverage]
        if not missing:
            self._readers.start(read.demand)
            return
        wanted = [(leaf, key) for leaf, key in missing if not self._waits(read, leaf, key)]
        read.rounds += bool(wanted)
        if read.rounds > self._limits.read_rounds:
            self._readers.forward(read.demand)
            return
        for leaf, key in wanted:
            self._want(leaf, key).waiting[read.id] = None

    def _waits(self, read: RefreshRead, leaf: RefreshLeaf, key: Key) -> bool:
        fetch = self._by_key.get((leaf.view_id, key))
        return fetch is not None and read.id in fetch.waiting

    def _fail(self, read: RefreshRead, reason: str, retryable: bool, code: str = "") -> None:
        self.leave(read.id)
        self._readers.leave(read.id)
        self._emit(FailRead(read.id, reason, retryable, code))

    # Fetching

    def _want(self, leaf: RefreshLeaf, key: Key) -> Fetch:
        """The fetch of a key, made if there is none."""
        fetch = self._by_key.get((leaf.view_id, key))
        if fetch is None:
            fetch = Fetch(RefreshId(0), leaf, key)
            self._by_key[leaf.view_id, key] = fetch
            self._send(fetch)
        else:
            self._counters["refresh_joined"] += 1
        return fetch

    def _send(self, fetch: Fetch) -> None:
        self._last_id += 1
        self.fetches.end(fetch.id)
        fetch.id = RefreshId(self._last_id)
        self.fetches.issue(fetch.id, fetch)
        self._counters["refreshed"] += 1
        self._emit(Refresh(fetch.id, fetch.leaf.view_id, fetch.key))

    def cancel_unawaited(self) -> None:
        """Looks once; cancels what nobody has waited for at several looks (`abandonment`)."""
        for fetch in self.fetches.unawaited_queries(lambda fetch: fetch.is_awaited):
            self._counters["refresh_unawaited"] += 1
            self._abandon(fetch)

    def _abandon(self, fetch: Fetch) -> None:
        self._forget(fetch)
        if fetch.is_in_flight:
            self._emit(CancelRefresh(fetch.id))

    def _forget(self, fetch: Fetch) -> None:
        self.fetches.end(fetch.id)
        self._by_key.pop((fetch.leaf.view_id, fetch.key), None)

    def refresh_done(self, event: RefreshDone) -> None:
        """Takes rows, and uses them if the stream is far enough."""
        self.fetches.take_answer(event.id, event)
        self.settle_due()

    def refresh_failed(self, event: RefreshFailed) -> None:
        """Ends a fetch that has failed, and the reads that wait for it."""
        fetch = self.fetches.by_id.get(event.id)
        if fetch is None:
            return
        self._forget(fetch)
        if event.breaks:
            self._break(fetch.leaf, event.reason)
        for read_id in list(fetch.waiting):
            if read_id in self.reads:
                self._fail(self.reads[read_id], event.reason, event.retryable, event.code)

    def settle_due(self) -> None:
        """Uses, or repeats, the fetches whose rows the stream has reached."""
        for fetch in self.fetches.due_queries():
            self._settle(fetch)

    def _settle(self, fetch: Fetch) -> None:
        answer = fetch.answer
        assert answer is not None
        exact = self._exact(fetch, answer.snapshot)
        if exact is None:
            self._repeat(fetch)
            return
        self._forget(fetch)
        waiting = [self.reads[r] for r in fetch.waiting if r in self.reads]
        if exact == self._context.applied and self._may_store(fetch, answer.rows):
            self._counters["refresh_stored"] += 1
            self._cover(fetch, answer.rows)
            self._emit(LeafFill(fetch.leaf.view_id, fetch.key, answer.rows))
            for read in waiting:
                if read.id in self.reads:
                    self._pursue(read)
            return
        for read in waiting:
            self._answer_once(read, fetch, answer.rows, exact)

    def _cover(self, fetch: Fetch, rows: list[Row]) -> None:
        leaf = fetch.leaf
        leaf.coverage.add(fetch.key)
        leaf.counts.filled += 1
        leaf.counts.refilled += fetch.hot
        self._counters["hot_refilled"] += fetch.hot
        self._ranking.filled(leaf, fetch.key, rows, 1 + len(rows) * ROW_COST)

    def _answer_once(self, read: RefreshRead, fetch: Fetch, rows: list[Row], exact: Position) -> None:
        """Rows that cannot be stored answer who asked for nothing else, and not for anything newer."""
        if read.id not in self.reads:
            return
        if not read.alone:
            self._readers.forward(read.demand)
        elif exact >= min(read.demand.since, self._context.applied):
            self._counters["refresh_once"] += 1
            self.leave(read.id)
            self._emit(AnswerRefresh(read.id, rows, exact))
        elif self._may_wait_on(read):
            self._want(fetch.leaf, fetch.key).waiting[read.id] = None

    def _may_store(self, fetch: Fetch, rows: list[Row]) -> bool:
        if key_bytes(fetch.key) > self._limits.key_bytes:
            return False
        general = KeyLimits(self._limits.key_rows, self._limits.key_rows_bytes)
        return general.hold_rows(rows) and fetch.leaf.limits.hold_rows(rows)

    def _exact(self, fetch: Fetch, snapshot: Snapshot) -> Position | None:
        """Latest position at which the rows are exact; None if it is not known."""
        leaf = fetch.leaf
        alone = Coverage(leaf.coverage.columns)
        alone.add(fetch.key)

        def concerns(transaction: Transaction) -> bool:
            return any(leaf.invalidated(table, delta, alone) for table, delta in transaction.tables.items())

        return self._ring.exact_position(leaf.tables, snapshot, self._context.applied, concerns)

    def _repeat(self, fetch: Fetch) -> None:
        """Issues a fetch again while a read may wait for it: its rounds count for what is fetched without a reader."""
        goes_on = self.fetches.has_another_round(fetch)
        for read_id in list(fetch.waiting):
            if read_id in self.reads:
                goes_on |= self._may_wait_on(self.reads[read_id])
        if goes_on:
            self._send(fetch)
        else:
            self._abandon(fetch)

    def _may_wait_on(self, read: RefreshRead) -> bool:
        """Counts an answer that a read could not use; fails the read if there were too many."""
        read.unusable += 1
        if read.unusable < self._limits.forward_rounds:
            return True
        self._fail(read, CROSSED, retryable=True)
        return False

    def _give_up(self, fetch: Fetch, reason: str) -> None:
        self._abandon(fetch)
        for read_id in list(fetch.waiting):
            if read_id in self.reads:
                self._fail(self.reads[read_id], reason, retryable=True)

    def abandon_before(self, time: int) -> None:
        """The ring is past its limit: fetches issued before `time` are issued again."""
        for fetch in self.fetches.issued_before(time):
            self._emit(CancelRefresh(fetch.id))
            self._repeat(fetch)

    # The stream

    def restart(self) -> None:
        """Continuity was lost: all is stale, and what was being fetched is fetched anew."""
        for leaf in self.leaves.values():
            self._evict_all(leaf)
        self._send_again(list(self.fetches.by_id.values()))

    def resume(self) -> None:
        """The stream is resumed: keys whose rows it has not passed are fetched anew."""
        self._send_again([fetch for fetch in self.fetches.by_id.values() if not fetch.paused])

    def _send_again(self, fetches: list[Fetch]) -> None:
        for fetch in fetches:
            self._emit(CancelRefresh(fetch.id))
            self._send(fetch)

    def invalidate(self, transactions: Iterable[Transaction]) -> None:
        """Makes holes of what committed transactions may have changed."""
        if not self._by_table:
            return
        for transaction in transactions:
            for table, delta in transaction.tables.items():
                for leaf in self._by_table.get(table, ()):
                    if leaf.coverage.keys:
                        for key in leaf.invalidated(table, delta, leaf.coverage):
                            self._counters["stale"] += 1
                            self._spoil(leaf, key)

    def table_joined(self, table: str) -> None:
        """The stream may lack changes of `table`."""
        for leaf in self._by_table.get(table, ()):
            self._evict_all(leaf)

    # Forgetting

    def evict(self, view_id: ViewId, key: Key) -> None:
        """Forgets one key, if it is one of a refreshed view."""
        leaf = self.leaves.get(view_id)
        if leaf is not None and key in leaf.coverage:
            self._evict(leaf, key)

    def _evict_all(self, leaf: RefreshLeaf) -> None:
        for key in list(leaf.coverage):
            self._evict(leaf, key)

    def _spoil(self, leaf: RefreshLeaf, key: Key) -> None:
        """Makes a hole of a key that is stale, and fetches it again at once if it is hot."""
        hot = self._evict(leaf, key) and (leaf.view_id, key) not in self._by_key
        if hot and sum(fetch.hot for fetch in self.fetches.by_id.values()) < self._limits.hot_refills:
            self._want(leaf, key).hot = True

    def _evict(self, leaf: RefreshLeaf, key: Key) -> bool:
        """Return whether the key was hot."""
        leaf.coverage.discard(key)
        leaf.counts.evicted += 1
        self._emit(LeafEvict(leaf.view_id, key))
        if key in leaf.pins and leaf.broken is None:
            self._counters["refill"] += 1
            self._want(leaf, key)
        return self._ranking.lost(leaf, key)

    def state_bytes(self) -> int:
        """About what is held here; the rows are in the leaf store."""
        answers = [fetch.answer for fetch in self.fetches.by_id.values() if fetch.answer is not None]
        held = sum(sampled_bytes(answer.rows) for answer in answers)
        coverages = [leaf.coverage for leaf in self.leaves.values()]
        covered = sum(c.state_bytes() + c.text_bytes + NUMBER_BYTES * len(c) for c in coverages)
        return covered + held + _FETCH_BYTES * len(self.fetches.by_id)

    # Subscriptions

    def pin(self, view_id: ViewId, key: Key) -> None:
        """A subscription to a key, if it is one of a refreshed view."""
        leaf = self.leaves.get(view_id)
        if leaf is not None:
            leaf.pins[key] = leaf.pins.get(key, 0) + 1
            self._ranking.pinned(leaf, key)
            if key not in leaf.coverage and leaf.broken is None:
                self._want(leaf, key)

    def unpin(self, view_id: ViewId, key: Key) -> None:
        """Ends a subscription to a key."""
        leaf = self.leaves.get(view_id)
        if leaf is not None:
            left = leaf.pins.pop(key, 0) - 1
            if left > 0:
                leaf.pins[key] = left
            elif left == 0:
                self._ranking.unpinned(leaf, key)

    def heartbeat(self, snapshot: Snapshot) -> None:
        """Resumes, or gives up, paused fetches; fetches pinned keys that could not be stored again."""
        for fetch, sees_enough in self.fetches.resumed_queries(snapshot):
            if sees_enough:
                self._send(fetch)
            else:
                self._give_up(fetch, NOT_ENDED)
        for leaf, key in list(self._unfilled_pins()):
            self._want(leaf, key)

    def _unfilled_pins(self) -> Iterator[tuple[RefreshLeaf, Key]]:
        for leaf in self.leaves.values():
            for key in leaf.pins:
                if leaf.broken is None and key not in leaf.coverage and (leaf.view_id, key) not in self._by_key:
                    yield leaf, key

    def check(self, demanding: Container[ReadId]) -> None:
        """Asserts that every read waits for a fetch, unless it is one of those that wait for what they want besides;
        for tests."""
        fetches = self._by_key.values()
        waiting = {read_id for fetch in fetches for read_id in fetch.waiting}
        by_id = self.fetches.by_id
        if any(by_id.get(fetch.id) is not fetch for fetch in fetches) or len(fetches) != len(by_id):
            raise InvariantViolation("a key is being fetched in vain")
        if waiting - self.reads.keys():
            raise InvariantViolation("a fetch is waited for by a read that has gone")
        for read_id in self.reads.keys() - waiting:
            if read_id not in demanding:
                raise InvariantViolation(f"read {read_id} waits for nothing")
