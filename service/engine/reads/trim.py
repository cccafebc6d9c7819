"""Trimming: evicts partly covered keys that have grown far beyond their requested extents; the next read covers only
what it needs.

*Maintains*: recently requested extents by key, in two generations, so that old ones are forgotten.

Not here: the detection of grown keys (`service.leaf_store.commit`), evictions by the budget (`dataflow.engine`).
"""

import asyncio

import orjson

from dataflow.engine.events import EvictKey
from dataflow.types import Key, Position, ViewId
from service.engine.loop.dispatcher import Dispatcher
from service.engine.reads.extents import rows_asked
from service.leaf_store.answer import StoredAnswer
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.commit import LARGE_PART_ROWS
from service.leaf_store.request import LeafRequest, Values
from service.leaf_store.writer import LeafWriter

#: Assumed extent of a key without a recent miss.
_DEFAULT_ROWS = 100
#: Keys of a generation.
_MAX_KEYS = 10_000
#: Extent of a read without a number of rows, which may need all of them.
_ALL_ROWS = 1 << 62


class Trimmer:
    """Records missed reads and evicts grown keys after commits."""

    def __init__(self, dispatcher: Dispatcher, leaf: LeafWriter) -> None:
        self._dispatcher = dispatcher
        self._leaf = leaf
        self._asked: dict[tuple[ViewId, Key], int] = {}
        self._asked_before: dict[tuple[ViewId, Key], int] = {}
        dispatcher.on_move(self._moved)

    def read(self, info: ViewInfo, values: Values, request: LeafRequest, answer: StoredAnswer | None = None) -> None:
        """Records the extent of a missed read that was answered; `answer` may be None for a key whose rows are all
        read."""
        if not info.storage or info.within:
            return
        rows = rows_asked(info, values, request)
        if rows is None and info.clock and answer is not None:
            # Rows that have left the time window stay until the key is evicted.
            rows = len(orjson.loads(answer.rows))
        for key in request.keys:
            at = (info.id, key)
            wanted = info.offset_rows + rows if rows is not None else _ALL_ROWS
            if (info.filters or info.at_read) and at not in self._asked:
                # An answer does not show how many rows it was made of. A later miss also has rows that have left.
                wanted = max(wanted, self._leaf.reader.rows_stored(info, key))
            self._asked[at] = max(self._rows(at), wanted)
        if len(self._asked) > _MAX_KEYS:
            self._asked_before, self._asked = self._asked, {}

    def _rows(self, at: tuple[ViewId, Key]) -> int:
        info = self._leaf.info(at[0])
        own = info.offset_rows + (info.limit_rows or 0)
        return max(self._asked.get(at, 0), self._asked_before.get(at, 0), own, _DEFAULT_ROWS)

    def _moved(self, _: Position) -> None:
        for at, rows in self._leaf.large_parts.items():
            if rows > 2 * self._rows(at) + LARGE_PART_ROWS:
                self._asked.pop(at, None)
                self._asked_before.pop(at, None)
                # In a step of its own: other parts have not processed the current step yet.
                asyncio.get_running_loop().call_soon(self._dispatcher.step, EvictKey(*at))
