"""How far the upstream's log goes, asked for positions that clients name.

*Invariants*: a position is refused only if the log ended before it when that was asked, which was after it was named.
However many ask, one question at a time is open.

Not here: positions of a log that is gone (`server_identity`), waiting for them (`positions`).
"""

import asyncio

from dataflow.types import Position
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Lookups
from service.ground.errors import ApiError
from service.ground.version import version_text


class LogEnd:
    """*State*: `_open`, the question that is asked now; `_next`, the one behind it, for all that came meanwhile."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._open: asyncio.Task[Position | None] | None = None
        self._next: asyncio.Task[Position | None] | None = None

    async def refuse_beyond(self, position: Position) -> None:
        """ApiError ``bad_request`` for a position that the log has not come to; none while the upstream cannot be
        asked."""
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
