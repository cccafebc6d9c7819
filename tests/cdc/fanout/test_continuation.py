"""Receivers that continue an earlier stream, each at its own place."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cdc.change import StreamLost
from cdc.fanout.places import SharedContinuableStream
from cdc.stream import ContinuableStream, StreamPlace, StreamStart
from tests.cdc.fanout.site import A, B, Engine, Script, Site, batches, ends, hub, met, run


@dataclass
class Log(Script):
    """A log that has what follows 50, but for some places that it has not."""

    missing: set[str] = field(default_factory=set)
    fails: bool = False

    @property
    def place(self) -> StreamPlace | None:
        return StreamPlace(self.now, f"log:{self.now}")

    async def start_at(self, place: str) -> StreamStart:
        if self.fails:
            raise StreamLost("The server is away.", retryable=True)
        started = await self.start()
        if place in self.missing:
            return replace(started, refusal=f"{place} is gone")
        self.now = int(place.removeprefix("log:"))
        return replace(started, position=self.now, continued=True)

    async def mark_place(self) -> None:
        """There is a place behind each batch."""

    def unmark(self) -> None:
        """There are places anyway."""

    def leave(self) -> None:
        """The log stays anyway."""

    def reconnect(self) -> None:
        """Another server is another log."""

    async def refusal(self, place: str) -> str:
        return f"{place} is gone" if place in self.missing else ""


@dataclass
class LogSite(Site):
    """A hub over such a log."""

    missing: set[str] = field(default_factory=set)
    #: So many streams cannot start.
    failures: int = 0

    def make(self, tables: object) -> Log:
        fails = len(self.streams) < self.failures
        self.streams.append(Log(tables, missing=self.missing, fails=fails))  # type: ignore[arg-type]
        return self.streams[-1]  # type: ignore[return-value]


async def _together(*starts: Coroutine[Any, Any, StreamStart]) -> list[StreamStart]:
    return await asyncio.gather(*starts)


def _at(position: int) -> str:
    return f'[{position}, "log:{position}", false]'


def test_the_stream_begins_at_the_earliest_place_and_each_skips_what_it_has() -> None:
    async def scenario() -> None:
        async with hub(LogSite, receivers=3) as site:
            assert isinstance(Log(dict), SharedContinuableStream)
            assert isinstance(Engine(site).source, ContinuableStream)
            one, two, cold = Engine(site, a=A), Engine(site, a=A, b=B), Engine(site, a=A)
            starts = await _together(one.source.start_at(_at(70)), two.source.start_at(_at(60)), cold.source.start())
            assert [(s.position, s.continued) for s in starts] == [(70, True), (60, True), (60, False)]
            site.bring(65, "a", "b")
            site.bring(70, "a")
            site.bring(75, "a", "b")
            found = [await engine.until(75) for engine in (one, two, cold)]
            assert [ends(batch, "a") for batch in found] == [[75], [65, 70, 75], [65, 70, 75]]
            assert [engine.source.place for engine in (one, two, cold)] == [StreamPlace(75, _at(75))] * 3
            # All that precedes its place was visible.
            assert [s.snapshot.xmax for s in starts] == [9, 9, 12]  # type: ignore[attr-defined]

    run(scenario)


def test_receivers_are_waited_for_until_a_stream_has_begun() -> None:
    async def scenario() -> None:
        async with hub(LogSite, receivers=2) as site:
            site.failures = 1
            starts = [Engine(site, a=A).source.start_at(_at(place)) for place in (70, 60)]
            found = await asyncio.gather(*starts, return_exceptions=True)
            assert all(isinstance(each, StreamLost) for each in found)
            one, two = Engine(site, a=A), Engine(site, a=A)
            first = asyncio.ensure_future(one.source.start_at(_at(70)))
            await met(lambda: len(site.streams) == 2)
            starts_at = [await two.source.start_at(_at(60)), await first]
            assert [(s.position, s.continued) for s in starts_at] == [(60, True), (70, True)]

    run(scenario)


def test_a_place_is_that_of_the_last_batch() -> None:
    """Nothing that was received later is in it, nor a position that an engine had passed before."""

    async def scenario() -> None:
        async with hub(LogSite, receivers=2) as site:
            one, two = Engine(site, a=A), Engine(site, a=A)
            await _together(one.source.start_at(_at(70)), two.source.start_at(_at(60)))
            assert one.source.place == StreamPlace(70, _at(70))
            site.bring(65, "a")
            await two.until(65)
            assert (await one.source.next_batch()).position == 70
            assert one.source.place == StreamPlace(70, _at(70))
            for end in (80, 90):
                # One by one: the hub joins what it reads together.
                site.bring(end, "a")
                await met(lambda end=end: any(end == batch.position for batch in batches(one)))
            assert (await one.source.next_batch(1)).position == 80
            assert one.source.place == StreamPlace(80, _at(80))

    run(scenario)


def test_a_place_that_the_log_does_not_have_is_refused() -> None:
    """Others continue, if the earliest place is there; the layout that they need from further back is decoded by."""

    async def scenario() -> None:
        async with hub(LogSite, receivers=2) as site:
            site.missing.add("log:70")
            one, two = Engine(site, a=replace(A, since=90)), Engine(site, a=replace(A, since=0))
            starts = await _together(one.source.start_at(_at(70)), two.source.start_at(_at(60)))
            assert [(s.position, s.continued, s.refusal) for s in starts] == [
                (60, False, "log:70 is gone"),
                (60, True, ""),
            ]
            assert site.stream.tables()["a"].since == 0

    run(scenario)


def test_without_the_earliest_place_nobody_continues() -> None:
    async def scenario() -> None:
        async with hub(LogSite, receivers=2) as site:
            site.missing.add("log:60")
            one, two = Engine(site, a=A), Engine(site, a=A)
            starts = await _together(one.source.start_at(_at(70)), two.source.start_at(_at(60)))
            assert [(s.position, s.continued, s.refusal) for s in starts] == [(100, False, "log:60 is gone")] * 2

    run(scenario)


@pytest.mark.parametrize("site_of", [LogSite, Site])
def test_one_that_comes_late_begins_where_the_stream_is(site_of: type[Site]) -> None:
    """Likewise all receivers of a stream that cannot be continued."""

    async def scenario() -> None:
        async with hub(site_of) as site:
            one, two = Engine(site, a=A), Engine(site, a=A)
            await one.start()
            started = await two.source.start_at(_at(70))
            assert (started.position, started.continued) == (100, False)
            assert "began before" in started.refusal
            assert started.gtids is not None

    run(scenario)


def test_a_stream_without_places_cannot_be_continued() -> None:
    async def scenario() -> None:
        async with hub() as site:
            engine = Engine(site, a=A)
            started = await engine.source.start_at(_at(70))
            assert (started.position, started.continued) == (100, False)
            assert "cannot be continued" in started.refusal
            assert engine.source.place is None

    run(scenario)


def test_the_first_stream_does_not_wait_forever() -> None:
    async def scenario() -> None:
        async with hub(LogSite, receivers=2, gather_s=0.01) as site:
            started = await Engine(site, a=A).source.start_at(_at(70))
            assert (started.position, started.continued) == (70, True)

    run(scenario)


def test_later_streams_wait_for_nobody() -> None:
    async def scenario() -> None:
        async with hub(LogSite, receivers=2) as site:
            one, two = Engine(site, a=A), Engine(site, a=A)
            await _together(one.start(), two.start())
            site.stream.coming.put_nowait(StreamLost("lost", retryable=True))
            await met(lambda: site.streams[0].closed)
            again = Engine(site, a=A)
            assert (await again.start()).position == 100

    run(scenario)
