"""Tasks that run the engine's lookups upstream, in a bounded number of rounds at once.

Not here: running and versioning of lookups (`service.engine.upstream.upstream`), the choice of lookups
(`dataflow.engine`), initial loads (`service.engine.initial_load.loads`).
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import islice
from math import inf
from time import perf_counter
from typing import Any

import structlog

from dataflow.engine.effects import CancelLookup
from dataflow.engine.events import LookupDone, LookupFailed, LookupsDone, LookupTooLarge
from dataflow.plan.nodes import table_of
from dataflow.plan.parts import Lookup, tables_of
from dataflow.plan.rewriting import at_most_one
from dataflow.schema import Catalog
from dataflow.types import LookupId, NodeId
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import Room
from service.engine.reads.slots import Slots
from service.engine.upstream import bridge
from service.engine.upstream.results import UNLIMITED, AnswerSize, LookupRows, UpstreamError
from service.engine.upstream.upstream import Lookups
from service.protocol.counters import Counters

log = structlog.get_logger()

#: Failures that affect every lookup of the relation. Others concern one key, or are temporary.
BREAKING = frozenset({"missing", "denied"})
#: Maximum lookups of a round, so that one connection is busy for a short time.
ROUND_LOOKUPS = 16
#: Maximum rows that are expected of a lookup in a round.
_ROUND_ROWS = 500
#: Maximum wait, beyond a round trip, for a lookup that others of its round wait for; it is run again alone.
_STALL_S = 0.1
#: Assumed round trip until one has been measured.
_UNKNOWN_TRIP_S = 1.0
#: Growth of the fastest time with each lookup or round that takes longer.
_LONGER = 1.02


@dataclass(slots=True)
class LookupCounts:
    """Lookup counts of an engine node."""

    lookups: int = 0
    keys: int = 0
    rows: int = 0
    duration_s: float = 0.0


@dataclass(eq=False, slots=True)
class _Running:
    """Lookups that one task runs. *State*: `lookups`, those without a result."""

    lookups: dict[LookupId, Lookup]
    task: asyncio.Task[None]


class LookupTasks:
    """Runs lookups in rounds: those that begin in one turn of the loop, or while all rounds are busy, run together on
    one connection, and the engine gets their results in one step. Nothing waits for a round to fill. A lookup runs
    alone if many rows, or an unknown number, are expected, or if its table was slow when it was last queried: others do
    not wait for it. A semijoin runs in a round or not at all: which of its tables is slow would not be known.

    Maintains: `_waiting` and `_running` contain the lookups without a result. After `restart`, earlier lookups report
    nothing. `counts` is by node of this engine; removed nodes may remain for a while. A lookup by keys is aborted when
    its rows exceed `of_keys`.
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
        self._waiting: dict[LookupId, Lookup] = {}
        self._running: dict[LookupId, _Running] = {}
        self._rounds = 0
        #: Tables whose lookup was not answered in time, or failed.
        self._slow: set[str] = set()
        #: The fastest lookups, or rounds, take a round trip.
        self._trip_s = _UNKNOWN_TRIP_S
        self.counts: dict[NodeId, LookupCounts] = {}
        self._of_everything: Callable[[Lookup], None] = self.start
        self._cancel_other: Callable[[LookupId], None] = lambda _: None
        dispatcher.on(Lookup, self._take)
        dispatcher.on(CancelLookup, self._cancel)

    @property
    def in_flight(self) -> int:
        """Number of lookups without a result."""
        return len(self._waiting) + len(self._running)

    def restart(self, catalog: Catalog) -> None:
        """Discards the lookups of the old engine; the new one uses `catalog`."""
        for running in self._running.values():
            running.task.cancel()
        self._running.clear()
        self._waiting.clear()
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
        if not self._is_small(lookup):
            alone = self._run_alone if lookup.semijoin is None else self._omit
            self._create_task([lookup], alone(lookup))
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._begin_rounds)
        self._waiting[lookup.id] = lookup

    def _is_small(self, lookup: Lookup) -> bool:
        if not lookup.columns or lookup.part is not None or tables_of(lookup) & self._slow:
            return False
        return self._expected_rows(lookup) <= _ROUND_ROWS

    def _expected_rows(self, lookup: Lookup) -> float:
        semijoin = lookup.semijoin
        keys = len(lookup.keys) if semijoin is None else self._expected_rows(semijoin.lookup)
        counts = self.counts.get(lookup.node)
        if counts is not None:
            return keys * counts.rows / max(1, counts.keys)
        return keys if at_most_one(lookup.relation, set(lookup.columns), self._catalog) else inf

    def _begin_rounds(self) -> None:
        while self._waiting and self._rounds < self._slots.share:
            lookups = list(islice(self._waiting.values(), ROUND_LOOKUPS))
            for lookup in lookups:
                del self._waiting[lookup.id]
            self._rounds += 1
            self._create_task(lookups, self._run_round(lookups))
            self._running[lookups[0].id].task.add_done_callback(self._round_ended)

    def _round_ended(self, _: asyncio.Task[None]) -> None:
        self._rounds -= 1
        self._begin_rounds()

    def _create_task(self, lookups: list[Lookup], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        running = _Running({lookup.id: lookup for lookup in lookups}, task)
        self._running.update(dict.fromkeys(running.lookups, running))

    def _cancel(self, cancel: CancelLookup) -> None:
        running = self._running.pop(cancel.id, None)
        if running is not None:
            del running.lookups[cancel.id]
            if not running.lookups:
                running.task.cancel()
        elif self._waiting.pop(cancel.id, None) is None:
            self._cancel_other(cancel.id)

    def _end(self, lookup: Lookup) -> bool:
        """Ends a lookup; False if it was cancelled, or its engine is gone."""
        running = self._running.pop(lookup.id, None)
        if running is None:
            return False
        del running.lookups[lookup.id]
        return True

    async def _run_alone(self, lookup: Lookup) -> None:
        event: LookupsDone | LookupFailed | LookupTooLarge
        try:
            event = LookupsDone([await self._look_up(lookup)])
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
        if self._end(lookup):
            self._dispatcher.step(event)

    async def _omit(self, semijoin: Lookup) -> None:
        """Ends a semijoin without running it: its keys are looked up once they are known."""
        if self._end(semijoin):
            self._dispatcher.step(LookupFailed(semijoin.id, "A semijoin was not run.", retryable=True))

    async def _run_round(self, lookups: list[Lookup]) -> None:
        found: list[LookupRows | None] = [None] * len(lookups)
        started_s = perf_counter()
        try:
            # Without its tables: it waits for none of them long, and must not wait for the share of a locked one.
            async with self._slots.slot(()):
                await self._room()
                started_s = perf_counter()
                self._counters.lookup_rounds += 1
                found = await self._lookups.run_round(lookups, self._catalog, self._of_keys, self._stall_s)
        except UpstreamError as error:
            log.debug("a round of lookups failed; each runs alone", lookups=len(lookups), reason=str(error))
        except Exception:
            log.exception("a round of lookups failed; each runs alone", lookups=len(lookups))
        took_s = perf_counter() - started_s
        self._note_trip(took_s)
        results: list[LookupDone] = []
        for lookup, rows in zip(lookups, found, strict=True):
            if rows is None and lookup.semijoin is not None:
                await self._omit(lookup)
            elif not self._end(lookup):
                continue
            elif rows is None:
                self._slow.add(table_of(lookup.relation))
                self.start(lookup)
            else:
                self._count(lookup, rows, took_s / len(lookups))
                results.append(_done(lookup, rows))
        if results:
            self._dispatcher.step(LookupsDone(results))

    def _failed(self, lookup: Lookup, error: UpstreamError) -> LookupFailed | LookupTooLarge:
        if error.code == "too_large":
            self._counters.lookups_too_large += 1
            return LookupTooLarge(lookup.id)
        self._slow.add(table_of(lookup.relation))
        self._counters.lookup_failures += 1
        log.warning("lookup failed", relation=table_of(lookup.relation), reason=str(error), code=error.code)
        return LookupFailed(lookup.id, error.public_text, error.code not in BREAKING, error.of_query)

    async def _look_up(self, lookup: Lookup) -> LookupDone:
        table = table_of(lookup.relation)
        async with self._slots.slot((table,)):
            await self._room()
            started_s = perf_counter()
            most = self._of_keys if lookup.columns else UNLIMITED
            found = await self._lookups.run(lookup, self._catalog, most, self._stall_s)
        took_s = perf_counter() - started_s
        self._note_trip(took_s)
        if lookup.columns:
            (self._slow.add if found.stalled else self._slow.discard)(table)
        self._count(lookup, found, took_s)
        return _done(lookup, found)

    def _note_trip(self, took_s: float) -> None:
        # The way to the database may become longer.
        self._trip_s = min(took_s, _LONGER * self._trip_s)

    @property
    def _stall_s(self) -> float:
        return _STALL_S + self._trip_s

    def _count(self, lookup: Lookup, found: LookupRows, took_s: float) -> None:
        keys, rows = len(lookup.keys or found.keys), len(found.rows)
        self._counters.lookups += 1
        self._counters.lookup_keys += keys
        self._counters.lookup_rows += rows
        of_node = self.counts.get(lookup.node)
        if of_node is None:
            self._forget_nodes()
            of_node = self.counts[lookup.node] = LookupCounts()
        of_node.lookups += 1
        of_node.keys += keys
        of_node.rows += rows
        of_node.duration_s += took_s

    def _forget_nodes(self) -> None:
        """Removes the counts of nodes that were dropped with their views, before one is added."""
        engine = self._dispatcher.engine
        if engine is not None:
            self.counts = {node: counts for node, counts in self.counts.items() if node in engine.graph.by_id}


def _done(lookup: Lookup, found: LookupRows) -> LookupDone:
    return LookupDone(lookup.id, found.rows, bridge.snapshot(found.snapshot), found.bound, found.keys)
