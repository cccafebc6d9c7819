"""Changes of the views at several engines, one at a time.

*Invariants*: a view is registered by all or by none, as far as they can be reached: what one refuses is taken back from
the others; what cannot be taken back is said. Of engines that somebody looks after (`reconcile`), one that is away or
starting hinders nothing: it is told when it is back. Others must all be there.

Not here: what the engines do (`operations`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from service.admin.control import Control
from service.admin.merging import ELSEWHERE
from service.errors import ApiError

log = structlog.get_logger()
Said = tuple[Control, Any | ApiError]


def is_away(error: object) -> bool:
    """Whether who was asked has not even heard it."""
    return isinstance(error, ApiError) and error.code == "engine_unavailable"


class Registering:
    """`clock`, for engines that are looked after: when changes are made, as all of them are told."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._changing = asyncio.Lock()

    async def put(self, everyone: Sequence[Control], name: str, **wanted: Any) -> dict[str, Any]:
        """Registers a view, or replaces it. Raises what one of them raises, or ``engine_unavailable``."""
        async with self._changing:
            before = await self._before(everyone, name)
            if before is not None and wanted["create_only"]:
                raise ApiError("view_exists", f"There is a view {name!r} already.")
            done = await self._change(everyone, name, before, "put", wanted)
            return {
                "name": name,
                "created": before is None,
                "building": any(each["building"] for each in done),
            }

    async def drop(self, everyone: Sequence[Control], name: str, **when: Any) -> None:
        """Forgets a view. Raises what one of them raises, or ``engine_unavailable``."""
        async with self._changing:
            await self._change(everyone, name, await self._before(everyone, name), "drop", when)

    async def _before(self, everyone: Sequence[Control], name: str) -> dict[str, Any] | None:
        """The view as it is. ApiError if nobody is there, or somebody who must be: a change that he misses would have
        to be undone."""
        said = await asyncio.gather(*(told(each, "views", {}) for each in everyone))
        failed = [error for _, error in said if isinstance(error, ApiError) and not self.may_miss(error)]
        there = [views for _, views in said if not isinstance(views, ApiError)]
        if failed or not there:
            raise (failed or [error for _, error in said])[0]
        states = [view for views in there for view in views if view["name"] == name]
        return next((state for state in states if state["status"] != ELSEWHERE), states[0] if states else None)

    def may_miss(self, error: ApiError) -> bool:
        """Whether who says that hinders nothing: it is told later what the others did."""
        return self._clock is not None and error.retryable

    async def _change(
        self, everyone: Sequence[Control], name: str, before: dict[str, Any] | None, operation: str, wanted: Any
    ) -> list[Any]:
        """What those said who have done it. ApiError if one refuses; then none has."""
        change = {"name": name, **wanted, **self._now()}
        said: list[Said] = []
        waiting = list(everyone)
        # What one refuses most would refuse: the first one is alone.
        while waiting and not _done(said) and self._refusal(said, before) is None:
            said.append(await told(waiting.pop(0), operation, change))
        if self._refusal(said, before) is None:
            said += await asyncio.gather(*(told(each, operation, change) for each in waiting))
        refusal = self._refusal(said, before)
        if refusal is not None:
            await self._take_back(name, before, [each for each, answer in said if _may_have_done(answer)])
            raise refusal
        if not _done(said):
            raise next(answer for _, answer in said if isinstance(answer, ApiError))
        return _done(said)

    def _refusal(self, said: Sequence[Said], before: dict[str, Any] | None) -> ApiError | None:
        """Why it is not done, if it is not."""
        failed = [answer for _, answer in said if isinstance(answer, ApiError) and not self.may_miss(answer)]
        if before is not None:
            # A view of a query is only there where it was asked.
            failed = [error for error in failed if error.code != "view_not_found"]
        return failed[0] if failed else None

    async def _take_back(self, name: str, before: dict[str, Any] | None, those: Sequence[Control]) -> None:
        """What was there before is there again, at those."""
        for each in those:
            try:
                if before is None:
                    await each.call("drop", name=name, **self._now())
                elif before["origin"] == "http":
                    options = {key: value for key, value in before["options"].items() if value is not None}
                    sql = before["sql"]
                    await each.call("put", name=name, sql=sql, options=options, create_only=False, **self._now())
            except ApiError as error:
                if not (before is None and error.code == "view_not_found"):
                    log.error("a view is not the same everywhere; put it again", view=name, reason=str(error))

    def _now(self) -> dict[str, int]:
        return {} if self._clock is None else {"at_ms": self._clock()}


async def told(each: Control, operation: str, arguments: dict[str, Any]) -> Said:
    """What one says that is told something."""
    try:
        return each, await each.call(operation, **arguments)
    except ApiError as error:
        return each, error


def _done(said: Sequence[Said]) -> list[Any]:
    return [answer for _, answer in said if not isinstance(answer, ApiError)]


def _may_have_done(answer: Any | ApiError) -> bool:
    """One that does not answer any more may have."""
    return not isinstance(answer, ApiError) or answer.code == "read_timeout"
