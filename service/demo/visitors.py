"""People who look at the site: a steady, gentle stream of reads, so that there is something to see."""

import asyncio
import random as randomness

from service.demo.client import Client, ReadError
from service.demo.dataset import DatasetSize
from service.demo.views import VIEWS


class Visitors:
    """Reads pages at a steady rate until stopped."""

    def __init__(self, client: Client, size: DatasetSize, per_second: float = 20.0) -> None:
        self._client = client
        self._size = size
        self._interval = 1 / per_second
        self._task: asyncio.Task[None] | None = None
        self.failures = 0
        #: Error of the newest failed read.
        self.last_failure = ""

    def start(self) -> None:
        self._task = asyncio.create_task(self._visit())

    async def stop(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _visit(self) -> None:
        random = randomness.Random(11)
        while True:
            view = random.choice(VIEWS)
            try:
                await self._client.read(view.name, view.parameters(random, self._size))
            except ReadError as failure:
                self.failures += 1
                self.last_failure = str(failure)
            await asyncio.sleep(self._interval)
