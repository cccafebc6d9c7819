"""Sliced work: lets the engine continue work that is too long for one step, slice by slice.

*Invariants*: the loop runs other tasks after each slice; above the memory budget's ceiling no work is done.

Not here: the work (`dataflow.engine.backfills`).
"""

import asyncio

from dataflow.engine.events import Work
from service.engine.initial_load.slices import Slices
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import Room

#: Maximum rows of one slice, however cheap rows have been so far.
MOST_ROWS = 1000


class SlicedWork:
    """Task for the engine's pending work. *State*: `_task` runs while the engine has work."""

    def __init__(self, dispatcher: Dispatcher, room: Room) -> None:
        self.slices = Slices(MOST_ROWS)
        self._dispatcher = dispatcher
        self._room = room
        self._task: asyncio.Task[None] | None = None
        dispatcher.on_work(self._wake)

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    def stop(self) -> None:
        """Cancels the task; the engine is being replaced."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _work(self) -> None:
        dispatcher = self._dispatcher
        while dispatcher.running and dispatcher.engine is not None and dispatcher.engine.working:
            await self._room()
            rows = self.slices.rows
            self.slices.run(lambda rows=rows: dispatcher.step(Work(rows)), rows)  # type: ignore[misc]
            await asyncio.sleep(0)
        self._task = None
