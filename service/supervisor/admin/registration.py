"""Changes of the views at several engines, one at a time.

*Invariants*: a view is registered by all engines that can be reached, or by none: a change that one refuses is undone
at the others; one that cannot be undone is logged. Of engines that a `Reconciler` looks after (`clock`), one that is
away or starting blocks no change: it gets the change when it is back. Others must all be reachable.

Where a `Reconciler` looks after the engines, the state before a change is the latest change that any of them knows, and
an undo is a later change at all of them: it also reaches an engine that made the refused change and could not reply.

Not here: the changes within an engine (`service.engine.admin.operations`).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from service.ground.errors import ApiError
from service.protocol.admin_operations import (
    Control,
    ListChanges,
    ListViews,
    Operation,
    PutResult,
    RegisterView,
    RemoveView,
    SettleView,
    ViewChange,
)
from service.supervisor.admin.latest_change import Changes, latest
from service.supervisor.admin.merge import ELSEWHERE

log = structlog.get_logger()
R = TypeVar("R")
#: An engine, with its reply or its error.
Answer = tuple[Control, R | ApiError]
_NONE = ViewChange(at_ms=-1)


def is_away(error: object) -> bool:
    """Return whether an engine did not reply: it cannot be reached, or takes too long. It may have performed the
    operation."""
    return isinstance(error, ApiError) and error.code in ("engine_unavailable", "read_timeout")


@dataclass(slots=True)
class Before:
    """The state before a change: the engines that have to make it, the view (`sql` None: there is none), and whether
    the view can be put again."""

    engines: Sequence[Control]
    view: ViewChange = _NONE
    was_put: bool = True


class Registering:
    """`clock` gives the times of changes, for engines that a `Reconciler` looks after."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._changing = asyncio.Lock()

    async def put(self, everyone: Sequence[Control], wanted: RegisterView) -> PutResult:
        """Registers a view, or replaces it. Raises an engine's ApiError, or ApiError(engine_unavailable)."""
        async with self._changing:
            before = await self._before(everyone, wanted.name)
            created = before.view.sql is None
            if wanted.create_only and not created:
                raise ApiError("view_exists", f"View {wanted.name!r} exists already.")
            if self._clock is not None:
                wanted = replace(wanted, at_ms=self._after(before.view))
            done = await self._change(before, wanted, wanted.name, wanted.at_ms)
            return PutResult(created, any(each.building for each in done))

    async def drop(self, everyone: Sequence[Control], wanted: RemoveView) -> None:
        """Drops a view. Raises an engine's ApiError, or ApiError(engine_unavailable)."""
        async with self._changing:
            before = await self._before(everyone, wanted.name)
            if self._clock is not None:
                wanted = replace(wanted, at_ms=self._after(before.view))
            await self._change(before, wanted, wanted.name, wanted.at_ms)

    async def _before(self, everyone: Sequence[Control], name: str) -> Before:
        if self._clock is not None:
            return await _latest_change(await self._reachable(everyone, ListChanges()), name)
        states = [view for _, views in await self._reachable(everyone, ListViews()) for view in views]
        states = sorted((view for view in states if view.name == name), key=lambda view: view.status == ELSEWHERE)
        if not states:
            return Before(everyone)
        return Before(everyone, ViewChange(-1, states[0].sql, states[0].options), states[0].origin == "http")

    async def _reachable(self, everyone: Sequence[Control], operation: Operation[R]) -> list[tuple[Control, R]]:
        """Engines with their replies. Raises ApiError if none replies, or one that must: a change that it misses would
        have to be undone."""
        answers = await asyncio.gather(*(answer_of(each, operation) for each in everyone))
        failed = [answer for _, answer in answers if isinstance(answer, ApiError)]
        fatal = [error for error in failed if not self.may_miss(error)]
        there = [(each, answer) for each, answer in answers if not isinstance(answer, ApiError)]
        if fatal or not there:
            raise (fatal or failed)[0]
        return there

    def may_miss(self, error: ApiError) -> bool:
        """Return whether an engine with this error blocks no change: it gets the change later."""
        return self._clock is not None and error.retryable

    async def _change(self, before: Before, change: Operation[R], name: str, at_ms: int | None) -> list[R]:
        """Replies of the engines that have made the change. Raises ApiError if one refuses; then it is undone."""
        answers: list[Answer[R]] = []
        waiting = list(before.engines)
        # Most engines refuse the same: the first one is alone.
        while waiting and not _done(answers) and self._refusal(answers, change) is None:
            answers.append(await answer_of(waiting.pop(0), change))
        if self._refusal(answers, change) is None:
            answers += await asyncio.gather(*(answer_of(each, change) for each in waiting))
        refusal = self._refusal(answers, change)
        if refusal is not None:
            engines = [each for each, answer in answers if not isinstance(answer, ApiError) or is_away(answer)]
            await self._undo(before, name, at_ms, engines)
            raise refusal
        if not _done(answers):
            failed = [answer for _, answer in answers if isinstance(answer, ApiError)]
            raise next((error for error in failed if not self.may_miss(error)), failed[0])
        return _done(answers)

    def _refusal(self, answers: Sequence[Answer[R]], change: Operation[R]) -> ApiError | None:
        """Why the change is not made, if it is not."""
        failed = [answer for _, answer in answers if isinstance(answer, ApiError) and not self.may_miss(answer)]
        if isinstance(change, RemoveView):
            # An ad-hoc view is only where it was queried.
            failed = [error for error in failed if error.code != "view_not_found"]
        return failed[0] if failed else None

    async def _undo(self, before: Before, name: str, at_ms: int | None, engines: Sequence[Control]) -> None:
        """Restores the state before a change, at the engines that may have made it."""
        view = before.view
        if self._clock is not None:
            if engines:
                undo = replace(view, at_ms=self._after(ViewChange(at_ms or 0)))
                await _undone(before.engines, SettleView(name, undo), name)
        elif view.sql is None:
            await _undone(engines, RemoveView(name), name)
        elif before.was_put:
            await _undone(engines, RegisterView(name, view.sql, view.options), name)

    def _after(self, last: ViewChange) -> int:
        assert self._clock is not None
        return max(self._clock(), last.at_ms + 1)


async def _latest_change(known: Sequence[tuple[Control, Changes]], name: str) -> Before:
    """The latest change of a view. If that was a drop, engines that lack it get it."""
    engines = [each for each, _ in known]
    own = [(each, changes[name]) for each, changes in known if name in changes]
    change = latest([{name: each} for _, each in own]).get(name)
    if change is None:
        return Before(engines)
    if change.sql is None:
        await _undone([each for each, other in own if other.sql is not None], SettleView(name, change), name)
    return Before(engines, change)


async def _undone(engines: Sequence[Control], undo: Operation[object], name: str) -> None:
    """Logs where it fails. (An engine that is looked after and does not reply gets the change later.)"""
    for _, error in await asyncio.gather(*(answer_of(each, undo) for each in engines)):
        if not isinstance(error, ApiError) or (isinstance(undo, RemoveView) and error.code == "view_not_found"):
            continue
        if not isinstance(undo, SettleView) or not error.retryable:
            log.error("a view is not the same everywhere; put it again", view=name, reason=str(error))


async def answer_of(each: Control, operation: Operation[R]) -> Answer[R]:
    """Call an engine; return it with its reply or its ApiError."""
    try:
        return each, await each.call(operation)
    except ApiError as error:
        return each, error


def _done(answers: Sequence[Answer[R]]) -> list[R]:
    return [answer for _, answer in answers if not isinstance(answer, ApiError)]
