"""Initial loads: runs small lookups of all rows like other lookups; reads large ones by a way and hands them over in
slices.

Loads requested in one step are opened together, so that the loads of one view share a snapshot, and are read one after
the other, smallest first. The engine requests a failed load again at a heartbeat; until a growing pause has passed, it
is answered with the previous failure.

*Invariants*: a load reports its end once: all rows, or a failure; after `restart` earlier loads report nothing. A slice
takes about `slices.SLICE_S` of the loop's thread. Above the memory budget's ceiling no rows are handed over.

Not here: ways (`way`, `direct`, `builds`); the use of the rows (`dataflow.engine.backfills`); progress reports
(`progress`).
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import structlog

from dataflow.engine.backfills import LoadState
from dataflow.engine.events import LoadBegun, LoadDone, LoadRows, LookupFailed
from dataflow.plan.nodes import Relation
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.types import LookupId, Row
from service.engine.initial_load.failures import Failure, Failures
from service.engine.initial_load.load import InitialLoad, LoadProgress
from service.engine.initial_load.redo_file import RedoFile, remove_left
from service.engine.initial_load.sliced_work import SlicedWork
from service.engine.initial_load.slices import Slices
from service.engine.initial_load.way import BATCH_ROWS, OpenedWay, Progress, Way
from service.engine.loop import garbage
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import Room
from service.engine.reads.lookup_tasks import BREAKING, LookupTasks
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.protocol.counters import Counters

log = structlog.get_logger()

#: Maximum concurrent groups of each way; others wait.
_AT_ONCE = 3
#: Rows after which the new objects are excluded from garbage collection.
_SETTLE_ROWS = 200_000
_BUG = "A load failed because of an internal error; the service's log has the cause."


class LoadGroup:
    """Loads that share a snapshot. *State*: `reading`, the current one, if any."""

    def __init__(self, way: Way, loads: list[InitialLoad]) -> None:
        self.way = way
        self.loads = loads
        self.reading: InitialLoad | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def open(self) -> list[InitialLoad]:
        """Loads of the group that have not ended."""
        return [load for load in self.loads if not (load.is_over or load.is_read)]

    def report(self, progress: Progress) -> None:
        """Records the progress reported by the way."""
        for load in self.loads:
            load.way_progress = progress.text


class InitialLoads:
    """All loads of an engine.

    *State*: `_taken`, lookups of the current step; `_unsorted`, those not yet assigned to a way; `_groups`, groups
    being read; `_loads`, by lookup, loads that the engine may still process; `_beginning`, the load whose log the
    engine is creating.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        lookup_tasks: LookupTasks,
        upstream: Upstream,
        ways: Sequence[Way],
        room: Room,
        counters: Counters,
        load_rows: int,
        directory: Path,
    ) -> None:
        self.ways = tuple(ways)
        self.slices = Slices(BATCH_ROWS)
        self.working = SlicedWork(dispatcher, room)
        self._dispatcher = dispatcher
        self._lookup_tasks = lookup_tasks
        self._upstream = upstream
        self._room = room
        self._counters = counters
        self._load_rows = load_rows
        self._directory = directory
        self._catalog = Catalog()
        self._taken: list[Lookup] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._groups: list[LoadGroup] = []
        self._loads: dict[LookupId, InitialLoad] = {}
        self._unsorted: set[LookupId] = set()
        self._failures = Failures()
        self._beginning: LookupId | None = None
        self._unsettled = 0
        self._places: dict[str, asyncio.Semaphore] = {way.name: asyncio.Semaphore(_AT_ONCE) for way in self.ways}
        remove_left(directory)
        lookup_tasks.on_everything(self._take, self._cancel)

    def restart(self, catalog: Catalog) -> None:
        """Discards the loads of the old engine; the new one uses `catalog`."""
        for task in self._tasks:
            task.cancel()
        self.working.stop()
        self._taken.clear()
        self._tasks.clear()
        self._groups.clear()
        self._loads.clear()
        self._unsorted.clear()
        self._catalog = catalog

    def new_log(self) -> RedoFile:
        """Creates the log of the load that the engine begins."""
        return RedoFile(self._directory, partial(self._log_failed, self._beginning))

    def progress(self) -> list[LoadProgress]:
        """Progress of the fully materialized state that is not loaded yet."""
        engine = self._dispatcher.engine
        if engine is None or not self._dispatcher.running:
            return []
        return [self._progress_of(state) for state in engine.loading()]

    @property
    def longest_slice_s(self) -> float:
        """Longest time for which a slice, or the work after it, held the loop."""
        return max(self.slices.longest_s, self.working.slices.longest_s)

    # Assignment

    def _take(self, lookup: Lookup) -> None:
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._start_taken)
        self._taken.append(lookup)
        self._unsorted.add(lookup.id)

    def _start_taken(self) -> None:
        taken, self._taken = self._taken, []
        self._forget_ended()
        wanted = []
        for lookup in taken:
            failure = self._failures.pause(lookup.relation)
            if failure is None:
                wanted.append(lookup)
            elif self._is_wanted(lookup):
                self._dispatcher.step(LookupFailed(lookup.id, failure.reason, True, failure.evaluation))
        if wanted:
            self._spawn(self._sort(wanted))

    def _is_wanted(self, lookup: Lookup) -> bool:
        """Returns False, once, for a lookup that was cancelled before its assignment."""
        is_wanted = lookup.id in self._unsorted
        self._unsorted.discard(lookup.id)
        return is_wanted

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _sort(self, lookups: list[Lookup]) -> None:
        """Estimates the sizes of lookups and assigns them to a way."""
        expected = await self._expected(lookups)
        large: list[Lookup] = []
        for lookup in filter(self._is_wanted, lookups):
            if expected.get(lookup.relation, self._load_rows) < self._load_rows:
                self._lookup_tasks.start(lookup)
            else:
                large.append(lookup)
        for way in self.ways:
            taken = [one for one in large if way.takes([one], self._catalog, expected.get(one.relation, 0.0))]
            large = [lookup for lookup in large if lookup not in taken]
            for together in self._together(taken):
                self._start(way, together, expected)

    async def _expected(self, lookups: list[Lookup]) -> dict[Relation, float]:
        try:
            async with self._upstream.session() as session:
                sizes = await session.expected_sizes([lookup.relation for lookup in lookups], self._catalog)
        except UpstreamError as error:
            log.warning("the size of an initial load cannot be estimated", reason=str(error), code=error.code)
            return {}
        except Exception:
            # A bug in the service. A load of unknown size is read in slices.
            log.exception("the size of an initial load cannot be estimated")
            return {}
        return {relation: size.rows for relation, size in sizes.items()}

    def _together(self, lookups: list[Lookup]) -> list[list[Lookup]]:
        """Splits lookups into groups that share a snapshot; one that failed before has a group of its own."""
        alone = [lookup for lookup in lookups if self._failures.has(lookup.relation)]
        others = [lookup for lookup in lookups if lookup not in alone]
        return [*([others] if others else []), *([lookup] for lookup in alone)]

    def _start(self, way: Way, lookups: list[Lookup], expected: dict[Relation, float]) -> None:
        now = perf_counter()
        loads = [InitialLoad(lookup, expected.get(lookup.relation), way.name, now) for lookup in lookups]
        loads.sort(key=lambda load: load.expected or 0.0)
        group = LoadGroup(way, loads)
        self._groups.append(group)
        self._loads.update({load.lookup.id: load for load in loads})
        group.task = self._spawn(self._run(group))

    # Reading

    async def _run(self, group: LoadGroup) -> None:
        try:
            async with self._places[group.way.name]:
                await self._read_group(group)
        except UpstreamError as error:
            failure = Failure(error.public_text, str(error), error.of_query)
            self._failed(group, failure, retryable=error.code not in BREAKING)
        except Exception:
            # A bug in the service. Waiting reads get an error instead of waiting forever.
            log.exception("load failed")
            self._failed(group, Failure(_BUG), retryable=False)
        finally:
            if group in self._groups:
                self._groups.remove(group)

    async def _read_group(self, group: LoadGroup) -> None:
        lookups = [load.lookup for load in group.open]
        async with group.way.open(lookups, self._catalog, group.report) as opened:
            for load in group.open:
                self._begin(load, opened)
            for load in list(group.open):
                # All loads of the group may have been cancelled meanwhile.
                if not load.is_over:
                    group.reading = load
                    await self._read(load, opened)
                    group.reading = None

    def _begin(self, load: InitialLoad, opened: OpenedWay) -> None:
        log.info("load started", table=load.table, way=load.way, expected_rows=_rounded(load.expected))
        self._beginning = load.lookup.id
        self._counters.loads += 1
        try:
            self._dispatcher.step(LoadBegun(load.lookup.id, opened.snapshot, opened.bound))
        finally:
            self._beginning = None

    async def _read(self, load: InitialLoad, opened: OpenedWay) -> None:
        async with aclosing(cast("AsyncGenerator[list[Row]]", opened.batches(load.lookup))) as batches:
            async for rows in batches:
                await self._hand_over(load, rows)
                if load.is_over:
                    return
        # Another table may have been renamed to this name after the snapshot; the stream shows that by this position.
        bound = (await self._upstream.lookups.snapshot()).bound
        if load.is_over:
            return
        load.is_read = True
        self._failures.forget(load.lookup.relation)
        log.info("load read", table=load.table, way=load.way, rows=load.rows, seconds=round(load.duration_s, 3))
        self._dispatcher.step(LoadDone(load.lookup.id, bound))

    async def _hand_over(self, load: InitialLoad, rows: list[Row]) -> None:
        at = 0
        while at < len(rows):
            await self._room()
            if load.is_over:
                return
            part = rows[at : at + self.slices.rows]
            self.slices.run(partial(self._dispatcher.step, LoadRows(load.lookup.id, part)), len(part))
            at += len(part)
            await asyncio.sleep(0)
        load.rows += len(rows)
        self._counters.load_rows += len(rows)
        self._unsettled += len(rows)
        if self._unsettled >= _SETTLE_ROWS:
            self._unsettled = 0
            garbage.settle()

    # Ends

    def _cancel(self, lookup: LookupId) -> None:
        load = self._loads.pop(lookup, None)
        self._unsorted.discard(lookup)
        if load is None:
            return
        load.is_over = True
        for group in self._groups:
            if load in group.loads and not group.open and group.task is not None:
                group.task.cancel()

    def _failed(self, group: LoadGroup, failure: Failure, *, retryable: bool) -> None:
        """Fails the current load of a group and those waiting behind it."""
        for load in group.open:
            mine = group.reading in (None, load)
            self._fail(load, failure if mine else Failure(failure.reason), retryable=retryable or not mine, mine=mine)

    def _fail(self, load: InitialLoad, failure: Failure, *, retryable: bool, mine: bool = True) -> None:
        load.is_over = True
        self._loads.pop(load.lookup.id, None)
        if mine:
            self._counters.load_failures += 1
            pause_s = self._failures.note(load.lookup.relation, failure)
            reason = failure.detail or failure.reason
            log.warning("load failed", table=load.table, way=load.way, rows=load.rows, reason=reason, pause_s=pause_s)
        self._dispatcher.step(LookupFailed(load.lookup.id, failure.reason, retryable, failure.evaluation))

    def _log_failed(self, lookup: LookupId | None, reason: str) -> None:
        """Handles a log failure, which is reported in the middle of a step."""
        asyncio.get_running_loop().call_soon(self._give_up, lookup, reason)

    def _give_up(self, lookup: LookupId | None, reason: str) -> None:
        load = None if lookup is None else self._loads.get(lookup)
        if load is None or load.is_over:
            return
        groups = [group for group in self._groups if load in group.loads]
        self._fail(load, Failure(reason), retryable=True)
        for group in groups:
            if not group.open and group.task is not None:
                group.task.cancel()

    def _forget_ended(self) -> None:
        """Removes the loads that the engine has finished."""
        engine = self._dispatcher.engine
        busy = set() if engine is None else {state.lookup for state in engine.loading()}
        self._loads = {at: load for at, load in self._loads.items() if not load.is_read or at in busy}

    # Progress

    def _progress_of(self, state: LoadState) -> LoadProgress:
        load = None if state.lookup is None else self._loads.get(state.lookup)
        if load is None:
            return LoadProgress(state, None, None, None, "")
        return LoadProgress(state, load.way, _rounded(load.expected), load.duration_s, load.way_progress)


def _rounded(rows: float | None) -> int | None:
    return None if rows is None else round(rows)
