"""The source over a look-alike: starting, following, and what ends a stream."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from kafka import TopicPartition

from cdc.change import CommittedTransaction, StreamLost, TableChange, TableLayout
from cdc.debezium.identity_proofs import Identities, ReplicaIdentity
from cdc.debezium.options import DebeziumOptions
from cdc.debezium.stream import DebeziumStream
from cdc.postgres.position import PostgresSnapshot
from cdc.stream import StreamStart
from tests.cdc.debezium.look_alike import Cluster
from tests.cdc.debezium.publisher import Change, Committed, Publisher, Record, layout

OPTIONS = DebeziumOptions("127.0.0.1:1", "x", gap_timeout_s=0.01)
X, Y = ("1", "x"), ("2", "y")
A, B = Change("a", None, X), Change("b", None, Y)
LAYOUT = layout("postgres")


class Begun(DebeziumStream):
    """A stream that remembers how it began."""

    begun: StreamStart


class Log:
    """The database's log."""

    def __init__(self) -> None:
        self.server = "only"

    async def mark(self) -> str:
        return self.server

    async def refusal(self, mark: str, position: int) -> str:
        assert position
        return "" if mark == self.server else f"The server is {self.server}."


class World:
    """A cluster that a connector publishes to, and who follows which tables."""

    def __init__(self, **topics: int) -> None:
        self.cluster = Cluster(**{name.replace("__", "."): count for name, count in topics.items()})
        self.publisher = Publisher("postgres", routed=False)
        self.tables: dict[str, TableLayout] = {"s.a": LAYOUT}
        self.count = 0
        self.log = Log()
        #: Mark of the tables' replica identities, and how often the catalog may be read: as often as the tests want.
        self.mark = "full"
        self.reads: asyncio.Queue[None] = asyncio.Queue()
        self.allow(100)

    def allow(self, reads: int) -> None:
        """Let the catalog be read so many more times, and no more."""
        while not self.reads.empty():
            self.reads.get_nowait()
        for _ in range(reads):
            self.reads.put_nowait(None)

    def commit(self, *changes: Change, without: str = "") -> None:
        """A transaction happens and is published."""
        before = len(self.publisher.records)
        self.publisher.publish([Committed(self.count, 700 + self.count, changes)], [])
        self.count += 1
        for r in self.publisher.records[before:]:
            if r.topic != without:
                self.write(r)

    def write(self, r: Record) -> None:
        """Publish, in a topic that is made when it is needed."""
        if r.topic not in self.cluster.identities:
            self.cluster.create(r.topic)
        self.cluster.write(r.topic, r.partition, r.key, r.value)

    async def snapshot(self) -> PostgresSnapshot:
        return PostgresSnapshot(700, 700 + self.count, horizon=700 + self.count)

    async def identities(self, tables: Sequence[int]) -> Identities:
        """The catalog now."""
        await self.reads.get()
        return Identities(await self.snapshot(), {table: ReplicaIdentity(self.mark, frozenset()) for table in tables})

    @asynccontextmanager
    async def source(self, options: DebeziumOptions = OPTIONS, place: str = "") -> AsyncIterator[Begun]:
        made = Begun(
            options,
            lambda: self.tables,
            self.snapshot,
            1_000,
            make_consumer=self.cluster.consumer,
            read_identities=self.identities,
            source_log=self.log,
        )
        try:
            made.begun = await (made.start_at(place) if place else made.start())
            yield made
        finally:
            await made.close()


async def transactions(source: DebeziumStream, count: int) -> list[CommittedTransaction]:
    """The next ones."""
    found: list[CommittedTransaction] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            found += (await source.next_batch()).transactions
    return found


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


async def lost(source: DebeziumStream) -> StreamLost:
    """Return the error that ends the stream."""
    async with asyncio.timeout(10):
        while True:
            try:
                await source.next_batch()
            except StreamLost as problem:
                return problem


