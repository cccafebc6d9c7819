"""Tasks that run the engine's lookups upstream, a bounded number at once.

Not here: running and versioning of one lookup (`service.engine.upstream.upstream`), the choice of lookups
(`dataflow.engine`), initial loads (`service.engine.initial_load.loads`).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import structlog

from dataflow.engine.effects import CancelLookup
from dataflow.engine.events import LookupDone, LookupFailed, LookupTooLarge
from dataflow.plan.nodes import table_of
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.types import LookupId, NodeId
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import Room
from service.engine.reads.slots import Slots
from service.engine.upstream import bridge
from service.engine.upstream.results import UNLIMITED, AnswerSize, UpstreamError
from service.engine.upstream.upstream import Lookups
from service.protocol.counters import Counters

log = structlog.get_logger()

#: Failures that affect every lookup of the relation. Others concern one key, or are temporary.
BREAKING = frozenset({"missing", "denied"})


@dataclass(slots=True)
class LookupCounts:
    """Lookup counts of an engine node."""

    lookups: int = 0
    keys: int = 0
    rows: int = 0
    duration_s: float = 0.0


class LookupTasks:
    """One task for each lookup in flight.

    Maintains: `_tasks` contains the lookups without a result. After `restart`, earlier lookups report nothing. `counts`
    is by node of this engine; removed nodes may remain for a while. A lookup by keys is aborted when its rows exceed
    `of_keys`.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        lookups: Lookups,
        slots: Slots,
        room: Room,
        counters: Counters,
        of_keys: AnswerSize,
    ) -> None:
        self._dispatcher = dispatcher
        self._lookups = lookups
        self._slots = slots
        self._room = room
        self._counters = counters
        self._catalog = Catalog()
        self._of_keys = of_keys
        self._tasks: dict[LookupId, asyncio.Task[None]] = {}
        self.counts: dict[NodeId, LookupCounts] = {}
        self._of_everything: Callable[[Lookup], None] = self.start
        self._cancel_other: Callable[[LookupId], None] = lambda _: None
        dispatcher.on(Lookup, self._take)
        dispatcher.on(CancelLookup, self._cancel)

    @property
    def in_flight(self) -> int:
        """Number of lookups without a result."""
        return len(self._tasks)

    def restart(self, catalog: Catalog) -> None:
        """Discards the lookups of the old engine; the new one uses `catalog`."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        self.counts.clear()
        self._catalog = catalog

    def on_everything(self, take: Callable[[Lookup], None], cancel: Callable[[LookupId], None]) -> None:
        """Registers `take` for lookups of all rows, which may `start` them here, and `cancel` for lookups that do not
        run here."""
        self._of_everything, self._cancel_other = take, cancel

    def _take(self, lookup: Lookup) -> None:
        if lookup.columns or lookup.part is not None:
            self.start(lookup)
        else:
            self._of_everything(lookup)

    def start(self, lookup: Lookup) -> None:
        """Runs a lookup and hands its result to the engine at once."""
        self._tasks[lookup.id] = asyncio.get_running_loop().create_task(self._run(lookup))

    def _cancel(self, cancel: CancelLookup) -> None:
        task = self._tasks.pop(cancel.id, None)
        if task is not None:
            task.cancel()
        else:
            self._cancel_other(cancel.id)

    async def _run(self, lookup: Lookup) -> None:
        event: LookupDone | LookupFailed | LookupTooLarge
        try:
            event = await self._look_up(lookup)
        except UpstreamError as error:
            event = self._failed(lookup, error)
        except Exception:
            # A bug in the service. Waiting reads get an error instead of waiting forever.
            self._counters.lookup_failures += 1
            log.exception("lookup failed", relation=table_of(lookup.relation))
            event = LookupFailed(
                lookup.id,
                "A lookup failed because of an internal error; the service's log has the cause.",
                retryable=False,
            )
        del self._tasks[lookup.id]
        self._dispatcher.step(event)

    def _failed(self, lookup: Lookup, error: UpstreamError) -> LookupFailed | LookupTooLarge:
        if error.code == "too_large":
            self._counters.lookups_too_large += 1
            return LookupTooLarge(lookup.id)
        self._counters.lookup_failures += 1
        log.warning("lookup failed", relation=table_of(lookup.relation), reason=str(error), code=error.code)
        return LookupFailed(lookup.id, error.public_text, error.code not in BREAKING, error.of_query)

    async def _look_up(self, lookup: Lookup) -> LookupDone:
        async with self._slots.slot((table_of(lookup.relation),)):
            await self._room()
            started_s = perf_counter()
            found = await self._lookups.run(lookup, self._catalog, self._of_keys if lookup.columns else UNLIMITED)
        self._count(lookup, len(found.rows), perf_counter() - started_s)
        return LookupDone(lookup.id, found.rows, bridge.snapshot(found.snapshot), found.bound)

    def _count(self, lookup: Lookup, rows: int, took_s: float) -> None:
        self._counters.lookups += 1
        self._counters.lookup_keys += len(lookup.keys)
        self._counters.lookup_rows += rows
        of_node = self.counts.get(lookup.node)
        if of_node is None:
            self._forget_nodes()
            of_node = self.counts[lookup.node] = LookupCounts()
        of_node.lookups += 1
        of_node.keys += len(lookup.keys)
        of_node.rows += rows
        of_node.duration_s += took_s

    def _forget_nodes(self) -> None:
        """Removes the counts of nodes that were dropped with their views, before one is added."""
        engine = self._dispatcher.engine
        if engine is not None:
            self.counts = {node: counts for node, counts in self.counts.items() if node in engine.graph.by_id}
