"""Keeps what is in memory, engine state and leaf store together, within the budget.

Above the budget, keys are evicted until `TARGET` of it is used, in slices that take `SLICE_S` each; between two slices
the loop runs whatever else is ready. Where more comes than that takes away, above `CEILING` of the budget, slices are
longer, and reads that miss, and what is not under way upstream yet, wait until there is room.

What is used is counted, and the kernel has its own count of the process, which an allocator that cannot give back what
lies between things makes larger. Where the process grows past the margin (`allowed_bytes`), so much less may be used,
and what comes next takes the place of what went.

*Invariants*: slices are of bounded length. One round takes no more than about a tenth of the keys, but to get back
within the budget. Above the ceiling no read is begun and nothing is asked of the upstream, so
what is used exceeds it by no more than what was under way. When nothing is left that may go, or nobody keeps to the
budget because there is no session, nobody waits for room.

Not here: which keys go (`dataflow.eviction`), what goes with them (`dataflow.engine.budget`), what is not let in
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

#: Returns once there is room in memory for what is to be brought in.
Room = Callable[[], Awaitable[None]]
#: Eviction goes on down to this part of the budget, so that it is not begun for every key.
TARGET = 0.95
#: It ends before where this part of the keys has gone and the budget is kept to: with much that is kept whole, so many
#: bytes can be more than all keys take.
ENOUGH_KEYS = 0.1
#: Above this part of the budget, whoever wants to add waits.
CEILING = 1.05
#: Of this thread's time: on a busy machine a slice is not to be less work.
SLICE_S = 0.002
LONG_SLICE_S = 0.008
#: By how much the process may grow beyond the budget: a part of it, and so many bytes.
MARGIN = 0.1
MARGIN_BYTES = 16 << 20
#: This part of the budget may be used, whatever the kernel says.
_LEAST = 0.7
#: How often it is looked, whether anything was added or not; and how often at most.
PERIOD_S = 0.5
_LOOK_S = 0.005
_MAX_SLICE_KEYS = 2048


class MemoryBudget:
    """`budget_bytes` for the engine's state and the leaf store's pages.

    State: `limit_bytes`, what may be used, the budget or less; `base`, the process before it held anything;
    `_slice_keys` follows what can be evicted in `SLICE_S`. `exhausted`: nothing was left to evict (full views, pinned
    keys and what waiting reads have fetched stay), and more than the limit was used.
    """

    def __init__(self, dispatcher: Dispatcher, leaf: LeafWriter, budget_bytes: int, counters: Counters) -> None:
        self.budget_bytes = self.limit_bytes = budget_bytes
        self.base: ProcessMemory | None = None
        self.exhausted = False
        #: The longest slice, in seconds on the clock.
        self.longest_slice_s = 0.0
        self._dispatcher = dispatcher
        self._leaf = leaf
        self._counters = counters
        self._slice_keys = 16
        self._look_at = 0.0
        #: Whether the file system has room for clearly less than the budget.
        self._short_of_room = False
        #: Whether `keep` runs: it is what makes room.
        self._kept = False
        self._over = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        dispatcher.on_growth(self._look)

    @property
    def allowed_bytes(self) -> int:
        """By how much the process may have grown."""
        return int(self.budget_bytes * (1 + MARGIN)) + MARGIN_BYTES

    @property
    def used_bytes(self) -> int:
        """What counts."""
        engine = self._dispatcher.engine
        return self._leaf.used_bytes + (0 if engine is None else engine.state_bytes())

    async def room(self) -> None:
        """Returns once more may be brought in."""
        # Of those who waited, the first ones may bring in so much that the others wait again.
        while not self._room.is_set():
            await self._room.wait()

    async def keep(self) -> None:
        """Evicts when it is time to, for as long as it runs."""
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
        """The process holds nothing yet."""
        self.base = process_memory()

    @property
    def grown_bytes(self) -> int:
        """By how much the process has grown, as the kernel counts."""
        base, now = self.base, process_memory()
        return 0 if base is None else now.own_bytes + now.shared_bytes - base.own_bytes - base.shared_bytes

    def _heed_process(self) -> None:
        excess = self.grown_bytes - self.allowed_bytes
        limit = max(self.budget_bytes - max(0, excess), int(self.budget_bytes * _LEAST))
        if limit < self.limit_bytes == self.budget_bytes:
            log.info("the process has outgrown the memory budget; less is used", limit_bytes=limit)
        self.limit_bytes = limit

    def _heed_file_system(self) -> None:
        """Less may be used while others leave the leaf store's file no room to grow."""
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
        """Evicts until so many bytes less are used, or nothing is left to evict. How many keys of views that took.

        Where reads bring in what goes, it ends when so many bytes went.
        """
        used = self.used_bytes
        return await self._evict_to(max(0, used - state_bytes), most_bytes=min(state_bytes, used))

    async def _until_over(self) -> None:
        if self.exhausted:
            # What is there will not go before something changes.
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
        """How many keys of views went. `most_bytes`: how much is to go, whatever comes meanwhile; `enough_keys` need
        not be followed by others where the limit is kept to.

        Slices of several callers alternate, and each counts its own: with reads that bring in what goes, one round
        may have no end, and another one does not wait for it.
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
        self._look_at = now + _LOOK_S
        self._heed_file_system()
        used = self.used_bytes
        if used <= self.limit_bytes:
            return
        self._over.set()
        if used > self._ceiling_bytes and self._kept and not self.exhausted:
            self._room.clear()

    def _slice(self, wanted_s: float, most_keys: float) -> bool:
        """One slice, of so many keys at most; whether there is more that may go."""
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
        """Says it once when the budget cannot be kept to, and once when it can again."""
        exhausted = used > self.limit_bytes
        if exhausted or used <= self._ceiling_bytes:
            self._room.set()
        if exhausted == self.exhausted:
            return
        self.exhausted = exhausted
        if exhausted:
            log.warning(
                "over the memory budget, and nothing is left to evict: give [engine] memory more, or drop views that "
                "are kept whole",
                used_bytes=used,
                budget_bytes=self.budget_bytes,
            )
        else:
            log.info("within the memory budget again", used_bytes=used, budget_bytes=self.budget_bytes)