def test_reading_begins_at_the_ends() -> None:
    """Earlier records are seen by the snapshot; later ones are delivered, and move the position."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=2)
        world.commit(A)
        async with world.source() as source:
            world.commit(A)
            world.commit(B)
            batches = []
            while not batches or batches[-1].position < 3999:
                batches.append(await asyncio.wait_for(source.next_batch(), 10))
            (only,) = [t for batch in batches for t in batch.transactions]
            assert (only.id, only.tables) == (701, {"s.a": TableChange([], [X])})

    run(scenario)


def test_topics_that_do_not_exist_yet() -> None:
    """The first change of a table makes its topic; so does the first transaction."""

    async def scenario() -> None:
        world = World(x__other=1)
        async with world.source(replace(OPTIONS, gap_timeout_s=30)) as source:
            world.commit(A)
            (only,) = await transactions(source, 1)
            assert only.tables == {"s.a": TableChange([], [X])}

    run(scenario)


def test_a_table_followed_later() -> None:
    """The table is exact from the first transaction whose BEGIN follows the start of reading."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1, x__s__b=1)
        async with world.source() as source:
            world.commit(A)
            await transactions(source, 1)
            world.tables = {"s.a": LAYOUT, "s.b": LAYOUT}
            told: list[CommittedTransaction] = []
            while not any(not t.tables["s.b"].overflow for t in told):
                world.commit(B)
                told += await transactions(source, 1)
            assert all(t.tables["s.b"].overflow for t in told[:-1])
            assert told[-1].tables == {"s.b": TableChange([], [Y])}

    run(scenario)


def test_one_topic_for_everything() -> None:
    """Routed: rows of other tables go by."""

    async def scenario() -> None:
        world = World(x__all=1)
        world.publisher.routed = True
        async with world.source(replace(OPTIONS, routed_topic="x.all")) as source:
            world.commit(A, B)
            (only,) = await transactions(source, 1)
            assert only.tables == {"s.a": TableChange([], [X])}

    run(scenario)


def test_events_that_never_come() -> None:
    """A gap: the transaction and the table are named, and what to look for."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1)
        async with world.source() as source:
            world.commit(A, without="x.s.a")
            problem = await lost(source)
            assert "1 of 1 events of s.a in transaction 700" in problem.reason
            assert problem.retryable
            assert "cleanup.policy" in (problem.hint or "")

    run(scenario)


def test_transactions_without_end() -> None:
    """Or without a topic of transactions: what to set."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1)
        async with world.source() as source:
            world.commit(A, without="x.transaction")
            problem = await lost(source)
            assert "has no END" in problem.reason
            assert "provide.transaction.metadata=true" in (problem.hint or "")

    run(scenario)


def test_no_topics_at_all() -> None:
    """A prefix that nothing has is an error at the start, not an idle stream."""

    async def scenario() -> None:
        world = World(other=1)
        with pytest.raises(StreamLost, match=r"neither the topic x\.transaction nor others with the prefix 'x'"):
            async with world.source():
                pass

    run(scenario)


def test_a_transaction_topic_of_several_partitions() -> None:
    """Transactions in several partitions are not ordered."""

    async def scenario() -> None:
        world = World(x__transaction=2, x__s__a=1)
        with pytest.raises(StreamLost, match="has 2 partitions") as problem:
            async with world.source():
                pass
        assert not problem.value.retryable

    run(scenario)


def test_removed_records() -> None:
    """Retention was shorter than the lag, or the topic is another one."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1)
        async with world.source() as source:
            world.commit(A)
            await transactions(source, 1)
            world.cluster.cut_off("x.s.a", 100)
            problem = await lost(source)
            assert "records were removed before they were read" in problem.reason.lower()

    run(scenario)


def test_a_topic_created_again() -> None:
    """A topic that was created again is another one, even with the same length."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1)
        async with world.source() as source:
            world.commit(A)
            await transactions(source, 1)
            world.cluster.identities["x.s.a"] += 1
            problem = await lost(source)
            assert problem.reason == "The topic x.s.a was deleted and created again."

    run(scenario)


def test_poison_ends_the_stream_where_it_is() -> None:
    """Earlier transactions are returned first."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1)
        async with world.source() as source:
            world.cluster.write("x.s.a", 0, None, b"\0poison")
            problem = await lost(source)
            assert "topic x.s.a, partition 0, offset 0" in problem.reason
            assert problem.retryable

    run(scenario)


def test_a_new_partition() -> None:
    """Its records are read from its beginning."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1)
        async with world.source(replace(OPTIONS, gap_timeout_s=30)) as source:
            world.commit(A)
            await transactions(source, 1)
            world.publisher.partitions = 2
            world.cluster.logs |= Cluster(**{"x.s.a": 2}).logs | world.cluster.logs
            world.commit(A)
            (told,) = await transactions(source, 1)
            assert told.tables == {"s.a": TableChange([], [X])}

    run(scenario)


