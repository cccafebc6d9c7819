"""Runs the statements of forwarded reads: equal ones one after the other, each for all who asked before it began.

A miss that everybody meets at once must not become as many statements. A statement's snapshot is taken after it began,
so it serves every read that was asked by then.

*Maintains*: of equal statements one runs at a time; what nobody waits for any more is not asked.

Not here: what the statements are (`forwarding`), what becomes of their rows (`reads`).
"""

import asyncio
from collections.abc import Collection, Sequence

from service.runtime.slots import Slots
from service.upstream.upstream import Lookups
from service.upstream.words import ForwardRows

#: Statements of one snapshot, with the texts of their parameters.
Queries = Sequence[tuple[str, Sequence[str | None]]]
Found = asyncio.Future[ForwardRows]
_Equal = tuple[tuple[str, tuple[str | None, ...]], ...]


class ForwardTasks:
    """*State*: `_waiting`, who gets the answer of the next statement; `_tasks` has one task for each that runs."""

    def __init__(self, lookups: Lookups, slots: Slots) -> None:
        self._lookups = lookups
        self._slots = slots
        self._waiting: dict[_Equal, list[Found]] = {}
        self._tasks: dict[_Equal, asyncio.Task[None]] = {}

    def ask(self, queries: Queries, tables: Collection[str]) -> Found:
        """What the upstream answers; whatever running them raises. Cancel it if nobody waits for it any more. `tables`:
        what they read, as far as that is known."""
        equal = tuple((sql, tuple(parameters)) for sql, parameters in queries)
        found: Found = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(equal, []).append(found)
        if equal not in self._tasks:
            self._tasks[equal] = asyncio.get_running_loop().create_task(self._run(equal, tables))
        return found

    async def _run(self, equal: _Equal, tables: Collection[str]) -> None:
        try:
            while equal in self._waiting:
                async with self._slots.of(tables):
                    waiting = [found for found in self._waiting.pop(equal) if not found.done()]
                    if waiting:
                        await self._answer(equal, waiting)
        finally:
            del self._tasks[equal]

    async def _answer(self, queries: Queries, waiting: list[Found]) -> None:
        try:
            rows = await self._lookups.forward(queries)
        except Exception as error:
            for found in waiting:
                if not found.done():
                    found.set_exception(error)
        else:
            for found in waiting:
                if not found.done():
                    found.set_result(rows)
