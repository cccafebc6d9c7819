"""Waits for transactions by their ids end when the stream reports them, or the server does when it is queried."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from cdc.gtid import GtidPosition, Gtids, GtidSet, mariadb_id
from dataflow.types import Position
from service.engine.loop.gtid_waits import AppliedGtids
from service.engine.loop.positions import Positions
from service.engine.upstream.results import LookupRows, UpstreamError
from service.engine.upstream.upstream import Lookups
from service.ground.errors import ApiError

AT = GtidPosition.parse


class Server:
    """Server's answers about ids; the stream reaches `end` when it is pushed."""

    def __init__(self, executed: Gtids | None) -> None:
        self.executed_now = executed
        self.end = 10
        self.asked = 0
        self.away = False
        self.positions = Positions()
        self.gtids = AppliedGtids(cast("Lookups", self), self.positions, self.pushed)

    async def executed(self) -> Gtids | None:
        self.asked += 1
        if self.away:
            raise UpstreamError("unavailable", "It does not answer.", retryable=True)
        return self.executed_now

    async def snapshot(self) -> LookupRows:
        return LookupRows([], cast("Any", None), self.end, self.end)

    def pushed(self, position: Position) -> None:
        self.positions.advanced(position)

    def commits(self, gtids: Gtids) -> None:
        self.executed_now = gtids
        self.end += 1


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(limited())


def test_what_the_stream_has_brought_is_not_asked_for() -> None:
    async def test() -> None:
        server = Server(AT("0-1-9"))
        server.gtids.started(AT("0-1-5"))
        await server.gtids.wait(AT("0-1-4"))
        waiting = asyncio.ensure_future(server.gtids.wait(AT("0-1-7,2-1-1")))
        await asyncio.sleep(0)
        server.gtids.passed([mariadb_id(0, 1, 6), mariadb_id(0, 1, 7)])
        assert not waiting.done()
        server.gtids.passed([mariadb_id(2, 1, 1)])
        await waiting
        assert server.asked == 0
        server.gtids.close()

    run(test)


@pytest.mark.parametrize("start", [None, AT("0-1-5")])
def test_a_stream_that_does_not_say_is_pushed_to_where_the_server_has_them(start: Gtids | None) -> None:
    async def test() -> None:
        server = Server(AT("0-1-9"))
        server.gtids.started(start)
        await server.gtids.wait(AT("0-1-8"))
        assert (server.positions.applied, server.asked) == (10, 1)
        await asyncio.gather(*(server.gtids.wait(AT("0-1-9")) for _ in range(5)))
        assert server.asked == 1

    run(test)


def test_many_that_wait_ask_together() -> None:
    async def test() -> None:
        server = Server(AT("0-1-9"))
        server.gtids.started(None)
        await asyncio.gather(*(server.gtids.wait(AT("0-1-9")) for _ in range(50)))
        assert server.asked == 1

    run(test)


def test_what_the_server_does_not_have_yet_is_asked_for_again() -> None:
    async def test() -> None:
        server = Server(GtidSet())
        server.gtids.started(None)
        wanted = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3")
        waiting = asyncio.ensure_future(server.gtids.wait(wanted))
        while server.asked < 2:
            await asyncio.sleep(0.001)
        server.away = True
        while server.asked < 3:
            await asyncio.sleep(0.001)
        assert not waiting.done()
        server.away = False
        server.commits(wanted)
        await waiting
        assert server.positions.applied == server.end

    run(test)


def test_who_does_not_wait_any_more_is_not_asked_for() -> None:
    async def test() -> None:
        server = Server(AT("0-1-1"))
        server.gtids.started(None)
        waiting = asyncio.ensure_future(server.gtids.wait(AT("0-1-9")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await server.gtids.wait(AT("0-1-1"))
        assert server.asked <= 2

    run(test)


def test_another_stream_knows_nothing_of_the_last_one() -> None:
    async def test() -> None:
        server = Server(AT("0-1-9"))
        server.gtids.started(AT("0-1-9"))
        waiting = asyncio.ensure_future(server.gtids.wait(AT("0-1-12")))
        await asyncio.sleep(0)
        server.gtids.started(AT("0-1-3"))
        later = asyncio.ensure_future(server.gtids.wait(AT("0-1-4")))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert not later.done()
        server.commits(AT("0-1-12"))
        await asyncio.gather(waiting, later)

    run(test)


@pytest.mark.parametrize("executed", [None, GtidSet()])
def test_ids_of_another_kind_are_refused(executed: Gtids | None) -> None:
    async def test() -> None:
        server = Server(executed)
        server.gtids.started(None)
        with pytest.raises(ApiError, match="MariaDB"):
            await server.gtids.wait(AT("0-1-1"))

    run(test)
