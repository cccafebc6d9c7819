"""Lookups of everything: small ones are run like any other, the rest is read by a way and handed over in slices.

What one step wants is opened together, so that loads of one view see one snapshot, and read one after the other, what
has the fewest rows first. What fails is wanted again by the engine at a heartbeat; it is not read again before a pause
that grows, and until then is told why.

*Invariants*: a load reports its end once: all its rows, or that it failed; after `restart` none of before reports
anything. What is handed over in one slice takes about `slices.SLICE_S` of the loop's thread. Above the memory budget's
ceiling nothing is handed over.

Not here: ways (`way`, `direct`, `builds`); what becomes of rows (`dataflow.engine.loads`); saying how far they are
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
from service.engine.initial_load.sliced_work import Working
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

#: Groups of loads that read at once, of each way; others wait.
_AT_ONCE = 3
#: After so many rows, what was brought in is put where Python does not look for garbage.
_SETTLE_ROWS = 200_000
_BUG = "A load failed inside the service; its log says more."


class LoadGroup:
    """Loads that share a snapshot. *State*: `reading`, the one that is read, if any is."""

    def __init__(self, way: Way, loads: list[InitialLoad]) -> None:
        self.way = way
        self.loads = loads
        self.reading: InitialLoad | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def open(self) -> list[InitialLoad]:
        """Those that have not ended."""
        return [load for load in self.loads if not (load.is_over or load.is_read)]

    def told(self, progress: Progress) -> None:
        """What the way says."""
        for load in self.loads:
            load.told = progress.text


class InitialLoads:
    """*State*: `_taken` are lookups of this step; `_unsorted` those of which is not known yet who runs them; `_groups`
    what is being read; `_loads`, by lookup, what the engine may still be busy with; `_beginning` is the one that the
    engine makes a log for."""

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
        self.working = Working(dispatcher, room)
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
        """A new engine, over `catalog`: the old one's loads are of no use."""
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
        """The log of the load that the engine begins."""
        return RedoFile(self._directory, partial(self._log_failed, self._beginning))

    def progress(self) -> list[LoadProgress]:
        """How far is what is kept whole and not there yet."""
        engine = self._dispatcher.engine
        if engine is None or not self._dispatcher.running:
            return []
        return [self._progress_of(state) for state in engine.loading()]

    @property
    def longest_slice_s(self) -> float:
        """The longest time for which the loop was held, by rows handed over or by what follows."""
        return max(self.slices.longest_s, self.working.slices.longest_s)

    # Taking

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
        """Whether it was not cancelled before it is known who runs it. Said once."""
        is_wanted = lookup.id in self._unsorted
        self._unsorted.discard(lookup.id)
        return is_wanted

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _sort(self, lookups: list[Lookup]) -> None:
        """Finds out how much they are, and who reads them."""
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
            log.warning("the size of what is to be loaded is not known", reason=str(error), code=error.code)
            return {}
        except Exception:
            # A bug of ours. What is not known to be small is read in slices.
            log.exception("the size of what is to be loaded is not known")
            return {}
        return {relation: size.rows for relation, size in sizes.items()}

    def _together(self, lookups: list[Lookup]) -> list[list[Lookup]]:
        """Which are read at one snapshot: one that has failed is not to take others with it again."""
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
            failure = Failure(error.told, str(error), error.of_query)
            self._failed(group, failure, retryable=error.code not in BREAKING)
        except Exception:
            # A bug of ours. Whoever waits is told, instead of waiting for ever.
            log.exception("load failed")
            self._failed(group, Failure(_BUG), retryable=False)
        finally:
            if group in self._groups:
                self._groups.remove(group)

    async def _read_group(self, group: LoadGroup) -> None:
        lookups = [load.lookup for load in group.open]
        async with group.way.open(lookups, self._catalog, group.told) as opened:
            for load in group.open:
                self._begin(load, opened)
            for load in list(group.open):
                # Nobody may want it by now.
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
        # A table that took the other's name after the snapshot may be what was read: the stream says so until there.
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
        """What was read has failed, and takes with it what was to be read behind it."""
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
        """Told in the middle of a step."""
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
        """Loads that the engine is done with."""
        engine = self._dispatcher.engine
        busy = set() if engine is None else {state.lookup for state in engine.loading()}
        self._loads = {at: load for at, load in self._loads.items() if not load.is_read or at in busy}

    # Looking in

    def _progress_of(self, state: LoadState) -> LoadProgress:
        load = None if state.lookup is None else self._loads.get(state.lookup)
        if load is None:
            return LoadProgress(state, None, None, None, "")
        return LoadProgress(state, load.way, _rounded(load.expected), load.duration_s, load.told)


def _rounded(rows: float | None) -> int | None:
    return None if rows is None else round(rows)
