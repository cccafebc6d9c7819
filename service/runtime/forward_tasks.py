"""Runs the statements of forwarded reads: equal ones one after the other, each for all who asked before it began.

A miss that everybody meets at once must not become as many statements. A statement's snapshot is taken after it began,
so it serves every read that was asked by then.

*Maintains*: of equal statements one runs at a time; reads that have gone are not asked for.

Not here: what the statements are (`forwarding`), what becomes of their rows (`reads`).
"""

import asyncio
from collections.abc import Callable, Sequence

from dataflow.types import ReadId
from service.upstream.upstream import Lookups
from service.upstream.words import ForwardRows

#: Statements of one snapshot, with the texts of their parameters.
Queries = Sequence[tuple[str, Sequence[str | None]]]
_Equal = tuple[tuple[str, tuple[str | None, ...]], ...]


class ForwardTasks:
    """`done` is called with each read and what was found, or why nothing was; `wanted` says whether anybody waits for a
    read still."""

    def __init__(
        self,
        lookups: Lookups,
        wanted: Callable[[ReadId], bool],
        done: Callable[[ReadId, ForwardRows | Exception], None],
    ) -> None:
        self._lookups = lookups
        self._wanted = wanted
        self._done = done
        self._waiting: dict[_Equal, list[ReadId]] = {}
        self._tasks: dict[_Equal, asyncio.Task[None]] = {}

    def start(self, read: ReadId, queries: Queries) -> None:
        """Has a read answered."""
        equal = tuple((sql, tuple(parameters)) for sql, parameters in queries)
        self._waiting.setdefault(equal, []).append(read)
        if equal not in self._tasks:
            self._tasks[equal] = asyncio.get_running_loop().create_task(self._run(equal))

    def cancel(self) -> None:
        """Nobody waits any more."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self._waiting.clear()

    async def _run(self, equal: _Equal) -> None:
        task = asyncio.current_task()
        try:
            while reads := [read for read in self._waiting.pop(equal, ()) if self._wanted(read)]:
                found = await self._ask(equal)
                for read in reads:
                    self._done(read, found)
        finally:
            if self._tasks.get(equal) is task:
                del self._tasks[equal]

    async def _ask(self, queries: Queries) -> ForwardRows | Exception:
        try:
            return await self._lookups.forward(queries)
        except Exception as error:
            return error
