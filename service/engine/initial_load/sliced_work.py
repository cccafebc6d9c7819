"""Has the engine go on with what is too much for one step, slice by slice, as long as there is something.

*Invariants*: the loop gets a turn after each slice; above the memory budget's ceiling nothing is done.

Not here: what that is (`dataflow.engine.backfills`).
"""

import asyncio

from dataflow.engine.events import Work
from service.engine.initial_load.slices import Slices
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import Room

#: Of one slice, however little rows have cost so far.
MOST_ROWS = 1000


class Working:
    """*State*: `_task` runs while the engine works."""

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
        """The engine is another one."""
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
