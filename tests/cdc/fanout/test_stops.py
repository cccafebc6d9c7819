"""Receivers that stop, over a stream that has places only while they are wanted: all stop at the same one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from cdc.change import Batch
from cdc.stream import StreamPlace
from tests.cdc.fanout.site import A, Engine, Site, ends, hub, met, run
from tests.cdc.fanout.test_continuation import Log


@dataclass
class SlotLog(Log):
    """A log that discards what is acknowledged, unless a place is wanted."""

    keeps: bool = True
    marked: bool = False
    left: bool = False
    reconnected: int = 0
    closing: bool = False
    #: What closing waits for.
    closes: asyncio.Event | None = None

    async def close(self) -> None:
        self.closing = True
        if self.closes is not None:
            await self.closes.wait()
        self.closed = True

    @property
    def place(self) -> StreamPlace | None:
        return StreamPlace(self.now, f"slot:{self.now}", hidden=True) if self.marked and self.now > 110 else None

    async def mark_place(self) -> None:
        self.marked = self.keeps
        if self.keeps and self.place is None:
            await asyncio.Event().wait()

    def unmark(self) -> None:
        self.marked = False

    def leave(self) -> None:
        self.left = True

    def reconnect(self) -> None:
        self.reconnected += 1


@dataclass
class SlotSite(Site):
    """A hub over such a log."""

    keeps: bool = True

    def make(self, tables: object) -> SlotLog:
        self.streams.append(SlotLog(tables, keeps=self.keeps))  # type: ignore[arg-type]
        return self.log

    @property
    def log(self) -> SlotLog:
        return self.streams[-1]  # type: ignore[return-value]


@asynccontextmanager
async def followers(number: int, **options: Any) -> AsyncIterator[tuple[SlotSite, list["Follower"]]]:
    """A hub with receivers at position 110, which may stop."""
    async with hub(SlotSite, **options) as site:
        engines = [Follower(site, a=A) for _ in range(number)]
        for engine in engines:
            await engine.start()
        site.bring(110, "a")
        for engine in engines:
            await engine.follow(110)
        yield site, engines


class Follower(Engine):
    """A receiver that acknowledges what it gets, until it has a place."""

    async def follow(self, position: int) -> Batch:
        batch = await self.until(position)
        self.source.acknowledge(batch.position)
        return batch

    async def stop(self) -> StreamPlace | None:
        """Return the place where it stops."""
        marking = asyncio.ensure_future(self.source.mark_place())
        while not marking.done():
            reading = asyncio.ensure_future(self.source.next_batch())
            await asyncio.wait({marking, reading}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                self.source.acknowledge(reading.result().position)
                await asyncio.sleep(0)
            reading.cancel()
        await marking
        return self.source.place


PLACE = StreamPlace(120, '[120, "slot:120", true]', hidden=True)


def test_all_receivers_stop_at_one_place() -> None:
    """The transactions behind it are not read. The log is left if one of them wants it."""

    async def scenario() -> None:
        async with followers(2) as (site, (one, two)):
            assert one.source.place is None
            stopping = asyncio.ensure_future(one.stop())
            await met(lambda: site.log.marked)
            site.bring(120, "a")
            assert await stopping == PLACE
            site.bring(130, "a")
            assert await two.stop() == PLACE
            one.source.leave()
            await one.source.close()
            await met(lambda: site.log.left)
            assert (site.log.coming.qsize(), site.log.closed) == (1, False)
            await two.source.close()
            await met(lambda: site.log.closed)

    run(scenario)


def test_a_place_that_is_already_there() -> None:
    """Nobody waits for a transaction: the batch that has the place may be empty."""

    async def scenario() -> None:
        async with followers(2) as (site, (one, two)):
            site.bring(120, "a")
            for engine in (one, two):
                await engine.follow(120)
                assert engine.source.place is None
            assert await asyncio.gather(one.stop(), two.stop()) == [PLACE, PLACE]

    run(scenario)


def test_a_killed_receiver_does_not_delay_the_others() -> None:
    async def scenario() -> None:
        async with followers(3) as (site, (one, two, killed)):
            stops = [asyncio.ensure_future(engine.stop()) for engine in (one, two)]
            await met(lambda: site.log.marked)
            await killed.source.close()
            site.bring(120, "a")
            assert await asyncio.gather(*stops) == [PLACE, PLACE]

    run(scenario)


@pytest.mark.parametrize("joins", [True, False])
def test_the_stream_goes_on_if_not_all_stop(joins: bool) -> None:
    """An engine stopped alone, and is started again, or is not."""

    async def scenario() -> None:
        async with followers(2, rest_s=30.0 if joins else 0.01) as (site, (one, two)):
            site.bring(120, "a")
            assert await one.stop() == PLACE
            await one.source.close()
            if joins:
                again = Follower(site, a=A)
                assert (await again.start()).position == 120
            site.bring(130, "a")
            assert ends(await two.follow(130), "a") == [120, 130]
            assert not site.log.marked
            assert two.source.place is None

    run(scenario)


def test_a_log_that_keeps_nothing_has_no_place() -> None:
    """Nobody waits for one."""

    async def scenario() -> None:
        async with hub(SlotSite) as site:
            site.keeps = False
            one, two = Follower(site, a=A), Follower(site, a=A)
            for engine in (one, two):
                await engine.start()
            assert await one.stop() is None
            assert await two.stop() is None
        async with hub() as plain:
            other = Follower(plain, a=A)
            await other.start()
            assert await other.stop() is None

    run(scenario)


def test_a_hidden_place_is_not_that_of_the_next_stop() -> None:
    """The log may have been discarded up to where it was continued."""

    async def scenario() -> None:
        async with hub(SlotSite) as site:
            one = Follower(site, a=A)
            started = await one.source.start_at('[70, "log:70", true]')
            assert (started.position, started.continued) == (70, True)
            assert one.source.place is None

    run(scenario)


def test_the_connection_is_replaced_once() -> None:
    """All receivers see that another server answers; those that come later join the stream of that."""

    async def scenario() -> None:
        async with followers(2) as (site, (one, two)):
            one.source.reconnect()
            await met(lambda: site.log.reconnected == 1)
            site.log.coming.put_nowait(Batch([], 120, resumed=True, server="server 2"))
            assert (await one.follow(120)).server == "server 2"
            two.source.reconnect()
            third = Follower(site, a=A)
            third.server = "server 2"
            assert (await third.start()).server == "server 2"
            assert (site.log.reconnected, len(site.streams)) == (1, 1)

    run(scenario)


def test_a_place_that_does_not_come_is_given_up() -> None:
    """The log must not be kept for it: nothing is written, and the transaction that marks the place fails."""

    async def scenario() -> None:
        async with followers(2, rest_s=0.05) as (site, (one, _)):
            site.log.answers = False
            assert await one.stop() is None
            assert not site.log.marked

    run(scenario)


def test_a_stream_is_closed_to_its_end() -> None:
    """Its process may be told to stop meanwhile; the slot must not stay."""

    async def scenario() -> None:
        async with followers(1) as (site, (one,)):
            closes = site.log.closes = asyncio.Event()
            await one.source.close()
            await met(lambda: site.log.closing)
            # Behind the cancellation at the end of the block.
            asyncio.get_running_loop().call_later(0.05, closes.set)
        assert site.log.closed

    run(scenario)
