"""Transactions in commit order, from topics that are not ordered among each other. Pure: events in, transactions out.

Kafka orders only the records of one partition: a transaction's changes are in the topics of their tables, its BEGIN and
END in the transaction topic. END has the number of events of each table, and ENDs are in commit order: the first
transaction in the queue of ENDs is delivered once all its events have arrived.

Debezium and its producer deliver at least once. Duplicates are recognized: a transaction by its place in the order of
ENDs (`history`), an event by its identity within the transaction (`pending_transaction`).

*Invariants*: transactions are delivered once, in commit order, complete; positions never decrease. A transaction that
may be incomplete is delivered as `overflow`, never in part:
- tables that joined while the transaction was published;
- all followed tables, if the connector was restarted within the transaction, and counts from there;
- transactions above the limit of rows; the largest one, if all undelivered ones together exceed theirs.
Missing events become a `Gap` after a timeout: nothing after it is delivered.

*Start*: transactions that the first snapshot sees are not delivered. PostgreSQL: ids below its horizon. MariaDB:
positions at or before its own. MySQL: global ids in its set.

Not here: bytes (`envelope`), rows (`rows`), topics and offsets (`feed`).
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from cdc.change import CommittedTransaction, SchemaNotice, TableChange, TableLayout
from cdc.debezium.databases import database_at
from cdc.debezium.events import Begin, End, Event, RowEvent, TransactionKey, transaction_name
from cdc.debezium.history import History, StartSnapshot
from cdc.debezium.modes import Modes
from cdc.debezium.names import collection_of
from cdc.debezium.pending_transaction import NOTHING, TRUNCATE, PendingTransaction
from cdc.debezium.progress import AssemblyProgress, Delivered
from cdc.debezium.rows import Change, TableRows
from cdc.debezium.truncates import Truncates
from cdc.postgres.position import widen

#: Maximum number of remembered BEGINs without an END.
_BEGUN = 10_000


@dataclass(frozen=True, slots=True)
class AssemblyLimits:
    """Maximum memory that the assembly of transactions takes."""

    #: Maximum rows of one transaction.
    rows: int = 200_000
    #: Maximum bytes of one transaction's events.
    bytes: int = 1 << 28
    #: Maximum rows of all undelivered transactions.
    waiting_rows: int = 800_000
    #: Number of finished transactions whose keys are remembered, to recognize late duplicates.
    remembered: int = 100_000


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that must be in the topics and have not arrived."""

    #: Followed table (as named by END) that lacks events; None: an END is missing.
    collection: str | None
    #: Description of the missing events, for the user.
    reason: str


class _Table:
    """A followed table.

    *State*: `since`, the offset of the transaction topic from which on all its events are read; None: unknown.
    """

    __slots__ = ("rows", "since", "since_at")

    def __init__(self, rows: TableRows | None) -> None:
        #: None: the table is followed for its positions only.
        self.rows = rows
        self.since: int | None = None
        self.since_at = 0.0


