"""Check of the positions that clients send against the current end of the upstream's log.

*Invariants*: a position is refused only if a query sent after the request arrived reports a log that ends before it. At
most one query runs at a time, however many requests wait.

Not here: positions of a replaced server's log (`server_identity`), waiting for positions (`positions`).
"""

import asyncio

from dataflow.types import Position
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Lookups
from service.ground.errors import ApiError
from service.ground.version import version_text


class LogEnd:
    """Shared queries for the end of the log.

    *State*: `_open`, the running query; `_next`, the one that follows it, shared by all requests that arrived in
    between.
    """

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._open: asyncio.Task[Position | None] | None = None
        self._next: asyncio.Task[Position | None] | None = None

    async def refuse_beyond(self, position: Position) -> None:
        """Raises ApiError(bad_request) for a position beyond the end of the log; accepts any position while the
        upstream cannot be queried."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._ask(self._open))
        end = await asyncio.shield(self._next)
        if end is not None and position > end:
            raise ApiError(
                "bad_request",
                f"{version_text(position)} is not reached yet: the database's log ends at {version_text(end)}.",
                "Send the version of an earlier answer, or a position that the database has printed.",
            )

    async def _ask(self, before: asyncio.Task[Position | None] | None) -> Position | None:
        if before is not None:
            await asyncio.wait([before])
        self._open, self._next = self._next, None
        try:
            return (await self._lookups.snapshot()).bound
        except UpstreamError:
            return None
