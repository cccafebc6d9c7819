"""Thread that reads the connector's topics, since kafka-python blocks.

Partitions are assigned explicitly and read from their ends at the start, or from given offsets: without a consumer
group or committed offsets. A topic that did not exist then is read from its beginning.

*Invariants*: the thread's results are in one bounded queue, in order; it does not read while the queue is full. The end
of the transaction topic is read after those of the tables' topics: if a transaction's BEGIN is after the former, its
events are after the latter. After an error nothing more is read.

Not here: the content of records (`envelope`, `assembler`), the event loop's side (`stream`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, RetriableError

from cdc.change import StreamLost
from cdc.debezium.broker import consumer_settings, lost
from cdc.debezium.names import topic_of
from cdc.debezium.options import DebeziumOptions
from cdc.debezium.read_offsets import Partition

#: Maximum wait of one poll, and so delay of a request.
POLL_MS = 50
#: Maximum number of records and bytes in the queue.
MAX_RECORDS, MAX_BYTES = 20_000, 1 << 26
_CHUNK_RECORDS = 2000
#: Interval of checks for new topics and partitions.
LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class TopicStarts:
    """From here on all events of `collections` are read for transactions whose BEGIN is at offset `since` or later."""

    collections: tuple[str, ...]
    since: int
    #: Partitions that are read from now on, with their first offsets.
    offsets: Mapping[Partition, int]
    #: Ids of the cluster, and of all topics that are read; those of old brokers have none.
    cluster: str
    topics: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """Offsets at which topics are continued. A topic without any was absent: it is read from its beginning."""

    #: Tables that are continued.
    collections: frozenset[str]
    #: The topics of these and the transaction topic, with their ids, "" if they were absent.
    topics: Mapping[str, str]
    offsets: Mapping[Partition, int]

    def of(self, partition: TopicPartition) -> int:
        """Return the offset from which on a partition is read."""
        return self.offsets.get((partition.topic, partition.partition), 0)


#: Every topic begins at its end.
_NONE = TopicOffsets(frozenset(), {}, {})


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """Answer to `ask_ends`: whether the topics have been read to the ends that they had after the request."""

    reached: bool


#: Records of kafka-python, in the order of each partition.
Records = list[Any]
Item = Records | TopicStarts | TopicEnds | StreamLost


class Feed:
    """The thread and its queue. The thread calls `notify` after each addition to the queue."""

    def __init__(
        self,
        options: DebeziumOptions,
        notify: Callable[[], None],
        make_consumer: Callable[..., Any] = KafkaConsumer,
    ) -> None:
        self._options = options
        self._notify = notify
        self._make_consumer = make_consumer
        self._consumer: Any = None
        self._lock = threading.Condition()
        #: Guarded by the lock: the queue with sizes, its size, requests, whether to stop.
        self._items: deque[tuple[Item, int, int]] = deque()
        self._records = 0
        self._bytes = 0
        self._requests: deque[Callable[[], None]] = deque()
        self._stopping = False
        #: Used by the thread only: followed collections, topics that do not exist yet, identities of topics.
        self._followed: dict[str, None] = {}
        self._absent: set[str] = set()
        self._identities: dict[str, str] = {}
        self._looked_at = 0.0
        self._thread = threading.Thread(target=self._run, name="upquery kafka", daemon=True)

    # ── Interface ────────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, collections: Iterable[str], continued: TopicOffsets = _NONE) -> None:
        """Connect and begin to read these collections, in the thread; adds `TopicStarts` for those that are not
        continued."""
        wanted = list(collections)
        self._identities.update({topic: identity for topic, identity in continued.topics.items() if identity})
        self._requests.append(lambda: self._begin(wanted, continued))
        self._thread.start()

    def follow(self, collections: Iterable[str]) -> None:
        """Read exactly these collections; adds `TopicStarts` for new ones."""
        wanted = list(collections)
        self._request(lambda: self._follow(wanted))

    def ask_ends(self, collection: str | None) -> None:
        """Check whether a table's topic (None: all) and the transaction topic are read to their ends (`TopicEnds`)."""
        self._request(lambda: self._check_ends(collection))

    def take(self) -> Item | None:
        """Remove and return the first item of the queue, if there is one."""
        with self._lock:
            if not self._items:
                return None
            item, records, size = self._items.popleft()
            self._records -= records
            self._bytes -= size
            self._lock.notify()
            return item

    def stop(self) -> None:
        """Request the thread to end."""
        with self._lock:
            self._stopping = True
            self._lock.notify()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread.is_alive():
            self._thread.join()

    def _request(self, request: Callable[[], None]) -> None:
        with self._lock:
            self._requests.append(request)
            self._lock.notify()

    # ── The thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            self._consumer = self._make_consumer(**consumer_settings(self._options))
            while self._room():
                while self._requests:
                    self._requests.popleft()()
                self._poll()
                self._look(LOOK_S)
        except StreamLost as problem:
            self._put(problem)
        except Exception as problem:
            self._put(lost(problem, self._options))
        finally:
            if self._consumer is not None:
                self._consumer.close()

    def _room(self) -> bool:
        """Wait until the queue has room, or a request arrives; return False after `stop`."""
        with self._lock:
            while not self._stopping and (self._records >= MAX_RECORDS or self._bytes >= MAX_BYTES):
                if self._requests:
                    break
                self._lock.wait()
            return not self._stopping

    def _put(self, item: Item, records: int = 0, size: int = 0) -> None:
        with self._lock:
            self._items.append((item, records, size))
            self._records += records
            self._bytes += size
        self._notify()

    def _poll(self) -> None:
        if self._records >= MAX_RECORDS or self._bytes >= MAX_BYTES:
            return
        if not self._consumer.assignment():
            time.sleep(POLL_MS / 1000)
            return
        for records in self._consumer.poll(timeout_ms=POLL_MS, max_records=_CHUNK_RECORDS).values():
            self._put(records, len(records), sum([len(r.value) if r.value else 0 for r in records]))

    # ── Topics ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _topic(self, collection: str) -> str:
        return topic_in(self._options, collection)

    def _begin(self, collections: list[str], continued: TopicOffsets) -> None:
        there = self._topics()
        if self._options.transactions not in there and not any(
            topic == self._options.topic_prefix or topic.startswith(f"{self._options.topic_prefix}.") for topic in there
        ):
            raise StreamLost(
                f"Kafka has neither the topic {self._options.transactions} nor others with the prefix "
                f"{self._options.topic_prefix!r}.",
                retryable=True,
                hint="Check cdc.kafka.topic_prefix, and that the connector runs.",
            )
        self._follow(collections, there, continued)

    def _topics(self) -> set[str]:
        """Read the names of all topics from the cluster."""
        self._looked_at = time.monotonic()
        topics: set[str] = set(self._consumer.topics())
        return topics

    def _follow(self, collections: list[str], there: set[str] | None = None, continued: TopicOffsets = _NONE) -> None:
        new = tuple(c for c in collections if c not in self._followed and c not in continued.collections)
        self._followed = dict.fromkeys(collections)
        wanted = {self._topic(c) for c in collections}
        transactions = self._options.transactions
        assigned = {tp.topic for tp in self._consumer.assignment()}
        there = self._topics() if there is None else there
        self._absent = {t for t in wanted if t not in assigned and t not in there} - {transactions}
        fresh = {t for t in wanted if t not in assigned and t in there and t != transactions}
        starts = self._ends(fresh - continued.topics.keys())
        starts |= {tp: continued.of(tp) for topic in fresh & continued.topics.keys() for tp in self._partitions(topic)}
        # Last, as required by the module's invariants.
        if transactions in assigned:
            (tp,) = self._partitions(transactions)
            since = self._ends({transactions})[tp] if transactions not in wanted else self._consumer.position(tp)
        elif transactions in there:
            self._require_one_partition(transactions)
            ((tp, since),) = self._ends({transactions}).items()
            starts[tp] = continued.of(tp) if transactions in continued.topics else since
        else:
            self._absent.add(transactions)
            since = 0
        self._assign(starts, wanted | {transactions})
        self._check_identities((wanted | {transactions}) - self._absent)
        self._put_starts(starts, new, since)

    def _put_starts(self, starts: dict[TopicPartition, int], collections: tuple[str, ...] = (), since: int = 0) -> None:
        offsets = {(tp.topic, tp.partition): offset for tp, offset in starts.items()}
        self._put(TopicStarts(collections, since, offsets, self._consumer._cluster.cluster_id, dict(self._identities)))

    def _partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, p) for p in sorted(self._consumer.partitions_for_topic(topic))]

    def _ends(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        partitions = [tp for topic in topics for tp in self._partitions(topic)]
        ends: dict[TopicPartition, int] = self._consumer.end_offsets(partitions) if partitions else {}
        return ends

    def _require_one_partition(self, topic: str) -> None:
        count = len(self._partitions(topic))
        if count != 1:
            raise StreamLost(
                f"The topic {topic} has {count} partitions, so transactions are not ordered.",
                retryable=False,
                hint="Create it again with one partition (topic.creation.default.partitions=1, or manually).",
            )

    def _assign(self, starts: dict[TopicPartition, int], wanted: set[str]) -> None:
        """Assign these partitions at their offsets, and keep the assigned ones of `wanted` topics."""
        kept = [tp for tp in self._consumer.assignment() if tp.topic in wanted]
        self._consumer.assign(kept + [tp for tp in starts if tp not in kept])
        for tp, offset in starts.items():
            self._consumer.seek(tp, offset)

    def _look(self, every_s: float) -> None:
        """Check for topics that were absent, new partitions, and topics that were created again."""
        if time.monotonic() - self._looked_at < every_s:
            return
        self._looked_at = time.monotonic()
        if self._absent:
            try:
                there = self._topics()
            except RetriableError:
                return
            found = self._absent & there
            if self._options.transactions in found:
                self._require_one_partition(self._options.transactions)
            self._absent -= found
        else:
            found = set()
        assigned = self._consumer.assignment()
        topics = {tp.topic for tp in assigned}
        # Created after reading began: all their records are new.
        new = {tp: 0 for topic in topics | found for tp in self._partitions(topic) if tp not in assigned}
        if new:
            if self._options.transactions in topics & {tp.topic for tp in new}:
                self._require_one_partition(self._options.transactions)
            self._assign(new, topics | found)
        self._check_identities(topics | found)
        if new:
            self._put_starts(new)

    def _check_identities(self, topics: Iterable[str]) -> None:
        """Raise StreamLost if a topic was replaced by another one of the same name."""
        for topic in topics:
            identity = self._consumer._cluster.topic_id(topic)
            if identity is not None and self._identities.setdefault(topic, str(identity)) != str(identity):
                raise StreamLost(f"The topic {topic} was deleted and created again.", retryable=True)

    def _check_ends(self, collection: str | None) -> None:
        topics = {self._options.transactions}
        topics |= {self._topic(c) for c in (self._followed if collection is None else [collection])}
        self._look(0.0)
        assigned = [tp for tp in self._consumer.assignment() if tp.topic in topics]
        try:
            ends = self._consumer.end_offsets(assigned)
        except KafkaError:
            self._put(TopicEnds(reached=False))
            return
        self._put(TopicEnds(all(self._consumer.position(tp) >= ends[tp] for tp in assigned)))


def topic_in(options: DebeziumOptions, collection: str) -> str:
    """Return the topic of a collection by the settings."""
    return options.routed_topic or topic_of(options.topic_prefix, collection)