class DebeziumAssembler:
    """The assembler of one stream.

    *State*: `position`, up to which everything has been delivered; `_queue`, transactions with an END that are not
    delivered, in commit order; `_open`, all transactions with any event that are not delivered, in the order of their
    first events; `mark`, the number of the chunk of records that is read; `_before`, the progress before the last
    `take`, and `_taken_mark`, the lowest mark of its transactions.
    """

    def __init__(
        self,
        snapshot: StartSnapshot,
        modes: Modes,
        limits: AssemblyLimits | None = None,
        watermark: str | None = None,
        progress: AssemblyProgress | None = None,
    ) -> None:
        """Begin after a snapshot, or continue another assembler's progress. `watermark`: a table that is followed for
        its positions only."""
        self._modes = modes
        self._limits = limits or AssemblyLimits()
        self._watermark = None if watermark is None else collection_of(watermark)
        self.database = database_at(snapshot)
        self._identity = self.database.identity
        self._history = History(snapshot, self._limits.remembered)
        self.position = self._history.floor
        #: Position of the last END, and of the last one that was delivered or dropped.
        self._last_end = self._passed_end = 0
        if progress is not None:
            self._history.continues(progress)
            self.position, self._last_end = progress.position, progress.last_end
            self._passed_end = progress.last_end
        self.mark = 0
        self._layouts: Mapping[str, TableLayout] = {}
        self._tables: dict[str, _Table] = {}
        self._open: dict[TransactionKey, PendingTransaction] = {}
        self._queue: deque[PendingTransaction] = deque()
        self._truncates = Truncates(self._history)
        self._before = self._delivered()
        self._taken_mark: int | None = None
        self._settled = False
        self._waiting_rows = 0
        #: Number of rows that `take` returned last.
        self.rows = 0
        if self._watermark is not None:
            self._tables[self._watermark] = _Table(None)

    # ── Tables ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def followed(self) -> list[str]:
        """All collections whose events are needed."""
        return list(self._tables)

    def follow(self, layouts: Mapping[str, TableLayout]) -> tuple[list[str], list[str]]:
        """Follow exactly these tables; return the new collections, and the removed ones.

        A new one overflows in each transaction with changes of it until `reading` is called for it.
        """
        if layouts == self._layouts:
            return [], []
        wanted = {collection_of(name): (name, layout) for name, layout in layouts.items()}
        self._layouts = dict(layouts)
        gone = [c for c in self._tables if c not in wanted and c != self._watermark]
        for collection in gone:
            del self._tables[collection]
            self._forget(collection)
        new = []
        for collection, (name, layout) in wanted.items():
            table = self._tables.get(collection)
            if table is None:
                new.append(collection)
                table = self._tables[collection] = _Table(None)
            if table.rows is None or table.rows.layout != layout:
                table.rows = TableRows(name, layout, self.database, self._modes)
                self._forget(collection)
        return new, gone

    def reading(self, collections: Iterable[str], since: int, now: float) -> None:
        """Note that all events of these tables are read for transactions whose BEGIN is at offset `since` or later.

        Missing events are tolerated for a while after `now`, since a broker may receive a BEGIN after its events. (Not
        with a `now` of 0: the first snapshot sees such transactions.)
        """
        for collection in collections:
            table = self._tables.get(collection)
            if table is not None:
                table.since, table.since_at = since, now

    def _forget(self, collection: str) -> None:
        """Drop a table's rows of open transactions: they have another layout."""
        for pending in self._open.values():
            if collection in pending.changes:
                self._drop_rows(pending, collection)

    # ── Events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, event: Event, offset: int, now: float) -> None:
        """Add an event; `offset` is that of its record. Raises StreamLost."""
        match event:
            case RowEvent():
                self._row(event, now)
            case Begin():
                self._begin(event, offset, now)
            case End():
                self._ended(event, now)
            case _:
                assert_never(event)

    def _row(self, event: RowEvent, now: float) -> None:
        table = self._tables.get(event.collection)
        if table is None:
            return
        key = event.transaction
        if key is None:
            self._truncates.add(event)
            return
        pending = self._open.get(key)
        if pending is None or not pending.changes:
            if self._history.is_old(event, key):
                self._history.remember(key)
                if pending is not None:
                    pending.stale = True
                return
            if pending is None:
                pending = self._opened(key, now)
        pending.seen_at = now
        identity = self._identity(event)
        if not self.database.ends_at_commit and event.position > pending.position:
            pending.position = event.position
        changes = pending.changes.get(event.collection)
        if changes is None:
            changes = pending.changes[event.collection] = {}
        if not (pending.overflow or identity in changes or event.collection in pending.partial):
            self._hold(event, table, pending, changes, identity)

    def _hold(
        self, event: RowEvent, table: _Table, pending: PendingTransaction, changes: dict[int, Change], identity: int
    ) -> None:
        change: Change | None = NOTHING
        if table.rows is not None:
            change = TRUNCATE if event.op == "t" else table.rows.change(event)
        if change is None:
            self._drop_rows(pending, event.collection)
            return
        changes[identity] = change
        pending.size += event.size
        pending.held += 1
        self._waiting_rows += 1
        if pending.held > self._limits.rows or pending.size > self._limits.bytes:
            self._drop_rows(pending)
        elif self._waiting_rows > self._limits.waiting_rows:
            self._drop_rows(max(self._open.values(), key=lambda p: p.held))

    def _opened(self, key: TransactionKey, now: float) -> PendingTransaction:
        xid = 0
        if isinstance(key, int):
            xid = widen(key, self._history.near)
        elif self._history.seen is not None:
            xid = self._history.global_id(key)
        pending = self._open[key] = PendingTransaction(key, xid, now, self.mark)
        return pending

    def _drop_rows(self, pending: PendingTransaction, collection: str | None = None) -> None:
        before = pending.held
        pending.forget_rows(collection)
        self._waiting_rows += pending.held - before

    def _begin(self, event: Begin, offset: int, now: float) -> None:
        key = event.transaction
        if self._history.knows(key):
            return
        pending = self._open.get(key)
        if pending is None:
            if not self.database.overlapping and 0 < event.position <= self._last_end:
                return
            pending = self._opened(key, now)
            if len(self._open) > _BEGUN:
                self._forget_begun()
        elif pending.begun is not None and pending.end is None:
            pending.restarted = self.database.restarts_counts
        if pending.begun is None:
            pending.begun = offset

    def _forget_begun(self) -> None:
        """Forget the oldest BEGINs of transactions without changes and without an END."""
        for key in [key for key, p in self._open.items() if p.end is None and not p.changes][: _BEGUN // 2]:
            del self._open[key]

    def _ended(self, event: End, now: float) -> None:
        key = event.transaction
        pending = self._open.get(key)
        if pending is not None and pending.end is not None:
            return
        if 0 < event.position <= self._last_end:
            # A duplicate, unless its time shows that it is of another server.
            self._history.check_time(event.ts_ms)
            if pending is not None:
                self._discard(pending)
            return
        self._last_end = max(event.position, self._last_end)
        self._history.newest_ms = max(event.ts_ms, self._history.newest_ms)
        if self._history.knows(key):
            if not self._queue:
                # Otherwise it comes again where another assembler continues, and is known again.
                self._passed_end = max(event.position, self._passed_end)
            if pending is not None:
                self._discard(pending)
            return
        if pending is None:
            pending = self._opened(key, now)
        pending.end = event
        pending.seen_at = now
        if isinstance(key, int):
            self._history.near = pending.xid
            pending.position = event.position
            pending.stale = pending.stale or pending.xid < self._history.horizon
        elif self._seen(pending, event):
            pending.stale = True
        elif event.position > pending.position:
            pending.position = event.position
        self._queue.append(pending)

    @property
    def has_waiting_truncate(self) -> bool:
        """True if a TRUNCATE waits for a later transaction, or for `settle`."""
        return bool(self._truncates) and not self._queue

    def _seen(self, pending: PendingTransaction, event: End) -> bool:
        """MariaDB, MySQL: return whether the first snapshot sees it: it was published when reading began."""
        seen, floor = self._history.seen, self._history.floor
        if seen is not None:
            return pending.xid in seen
        without_begin = pending.begun is None and not pending.changes and not self._history.continued
        return event.position < floor and (event.position > 0 or without_begin)

    def settle(self) -> None:
        """Note that all topics have been read to their ends and are idle: TRUNCATEs are delivered."""
        self._settled = not self._queue

    # ── Transactions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, max_rows: int) -> list[CommittedTransaction]:
        """Return complete transactions in commit order, up to the first one that brings the rows to `max_rows`."""
        taken: list[CommittedTransaction] = []
        self.rows = 0
        queue = self._queue
        self._before, self._taken_mark = self._delivered(), None
        while queue and self.rows < max_rows:
            head = queue[0]
            if not head.stale and (self._lacking(head) is not None or not self._placed(head)):
                break
            queue.popleft()
            self._passed(head)
            if not head.stale:
                if self._truncates:
                    taken += self._truncated(head.position)
                transaction = self._deliver(head)
                if transaction is not None:
                    taken.append(transaction)
            elif self.database.ends_at_commit:
                self.position = max(head.position, self.position)
            self._discard(head)
        if self._truncates:
            taken += self._truncated(None if self._settled and not queue else self.position + 1)
        self._settled = False
        return taken

    def _passed(self, head: PendingTransaction) -> None:
        assert head.end is not None
        self._passed_end = max(head.end.position, self._passed_end)
        self._taken_mark = head.mark if self._taken_mark is None else min(head.mark, self._taken_mark)

    def _truncated(self, before: int | None) -> list[CommittedTransaction]:
        taken = []
        for position, collection, xid in self._truncates.before(before):
            table = self._tables.get(collection)
            if table is None or table.rows is None:
                continue
            late = position <= self.position
            self.position = max(position, self.position)
            if self.position > table.rows.layout.since:
                change = TableChange(truncated=not late, overflow=late)
                taken.append(CommittedTransaction(xid or self.position, self.position, {table.rows.name: change}))
        return taken

    def _lacking(self, head: PendingTransaction) -> tuple[str, int, int] | None:
        """Return a followed table that lacks events, with the number of events that arrived and that END names."""
        assert head.end is not None
        if head.restarted or not head.changes.keys() <= head.end.counts.keys():
            head.restarted = head.overflow = True
        if head.overflow:
            return None
        for collection, count in head.end.counts.items():
            table = self._tables.get(collection)
            if table is None or collection in head.partial:
                continue
            held = len(head.changes.get(collection, ()))
            if held > count:
                # END counts the events since a restart only.
                head.restarted = head.overflow = True
                return None
            if held < count:
                if table.since is not None and head.begun is not None and head.begun >= table.since:
                    return collection, held, count
                head.partial.add(collection)
        return None

    def _placed(self, head: PendingTransaction) -> bool:
        """Return whether its position is known. Without events it is before the next one with a position."""
        if head.position or not (head.overflow or head.partial):
            return True
        for later in self._queue:
            if later.position:
                head.position = max(later.position - 1, self.position)
                head.guessed = True
                return True
            if not later.stale and self._lacking(later) is not None:
                return False  # Its events will have the position.
        return False

    def _deliver(self, head: PendingTransaction) -> CommittedTransaction | None:
        assert head.end is not None
        if not head.guessed:
            self._history.delivered = max(head.position, self._history.delivered)
        # A later TRUNCATE may have been delivered before it.
        overflow = head.overflow or 0 < head.position < self.position
        self.position = max(head.position, self.position)
        tables: dict[str, TableChange] = {}
        for collection in self._tables if overflow and head.restarted else head.end.counts:
            table = self._tables.get(collection)
            if table is None or table.rows is None or self.position <= table.rows.layout.since:
                continue
            if overflow or collection in head.partial:
                tables[table.rows.name] = TableChange(overflow=True, layout=table.rows.layout)
                continue
            change = head.table_change(collection, table.rows.identity)
            if change.settle():
                change.layout = table.rows.layout
                tables[table.rows.name] = change
                self.rows += len(change.removed) + len(change.added) + len(change.partial)
        return CommittedTransaction(head.xid or self.position, self.position, tables) if tables else None

    def _discard(self, pending: PendingTransaction) -> None:
        """Remove a transaction that was delivered or skipped."""
        if pending.changes or pending.partial or pending.stale or pending.overflow:
            self._history.remember(pending.key)
        self._waiting_rows -= pending.held
        self._open.pop(pending.key, None)

    # ── Progress ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _delivered(self) -> Delivered:
        history = self._history
        # A TRUNCATE of the binary log, or a guess, may be ahead of transactions that are not delivered yet.
        exact = self.database.ends_at_commit or (not self._truncates and self.position == history.delivered)
        continuable = exact and history.seen is None
        return Delivered(self.position, history.delivered, self._passed_end, history.count, continuable)

    def progress(self, taken: bool) -> AssemblyProgress | None:
        """Return the progress, or that before the last `take` if its transactions are `taken` back; None if no other
        assembler can continue there, or a table's rows lack columns."""
        at = self._before if taken else self._delivered()
        if not at.continuable or self.incomplete_tables:
            return None
        since = {name: table.since for name, table in self._tables.items() if table.since is not None}
        return self._history.progress(at, since)

    @property
    def incomplete_tables(self) -> list[str]:
        """Names of the tables whose rows lack columns, which are unavailable."""
        rows = [table.rows for table in self._tables.values() if table.rows is not None]
        return [each.name for each in rows if each.has_unavailable]

    def oldest_mark(self, taken: bool, since: float) -> int | None:
        """Return the lowest mark of the undelivered transactions; None if there are none. A lone BEGIN from before the
        time `since` is left out: its transaction overflows."""
        marks = [] if self._taken_mark is None or not taken else [self._taken_mark]
        marks += [p.mark for p in self._open.values() if p.changes or p.end or p.seen_at >= since][:1]
        return min(marks, default=None)

    def take_notices(self) -> list[SchemaNotice]:
        """Return the notices since the last call."""
        notices: list[SchemaNotice] = []
        for table in self._tables.values():
            if table.rows is not None and table.rows.notices:
                notices += table.rows.notices
                table.rows.notices = []
        return notices

    # ── Gaps ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def gap(self, now: float, timeout_s: float) -> Gap | None:
        """Return events that have been missing for `timeout_s`, though the topics may not be read to their ends."""
        if self._queue:
            return self._incomplete(self._queue[0], now, timeout_s)
        for pending in self._open.values():
            if pending.changes:
                if now - pending.seen_at < timeout_s:
                    return None
                (collection, *_) = pending.changes
                name = transaction_name(pending.key)
                return Gap(None, f"{name} changed {collection} and has no END in the transaction topic")
        return None

    def _incomplete(self, head: PendingTransaction, now: float, timeout_s: float) -> Gap | None:
        found = None if head.stale else self._lacking(head)
        if found is None or now - head.seen_at < timeout_s:
            return None
        collection, held, count = found
        since_at = self._tables[collection].since_at
        if since_at and head.seen_at - since_at < timeout_s:
            # Its first events were published before reading of the table began.
            head.partial.add(collection)
            return None
        name = transaction_name(head.key, head.position if self.database.ends_at_commit else 0)
        return Gap(collection, f"{count - held} of {count} events of {collection} in {name} are not in its topic")
