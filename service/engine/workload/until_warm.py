"""Use of the answers of the session before, until the session that follows it without its state is warm.

*Theory*: a session that begins empty answers holes as the one before did (`service.leaf_store.previous`). Readers do
not see a herd of misses, and the database does not get one, while the hot keys are filled in batches. It costs age, so
it ends as soon as these are filled and the views that are kept whole are loaded, and in any case after a time limit. It
costs memory, so it ends when that is needed.

Not here: filling (`hot_keys`); bounds of age and versions of single reads (`service.worker.reads.reads`).
"""

import asyncio
import time

import structlog

from service.engine.loop.memory_budget import MemoryBudget
from service.engine.views.registry import Status, ViewRegistry
from service.engine.workload.hot_keys import HotKeys
from service.leaf_store.writer import LeafWriter

log = structlog.get_logger()

#: Records that are deleted between two turns of the event loop: about a millisecond.
_SLICE = 250
#: Interval of checks.
_LOOK_S = 0.05
#: Share of the memory budget from which on their memory is needed; filling stops somewhat above.
_NEEDED = 0.75


class UntilWarm:
    """`limit_s`: maximum time for which they are used."""

    def __init__(
        self, leaf: LeafWriter, hot_keys: HotKeys, registry: ViewRegistry, budget: MemoryBudget, limit_s: float
    ) -> None:
        self._leaf = leaf
        self._hot_keys = hot_keys
        self._registry = registry
        self._budget = budget
        self._limit_s = limit_s

    @property
    def is_allowed(self) -> bool:
        """Returns whether answers may be set aside."""
        return self._limit_s > 0 and not self._needs_memory

    async def keep(self) -> None:
        """Deletes them when they are not used any longer; until cancelled."""
        if self._leaf.has_previous:
            began_s = time.monotonic()
            log.info("reads of holes get the answers of the session before until the cache is warm")
            while (reason := self._over(time.monotonic() - began_s)) is None:
                await asyncio.sleep(_LOOK_S)
            while self._leaf.has_previous:
                self._leaf.delete_previous(_SLICE)
                await asyncio.sleep(0)
            log.info(
                "the answers of the session before are deleted",
                reason=reason,
                seconds=round(time.monotonic() - began_s, 1),
            )
        await asyncio.Event().wait()

    def _over(self, after_s: float) -> str | None:
        """Returns why they are not used any longer."""
        if not self._leaf.uses_previous:
            return "A view was changed, or keys were evicted."
        if not self._hot_keys.filling_list and not self._is_loading:
            return "The cache is warm."
        if after_s >= self._limit_s:
            return "The time limit has passed."
        if self._needs_memory:
            return "Their memory is needed."
        return None

    @property
    def _needs_memory(self) -> bool:
        return self._budget.used_bytes >= _NEEDED * self._budget.limit_bytes

    @property
    def _is_loading(self) -> bool:
        installed = (view.installed for view in self._registry.views.values())
        return any(view is not None and view.status is Status.BUILDING for view in installed)