def test_rows_of_an_identity_that_is_not_proven() -> None:
    """They are dropped; a batch that is cancelled while the catalog is read is delivered by the next call."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=2)
        async with world.source() as source:
            world.commit(Change("a", X, Y))
            (proven,) = await transactions(source, 1)
            assert proven.tables == {"s.a": TableChange([X], [Y])}
            world.mark = "altered and altered back"
            world.commit(Change("a", X, Y))
            world.commit(A)
            doubted, new = await transactions(source, 2)
            assert doubted.tables == {"s.a": TableChange(overflow=True)}
            assert new.tables == {"s.a": TableChange([], [X])}
            world.allow(0)
            world.commit(Change("a", Y, X))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(source.next_batch(), 0.2)
            world.allow(100)
            (late,) = await transactions(source, 1)
            assert late.tables == {"s.a": TableChange([Y], [X])}

    run(scenario)


async def place_of(source: DebeziumStream) -> str:
    """The place behind the last batch."""
    async with asyncio.timeout(10):
        await source.mark_place()
    assert source.place is not None
    return source.place.text


def test_a_place_between_transactions() -> None:
    """A stream continues behind what another one delivered, also if events that it read were of a later transaction;
    tables without a topic, and those that are followed anew, are exact from their first transaction on."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=2, x__s__b=1)
        world.commit(A)
        world.tables = {"s.a": LAYOUT, "s.late": LAYOUT}
        async with world.source() as source:
            world.commit(A)
            world.commit(Change("a", X, Y))
            assert len(await transactions(source, 2)) == 2
            first = await place_of(source)
            world.commit(A, A, without="x.transaction")
        world.count -= 1
        world.commit(A, A)
        world.commit(Change("late", None, X))
        world.commit(B)
        for _ in range(2):
            async with world.source(place=first) as source:
                assert source.begun.continued
                found = await transactions(source, 2)
                assert [(t.id, t.tables) for t in found] == [
                    (703, {"s.a": TableChange([], [X, X])}),
                    (704, {"s.late": TableChange([], [X])}),
                ]
        world.tables["s.b"] = LAYOUT
        async with world.source(place=first) as source:
            *_, late = await transactions(source, 3)
            assert late.tables == {"s.b": TableChange(overflow=True)}
            world.commit(B)
            (exact,) = await transactions(source, 1)
            assert exact.tables == {"s.b": TableChange([], [Y])}

    run(scenario)


def test_a_place_before_a_transaction_whose_proof_is_pending() -> None:
    """A transaction that was taken, and not delivered, is in the next stream, proven by the marks of before."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=2)
        async with world.source() as source:
            world.commit(A)
            await transactions(source, 1)
            await place_of(source)
            world.allow(0)
            world.commit(Change("a", X, Y))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(source.next_batch(), 0.2)
            world.allow(100)
            place = await place_of(source)
        async with world.source(place=place) as source:
            (pending,) = await transactions(source, 1)
            assert pending.tables == {"s.a": TableChange([X], [Y])}

    run(scenario)


def remove(world: World) -> None:
    world.cluster.cut_off("x.s.a", 3)


def replace_record(world: World) -> None:
    log = world.cluster.logs[TopicPartition("x.transaction", 0)]
    log[-1] = log[-1]._replace(timestamp=1)


def shorten(world: World) -> None:
    del world.cluster.logs[TopicPartition("x.transaction", 0)][-1]


def create_again(world: World) -> None:
    world.cluster.identities["x.s.a"] += 1


def move(world: World) -> None:
    world.cluster.cluster_id = "another"


def replace_database(world: World) -> None:
    world.log.server = "another"


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (remove, "were removed that have not been read"),
        (replace_record, "is another one than before"),
        (shorten, "that had been read are gone"),
        (create_again, "x.s.a was deleted and created again"),
        (move, "in the Kafka cluster another: they were in look-alike"),
        (replace_database, "The server is another"),
    ],
)
def test_places_that_are_refused(happens: Callable[[World], None], why: str) -> None:
    """The stream begins anew, at the topics' ends, and says why."""

    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1)
        async with world.source() as source:
            world.commit(A)
            await transactions(source, 1)
            place = await place_of(source)
        happens(world)
        async with world.source(place=place) as source:
            assert not source.begun.continued
            assert why in source.begun.refusal

    run(scenario)


def test_other_settings_name_other_topics() -> None:
    async def scenario() -> None:
        world = World(x__transaction=1, x__s__a=1, y__transaction=1)
        async with world.source() as source:
            world.commit(A)
            await transactions(source, 1)
            place = await place_of(source)
        async with world.source(replace(OPTIONS, topic_prefix="y"), place) as source:
            assert "The settings name other topics" in source.begun.refusal

    run(scenario)
