"""Changes of the views at several engines, one at a time.

*Invariants*: a view is registered by all or by none, as far as they can be reached: what one refuses is taken back from
the others; what cannot be taken back is said. Of engines that somebody looks after (`reconcile`), one that is away or
starting hinders nothing: it is told when it is back. Others must all be there.

With those that are looked after, what was there before is the latest change that any of them knows, and taking back is
a later change, which all are told: also who did what was refused, and could not say so, gets it then.

Not here: what the engines do (`operations`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from service.ground.errors import ApiError
from service.protocol.control import Control
from service.supervisor.admin.latest_change import Kept, latest
from service.supervisor.admin.merge import ELSEWHERE

log = structlog.get_logger()
Said = tuple[Control, Any | ApiError]


def is_away(error: object) -> bool:
    """Whether who was asked says nothing: it is not there, or takes too long. It may have heard it."""
    return isinstance(error, ApiError) and error.code in ("engine_unavailable", "read_timeout")


@dataclass(slots=True)
class Before:
    """What there was before a change: who has to be told of it, the view, and when it was changed last."""

    those: Sequence[Control]
    view: Mapping[str, Any] | None
    at_ms: int = -1


class Registering:
    """`clock`, for engines that are looked after: when changes are made, as all of them are told."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock
        self._changing = asyncio.Lock()

    async def put(self, everyone: Sequence[Control], name: str, **wanted: Any) -> dict[str, Any]:
        """Registers a view, or replaces it. Raises what one of them raises, or ``engine_unavailable``."""
        async with self._changing:
            before = await self._before(everyone, name)
            if before.view is not None and wanted["create_only"]:
                raise ApiError("view_exists", f"View {name!r} exists already.")
            done = await self._change(before, name, "put", wanted)
            return {
                "name": name,
                "created": before.view is None,
                "building": any(each["building"] for each in done),
            }

    async def drop(self, everyone: Sequence[Control], name: str, **when: Any) -> None:
        """Forgets a view. Raises what one of them raises, or ``engine_unavailable``."""
        async with self._changing:
            await self._change(await self._before(everyone, name), name, "drop", when)

    async def _before(self, everyone: Sequence[Control], name: str) -> Before:
        """The view as it is. ApiError if nobody is there, or somebody who must be: a change that he misses would have
        to be undone."""
        operation = "views" if self._clock is None else "kept"
        said = await asyncio.gather(*(told(each, operation, {}) for each in everyone))
        failed = [error for _, error in said if isinstance(error, ApiError) and not self.may_miss(error)]
        there = [(each, views) for each, views in said if not isinstance(views, ApiError)]
        if failed or not there:
            raise (failed or [error for _, error in said])[0]
        if self._clock is not None:
            return await _latest_change(there, name)
        states = [view for _, views in there for view in views if view["name"] == name]
        home = next((state for state in states if state["status"] != ELSEWHERE), states[0] if states else None)
        return Before(everyone, home)

    def may_miss(self, error: ApiError) -> bool:
        """Whether who says that hinders nothing: it is told later what the others did."""
        return self._clock is not None and error.retryable

    async def _change(self, before: Before, name: str, operation: str, wanted: Any) -> list[Any]:
        """What those said who have done it. ApiError if one refuses; then none has."""
        change = {"name": name, **wanted, **self._after(before.at_ms)}
        said: list[Said] = []
        waiting = list(before.those)
        # What one refuses most would refuse: the first one is alone.
        while waiting and not _done(said) and self._refusal(said, operation) is None:
            said.append(await told(waiting.pop(0), operation, change))
        if self._refusal(said, operation) is None:
            said += await asyncio.gather(*(told(each, operation, change) for each in waiting))
        refusal = self._refusal(said, operation)
        if refusal is not None:
            await self._take_back(before, change, [each for each, answer in said if _may_have_done(answer)])
            raise refusal
        if not _done(said):
            failed = [answer for _, answer in said if isinstance(answer, ApiError)]
            raise next((error for error in failed if not self.may_miss(error)), failed[0])
        return _done(said)

    def _refusal(self, said: Sequence[Said], operation: str) -> ApiError | None:
        """Why it is not done, if it is not."""
        failed = [answer for _, answer in said if isinstance(answer, ApiError) and not self.may_miss(answer)]
        if operation == "drop":
            # A view of a query is only there where it was asked.
            failed = [error for error in failed if error.code != "view_not_found"]
        return failed[0] if failed else None

    async def _take_back(self, before: Before, change: Mapping[str, Any], those: Sequence[Control]) -> None:
        """What was there before is there again, at those who may have done the change."""
        name, view = change["name"], before.view
        wanted: dict[str, Any] = {"name": name, "sql": None, "options": {}}
        if view is not None:
            options = {key: value for key, value in view["options"].items() if value is not None}
            wanted |= {"sql": view["sql"], "options": options}
        if self._clock is not None:
            if those:
                await _taken_back(before.those, "settle", wanted | self._after(change["at_ms"]))
        elif view is None:
            await _taken_back(those, "drop", {"name": name})
        elif view["origin"] == "http":
            await _taken_back(those, "put", wanted | {"create_only": False})

    def _after(self, at_ms: int) -> dict[str, int]:
        return {} if self._clock is None else {"at_ms": max(self._clock(), at_ms + 1)}


async def _latest_change(there: Sequence[tuple[Control, Kept]], name: str) -> Before:
    """Of a view, whose latest change all of those know then that it was dropped, if it was."""
    known = [(each, kept[name]) for each, kept in there if name in kept]
    change = latest([{name: each} for _, each in known]).get(name)
    those = [each for each, _ in there]
    if change is None:
        return Before(those, None)
    if "sql" in change:
        return Before(those, change, change["at_ms"])
    outdated = [each for each, own in known if "sql" in own]
    await _taken_back(outdated, "settle", {"name": name, "sql": None, "options": {}, "at_ms": change["at_ms"]})
    return Before(those, None, change["at_ms"])


async def _taken_back(those: Sequence[Control], operation: str, arguments: dict[str, Any]) -> None:
    """Says what cannot be. (Who is looked after and does not answer is told later.)"""
    for _, error in await asyncio.gather(*(told(each, operation, arguments) for each in those)):
        if not isinstance(error, ApiError) or (operation == "drop" and error.code == "view_not_found"):
            continue
        if operation != "settle" or not error.retryable:
            log.error("a view is not the same everywhere; put it again", view=arguments["name"], reason=str(error))


async def told(each: Control, operation: str, arguments: dict[str, Any]) -> Said:
    """What one says that is told something."""
    try:
        return each, await each.call(operation, **arguments)
    except ApiError as error:
        return each, error


def _done(said: Sequence[Said]) -> list[Any]:
    return [answer for _, answer in said if not isinstance(answer, ApiError)]


def _may_have_done(answer: Any | ApiError) -> bool:
    """One that does not answer any more may have: it was there a moment before."""
    return not isinstance(answer, ApiError) or is_away(answer)
