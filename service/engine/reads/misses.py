"""Missed reads, from a worker's request to its reply.

A read of the first rows of a key requests about that many from the engine. If they do not suffice when the engine
answers (the answer filters rows, or ties remain), the read is repeated for more rows, and finally for the whole key.
The worker reads stored answers itself: the reply has their rows only if it asks for them, because it did not find them
any more.

Invariants: every pending read ends in exactly one of answer, problem or cancellation; ids are never reused, across all
engines of this process; all answers in a reply come from one transaction of the leaf store.

Not here: filling (`dataflow.engine`); frames (`service.protocol.engine_requests`).
"""

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from time import perf_counter

import structlog

from dataflow.engine.effects import Answer, AnswerForward, AnswerRefresh, FailRead, Forward
from dataflow.engine.events import CancelRead, Extent, ForwardDone, Read, ReadBatch, Wanted
from dataflow.errors import InvariantViolation
from dataflow.types import Position, ReadId, Row
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import Room
from service.engine.loop.visibility import Visibility
from service.engine.reads.extents import extent_of
from service.engine.reads.forward_tasks import ForwardTasks, Found
from service.engine.reads.forwards import check_registered, forward_query, forwarded_answers, rows_of_views
from service.engine.reads.pending_read import PendingRead
from service.engine.reads.slots import Slots
from service.engine.reads.trim import Trimmer
from service.engine.upstream import bridge
from service.engine.upstream.problems import forward_problem, no_stream
from service.engine.upstream.results import AnswerSize
from service.engine.upstream.upstream import Lookups
from service.engine.views.registry import InstalledView, MissCounts, Status, ViewRegistry
from service.ground.clock import wall_ms
from service.ground.errors import ApiError, broken_view, building_view
from service.leaf_store.catalog import ParameterRole, ViewInfo
from service.leaf_store.request import LeafRequest, request_of
from service.leaf_store.writer import LeafWriter
from service.protocol.counters import Counters
from service.protocol.reads import AnswerSource, ReadItem, ReadReply, StoredReply

log = structlog.get_logger()

_Filled = ReadReply | StoredReply | None
#: Rounds in which a read doubles its number of rows; after them it requests whole keys.
_MAX_ROUNDS = 10
#: Maximum time of the upstream's answer for a view that is loaded again: less than readers wait.
_AGAIN_S = 3.0
#: Maximum reads of one event.
_READS_AT_ONCE = 16
#: Problems of a forwarded read that a schema change may cause.
_OF_SCHEMA = frozenset({"upstream_refused", "view_broken", "view_building", "internal_error"})


