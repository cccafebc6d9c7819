"""A read that waits for the engine.

Not here: its way through the engine (`misses`).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.types import ReadId, Row
from service.engine.reads.forward_tasks import Found
from service.engine.views.registry import InstalledView
from service.leaf_store.request import LeafRequest
from service.protocol.reads import ReadItem, ReadReply, StoredReply


@dataclass(eq=False, slots=True)
class PendingRead:
    """One read that waits. It has no items if no reader waits for the keys that are filled (`Misses.cover`)."""

    items: Sequence[ReadItem]
    #: Views of `items` when the request arrived.
    views: list[InstalledView]
    requests: list[LeafRequest]
    #: Its result is None if an answer cannot be computed: the database would fail, too.
    reply: asyncio.Future[ReadReply | StoredReply | None]
    #: Whether the reply has rows that are stored.
    with_rows: bool
    #: Id used by the engine; each repetition has a new one.
    id: ReadId
    #: Whether it has the engine cover whole keys only.
    of_whole_keys: bool = False
    rounds: int = 0
    #: Running upstream query, if any.
    found: Found | None = None
    #: Rows of a forwarded read, by item, until the engine has determined their position.
    forwarded: list[list[Row]] | None = None

    @property
    def forwards(self) -> bool:
        """True if misses of all views of the read fall back to the upstream."""
        return all(view.forwards for view in self.views)
