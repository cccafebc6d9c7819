"""Tasks that run refreshed views' SQL upstream, one for each key, and timers that expire keys of TTL views.

Invariants: every `Refresh` ends in one `RefreshDone` or `RefreshFailed`, unless it was cancelled or belongs to a
discarded engine; a covered key of a TTL view has one timer.

Not here: stale keys and their readers (`dataflow.engine.refreshed_views`).
"""

import asyncio
from time import perf_counter

import structlog

from dataflow.engine.effects import CancelRefresh, Refresh
from dataflow.engine.events import EvictKey, RefreshDone, RefreshFailed
from dataflow.plan.refresh import RefreshView
from dataflow.types import Key, RefreshId, ViewId
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import Room
from service.engine.reads.slots import Slots
from service.engine.upstream import bridge
from service.engine.upstream.problems import upstream_code
from service.engine.upstream.results import AnswerSize, UpstreamError
from service.engine.upstream.upstream import Lookups
from service.engine.views.registry import ViewPlan, ViewRegistry
from service.engine.views.stand_in import placed
from service.protocol.counters import Counters

log = structlog.get_logger()

#: Failures that affect every key of the view.
_BREAKING = frozenset({"missing", "denied"})


class RefreshTasks:
    """Running refreshes and timers.

    *State*: `_tasks`, refreshes without a result; `_timers`, the expiry timers by view and key.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        registry: ViewRegistry,
        lookups: Lookups,
        slots: Slots,
        room: Room,
        counters: Counters,
        most: AnswerSize,
    ) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._lookups = lookups
        self._slots = slots
        self._room = room
        self._counters = counters
        self._most = most
        self._tasks: dict[RefreshId, asyncio.Task[None]] = {}
        self._timers: dict[tuple[ViewId, Key], asyncio.TimerHandle] = {}
        dispatcher.on(Refresh, self._start)
        dispatcher.on(CancelRefresh, self._cancel)

    @property
    def in_flight(self) -> int:
        """Number of refreshes without a result."""
        return len(self._tasks)

    def restart(self) -> None:
        """Cancels all refreshes and timers of the old engine."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _start(self, refresh: Refresh) -> None:
        self._tasks[refresh.id] = asyncio.get_running_loop().create_task(self._run(refresh))

    def _cancel(self, cancel: CancelRefresh) -> None:
        task = self._tasks.pop(cancel.id, None)
        if task is not None:
            task.cancel()

    async def _run(self, refresh: Refresh) -> None:
        event: RefreshDone | RefreshFailed
        installation = self._registry.installations.get(refresh.view)
        plan = installation.plan if installation is not None else None
        view = plan.view if plan is not None and isinstance(plan.view, RefreshView) else None
        asked_at = asyncio.get_running_loop().time()
        try:
            if view is None or plan is None:
                event = RefreshFailed(refresh.id, "the view was dropped", retryable=False)
            else:
                event = await self._refresh(refresh, plan, view)
        except UpstreamError as error:
            self._counters.refresh_failures += 1
            log.warning("refresh failed", view=view.name if view else None, reason=str(error), code=error.code)
            # With parameters, the failure may concern one value only, so it must not break the view.
            breaks = error.code in _BREAKING and not refresh.key
            event = RefreshFailed(refresh.id, error.public_text, error.retryable, breaks, upstream_code(error))
        except Exception:
            # A bug in the service. Waiting reads get an error instead of waiting forever.
            self._counters.refresh_failures += 1
            log.exception("refresh failed", view=view.name if view else None)
            event = RefreshFailed(
                refresh.id, "A refresh failed because of an internal error; the service's log has the cause.", False
            )
        del self._tasks[refresh.id]
        self._dispatcher.step(event)
        if view is not None and view.ttl_ms is not None and self._is_stored(refresh):
            self._expire_at(refresh, asked_at + view.ttl_ms / 1000)

    async def _refresh(self, refresh: Refresh, plan: ViewPlan, view: RefreshView) -> RefreshDone | RefreshFailed:
        async with self._slots.slot(plan.shared_by):
            await self._room()
            started_s = perf_counter()
            found = await self._lookups.forward([(plan.sql, list(refresh.key))], self._most)
        if not plan.answers(found.columns[0]):
            return RefreshFailed(
                refresh.id, "The columns of the query's result have changed.", retryable=False, breaks=True
            )
        self._counters.refreshes += 1
        self._counters.refresh_rows += len(found.rows[0])
        if (registered := self._registry.views.get(view.name)) is not None:
            registered.missed.refreshes += 1
            registered.missed.refresh_rows += len(found.rows[0])
            registered.missed.refresh_s += perf_counter() - started_s
        return RefreshDone(refresh.id, placed(found.rows[0], view), bridge.snapshot(found.snapshot), found.bound)

    def _is_stored(self, refresh: Refresh) -> bool:
        engine = self._dispatcher.engine
        leaf = None if engine is None else engine.refreshes.leaves.get(refresh.view)
        return leaf is not None and refresh.key in leaf.coverage

    def _expire_at(self, refresh: Refresh, time: float) -> None:
        """Expires a stored key at `time`, unless it has been filled again by then."""
        at = (refresh.view, refresh.key)
        old = self._timers.pop(at, None)
        if old is not None:
            old.cancel()
        self._timers[at] = asyncio.get_running_loop().call_at(time, self._expire, at)

    def _expire(self, at: tuple[ViewId, Key]) -> None:
        self._timers.pop(at, None)
        self._dispatcher.step(EvictKey(*at))
