"""Partly covered keys that have grown far beyond what is read of them are evicted; the next read covers as much as it
needs.

*Maintains*: what was asked of a key lately, in two generations, so that what is not asked any more is forgotten.

Not here: which keys have grown (`service.leaf_store.commit`), the budget's evictions (`dataflow.engine`).
"""

import asyncio

from dataflow.engine.events import EvictKey
from dataflow.types import Key, Position, ViewId
from service.engine.loop.dispatcher import Dispatcher
from service.engine.reads.extents import rows_asked
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.commit import LARGE_PART_ROWS
from service.leaf_store.request import LeafRequest, Values
from service.leaf_store.writer import LeafWriter

#: What a key is taken to be asked for if nobody missed lately.
_DEFAULT_ROWS = 100
#: Keys of a generation.
_MAX_KEYS = 10_000
#: Of a read without a number of rows: whatever is there may be what it wants.
_ALL_ROWS = 1 << 62


class CuttingBack:
    """Watches commits and reads that missed."""

    def __init__(self, dispatcher: Dispatcher, leaf: LeafWriter) -> None:
        self._dispatcher = dispatcher
        self._leaf = leaf
        self._asked: dict[tuple[ViewId, Key], int] = {}
        self._asked_before: dict[tuple[ViewId, Key], int] = {}
        dispatcher.on_move(self._moved)

    def read(self, info: ViewInfo, values: Values, request: LeafRequest) -> None:
        """A read that missed was answered."""
        if not info.storage or info.within:
            return
        rows = rows_asked(info, values, request)
        for key in request.keys:
            at = (info.id, key)
            self._asked[at] = max(self._rows(at), info.offset_rows + rows if rows is not None else _ALL_ROWS)
        if len(self._asked) > _MAX_KEYS:
            self._asked_before, self._asked = self._asked, {}

    def _rows(self, at: tuple[ViewId, Key]) -> int:
        info = self._leaf.info(at[0])
        own = info.offset_rows + (info.limit_rows or 0)
        return max(self._asked.get(at, 0), self._asked_before.get(at, 0), own, _DEFAULT_ROWS)

    def _moved(self, _: Position) -> None:
        for at, rows in self._leaf.large_parts.items():
            if rows > 2 * self._rows(at) + LARGE_PART_ROWS:
                # In a step of its own: others have not seen yet that this one is done.
                asyncio.get_running_loop().call_soon(self._dispatcher.step, EvictKey(*at))
