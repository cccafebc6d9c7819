"""Waits until upstream snapshots include a version, for answers that bypass the leaf store.

A commit is in the stream before snapshots see it; while it waits for a synchronous standby, the delay is unbounded. The
engine knows the latest transactions of its tables and can test whether a snapshot sees them; so can the engine of a
stream that has ended, up to the stream's end. Otherwise, or if other engines follow other tables, all transactions open
at the start of the wait must end, or be known to be uncommitted at that time (`Lookups.settled`).

*Invariants*: after a wait, every later snapshot sees all transactions of an answer at that position.
"""

import asyncio
from collections.abc import Callable

from cdc.stream import UpstreamSnapshot
from dataflow.types import Position, Snapshot
from service.engine.loop.dispatcher import Dispatcher
from service.engine.upstream import bridge
from service.engine.upstream.upstream import Lookups, Upstream

#: Pause between two snapshots, at first and at most.
_LOOK_S, _LOOK_MOST_S = 0.01, 0.5


class Visibility:
    """Takes snapshots until one includes the version; one at a time for each waiter.

    *State*: `_ended`, of the last stream while none runs: its server, its end, and a test whether a snapshot sees all
    of it.
    """

    def __init__(self, dispatcher: Dispatcher, lookups: Lookups, upstream: Upstream, *, alone: bool) -> None:
        self._dispatcher = dispatcher
        self._lookups = lookups
        self._upstream = upstream
        self._ended: tuple[str, Position, Callable[[Snapshot], bool]] | None = None
        #: True if this process's engine follows all tables of the service.
        self._alone = alone

    async def wait(self, position: Position) -> None:
        """Returns once snapshots include everything in a leaf store at `position`. Raises `UpstreamError`. Cancel to
        give up."""
        first: UpstreamSnapshot | None = None
        delay_s = _LOOK_S
        while True:
            sees = self._seen_by(position)
            snapshot = (await self._lookups.snapshot()).snapshot
            if sees is not None and sees(bridge.snapshot(snapshot)):
                return
            if first is None:
                first = snapshot
            elif snapshot.finished(first):
                return
            if await self._lookups.settled(first):
                return
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, _LOOK_MOST_S)

    def stream_ends(self) -> None:
        """Records the visibility test of the engine that is about to be discarded."""
        engine = self._dispatcher.engine
        if engine is not None and (sees := engine.seen_by(engine.applied)) is not None:
            self._ended = (self._upstream.server, engine.applied, sees)

    def stream_begins(self) -> None:
        """Discards the recorded test, which references the old engine's transactions."""
        self._ended = None

    def _seen_by(self, position: Position) -> Callable[[Snapshot], bool] | None:
        if not self._alone:
            return None
        if self._dispatcher.running:
            return None if self._dispatcher.engine is None else self._dispatcher.engine.seen_by(position)
        if self._ended is None or position > self._ended[1]:
            return None
        server, _, sees = self._ended
        # The server of a snapshot is known only after the snapshot is taken.
        return lambda snapshot: self._upstream.server == server and sees(snapshot)
