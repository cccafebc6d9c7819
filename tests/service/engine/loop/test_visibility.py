"""Snapshots that see all that a version has, once the stream has ended."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc.postgres.position import PostgresSnapshot
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.visibility import Visibility
from service.engine.upstream.upstream import Lookups, Upstream


class Snapshots:
    """The database's, one after the other: a transaction is open in the first two."""

    def __init__(self) -> None:
        self.taken = 0

    async def snapshot(self) -> Any:
        self.taken += 1
        text = "10:12:11" if self.taken < 3 else "12:12:"
        return SimpleNamespace(snapshot=PostgresSnapshot.parse(text, 12))

    async def settled(self, since: PostgresSnapshot) -> bool:
        assert since.horizon == 12
        return False


@pytest.mark.parametrize(
    ("position", "server", "taken"),
    [
        pytest.param(7, "one", 1, id="what the engine knew"),
        pytest.param(8, "one", 3, id="a version that it had not got to"),
        pytest.param(7, "other", 3, id="of another server it knew nothing"),
    ],
)
def test_what_the_last_engine_knew_counts_where_it_may(position: int, server: str, taken: int) -> None:
    engine = SimpleNamespace(applied=7, seen_by=lambda _: lambda _: True)
    dispatcher, upstream = SimpleNamespace(engine=engine, running=True), SimpleNamespace(server="one")
    snapshots = Snapshots()
    visible = Visibility(cast(Dispatcher, dispatcher), cast(Lookups, snapshots), cast(Upstream, upstream), alone=True)
    visible.stream_ends()
    dispatcher.engine, dispatcher.running = None, False
    # It is known by the first connection.
    upstream.server = ""
    take = snapshots.snapshot

    async def taken_of(name: str = server) -> Any:
        upstream.server = name
        return await take()

    snapshots.snapshot = taken_of  # type: ignore[method-assign]
    asyncio.run(asyncio.wait_for(visible.wait(position), 20))
    assert snapshots.taken == taken
    visible.stream_begins()
    snapshots.taken = 0
    asyncio.run(asyncio.wait_for(visible.wait(7), 20))
    assert snapshots.taken == 3
