"""A hub that shares one stream with many receivers."""

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from cdc.change import Batch, CommittedTransaction, SchemaNotice, StreamLost, TableChange, TableLayout
from cdc.fanout.frames import FollowReply, FollowRequest, JoinReply, frame_of
from cdc.fanout.receiver import AHEAD_BYTES, Receiver
from cdc.gtid import GtidPosition
from cdc.postgres.position import PostgresSnapshot
from tests.cdc.fanout.site import A, B, Engine, Site, batches, ends, hub, met, run, until_lost


def test_a_receiver_gets_its_tables_from_its_position() -> None:
    async def scenario() -> None:
        async with hub() as site:
            one, two = Engine(site, a=A, b=B), Engine(site, b=B)
            started = await one.start()
            assert (started.position, started.server) == (100, "server 1")
            # Lookups must see transactions that had begun when it joined.
            assert started.snapshot == PostgresSnapshot(12, 12)
            site.bring(110, "a", "b")
            batch = await one.until(110)
            assert (ends(batch, "a"), ends(batch, "b"), batch.passed) == ([110], [110], [110])
            late = await two.start()
            assert late.position == 110
            assert late.gtids == GtidPosition.parse("0-1-5").extended([110])
            site.bring(120, "a")
            site.bring(130, "a", "b")
            first, second = await one.until(130), await two.until(130)
            assert (ends(first, "a"), ends(first, "b")) == ([120, 130], [130])
            assert (ends(second, "a"), ends(second, "b")) == ([], [130])
            assert len(site.streams) == 1

    run(scenario)


def test_layouts_given_to_a_stream_do_not_change() -> None:
    """The stream may compare layouts by identity, and begin to read new ones."""

    async def scenario() -> None:
        async with hub() as site:
            await Engine(site, a=A).start()
            await Engine(site, b=B).start()
            assert site.stream.given == {"a": A}
            await met(lambda: site.stream.tables() == {"a": A, "b": B})

    run(scenario)


def test_memory_of_a_stalled_receiver_is_bounded() -> None:
    async def scenario() -> None:
        async with hub() as site:
            engine = Engine(site, a=A)
            await engine.start()
            last = 110 + 4 * AHEAD_BYTES // (1 << 20)
            for end in range(111, last + 1):
                site.bring(end, "a", size=1 << 20)
            transport = engine.source._transport
            assert transport is not None
            await met(lambda: not transport.is_reading())
            assert len(engine.source._received) < 10
            assert len(ends(await engine.until(last), "a")) == last - 110

    run(scenario)


def test_received_batches_are_joined_up_to_a_number_of_rows() -> None:
    async def scenario() -> None:
        async with hub() as site:
            engine = Engine(site, a=A)
            await engine.start()
            for end in range(110, 160, 10):
                # One by one: the hub joins what it reads together.
                site.bring(end, "a", rows=4)
                await met(lambda end=end: any(end == batch.position for batch in batches(engine)))
            assert ends(await engine.source.next_batch(8), "a") == [110, 120]
            assert ends(await engine.source.next_batch(9), "a") == [130, 140, 150]

    run(scenario)


def test_a_table_that_is_followed_later_is_delivered_from_then_on() -> None:
    async def scenario() -> None:
        async with hub() as site:
            one, two = Engine(site, a=A), Engine(site, b=B)
            await one.start()
            await two.start()
            site.bring(110, "b")
            one.layouts["b"] = B
            following = asyncio.ensure_future(one.source.wait_followed())
            batch = await one.until(110)
            assert ends(batch, "b") == []
            while not following.done():
                site.bring(120, "b")
                batch = await one.source.next_batch()
            site.bring(130, "b")
            assert 130 in ends(await one.until(130), "b")
            del one.layouts["b"]
            site.bring(140, "a")
            await one.until(140)
            site.bring(150, "b")
            site.bring(160, "a")
            assert ends(await one.until(160), "b") == []

    run(scenario)


def test_a_replaced_table_is_followed_anew_by_all() -> None:
    async def scenario() -> None:
        async with hub() as site:
            one, two = Engine(site, a=A), Engine(site, a=A)
            await one.start()
            await two.start()
            altered = TableLayout(("id", "new"), 1, since=105)
            two.layouts["a"] = altered
            following = asyncio.ensure_future(two.source.wait_followed())
            while not following.done():
                await asyncio.wait(
                    {following, asyncio.ensure_future(two.source.next_batch())}, return_when="FIRST_COMPLETED"
                )
            batch = await one.source.next_batch()
            while not batch.schema:
                batch = await one.source.next_batch()
            assert [(n.table, n.columns) for n in batch.schema] == [("a", ())]
            site.bring(110, "a")
            assert ends(await one.until(110), "a") == []
            # The decoder saw that it had gone, then the new one.
            assert site.stream.looked == {"a": altered}
            assert site.stream.asked >= 1
            one.layouts["a"] = replace(altered, since=112)
            following = asyncio.ensure_future(one.source.wait_followed())
            while not following.done():
                site.stream.coming.put_nowait(Batch([], 115))
                await one.source.next_batch()
            site.bring(120, "a")
            assert 120 in ends(await one.until(120), "a")
            assert site.stream.looked["a"].since == 105

    run(scenario)


