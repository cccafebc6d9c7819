"""Several engines as the admin port sees one: the control socket's operations, performed by all whom they concern.

*Invariants*: a view is registered by all shards or by none, as far as they can be reached: what a later one refuses is
taken back from those before; what cannot be taken back is said. One change of the views at a time.

Not here: what the operations do (`operations`), how what they say is put together (`merging`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from service.admin.control import Control
from service.admin.merging import ELSEWHERE, merged_health, merged_stats, merged_view, merged_views
from service.errors import ApiError
from service.shards.homes import homes_among
from service.shards.placing import key_part

log = structlog.get_logger()
_Perform = Callable[..., Awaitable[Any]]


class Engines:
    """Is a `Control`."""

    def __init__(self, shards: Sequence[Control]) -> None:
        self._shards = shards
        self._homes = homes_among(len(shards))
        self._changing = asyncio.Lock()
        self._by_name: dict[str, _Perform] = {
            "views": self._views,
            "view": self._view,
            "put": self._put,
            "drop": self._drop,
            "plan": self._plan,
            "graph": self._graph,
            "stats": self._stats,
            "evict": self._evict,
            "prewarm": self._prewarm,
            "prewarmed": self._prewarmed,
            "health": self._health,
        }

    async def call(self, operation: str, **arguments: Any) -> Any:
        """The operation's result. Raises its `ApiError`, or ``engine_unavailable``."""
        perform = self._by_name.get(operation)
        if perform is None:
            return await self._shards[0].call(operation, **arguments)
        return await perform(**arguments)

    async def _all(self, operation: str, **arguments: Any) -> list[Any]:
        """Of all of them. ApiError if one does not answer."""
        return await asyncio.gather(*(shard.call(operation, **arguments) for shard in self._shards))

    async def _those_there(self, operation: str, **arguments: Any) -> list[Any]:
        """Of those that answer. ApiError if none does, or as any of them says if that is not about it being away."""
        said = await asyncio.gather(
            *(shard.call(operation, **arguments) for shard in self._shards), return_exceptions=True
        )
        there = [each for each in said if not isinstance(each, BaseException)]
        failed = [each for each in said if isinstance(each, BaseException)]
        away = [each for each in failed if isinstance(each, ApiError) and each.code == "engine_unavailable"]
        if failed and (len(away) < len(failed) or not there):
            raise next((each for each in failed if each not in away), failed[0])
        return there

    # What is said

    async def _views(self) -> list[dict[str, Any]]:
        return merged_views(await self._those_there("views"))

    async def _view(self, name: str) -> dict[str, Any]:
        return merged_view(await self._of_those_with(name))

    async def _of_those_with(self, name: str) -> list[dict[str, Any]]:
        """A view's states, of the shards that have it. ApiError ``view_not_found``."""
        views = await self._those_there("views")
        states = [view for of_shard in views for view in of_shard if view["name"] == name]
        if not states:
            raise ApiError("view_not_found", f"There is no view {name!r}.")
        return states

    async def _plan(self, name: str) -> Any:
        """Of the shard that keeps it, or of the first that has it."""
        home = self._homes.of_view(name)
        failed: ApiError | None = None
        for number in sorted(range(len(self._shards)), key=lambda shard: shard != home):
            try:
                return await self._shards[number].call("plan", name=name)
            except ApiError as error:
                failed = failed or error
        assert failed is not None
        raise failed

    async def _graph(self, shard: int) -> Any:
        if shard >= len(self._shards):
            raise ApiError("bad_request", f"There is no shard {shard}.", f"The last one is {len(self._shards) - 1}.")
        return await self._shards[shard].call("graph", shard=shard)

    async def _stats(self) -> dict[str, Any]:
        return merged_stats(await self._those_there("stats"))

    async def _health(self) -> dict[str, Any]:
        return merged_health(await self._all("health"))

    # What is done

    async def _put(self, name: str, **wanted: Any) -> dict[str, Any]:
        async with self._changing:
            before = await self._before(name)
            if before is not None and wanted["create_only"]:
                raise ApiError("view_exists", f"There is a view {name!r} already.")
            done: list[dict[str, Any]] = []
            for number, shard in enumerate(self._shards):
                try:
                    done.append(await shard.call("put", name=name, **wanted))
                except ApiError as error:
                    # One that does not answer any more may have done it.
                    reached = number + (error.code == "read_timeout")
                    await self._take_back(name, before, self._shards[:reached])
                    raise
            return {
                "name": name,
                "created": done[0]["created"],
                "building": any(each["building"] for each in done),
            }

    async def _drop(self, name: str) -> None:
        async with self._changing:
            before = await self._before(name)
            for number, shard in enumerate(self._shards):
                try:
                    await shard.call("drop", name=name)
                except ApiError as error:
                    # A view of a query is only there where it was asked.
                    if error.code == "view_not_found" and before is not None:
                        continue
                    reached = number + (error.code == "read_timeout")
                    await self._take_back(name, before, self._shards[:reached])
                    raise

    async def _before(self, name: str) -> dict[str, Any] | None:
        """The view as it is. ApiError if a shard is away: a change that one of them misses would have to be undone."""
        views = await self._all("views")
        states = [view for of_shard in views for view in of_shard if view["name"] == name]
        return next((state for state in states if state["status"] != ELSEWHERE), states[0] if states else None)

    async def _take_back(self, name: str, before: dict[str, Any] | None, shards: Sequence[Control]) -> None:
        """What was there before is there again, at these."""
        for shard in shards:
            try:
                if before is None:
                    await shard.call("drop", name=name)
                elif before["origin"] == "http":
                    options = {key: value for key, value in before["options"].items() if value is not None}
                    sql = before["sql"]
                    await shard.call("put", name=name, sql=sql, options=options, create_only=False)
            except ApiError as error:
                log.error("a view is not the same on all shards; put it again", view=name, reason=str(error))

    async def _evict(
        self, view: str | None, keys: list[dict[str, str]] | None, state_bytes: int | None
    ) -> dict[str, Any]:
        share = None if state_bytes is None else -(-state_bytes // len(self._shards))
        if view is not None:
            await self._of_those_with(view)
        done = await self._evicted(view, keys, share)
        # A key that was named has one home, and any shard may have it besides.
        evicted = [each["keys"] for each in done]
        return {"views": int(view is not None), "keys": max(evicted) if keys is not None else sum(evicted)}

    async def _evicted(self, view: str | None, keys: Any, state_bytes: int | None) -> list[Any]:
        try:
            return await self._all("evict", view=view, keys=keys, state_bytes=state_bytes)
        except ApiError as error:
            if error.code != "view_not_found":
                raise
        # A view of a query: not all have it.
        done = []
        for shard in self._shards:
            try:
                done.append(await shard.call("evict", view=view, keys=keys, state_bytes=state_bytes))
            except ApiError as error:
                if error.code != "view_not_found":
                    raise
        return done

    async def _prewarm(self, view: str, keys: list[list[str | None]]) -> dict[str, Any]:
        """Each key at its home; of a view that is kept whole, at that of the view."""
        states = await self._all("view", name=view)
        whole = any(state["status"] == ELSEWHERE for state in states)
        home, of_key = self._homes.of_view(view), self._homes.keys_of(view)
        own: dict[int, list[list[str | None]]] = {}
        for key in keys:
            own.setdefault(home if whole else of_key(key_part(tuple(key))), []).append(key)
        begun = await asyncio.gather(
            *(self._shards[shard].call("prewarm", view=view, keys=those) for shard, those in own.items())
        )
        return dict(begun[0]) | {name: sum(each[name] for each in begun) for name in ("keys", "filled", "refused")}

    async def _prewarmed(self) -> list[Any]:
        return [each for of_shard in await self._those_there("prewarmed") for each in of_shard]
