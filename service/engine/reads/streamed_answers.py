"""Answers too large to be held: the upstream's rows as they come, for one client, past the store.

A view has its large answers so (`large_answers`). Each is run on a connection of its own: a client may take its time,
and what it has not taken stays with the database.

*Invariants*: no more of an answer is in memory than some thousand rows; a statement ends when its client has left, or
after `_LONGEST_S`; of a whole service so few run that they do not take the database's connections.

Not here: when an answer is too large (`forward_tasks`), HTTP (`service.worker.reads.large_answers`).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from dataflow.types import Position
from service.engine.loop.visibility import Visibility
from service.engine.reads.forwards import check_columns, check_registered, forward_query, forwarded_answer
from service.engine.reads.misses import Misses
from service.engine.reads.slots import Slots
from service.engine.upstream.problems import forward_problem
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.engine.views.registry import InstalledView
from service.ground.errors import ApiError
from service.leaf_store.writer import LeafWriter
from service.protocol.counters import Counters
from service.protocol.wire import ReadItem

#: At once. More are refused: whoever reads slowly keeps a connection to the database open.
_MOST = 4
#: No answer takes longer: it is broken off.
_LONGEST_S = 600.0


class StreamedReads:
    """*State*: `_running`, how many are being answered."""

    def __init__(
        self, reads: Misses, leaf: LeafWriter, upstream: Upstream, slots: Slots, visible: Visibility, counters: Counters
    ) -> None:
        self._reads = reads
        self._leaf = leaf
        self._upstream = upstream
        self._slots = slots
        self._visible = visible
        self._counters = counters
        self._running = 0

    async def read(self, item: ReadItem, minimum: Position | None, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Send the rows of a read without a window, as JSON objects with commas between them, some at a time, at least
        once: as the upstream has them now, with all of `minimum` and of the leaf store. Raises `ApiError`, also in the
        middle."""
        view = self._reads.readable(item, building=True)
        if self._running >= _MOST:
            raise ApiError("overloaded", f"{_MOST} large answers are being read already.", "Try again later.")
        self._running += 1
        self._counters.reads_streamed += 1
        try:
            async with asyncio.timeout(_LONGEST_S):
                state = self._leaf.reader.state()
                # Hits may show all that the store has.
                if shown := max(minimum or 0, 0 if state is None else state.position):
                    await self._visible.wait(shown)
                async with aclosing(self._parts(view, item)) as parts:
                    async for part in parts:
                        await send(part)
        except TimeoutError:
            raise ApiError("read_timeout", f"The answer was not read within {_LONGEST_S:g} s.") from None
        except (ApiError, UpstreamError) as error:
            raise forward_problem(error) from None
        finally:
            self._running -= 1

    async def _parts(self, view: InstalledView, item: ReadItem) -> AsyncGenerator[bytes]:
        check_registered(self._leaf, [view])
        self._slots.breakers.check(view.plan.shared_by)
        sql, parameters = forward_query(view.plan, self._leaf.info(view.id), item.values)
        between = b""
        async with aclosing(self._upstream.stream(sql, parameters)) as chunks:
            async for columns, rows in chunks:
                check_columns([view.plan], [columns])
                check_registered(self._leaf, [view])
                answer = forwarded_answer(self._leaf, view.id, view.plan, rows, item.values, None)
                part = answer.rows[1:-1]
                yield between + part if part else b""
                between = b"," if part or between else b""