def test_joining_waits_until_tables_are_followed() -> None:
    """Else its snapshot would miss what is committed until then."""

    async def scenario() -> None:
        async with hub() as site:
            one, two = Engine(site, a=A), Engine(site, a=replace(A, columns=("id", "new"), since=105))
            await one.start()
            site.stream.answers = False
            starting = asyncio.ensure_future(two.start())
            await met(lambda: site.stream.asked)
            # The decoder has not seen the displacement: no receiver gets this.
            site.bring(110, "a")
            assert (await starting).position == 110
            site.bring(120, "a")
            assert ends(await two.until(120), "a") == [120]

    run(scenario)


def test_rows_of_another_layout_overflow_in_the_stream() -> None:
    async def scenario() -> None:
        async with hub() as site:
            one, two = Engine(site, a=A), Engine(site, a=replace(A, columns=("id", "new"), since=105))
            await one.start()
            await two.start()
            begun = TableChange([], [("1",)], layout=A)
            site.stream.lays_out = False
            site.stream.coming.put_nowait(Batch([CommittedTransaction(110, 110, {"a": begun})], 110))
            (transaction,) = (await two.until(110)).transactions
            assert transaction.tables == {"a": TableChange(overflow=True)}

    run(scenario)


def test_a_receiver_of_another_server_ends_the_stream() -> None:
    async def scenario() -> None:
        async with hub() as site:
            one, two = Engine(site, a=A), Engine(site, a=A)
            await one.start()
            two.server = "server 2"
            starting = asyncio.ensure_future(two.start())
            assert "database server was replaced" in str(await until_lost(one.source))
            await starting
            assert len(site.streams) == 2
            assert site.streams[0].closed

    run(scenario)


def test_a_dead_engine_does_not_affect_others() -> None:
    async def scenario() -> None:
        async with hub() as site:
            one = Engine(site, a=A)
            await one.start()
            for end in range(110, 310, 2):
                other = Engine(site, a=A)
                await other.start()
                site.bring(end, "a")
                other.source._transport.abort()  # type: ignore[union-attr]
                other.source.acknowledge(end)
                site.bring(end + 1, "a")
                other.source.request_position()
                assert (await one.until(end + 1)).position == end + 1
                await until_lost(other.source)
                other.source.request_position()
            assert len(site.streams) == 1

    run(scenario)


def test_a_dead_engine_is_sent_nothing() -> None:
    """Its death may be told later than the next batch comes."""

    async def scenario() -> None:
        reached = asyncio.Event()
        receivers = []

        def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            receivers.append(Receiver(reader, writer))
            reached.set()

        with tempfile.TemporaryDirectory(prefix="fan") as directory:
            server = await asyncio.start_unix_server(receive, f"{directory}/s")
            _, writer = await asyncio.open_unix_connection(f"{directory}/s")
            await reached.wait()
            (receiver,) = receivers
            receiver.join(JoinReply(100, None, ""))
            writer.transport.abort()
            with suppress(ConnectionError):
                assert await receiver.requests() is None
            receiver.close()
            for _ in range(3):
                await asyncio.sleep(0)
                receiver.send(frame_of(FollowReply(1)))
            receiver.refuse(frame_of(FollowReply(1)))
            server.close()

    run(scenario)


def test_a_layout_with_a_fatal_notice_is_not_requested_again() -> None:
    async def scenario() -> None:
        async with hub() as site:
            engine = Engine(site, a=A, b=B)
            await engine.start()
            site.say(SchemaNotice("a", "a was dropped."))
            assert (await engine.source.next_batch()).schema
            # It is still connected (received data is held).
            site.bring(110, "a", "b")
            batch = await engine.until(110)
            assert (ends(batch, "a"), ends(batch, "b")) == ([], [110])
            assert not batch.schema
            engine.layouts["a"] = replace(A, since=115)
            following = asyncio.ensure_future(engine.source.wait_followed())
            while not following.done():
                site.stream.coming.put_nowait(Batch([], 115))
                await engine.source.next_batch()
            site.bring(120, "a")
            assert 120 in ends(await engine.until(120), "a")

    run(scenario)


