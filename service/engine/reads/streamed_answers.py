"""Streamed answers: upstream rows sent to one client as they arrive, for answers too large to hold in memory.

Views opt in with `large_answers`. Each answer runs on a connection of its own: a client may be slow, and unread rows
stay in the database.

*Invariants*: at most some thousand rows of an answer are in memory; a statement ends when its client disconnects, or
after `_LONGEST_S`; the number of concurrent answers of the service is limited, so that they do not exhaust the
database's connections.

Not here: the size limit (`forward_tasks`), HTTP (`service.worker.reads.large_answers`).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from dataflow.types import Position
from service.engine.loop.visibility import Visibility
from service.engine.reads.forwards import check_registered, forward_query, forwarded_answer, rows_of_view
from service.engine.reads.misses import Misses
from service.engine.reads.slots import Slots
from service.engine.upstream.problems import forward_problem
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.engine.views.registry import InstalledView
from service.ground.errors import ApiError
from service.leaf_store.writer import LeafWriter
from service.protocol.counters import Counters
from service.protocol.reads import ReadItem

#: Maximum concurrent answers; further requests are refused, since a slow client holds a database connection.
_MOST = 4
#: Maximum duration of an answer; it is aborted then.
_LONGEST_S = 600.0


class StreamedReads:
    """Streams answers. *State*: `_running`, the number of running answers."""

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
        """Sends the rows of a read without a page, as JSON objects separated by commas, in parts, at least one: the
        upstream's current rows, at a snapshot that includes `minimum` and the leaf store. Raises `ApiError`, possibly
        after some parts."""
        view = self._reads.readable(item, building=True)
        if self._running >= _MOST:
            raise ApiError(
                "overloaded", f"{_MOST} large answers are already being streamed, the maximum.", "Try again later."
            )
        self._running += 1
        self._counters.reads_streamed += 1
        try:
            async with asyncio.timeout(_LONGEST_S):
                state = self._leaf.reader.state()
                # Hits may have shown everything in the store.
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
                rows = rows_of_view(view, columns, rows)
                check_registered(self._leaf, [view])
                answer = forwarded_answer(self._leaf, view.id, view.plan, rows, item.values, None)
                part = answer.rows[1:-1]
                yield between + part if part else b""
                between = b"," if part or between else b""
