"""Records of the connector's topics, read by one thread. kafka-python blocks; the event loop must not.

Partitions are assigned by hand and read from the offsets that were their ends when reading began: no group, nothing
committed. A topic that did not exist then is read from its beginning.

*Invariants*: what the thread says comes in one queue, in order, and the queue is bounded: if nobody takes, nobody
reads. The end of the transaction topic is read after those of the tables: the events of a transaction whose BEGIN is
behind it are behind those, too. After an error nothing more is read.

Not here: what records mean (`envelope`, `assembler`), the event loop's side (`stream`).
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, RetriableError

from cdc.change import StreamLost
from cdc.debezium.broker import consumer_settings, lost
from cdc.debezium.names import topic_of
from cdc.debezium.options import DebeziumOptions

#: How long one poll waits: how late a wish is heard at most.
POLL_MS = 50
#: Records and bytes that wait to be taken.
MAX_RECORDS, MAX_BYTES = 20_000, 1 << 26
_CHUNK_RECORDS = 2000
#: Between two looks for topics and partitions that were not there.
LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class TopicStarts:
    """All events of `collections` are read from here on that belong to transactions that begin at `since` or behind."""

    collections: tuple[str, ...]
    since: int


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """An answer: whether the topics asked about had been read to the ends that they had after the question."""

    reached: bool


#: Records of kafka-python, in the order of each partition.
Records = list[Any]
Item = Records | TopicStarts | TopicEnds | StreamLost


class Feed:
    """The thread and its queue. `notify` is called from the thread whenever there is something to take."""

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
        #: Guarded by the lock: what waits to be taken, its size, what is wished for, whether to stop.
        self._items: deque[tuple[Item, int, int]] = deque()
        self._records = 0
        self._bytes = 0
        self._wishes: deque[Callable[[], None]] = deque()
        self._stopping = False
        #: Of the thread alone: collections followed, topics that do not exist yet, identities of those that do.
        self._followed: dict[str, None] = {}
        self._absent: set[str] = set()
        self._identities: dict[str, Any] = {}
        self._looked_at = 0.0
        self._thread = threading.Thread(target=self._run, name="upquery kafka", daemon=True)

    # ── From outside ─────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, collections: Iterable[str]) -> None:
        """Connect and begin to read, `Reading` these; both in the thread."""
        wanted = list(collections)
        self._wishes.append(lambda: self._begin(wanted))
        self._thread.start()

    def follow(self, collections: Iterable[str]) -> None:
        """Read exactly these from now on; `Reading` says when those that are new are."""
        wanted = list(collections)
        self._wish(lambda: self._follow(wanted))

    def ask_ends(self, collection: str | None) -> None:
        """Ask whether the table's topic (None: all) and the transactions' have been read to their ends; see `Ends`."""
        self._wish(lambda: self._check_ends(collection))

    def take(self) -> Item | None:
        """What is next in the queue, if anything."""
        with self._lock:
            if not self._items:
                return None
            item, records, size = self._items.popleft()
            self._records -= records
            self._bytes -= size
            self._lock.notify()
            return item

    def stop(self) -> None:
        """Ask the thread to end."""
        with self._lock:
            self._stopping = True
            self._lock.notify()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread.is_alive():
            self._thread.join()

    def _wish(self, wish: Callable[[], None]) -> None:
        with self._lock:
            self._wishes.append(wish)
            self._lock.notify()

    # ── The thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        try:
            self._consumer = self._make_consumer(**consumer_settings(self._options))
            while self._room():
                while self._wishes:
                    self._wishes.popleft()()
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
        """Wait until there is room in the queue. Wishes are heard meanwhile. False: stop."""
        with self._lock:
            while not self._stopping and (self._records >= MAX_RECORDS or self._bytes >= MAX_BYTES):
                if self._wishes:
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
        return self._options.routed_topic or topic_of(self._options.topic_prefix, collection)

    def _begin(self, collections: list[str]) -> None:
        there = self._topics()
        if self._options.transactions not in there and not any(
            topic == self._options.topic_prefix or topic.startswith(f"{self._options.topic_prefix}.") for topic in there
        ):
            raise StreamLost(
                f"Kafka has no topic {self._options.transactions}, nor others of the prefix "
                f"{self._options.topic_prefix!r}.",
                retryable=True,
                hint="Check cdc.kafka.topic_prefix, and that the connector runs.",
            )
        self._follow(collections, there)

    def _topics(self) -> set[str]:
        """All topics there are. Looks at the cluster anew."""
        self._looked_at = time.monotonic()
        topics: set[str] = set(self._consumer.topics())
        return topics

    def _follow(self, collections: list[str], there: set[str] | None = None) -> None:
        new = tuple(c for c in collections if c not in self._followed)
        self._followed = dict.fromkeys(collections)
        wanted = {self._topic(c) for c in collections}
        transactions = self._options.transactions
        assigned = {tp.topic for tp in self._consumer.assignment()}
        there = self._topics() if there is None else there
        self._absent = {t for t in wanted if t not in assigned and t not in there} - {transactions}
        fresh = {t for t in wanted if t not in assigned and t in there and t != transactions}
        starts = self._ends(fresh)
        # Last: see the module's invariants.
        if transactions in assigned:
            (tp,) = self._partitions(transactions)
            since = self._ends({transactions})[tp] if transactions not in wanted else self._consumer.position(tp)
        elif transactions in there:
            self._require_one_partition(transactions)
            ((tp, since),) = self._ends({transactions}).items()
            starts[tp] = since
        else:
            self._absent.add(transactions)
            since = 0
        self._assign(starts, wanted | {transactions})
        self._check_identities((wanted | {transactions}) - self._absent)
        self._put(TopicStarts(new, since))

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
                f"The topic {topic} has {count} partitions, so that transactions are in no order.",
                retryable=False,
                hint="Make it anew with one partition (topic.creation.default.partitions=1, or by hand).",
            )

    def _assign(self, starts: dict[TopicPartition, int], wanted: set[str]) -> None:
        """Read these partitions from there on, beside those of `wanted` topics that are read already."""
        kept = [tp for tp in self._consumer.assignment() if tp.topic in wanted]
        self._consumer.assign(kept + [tp for tp in starts if tp not in kept])
        for tp, offset in starts.items():
            self._consumer.seek(tp, offset)

    def _look(self, every_s: float) -> None:
        """For topics that were absent, partitions that are new, and topics that were made anew."""
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
        # They were made after reading began: all that is in them is new.
        new = {tp: 0 for topic in topics | found for tp in self._partitions(topic) if tp not in assigned}
        if new:
            if self._options.transactions in topics & {tp.topic for tp in new}:
                self._require_one_partition(self._options.transactions)
            self._assign(new, topics | found)
        self._check_identities(topics | found)

    def _check_identities(self, topics: Iterable[str]) -> None:
        """Raises StreamLost if a topic is another one of the same name."""
        cluster = getattr(self._consumer, "_cluster", None)
        for topic in topics:
            identity = None if cluster is None else cluster.topic_id(topic)
            if identity is not None and self._identities.setdefault(topic, identity) != identity:
                raise StreamLost(f"The topic {topic} was deleted and made anew.", retryable=True)

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
