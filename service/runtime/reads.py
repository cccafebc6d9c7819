"""Reads that missed: from a worker's request to its reply.

Invariants: every pending read ends in exactly one of answer, problem or cancellation; ids are never used twice, over
all engines of this process.

Not here: filling (`dataflow.engine`); frames (`service.wire`).
"""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from dataflow.engine.effects import Answer, AnswerForward, FailRead, Forward
from dataflow.engine.events import CancelRead, ForwardDone, Read
from dataflow.errors import InvariantViolation
from dataflow.types import ReadId, Row
from service import bridge
from service.errors import ApiError
from service.leaf_store.writer import LeafWriter
from service.runtime.counters import Counters
from service.runtime.dispatcher import Dispatcher
from service.runtime.forwarding import forward_query, forwarded_answer
from service.upstream.connect import UpstreamError
from service.upstream.lookups import Lookups
from service.views import Installation, Status, ViewRegistry
from service.wire import ReadItem, ReadReply

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class PendingRead:
    """A read that the engine has not answered."""

    items: Sequence[ReadItem]
    #: The views of `items`, as they were when it was asked.
    views: list[Installation]
    reply: asyncio.Future[ReadReply]
    #: Rows of a forwarded read, by item, while the engine finds out at which position they are exact.
    forwarded: list[list[Row]] | None = None


class Reads:
    """Pending reads, by id."""

    def __init__(
        self, dispatcher: Dispatcher, leaf: LeafWriter, registry: ViewRegistry, lookups: Lookups, counters: Counters
    ) -> None:
        self._dispatcher = dispatcher
        self._leaf = leaf
        self._registry = registry
        self._lookups = lookups
        self._counters = counters
        self._ids = itertools.count(1)
        self._pending: dict[ReadId, PendingRead] = {}
        self._forwards: set[asyncio.Task[None]] = set()
        dispatcher.on(Answer, self._answer)
        dispatcher.on(Forward, self._forward)
        dispatcher.on(AnswerForward, self._answer_forward)
        dispatcher.on(FailRead, self._fail_read)

    @property
    def pending(self) -> int:
        """Reads that wait."""
        return len(self._pending)

    async def read(self, items: Sequence[ReadItem]) -> ReadReply:
        """Fills what is missing; all answers are of one position. Raises `ApiError`."""
        if not self._dispatcher.running:
            raise no_stream()
        views = [self._readable(item) for item in items]
        id_ = ReadId(next(self._ids))
        pending = PendingRead(items, views, asyncio.get_running_loop().create_future())
        self._pending[id_] = pending
        self._counters.reads += 1
        self._dispatcher.step(Read(id_, tuple((v.id, i.key) for v, i in zip(views, items, strict=True))))
        try:
            return await pending.reply
        except asyncio.CancelledError:
            self._dispatcher.step(CancelRead(id_))
            raise
        finally:
            self._pending.pop(id_, None)

    def _readable(self, item: ReadItem) -> Installation:
        name = item.view
        registered = self._registry.views.get(name)
        if registered is None:
            raise ApiError("view_not_found", f"There is no view {name!r}.")
        installed = registered.installed
        if installed is None or installed.status is Status.BROKEN:
            raise ApiError("view_broken", f"View {name!r} is broken: {registered.status_reason}")
        if installed.status is Status.BUILDING:
            raise ApiError("view_building", f"View {name!r} is still being loaded.")
        if len(item.key) != len(installed.view.parameters):
            raise ApiError("view_building", f"View {name!r} was replaced by one with other parameters in this moment.")
        return installed

    def fail_all(self, error: ApiError) -> None:
        """No pending read will be answered: the engine or the stream is gone."""
        for pending in list(self._pending.values()):
            self._fail(pending, error)
        self._pending.clear()
        for task in self._forwards:
            task.cancel()

    def _fail(self, pending: PendingRead, error: ApiError) -> None:
        self._counters.reads_failed += 1
        if not pending.reply.done():
            pending.reply.set_exception(error)

    def _answer(self, effect: Answer) -> None:
        pending = self._pending.get(effect.read)
        if pending is None or pending.reply.done():
            return
        keys = [(v.id, i.key, i.window) for v, i in zip(pending.views, pending.items, strict=True)]
        answers, state = self._leaf.reader.read(keys)
        if state is None or any(answer is None for answer in answers):
            raise InvariantViolation(f"read {effect.read} was answered, but the leaf store has a hole for it")
        self._counters.reads_answered += 1
        complete = [answer for answer in answers if answer is not None]
        pending.reply.set_result(ReadReply(complete, state.position, state.at_ms))

    def _forward(self, effect: Forward) -> None:
        task = asyncio.get_running_loop().create_task(self._run_forward(effect.read))
        self._forwards.add(task)
        task.add_done_callback(self._forwards.discard)

    async def _run_forward(self, read: ReadId) -> None:
        pending = self._pending.get(read)
        if pending is None:
            return
        try:
            queries = [forward_query(v.view, i.key) for v, i in zip(pending.views, pending.items, strict=True)]
            found = await self._lookups.forward(queries)
        except UpstreamError as error:
            log.warning("forwarded read failed", reason=error.detail, code=error.code)
            self._fail(pending, upstream_problem(error))
            self._dispatcher.step(CancelRead(read))
            return
        except Exception:
            log.exception("forwarded read failed")
            self._fail(pending, ApiError("internal_error", "The read could not be forwarded to the database."))
            self._dispatcher.step(CancelRead(read))
            return
        pending.forwarded = found.rows
        self._dispatcher.step(ForwardDone(read, bridge.snapshot(found.snapshot), found.bound))

    def _answer_forward(self, effect: AnswerForward) -> None:
        pending = self._pending.get(effect.read)
        if pending is None or pending.reply.done() or pending.forwarded is None:
            return
        try:
            answers = [
                forwarded_answer(self._leaf, view.id, view.view, rows, item.window)
                for view, item, rows in zip(pending.views, pending.items, pending.forwarded, strict=True)
            ]
        except ApiError as error:
            self._fail(pending, error)
            return
        state = self._leaf.reader.state()
        self._counters.reads_forwarded += 1
        pending.reply.set_result(ReadReply(answers, effect.position, state.at_ms if state else 0))

    def _fail_read(self, effect: FailRead) -> None:
        pending = self._pending.get(effect.read)
        if pending is None:
            return
        code = "upstream_unavailable" if effect.retryable else "view_broken"
        self._fail(pending, ApiError(code, effect.reason, retryable=effect.retryable))


def no_stream() -> ApiError:
    """What a read that missed gets while nothing can be computed."""
    return ApiError(
        "upstream_unavailable",
        "There is no change stream from the database right now; what is cached is still served.",
        "Try again in a moment: the stream is started again by itself.",
    )


def upstream_problem(error: UpstreamError) -> ApiError:
    """The problem that a client sees when the upstream could not do what was asked."""
    code = "upstream_unavailable" if error.retryable else "upstream_refused"
    return ApiError(code, error.detail, error.hint, retryable=error.retryable)
