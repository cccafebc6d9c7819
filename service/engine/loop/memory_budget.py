"""Memory budget: bounds engine state and leaf store together by eviction.

Above the budget, keys are evicted down to `TARGET` of it, in slices of `SLICE_S` each; between slices the loop runs all
other ready tasks. If more is added than eviction frees and use exceeds `CEILING`, slices become longer, and misses and
unsent lookups wait for room.

Use is counted by the engine. The kernel's count of the process is larger, because of fragmentation in the allocator. If
the process grows past its margin (`allowed_bytes`), the limit is lowered by the excess, and new rows reuse freed
memory.

*Invariants*: slices have a bounded length. A round evicts at most about a tenth of the keys, unless more is needed to
return to the budget. Above the ceiling no read begins and no lookup is sent, so use exceeds it by at most the lookups
in flight. If nothing is left to evict, or eviction does not run because no session does, nothing waits for room.

Not here: the choice of keys (`dataflow.eviction`), dependent state (`dataflow.engine.budget`), admission of views
(`service.engine.views.admission`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from time import perf_counter, thread_time

import structlog

from dataflow.engine.events import EvictSome
from service.engine.loop.dispatcher import Dispatcher
from service.ground.process_memory import ProcessMemory, process_memory
from service.leaf_store.writer import LeafWriter
from service.protocol.counters import Counters

log = structlog.get_logger()

#: Returns once memory has room for more rows.
Room = Callable[[], Awaitable[None]]
#: Eviction continues down to this fraction of the budget, so that it does not start for every key.
TARGET = 0.95
#: A round ends earlier once this fraction of the keys is evicted and use is within the budget: if full views use most
#: of the budget, reaching the target could take all keys.
ENOUGH_KEYS = 0.1
#: Above this fraction of the budget, additions wait.
CEILING = 1.05
#: Thread time, so that slices do the same work on a busy machine.
SLICE_S = 0.002
LONG_SLICE_S = 0.008
#: Permitted growth of the process beyond the budget: a fraction of it plus a number of bytes.
MARGIN = 0.1
MARGIN_BYTES = 16 << 20
#: Fraction of the budget that is always usable, whatever the kernel's count.
_LEAST = 0.7
#: Interval between checks without additions, and minimum interval between checks: while use is below `_NEAR` of the
#: limit, and then. A check costs about as much as a miss.
PERIOD_S = 0.5
_FAR_LOOK_S, _LOOK_S = 0.05, 0.005
_NEAR = 0.8
_MAX_SLICE_KEYS = 2048


class MemoryBudget:
    """`budget_bytes` for the engine's state and the leaf store's pages.

    State: `limit_bytes`, the usable part of the budget; `base`, the size of the process with empty state;
    `_slice_keys`, the number of keys evicted in about `SLICE_S`; `exhausted`, True if use exceeded the limit and
    nothing was left to evict (full views, pinned keys and rows fetched for waiting reads stay).
    """

    def __init__(self, dispatcher: Dispatcher, leaf: LeafWriter, budget_bytes: int, counters: Counters) -> None:
        self.budget_bytes = self.limit_bytes = budget_bytes
        self.base: ProcessMemory | None = None
        self.exhausted = False
        #: Longest slice so far, in wall clock seconds.
        self.longest_slice_s = 0.0
        self._dispatcher = dispatcher
        self._leaf = leaf
        self._counters = counters
        self._slice_keys = 16
        self._look_at = 0.0
        #: True while the file system has clearly less room than the budget.
        self._short_of_room = False
        #: True while `keep` runs, which makes room.
        self._kept = False
        self._over = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        dispatcher.on_growth(self._look)

    @property
    def allowed_bytes(self) -> int:
        """Permitted growth of the process."""
        return int(self.budget_bytes * (1 + MARGIN)) + MARGIN_BYTES

    @property
    def used_bytes(self) -> int:
        """Bytes of engine state and leaf store."""
        engine = self._dispatcher.engine
        return self._leaf.used_bytes + (0 if engine is None else engine.state_bytes())

    async def room(self) -> None:
        """Returns once memory has room for more rows."""
        # Earlier waiters may have filled the room again.
        while not self._room.is_set():
            await self._room.wait()

    async def keep(self) -> None:
        """Evicts whenever use exceeds the limit, until cancelled."""
        self._kept = True
        try:
            while True:
                await self._until_over()
                self._heed_process()
                self._heed_file_system()
                if self.used_bytes > self.limit_bytes:
                    await self._evict_to(int(self.limit_bytes * TARGET), self._enough_keys())
                self._note(self.used_bytes)
        finally:
            self._kept = False
            self._room.set()

    def begin(self) -> None:
        """Records the size of the process with empty state."""
        self.base = process_memory()

    @property
    def grown_bytes(self) -> int:
        """Growth of the process by the kernel's count."""
        base, now = self.base, process_memory()
        return 0 if base is None else now.own_bytes + now.shared_bytes - base.own_bytes - base.shared_bytes

    def _heed_process(self) -> None:
        excess = self.grown_bytes - self.allowed_bytes
        limit = max(self.budget_bytes - max(0, excess), int(self.budget_bytes * _LEAST))
        if limit < self.limit_bytes == self.budget_bytes:
            log.info("the process has outgrown the memory budget; the limit is lowered", limit_bytes=limit)
        self.limit_bytes = limit

    def _heed_file_system(self) -> None:
        """Lowers the limit while the leaf store's file system has too little room for the budget."""
        most = self._leaf.most_bytes
        if (short := most < self.budget_bytes * TARGET) != self._short_of_room:
            self._short_of_room = short
            say = log.warning if short else log.info
            say("room in the file system of the leaf store", short=short, limit_bytes=most)
        self.limit_bytes = min(self.limit_bytes, most)

    @property
    def _ceiling_bytes(self) -> int:
        return int(self.limit_bytes * CEILING)

    async def free(self, state_bytes: int) -> int:
        """Evicts until use has fallen by `state_bytes`, or nothing is left to evict. Returns the number of view keys
        evicted.

        While reads refill keys, it ends once `state_bytes` have been evicted.
        """
        used = self.used_bytes
        return await self._evict_to(max(0, used - state_bytes), most_bytes=min(state_bytes, used))

    async def _until_over(self) -> None:
        if self.exhausted:
            # Nothing can be evicted until the state changes.
            await asyncio.sleep(PERIOD_S)
            return
        try:
            async with asyncio.timeout(PERIOD_S):
                await self._over.wait()
        except TimeoutError:
            pass
        self._over.clear()

    def _enough_keys(self) -> int:
        engine = self._dispatcher.engine
        return 1 if engine is None else max(1, int(engine.evictable * ENOUGH_KEYS))

    async def _evict_to(self, target_bytes: int, enough_keys: float = inf, most_bytes: float = inf) -> int:
        """Evicts down to `target_bytes` and returns the number of view keys evicted. `most_bytes` ends it after that
        many bytes, even if reads refill them; `enough_keys` ends it early once use is within the limit.

        Slices of several callers alternate, and each caller counts its own: while reads refill keys, one round may last
        long without delaying another.
        """
        gone = 0
        while (used := self.used_bytes) > target_bytes and most_bytes > 0:
            if used <= self.limit_bytes and gone >= enough_keys:
                break
            urgent = used > self._ceiling_bytes
            if not urgent:
                self._room.set()
            before = self._counters.leaf_evictions
            more = self._slice(LONG_SLICE_S if urgent else SLICE_S, max(1, enough_keys - gone))
            gone += self._counters.leaf_evictions - before
            if not more:
                break
            most_bytes -= used - self.used_bytes
            await asyncio.sleep(0)
        return gone

    def _look(self) -> None:
        now = perf_counter()
        if now < self._look_at:
            return
        self._heed_file_system()
        used = self.used_bytes
        self._look_at = now + (_LOOK_S if used > self.limit_bytes * _NEAR else _FAR_LOOK_S)
        if used <= self.limit_bytes:
            return
        self._over.set()
        if used > self._ceiling_bytes and self._kept and not self.exhausted:
            self._room.clear()

    def _slice(self, wanted_s: float, most_keys: float) -> bool:
        """Evicts one slice of at most `most_keys`. Returns whether more can be evicted."""
        started, started_cpu = perf_counter(), thread_time()
        chosen = int(min(self._slice_keys, most_keys))
        self._dispatcher.step(EvictSome(chosen))
        took_s = thread_time() - started_cpu
        self._counters.budget_slices += 1
        self.longest_slice_s = max(self.longest_slice_s, perf_counter() - started)
        keys = chosen * min(2.0, wanted_s / max(took_s, 1e-6))
        self._slice_keys = max(1, min(_MAX_SLICE_KEYS, round(keys)))
        engine = self._dispatcher.engine
        return engine is not None and self._dispatcher.running and not engine.exhausted

    def _note(self, used: int) -> None:
        """Logs once when the budget is exceeded for good, and once when it no longer is."""
        exhausted = used > self.limit_bytes
        if exhausted or used <= self._ceiling_bytes:
            self._room.set()
        if exhausted == self.exhausted:
            return
        self.exhausted = exhausted
        if exhausted:
            log.warning(
                "over the memory budget, and nothing is left to evict: raise [engine] memory, or drop fully "
                "materialized views",
                used_bytes=used,
                budget_bytes=self.budget_bytes,
            )
        else:
            log.info("within the memory budget again", used_bytes=used, budget_bytes=self.budget_bytes)
