"""The change stream that Debezium publishes to Kafka: a topic for each table, and the transaction topic.

Reading begins at the topics' ends, *then* the first snapshot is taken: what it does not see is published later. Or it
continues at a place behind a transaction that another stream delivered.

*Invariants*: `cdc.stream`. The position moves with the ENDs of transactions only: heartbeats do not carry the
connector's position, so an idle stream moves only by a write to the database (`request_position` can only wait).

Not here: Kafka (`feed`), events (`envelope`), transactions (`assembler`), starting a new stream (`service.engine`).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, assert_never

from kafka import KafkaConsumer

from cdc.change import Batch, CommittedTransaction, StreamLost, TableLayout
from cdc.debezium.assembler import AssemblyLimits, DebeziumAssembler
from cdc.debezium.envelope import RecordDecoder
from cdc.debezium.feed import Feed, Records, TopicEnds, TopicOffsets, TopicStarts, topic_in
from cdc.debezium.history import StartSnapshot
from cdc.debezium.identity_proofs import IdentityProofs, ReadIdentities
from cdc.debezium.last_records import digest_of, records_before, refusal_of
from cdc.debezium.names import collection_of
from cdc.debezium.options import DebeziumOptions
from cdc.debezium.place import PartitionPlace, SourceLog, TopicPlace, prefix_of
from cdc.debezium.read_offsets import Partition, ReadOffsets
from cdc.stream import StreamPlace, StreamStart

log = logging.getLogger(__name__)

#: Interval of checks for missing events.
CHECK_S = 1.0
#: Records decoded before the event loop runs other tasks.
SLICE_RECORDS = 500


class DebeziumStream:
    """Committed transactions of the followed tables, in commit order, from the topics of one connector.

    `tables` returns the layouts of the tables to follow, with `column_types`, by qualified name. A table that is added
    to `tables` later overflows in transactions with events from before its topic was read.

    `take_snapshot` takes a snapshot of the database, not older than the call (PostgreSQL: with its horizon). Its class
    determines the database. `read_identities`: of a database whose old rows may have some columns only. `source_log`:
    the database's log; without one there are no places.

    *State*: `_offsets`, of the topics in `_topics`, with their ids, in the cluster `_cluster`; `_log_mark`, the
    database's log; `_marks`, offset and digest of the last record of each partition of which none was read: both are
    there once a place is wanted.
    """

    held_up: str | None = None

    def __init__(
        self,
        options: DebeziumOptions,
        tables: Callable[[], Mapping[str, TableLayout]],
        take_snapshot: Callable[[], Awaitable[StartSnapshot]],
        max_transaction_rows: int,
        start_timeout_s: float = 60.0,
        make_consumer: Callable[..., Any] = KafkaConsumer,
        read_identities: ReadIdentities | None = None,
        source_log: SourceLog | None = None,
    ) -> None:
        self._options = options
        self._tables = tables
        self._take_snapshot = take_snapshot
        self._limits = AssemblyLimits(max_transaction_rows, waiting_rows=4 * max_transaction_rows)
        self._start_timeout_s = start_timeout_s
        self._make_consumer = make_consumer
        self._proofs = None if read_identities is None else IdentityProofs(read_identities)
        #: Transactions whose proofs are pending.
        self._taken: list[CommittedTransaction] = []
        self._feed: Feed | None = None
        self._assembler: DebeziumAssembler | None = None
        self._reader: RecordDecoder | None = None
        self._arrived = asyncio.Event()
        #: Records taken from the feed, of which those from `_at` on are not decoded.
        self._records: Records = []
        self._at = 0
        self._reported = 0
        self._checked_at = 0.0
        self._asked_ends = False
        self._source_log = source_log
        self._offsets = ReadOffsets()
        self._topics: dict[str, str] = {}
        self._cluster = ""
        self._log_mark = ""
        self._marks: dict[Partition, tuple[int, str]] = {}
        #: Set once there is a place that is wanted.
        self._placed: asyncio.Event | None = None

    async def start(self) -> StreamStart:
        """Find the topics' ends, take a snapshot, and begin. Raises StreamLost."""
        return await self._started(None)

    async def start_at(self, place: str) -> StreamStart:
        """Continue at a place if topics and database certainly are the same and have all that follows, else as `start`.
        Raises StreamLost."""
        try:
            found = TopicPlace.parse(place)
            refusal = await self._refusal(found)
        except ValueError as problem:
            refusal = str(problem)
        if refusal:
            return replace(await self.start(), refusal=refusal)
        return await self._started(found)

    async def _refusal(self, place: TopicPlace) -> str:
        names = place.names_refusal(self._options)
        if names or self._source_log is None:
            return names or "The database's log cannot be identified."
        return await self._source_log.refusal(place.log, place.progress.position) or await asyncio.to_thread(
            refusal_of, self._options, place, self._continued(place).topics, self._make_consumer
        )

    async def _started(self, place: TopicPlace | None) -> StreamStart:
        try:
            async with asyncio.timeout(self._start_timeout_s):
                return await self._start(place)
        except TimeoutError:
            await self.close()
            reason = f"Kafka at {self._options.bootstrap_servers} did not answer within {self._start_timeout_s:g} s."
            raise StreamLost(reason, retryable=True) from None
        except BaseException:
            await self.close()
            raise

    async def _start(self, place: TopicPlace | None) -> StreamStart:
        try:
            modes = self._options.modes
        except ValueError as problem:
            raise StreamLost(str(problem), retryable=False) from None
        loop = asyncio.get_running_loop()
        layouts = self._tables()
        watermark = self._options.watermark_table or None
        followed = {collection_of(name) for name in (*layouts, *([watermark] if watermark else []))}
        continued = TopicOffsets(frozenset(), {}, {}) if place is None else self._continued(place)
        self._feed = Feed(self._options, lambda: _notify(loop, self._arrived), self._make_consumer)
        self._feed.start(followed, continued)
        began = await self._first_item()
        self._reads(began)
        if self._proofs is not None:
            if place is not None:
                self._proofs.continues(place.proofs)
            await self._proofs.follow(layouts)
        snapshot = await self._take_snapshot()
        if place is None:
            # Transactions that had begun are not in the stream; lookups wait until they have ended.
            snapshot = snapshot.closed()
        progress = None if place is None else place.progress
        assembler = DebeziumAssembler(snapshot, modes, self._limits, watermark, progress)
        self._reader = RecordDecoder(assembler.database)
        assembler.follow(layouts)
        now = 0.0 if place is None else time.monotonic()
        assembler.reading(began.collections, began.since, now)
        for collection in continued.collections:
            assert progress is not None
            assembler.reading([collection], progress.since[collection], now)
        self._assembler, self._reported = assembler, assembler.position
        return StreamStart(assembler.position, snapshot, continued=place is not None)

    def _continued(self, place: TopicPlace) -> TopicOffsets:
        """Return where the topics are continued of tables that are as they were at the place."""
        since, at = place.progress.since, place.progress.position
        names = [collection_of(name) for name, layout in self._tables().items() if layout.since <= at]
        names += [collection_of(self._options.watermark_table)] if self._options.watermark_table else []
        collections = frozenset(name for name in names if name in since)
        topics = {topic_in(self._options, name) for name in collections} | {self._options.transactions}
        return TopicOffsets(collections, {t: place.topics.get(t, "") for t in topics}, place.offsets(topics))

    def _reads(self, starts: TopicStarts) -> None:
        self._offsets.assign(starts.offsets)
        self._topics.update(starts.topics)
        self._cluster = starts.cluster

    async def _first_item(self) -> TopicStarts:
        assert self._feed is not None
        while True:
            self._arrived.clear()
            item = self._feed.take()
            if isinstance(item, TopicStarts):
                return item
            if isinstance(item, StreamLost):
                raise item
            assert item is None
            await self._arrived.wait()

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for transactions, notices, or a later position. Raises StreamLost."""
        if self._feed is None or self._assembler is None:
            raise StreamLost("The stream is closed.", retryable=True)
        assembler = self._assembler
        while True:
            self._arrived.clear()
            await self._follow(assembler)
            more = self._read(assembler, self._feed)
            transactions = await self._proven(assembler, max_rows)
            notices = assembler.take_notices()
            if transactions or notices or assembler.position > self._reported:
                self._reported = assembler.position
                return Batch(transactions, assembler.position, notices)
            self._check(assembler, self._feed)
            if more:
                await asyncio.sleep(0)
            else:
                await self._something()

    async def _something(self) -> None:
        """Wait for the feed, or until the next check for missing events."""
        try:
            async with asyncio.timeout(CHECK_S):
                await self._arrived.wait()
        except TimeoutError:
            pass

    async def _follow(self, assembler: DebeziumAssembler) -> None:
        layouts = self._tables()
        if self._proofs is not None:
            await self._proofs.follow(layouts)
        new, gone = assembler.follow(layouts)
        if new or gone:
            assert self._feed is not None
            self._feed.follow(assembler.followed)

    async def _proven(self, assembler: DebeziumAssembler, max_rows: int) -> list[CommittedTransaction]:
        """Return the next transactions, without rows whose identity is not proven."""
        self._taken = self._taken or assembler.take(max_rows)
        if self._proofs is not None:
            await self._proofs.require(self._taken)
        transactions, self._taken = self._taken, []
        return transactions

    def _read(self, assembler: DebeziumAssembler, feed: Feed) -> bool:
        """Decode a slice of records; return whether more may be ready."""
        assert self._reader is not None
        read, add, now = self._reader.read, assembler.add, time.monotonic()
        for _ in range(SLICE_RECORDS):
            if self._at >= len(self._records):
                if self._records:
                    self._offsets.end_chunk(self._records[-1])
                    self._records, self._at = [], 0
                item = feed.take()
                if not isinstance(item, list):
                    if item is None:
                        return False
                    self._other(item, assembler)
                    continue
                self._records, self._at = item, 0
                assembler.mark = self._offsets.begin_chunk()
            record = self._records[self._at]
            event = read(record.topic, record.partition, record.offset, record.key, record.value)
            self._at += 1
            if event is not None:
                add(event, record.offset, now)
        return True

    def _other(self, item: StreamLost | TopicStarts | TopicEnds, assembler: DebeziumAssembler) -> None:
        match item:
            case StreamLost():
                raise item
            case TopicStarts():
                self._reads(item)
                assembler.reading(item.collections, item.since, time.monotonic())
            case TopicEnds():
                self._asked_ends = False
                if not item.reached:
                    return
                gap = assembler.gap(time.monotonic(), self._options.gap_timeout_s)
                if gap is not None:
                    raise _gap_lost(gap.reason, gap.collection is None, self._options.gap_timeout_s)
                assembler.settle()
            case _:
                assert_never(item)

    def _check(self, assembler: DebeziumAssembler, feed: Feed) -> None:
        """Check whether the topics are read to their ends, if events are missing or a TRUNCATE waits."""
        now = time.monotonic()
        if self._asked_ends or now - self._checked_at < CHECK_S:
            return
        self._checked_at = now
        gap = assembler.gap(now, self._options.gap_timeout_s)
        if gap is not None or assembler.has_waiting_truncate:
            self._asked_ends = True
            feed.ask_ends(None if gap is None else gap.collection)

    def request_position(self) -> None:
        """Do nothing: the connector cannot be asked; the next END carries its position."""

    async def wait_followed(self) -> None:
        """Return at once: tables whose events are not read yet overflow."""

    def acknowledge(self, position: int) -> None:  # noqa: ARG002
        """Note whether there is a place, if one is wanted: Kafka keeps its log by its own settings."""
        if self._placed is not None and self.place is not None:
            self._placed.set()

    # ── The place ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def place(self) -> StreamPlace | None:
        """The place behind the last batch, if `mark_place` was called."""
        assembler, taken = self._assembler, bool(self._taken)
        progress = None if assembler is None or not self._log_mark else assembler.progress(taken)
        if assembler is None or progress is None or not 0 < progress.position == self._reported:
            return None
        mark = assembler.oldest_mark(taken, time.monotonic() - self._options.gap_timeout_s)
        topics = {topic_in(self._options, name) for name in progress.since} | {self._options.transactions}
        partitions = [
            self._partition(partition, offset)
            for partition, offset in self._offsets.before(mark).items()
            if partition[0] in topics
        ]
        whole = [each for each in partitions if each is not None]
        ids = {each.topic: self._topics.get(each.topic, "") for each in whole}
        if len(whole) < len(partitions) or not self._cluster or "" in ids.values():
            return None
        prefix, transactions = prefix_of(self._options), self._options.transactions
        proofs = [] if self._proofs is None else self._proofs.state()
        place = TopicPlace(prefix, transactions, self._cluster, ids, whole, self._log_mark, progress, proofs)
        # A commit is in PostgreSQL's log, and may be published, before snapshots see it.
        return StreamPlace(progress.position, place.text(), hidden=True)

    def _partition(self, name: Partition, offset: int) -> PartitionPlace | None:
        """Return a partition's place; None if its last record is not known."""
        last = self._offsets.last.get(name)
        if last is not None:
            return PartitionPlace(*name, offset, last.offset, digest_of(last))
        mark = self._marks.get(name, (-1, "") if offset == 0 else None)
        return None if mark is None else PartitionPlace(*name, offset, *mark)

    async def mark_place(self) -> None:
        """Identify the database's log and all topics, then wait until no transaction is delivered in part."""
        if self._source_log is None or self._assembler is None:
            return
        if incomplete := self._assembler.incomplete_tables:
            log.warning("the change stream has no place: columns of %s are unavailable", ", ".join(incomplete))
            return
        unread = {p: start for p, start in self._offsets.starts.items() if p not in self._offsets.last and start}
        try:
            records = await asyncio.to_thread(records_before, self._options, unread, self._make_consumer)
            self._marks = {p: (r.offset, digest_of(r)) for p, r in records.items()}
            self._marks |= dict.fromkeys(unread.keys() - records.keys(), (-1, ""))
            self._log_mark = await self._source_log.mark()
        except StreamLost as problem:
            log.warning("the place of the change stream could not be marked: %s", problem)
        self._placed = asyncio.Event()
        if self._log_mark and self.place is None:
            await self._placed.wait()

    def leave(self) -> None:
        """Do nothing: Kafka's settings decide how long it keeps its log."""

    def reconnect(self) -> None:
        """Do nothing: the connector decides which server it reads."""

    async def close(self) -> None:
        """End the thread and close its connections."""
        if self._feed is not None:
            feed, self._feed = self._feed, None
            feed.stop()
            await asyncio.to_thread(feed.join)


def _gap_lost(reason: str, no_end: bool, timeout_s: float) -> StreamLost:
    hint = (
        "Set provide.transaction.metadata=true in the connector's configuration, and check cdc.kafka.transaction_topic."
        if no_end
        else "Look for transforms that drop events, cleanup.policy=compact, and retention shorter than the lag."
    )
    return StreamLost(f"Events are missing: {reason} after {timeout_s:g} s.", retryable=True, hint=hint)


def _notify(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # The loop is closed.
        loop.call_soon_threadsafe(arrived.set)