class Misses:
    """Pending reads, by id. Those that arrive in one turn of the loop become one event.

    *State*: `_opening` are reads that are not in the engine yet; while there are any, `_opener` runs. Reads that end
    before are left out.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        leaf: LeafWriter,
        registry: ViewRegistry,
        lookups: Lookups,
        visible: Visibility,
        slots: Slots,
        room: Room,
        counters: Counters,
        most: AnswerSize,
    ) -> None:
        self._dispatcher = dispatcher
        self._leaf = leaf
        self._registry = registry
        self._visible = visible
        self._room = room
        self._counters = counters
        self._ids = itertools.count(1)
        self._pending: dict[ReadId, PendingRead] = {}
        self._opening: dict[ReadId, Read] = {}
        self._opener: asyncio.Task[None] | None = None
        self._forwards = ForwardTasks(lookups, slots, most)
        self._cutting = Trimmer(dispatcher, leaf)
        dispatcher.on(Answer, self._answer)
        dispatcher.on(Forward, self._forward)
        dispatcher.on(AnswerForward, self._answer_forward)
        dispatcher.on(AnswerRefresh, self._answer_refresh)
        dispatcher.on(FailRead, self._fail_read)

    @property
    def pending(self) -> int:
        return len(self._pending)

    async def fill(self, items: Sequence[ReadItem]) -> ReadReply | StoredReply:
        """Does as `read`, without the rows if they are stored. Raises `ApiError`."""
        return await self._answered(items, with_rows=False)

    async def cover(self, keys: Sequence[Wanted]) -> None:
        """Fills keys that no reader waits for. Raises `ApiError`."""
        await self._room()
        if not self._dispatcher.running:
            raise no_stream()
        future = asyncio.get_running_loop().create_future()
        pending = PendingRead([], [], [], future, False, self._next_id(), of_whole_keys=True)
        await self._opened(pending, Read(pending.id, tuple(keys)))

    async def read(self, items: Sequence[ReadItem]) -> ReadReply:
        """Fills missing keys and returns all answers at one position. Without a stream, and while one of the views is
        outdated, the upstream answers instead of the store. Raises `ApiError`."""
        reply = await self._answered(items, with_rows=True)
        assert isinstance(reply, ReadReply)
        return reply

    async def _answered(self, items: Sequence[ReadItem], *, with_rows: bool) -> ReadReply | StoredReply:
        for last in (False, False, True):
            if self._dispatcher.running:
                await self._room()
            if not self._dispatcher.running:
                return await self._without_stream(items)
            # A read of several views needs all of them in the engine.
            views = [self.readable(item, rebuilt=len(items) == 1) for item in items]
            statuses = [view.status for view in views]
            try:
                fill = self._filled_again if len(views) == 1 and views[0].is_loaded_again else self._filled
                reply = None if self._bypasses_engine(views) else await fill(items, views, with_rows=with_rows)
                return await self._current(items) if reply is None else reply
            except ApiError:
                # A view that was planned again meanwhile is read again under its new plan.
                now = [self._successor(view) for view in views]
                same = now == views and statuses == [view.status for view in views]
                if last or not self._dispatcher.running or None in now or same:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _successor(self, view: InstalledView) -> InstalledView | None:
        """Returns the current installation of a view; None if that means another one."""
        registered = self._registry.views.get(view.definition.name)
        now = None if registered is None else registered.installed
        return now if now is not None and (now is view or view.id in now.former) else None

    def _bypasses_engine(self, views: Sequence[InstalledView]) -> bool:
        """True if a view is planned again after a schema change, or reads a table whose lookups wait for transactions
        that were open when it was followed."""
        if any(view.status is Status.OUTDATED for view in views):
            return True
        engine = self._dispatcher.engine
        if engine is None or not engine.stalled:
            return False
        return not all(view.tables.isdisjoint(engine.stalled) for view in views)

    async def _current(self, items: Sequence[ReadItem]) -> ReadReply:
        """Answers upstream, beside the engine. No other answer may be older than hits. Raises `ApiError`."""
        state = self._leaf.reader.state()
        try:
            return await self.forward(items, None if state is None else state.position)
        except ApiError as error:
            if error.code not in _OF_SCHEMA:
                raise
            name = next((item.view for item in items if self._is_outdated(item.view)), None)
            if name is None:
                raise
            detail = f"View {name!r} is being planned again after a schema change: {error.detail}"
            raise ApiError("view_building", detail, "Try again in a moment.") from None

    def _is_outdated(self, name: str) -> bool:
        registered = self._registry.views.get(name)
        return registered is not None and registered.status is Status.OUTDATED

    async def _filled(self, items: Sequence[ReadItem], views: list[InstalledView], *, with_rows: bool) -> _Filled:
        """Has the engine fill missing keys. None if an answer cannot be computed of them. Raises `ApiError`."""
        started_s = perf_counter()
        try:
            requests = self._requests(views, items)
            future = asyncio.get_running_loop().create_future()
            pending = PendingRead(items, views, requests, future, with_rows, self._next_id())
            keys = self._keys(pending, range(len(items)))
            pending.of_whole_keys = all(extent is None for _, _, extent in keys)
        except ValueError:
            raise _bad_token() from None
        try:
            reply = await self._opened(pending, Read(pending.id, keys, pending.forwards))
        except ApiError:
            for counts in self._missed(items):
                counts.failed += 1
            raise
        else:
            if reply is not None:
                self._count(pending, perf_counter() - started_s)
            return reply
        finally:
            # The error's traceback references this frame: remove the references from the frame to the error.
            del pending, future

    async def _filled_again(self, items: Sequence[ReadItem], views: list[InstalledView], *, with_rows: bool) -> _Filled:
        """Does as `_filled` for a view that is loaded again. From the upstream's first failure on the view is refused:
        readers must not queue behind a statement that does not end. Raises `ApiError`."""
        try:
            async with asyncio.timeout(_AGAIN_S):
                return await self._filled(items, views, with_rows=with_rows)
        except (ApiError, TimeoutError):
            views[0].rebuilt = False
            raise building_view(views[0].definition.name, views[0].reason) from None

    async def _opened(self, pending: PendingRead, read: Read) -> _Filled:
        """Hands a read to the engine and waits for its end. Raises `ApiError`."""
        self._pending[pending.id] = pending
        self._counters.reads += 1
        self._open(read)
        try:
            return await pending.reply
        except asyncio.CancelledError:
            self._dispatcher.step(CancelRead(pending.id))
            raise
        finally:
            self._pending.pop(pending.id, None)
            if pending.found is not None:
                pending.found.cancel()
            del pending

    def _open(self, read: Read) -> None:
        self._opening[read.id] = read
        if self._opener is None:
            self._opener = asyncio.get_running_loop().create_task(self._open_all())

    async def _open_all(self) -> None:
        """Hands reads to the engine, some at a time: those that it answers at once take room."""
        try:
            while self._opening:
                await self._room()
                ids = list(islice(self._opening, _READS_AT_ONCE))
                reads = [read for id_ in ids if (read := self._opening.pop(id_)).id in self._pending]
                if reads:
                    self._dispatcher.step(ReadBatch(reads))
        finally:
            self._opener = None

    async def forward(self, items: Sequence[ReadItem], minimum: Position | None = None) -> ReadReply:
        """Returns all answers from the upstream's current state, with or without a stream. Their snapshot includes
        `minimum`. Raises `ApiError`."""
        asked_ms = wall_ms()
        if not items:
            # Items whose answer the worker knows, since a parameter is NULL.
            return ReadReply([], minimum or 0, asked_ms, AnswerSource.CURRENT)
        views = [self.readable(item, building=True) for item in items]
        try:
            self._requests(views, items)
        except ValueError:
            raise _bad_token() from None
        try:
            if minimum is not None:
                await self._visible.wait(minimum)
            found = await self._ask_upstream(views, items)
        except Exception as error:
            for counts in self._missed(items):
                counts.failed += 1
            raise forward_problem(error) from None
        rows = rows_of_views(views, found)
        for counts in self._missed(items):
            counts.forwarded += 1
        self._counters.reads_forwarded += 1
        return ReadReply(
            forwarded_answers(self._leaf, views, items, rows), found.version, asked_ms, AnswerSource.CURRENT
        )

    async def _without_stream(self, items: Sequence[ReadItem]) -> ReadReply:
        """Answers upstream while nothing can be filled. Views are known from the first stream on, and hits are still
        served from the store: no other answer may be older than those."""
        registered = [self._registry.views.get(item.view) for item in items]
        state = self._leaf.reader.state()
        if state is None or any(view is not None and view.installed is None for view in registered):
            raise no_stream()
        # Before the first stream, the store serves no hits.
        return await self.forward(items, state.position or None)

    def _missed(self, items: Sequence[ReadItem]) -> list[MissCounts]:
        """Returns the counters of the views that are read, once each."""
        names = dict.fromkeys(item.view for item in items)
        return [self._registry.views[name].missed for name in names if name in self._registry.views]

    def _count(self, pending: PendingRead, took_s: float) -> None:
        for counts in self._missed(pending.items):
            if pending.forwarded is None:
                counts.upqueries.took(took_s)
            else:
                counts.forwarded += 1

    def _next_id(self) -> ReadId:
        return ReadId(next(self._ids))

    def _requests(self, views: Sequence[InstalledView], items: Sequence[ReadItem]) -> list[LeafRequest]:
        """Returns the reads of the leaf store. Raises `ValueError` for a token of another read."""
        pairs = zip(views, items, strict=True)
        return [request_of(self._leaf.info(view.id), item.values, item.window) for view, item in pairs]

    def _keys(self, pending: PendingRead, wanted: Iterable[int]) -> tuple[Wanted, ...]:
        """Returns the keys and extents that the engine has to cover. Raises `ValueError` for a token of another
        read."""
        keys: list[Wanted] = []
        for i in wanted:
            view, request = pending.views[i].id, pending.requests[i]
            extent: Extent = None
            if pending.rounds < _MAX_ROUNDS:
                extent = extent_of(self._leaf.info(view), pending.items[i].values, request, 1 << pending.rounds)
            keys += [(view, key, extent) for key in request.keys]
            if not request.keys and self._leaf.info(view).null_rows is None:
                keys.append((view, (None,), None))
        return tuple(keys)

    def readable(self, item: ReadItem, *, building: bool = False, rebuilt: bool = False) -> InstalledView:
        """Returns the installation that answers a read; with `building`, also one that is still loading, with `rebuilt`
        one that is loaded again. Raises `ApiError`."""
        name = item.view
        registered = self._registry.views.get(name)
        if registered is None:
            raise ApiError("view_not_found", f"View {name!r} does not exist.")
        installed = registered.installed
        if installed is None or installed.status is Status.BROKEN:
            raise broken_view(name, registered.status_reason)
        if installed.status is Status.ELSEWHERE:
            detail = f"View {name!r} is fully materialized by another shard."
            raise ApiError("misdirected", detail, "Try again in a moment.", members={"view": name})
        building = building or installed.definition.options.forwards or (rebuilt and installed.rebuilt)
        if installed.status is Status.BUILDING and not building:
            raise building_view(name, installed.reason)
        known = item.id in (None, installed.id, *installed.former)
        if not known or not _fits(self._leaf.info(installed.id), item):
            raise ApiError("view_building", f"View {name!r} was just replaced by one with other parameters.")
        return installed

    def fail_all(self, error: ApiError) -> None:
        """Fails all pending reads: the engine or the stream is lost."""
        for pending in list(self._pending.values()):
            self._fail(pending, error)
        self._pending.clear()

    def _fail(self, pending: PendingRead, error: ApiError) -> None:
        self._counters.reads_failed += 1
        if not pending.reply.done():
            pending.reply.set_exception(error)

    def _answer(self, effect: Answer) -> None:
        pending = self._pending.get(effect.read)
        if pending is None or pending.reply.done():
            return
        if not pending.with_rows and pending.of_whole_keys and all(map(self._is_complete, pending.views)):
            for view, item, request in zip(pending.views, pending.items, pending.requests, strict=True):
                self._cutting.read(self._leaf.info(view.id), item.values, request)
            self._counters.reads_answered += 1
            pending.reply.set_result(StoredReply(self._dispatcher.position))
            return
        reads = [(v.id, i.values, i.window) for v, i in zip(pending.views, pending.items, strict=True)]
        answers, state = self._leaf.reader.read(reads)
        missing = [i for i, answer in enumerate(answers) if answer is None]
        if pending.rounds and any(self._leaf.info(pending.views[i].id).at_read for i in missing):
            pending.reply.set_result(None)
            return
        if state is None or (missing and pending.rounds >= _MAX_ROUNDS):
            raise InvariantViolation(f"read {effect.read} was answered, but the leaf store has a hole for it")
        if missing:
            # In a step of its own, since it may evict rows that another answer of this read needs.
            asyncio.get_running_loop().call_soon(self._ask_again, pending, missing)
            return
        complete = [answer for answer in answers if answer is not None]
        reads_of = zip(pending.views, pending.items, pending.requests, complete, strict=True)
        for view, item, request, answer in reads_of:
            self._cutting.read(self._leaf.info(view.id), item.values, request, answer)
        self._counters.reads_answered += 1
        reply = ReadReply(complete, state.position, state.at_ms)
        pending.reply.set_result(reply if pending.with_rows else StoredReply(state.position))

    def _is_complete(self, view: InstalledView) -> bool:
        """True if whole keys are all that a read needs: no other keys, or rows of them, are read by now."""
        info = self._leaf.info(view.id)
        computed = info.at_read is not None and (bool(info.storage) or not info.one_key)
        return not (info.timed or info.filters or computed)

    def _ask_again(self, pending: PendingRead, missing: list[int]) -> None:
        """Repeats the read, since these items had too few rows. The last round requests whole keys of all items."""
        if pending.reply.done() or self._pending.pop(pending.id, None) is None:
            return
        try:
            check_registered(self._leaf, pending.views)
        except ApiError as error:
            self._fail(pending, error)
            return
        pending.rounds += 1
        # The keys of views that depend on the time are others now.
        pending.requests = self._requests(pending.views, pending.items)
        pending.id = self._next_id()
        self._pending[pending.id] = pending
        pending.of_whole_keys = False
        wanted = missing if pending.rounds < _MAX_ROUNDS else range(len(pending.items))
        self._open(Read(pending.id, self._keys(pending, wanted), pending.forwards))

    def _forward(self, effect: Forward) -> None:
        pending = self._pending.get(effect.read)
        if pending is None:
            return
        try:
            if not pending.items:
                raise ApiError("query_failed", "One of the keys cannot be cached.")
            pending.found = self._ask_upstream(pending.views, pending.items)
        except Exception as error:
            pending.found = asyncio.get_running_loop().create_future()
            pending.found.set_exception(error)
        pending.found.add_done_callback(partial(self._forwarded, effect.read))

    def _ask_upstream(self, views: Sequence[InstalledView], items: Sequence[ReadItem]) -> Found:
        check_registered(self._leaf, views)
        read = zip(views, items, strict=True)
        queries = [forward_query(view.plan, self._leaf.info(view.id), item.values) for view, item in read]
        return self._forwards.ask(queries, frozenset[str]().union(*(view.plan.shared_by for view in views)))

    def _forwarded(self, read: ReadId, answer: Found) -> None:
        """Handles the upstream's result."""
        pending = self._pending.get(read)
        if pending is None or answer.cancelled():
            return
        rows = _rows_of(pending, answer)
        if isinstance(rows, ApiError):
            self._fail(pending, rows)
            self._dispatcher.step(CancelRead(read, refused=True))
            return
        found = answer.result()
        pending.forwarded = rows
        self._dispatcher.step(ForwardDone(read, bridge.snapshot(found.snapshot), found.bound))

    def _answer_forward(self, effect: AnswerForward) -> None:
        pending = self._pending.get(effect.read)
        if pending is None or pending.reply.done() or pending.forwarded is None:
            return
        try:
            answers = forwarded_answers(self._leaf, pending.views, pending.items, pending.forwarded)
        except ApiError as error:
            self._fail(pending, error)
            return
        self._counters.reads_forwarded += 1
        at_ms = self._dispatcher.at_ms(effect.position)
        pending.reply.set_result(ReadReply(answers, effect.position, at_ms, AnswerSource.FORWARDED))

    def _answer_refresh(self, effect: AnswerRefresh) -> None:
        pending = self._pending.get(effect.read)
        if pending is None or pending.reply.done():
            return
        (view,), (item,) = pending.views, pending.items
        try:
            check_registered(self._leaf, pending.views)
            answer = self._leaf.render(view.id, effect.rows, item.values, item.window)
        except ApiError as error:
            self._fail(pending, error)
            return
        except ValueError:
            self._fail(pending, _bad_token())
            return
        self._counters.reads_forwarded += 1
        at_ms = self._dispatcher.at_ms(effect.position)
        pending.reply.set_result(ReadReply([answer], effect.position, at_ms, AnswerSource.UNSTORED))

    def _fail_read(self, effect: FailRead) -> None:
        pending = self._pending.get(effect.read)
        if pending is None:
            return
        code = effect.code or ("upstream_unavailable" if effect.retryable else "view_broken")
        self._fail(pending, ApiError(code, effect.reason, retryable=effect.retryable))


def _rows_of(pending: PendingRead, answer: Found) -> list[list[Row]] | ApiError:
    """Returns the rows of an upstream result, or its error, without traceback, which would form a reference cycle with
    the read."""
    error = answer.exception()
    if error is not None:
        return forward_problem(error)
    try:
        return rows_of_views(pending.views, answer.result())
    except ApiError as problem:
        return problem.with_traceback(None)


def _fits(info: ViewInfo, item: ReadItem) -> bool:
    """True if the values match the types of the view's parameters."""
    lists = [parameter.role is ParameterRole.LIST for parameter in info.parameters]
    return lists == [isinstance(value, tuple) for value in item.values]


def _bad_token() -> ApiError:
    return ApiError(
        "parameter_type",
        "Parameter 'after' is not a page token of this read.",
        "Expected the 'next' of an earlier page, with the same parameters.",
        members={"parameter": "after"},
    )
