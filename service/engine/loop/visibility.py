"""Waits until the upstream's snapshots see all that a version has, for what is answered past the store.

A commit is in the stream before snapshots see it: while it waits for a synchronous standby, by any margin. The engine
knows the latest transactions of its tables, and which of them a snapshot sees; so does one whose stream has ended, up
to where that was. Otherwise, or where other engines follow other tables, nobody does: then all that was open when the
wait began has to end, or to be known not to have been committed by then (`Lookups.settled`).

*Invariants*: when a wait has ended, every later snapshot sees all that an answer at that position may show.
"""

import asyncio
from collections.abc import Callable

from cdc.stream import UpstreamSnapshot
from dataflow.types import Position, Snapshot
from service.engine.loop.dispatcher import Dispatcher
from service.engine.upstream import bridge
from service.engine.upstream.upstream import Lookups, Upstream

#: Between two looks, at first and at most.
_LOOK_S, _LOOK_MOST_S = 0.01, 0.5


class Visibility:
    """Asks for snapshots, one at a time for each that waits.

    *State*: `_ended`, of the last stream, while there is none: its server, its end, and which snapshots see all of it.
    """

    def __init__(self, dispatcher: Dispatcher, lookups: Lookups, upstream: Upstream, *, alone: bool) -> None:
        self._dispatcher = dispatcher
        self._lookups = lookups
        self._upstream = upstream
        self._ended: tuple[str, Position, Callable[[Snapshot], bool]] | None = None
        #: Whether this process's engine follows all tables that any does.
        self._alone = alone

    async def wait(self, position: Position) -> None:
        """Return once snapshots see all that a leaf store at `position` has. UpstreamError. Cancel it to give up."""
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
        """Note what the engine knows, which will be gone."""
        engine = self._dispatcher.engine
        if engine is not None and (sees := engine.seen_by(engine.applied)) is not None:
            self._ended = (self._upstream.server, engine.applied, sees)

    def stream_begins(self) -> None:
        """Forget what was noted: it holds the old engine's transactions in memory."""
        self._ended = None

    def _seen_by(self, position: Position) -> Callable[[Snapshot], bool] | None:
        if not self._alone:
            return None
        if self._dispatcher.running:
            return None if self._dispatcher.engine is None else self._dispatcher.engine.seen_by(position)
        if self._ended is None or position > self._ended[1]:
            return None
        server, _, sees = self._ended
        # Which server a snapshot is of is known once it is there.
        return lambda snapshot: self._upstream.server == server and sees(snapshot)