def test_the_lowest_acknowledgement_is_passed_on() -> None:
    async def scenario() -> None:
        async with hub() as site:
            one, two = Engine(site, a=A), Engine(site, a=A)
            await one.start()
            await two.start()
            one.source.acknowledge(150)
            two.source.request_position()
            await met(lambda: site.stream.asked)
            assert site.stream.acknowledged in (0, 100)
            two.source.acknowledge(120)
            await met(lambda: site.stream.acknowledged == 120)
            # The last one counts, however soon after another: a server that stops waits for it.
            two.source.acknowledge(130)
            two.source.acknowledge(140)
            await met(lambda: site.stream.acknowledged == 140)

    run(scenario)


def test_a_lost_stream_is_lost_for_all_and_replaced() -> None:
    async def scenario() -> None:
        async with hub() as site:
            engines = [Engine(site, a=A), Engine(site, a=A)]
            for engine in engines:
                await engine.start()
            site.bring(110, "a")
            site.stream.coming.put_nowait(StreamLost("The server went away.", True, "Wait."))
            for engine in engines:
                assert ends(await engine.until(110), "a") == [110]
                with pytest.raises(StreamLost, match=r"went away\. Wait") as lost:
                    await engine.source.next_batch()
                assert lost.value.retryable
                await engine.source.close()
            await met(lambda: site.stream.closed)
            again = Engine(site, a=A)
            assert (await again.start()).position == 100
            assert len(site.streams) == 2

    run(scenario)


def test_a_resumed_stream_is_resumed_for_all() -> None:
    async def scenario() -> None:
        async with hub() as site:
            engines = [Engine(site, a=A), Engine(site, b=B)]
            for engine in engines:
                await engine.start()
            site.stream.coming.put_nowait(Batch([], 110, resumed=True))
            site.bring(120, "a")
            for engine in engines:
                batch = await engine.source.next_batch()
                while not batch.resumed:
                    assert batch.position < 110
                    batch = await engine.source.next_batch()

    run(scenario)


def test_a_stream_that_cannot_start_has_a_reason() -> None:
    async def scenario() -> None:
        async with hub() as site:
            site.refuse = [StreamLost("There is no publication.", False, "CREATE PUBLICATION")]
            with pytest.raises(StreamLost, match="There is no publication") as lost:
                await Engine(site, a=A).start()
            assert (lost.value.retryable, lost.value.hint) == (False, "CREATE PUBLICATION")
            await Engine(site, a=A).start()

    run(scenario)


def test_the_stream_ends_with_its_last_receiver() -> None:
    async def scenario() -> None:
        async with hub() as site:
            one, two = Engine(site, a=A), Engine(site, a=A)
            await one.start()
            await two.start()
            await one.source.close()
            site.bring(110, "a")
            await two.until(110)
            assert not site.stream.closed
            await two.source.close()
            await met(lambda: site.stream.closed)
            with pytest.raises(StreamLost, match="closed"):
                await two.source.next_batch()

    run(scenario)


def test_a_stalled_receiver_is_disconnected() -> None:
    async def scenario() -> None:
        async with hub(stalled_s=0.2) as site:
            engine = Engine(site, a=A)
            await engine.start()
            _, stalled = await asyncio.open_unix_connection(site.path)
            stalled.write(frame_of(FollowRequest(1, {"a": A})))
            last = 110 + 2 * AHEAD_BYTES // (1 << 20)
            for end in range(111, last + 1):
                site.bring(end, "a", size=1 << 20)
            assert len(ends(await engine.until(last), "a")) == last - 110
            await site.stalled.wait()
            stalled.close()

    run(scenario)


def test_a_hub_that_ends_is_a_lost_stream() -> None:
    async def scenario() -> None:
        with tempfile.TemporaryDirectory(prefix="fan") as directory:
            site = Site(Path(directory) / "stream.sock")
            server = await asyncio.start_unix_server(lambda _, writer: writer.close(), site.path)
            with pytest.raises(StreamLost, match="has ended"):
                await Engine(site, a=A).start()
            server.close()
            with pytest.raises(StreamLost, match="cannot be reached"):
                await Engine(site, a=A).start()

    run(scenario)


def test_a_schema_change_begins_a_batch() -> None:
    """Earlier transactions are in an earlier batch, even if all have been received."""

    async def scenario() -> None:
        async with hub() as site:
            engine = Engine(site, a=A)
            await engine.start()
            site.bring(110, "a")
            site.stream.coming.put_nowait(Batch([], 115, altered=(114, 115)))
            site.bring(120, "a")
            site.stream.coming.put_nowait(Batch([CommittedTransaction(130, 130, {})], 130, altered=(130, 130)))
            batches = [await engine.source.next_batch()]
            while batches[-1].position < 130:
                batches.append(await engine.source.next_batch())
            ends = [batch.position for batch in batches if batch.altered is None]
            assert 110 in ends
            assert [batch.altered for batch in batches if batch.altered] == [(114, 115), (130, 130)]
            assert all(t.end > 115 for b in batches if b.altered == (114, 115) for t in b.transactions)

    run(scenario)
