"""Several engines as the admin port sees one: the control socket's operations, performed by all whom they concern.

A shard may have replicas: engines that hold the same. The shard is then whichever of them answers (`replicas`), and
`everyone` are all of them, which have views, keys and numbers of their own.

Not here: what the operations do (`operations`), how what they say is put together (`merge`), that all have the same
views (`registration`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from service.ground.errors import ApiError
from service.leaf_store.layout import key_part
from service.protocol.control import Control
from service.sharding.homes import homes_among
from service.supervisor.admin.merge import (
    ELSEWHERE,
    merged_filling,
    merged_footprints,
    merged_health,
    merged_stats,
    merged_view,
    merged_views,
)
from service.supervisor.admin.registration import Registering, is_away, told

_Perform = Callable[..., Awaitable[Any]]


#: Texts of a view's parameters.
KeyTexts = Sequence[str | None]
#: Where the keys of a view are read, among so many shards; of the view, what one of them says of it.
Place = Callable[[int, Mapping[str, Any]], Callable[[KeyTexts], int]]


class Engines:
    """Is a `Control`. *State*: who is asked, which may change (`follow`)."""

    def __init__(
        self,
        shards: Sequence[Control],
        everyone: Sequence[Control] | None = None,
        registering: Registering | None = None,
        place: Place | None = None,
    ) -> None:
        self._registering = registering or Registering()
        self._place = place or _by_entry
        self.follow(shards, everyone)
        self._by_name: dict[str, _Perform] = {
            "views": self._views,
            "view": self._view,
            "put": self._put,
            "drop": self._drop,
            "kept": self._kept,
            "settle": self._settle,
            "plan": self._plan,
            "graph": self._graph,
            "footprints": self._footprints,
            "stats": self._stats,
            "evict": self._evict,
            "prewarm": self._prewarm,
            "prewarmed": self._prewarmed,
            "health": self._health,
        }

    def follow(self, shards: Sequence[Control], everyone: Sequence[Control] | None = None) -> None:
        """From now on these are asked; `everyone`: with all replicas, in the shards' order."""
        self._shards = tuple(shards)
        self._everyone = self._shards if everyone is None else tuple(everyone)

    async def call(self, operation: str, **arguments: Any) -> Any:
        """The operation's result. Raises its `ApiError`, or ``engine_unavailable``."""
        perform = self._by_name.get(operation)
        if perform is None:
            return await self._shards[0].call(operation, **arguments)
        return await perform(**arguments)

    async def _all(self, operation: str, **arguments: Any) -> list[Any]:
        """Of all shards. ApiError if one does not answer."""
        return await asyncio.gather(*(shard.call(operation, **arguments) for shard in self._shards))

    async def _those_there(self, operation: str, **arguments: Any) -> list[Any]:
        """Of everyone who answers. ApiError if none does, or as any of them says if that is not about it being away."""
        said = await asyncio.gather(
            *(each.call(operation, **arguments) for each in self._everyone), return_exceptions=True
        )
        there = [each for each in said if not isinstance(each, BaseException)]
        failed = [each for each in said if isinstance(each, BaseException)]
        away = [each for each in failed if is_away(each)]
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
            raise ApiError("view_not_found", f"View {name!r} does not exist.")
        return states

    async def _plan(self, name: str) -> Any:
        """Of the shard that keeps it, or of the first that has it."""
        shards = self._shards
        home = homes_among(len(shards)).of_view(name)
        failed: ApiError | None = None
        for number in sorted(range(len(shards)), key=lambda shard: shard != home):
            try:
                return await shards[number].call("plan", name=name)
            except ApiError as error:
                failed = failed or error
        assert failed is not None
        raise failed

    async def _graph(self, shard: int | None) -> Any:
        shard = shard or 0
        if shard >= len(self._shards):
            raise ApiError("bad_request", f"There is no shard {shard}.", f"The last one is {len(self._shards) - 1}.")
        return await self._shards[shard].call("graph", shard=shard)

    async def _footprints(self) -> dict[str, Any]:
        return merged_footprints(await self._those_there("footprints"))

    async def _stats(self) -> dict[str, Any]:
        return merged_stats(await self._those_there("stats"))

    async def _health(self) -> dict[str, Any]:
        return merged_health(await self._all("health"))

    # What is done

    async def _put(self, name: str, **wanted: Any) -> dict[str, Any]:
        return await self._registering.put(self._everyone, name, **wanted)

    async def _drop(self, name: str, **when: Any) -> None:
        await self._registering.drop(self._everyone, name, **when)

    async def _kept(self) -> dict[str, Any]:
        """What all of them know: of what some have missed it is told again."""
        of_all = await self._all("kept")
        names = set.intersection(*(set(kept) for kept in of_all))
        return {name: min((kept[name] for kept in of_all), key=lambda change: change["at_ms"]) for name in names}

    async def _settle(self, **wanted: Any) -> bool:
        return any(await self._all("settle", **wanted))

    async def _evict(
        self, view: str | None, keys: list[dict[str, str]] | None, state_bytes: int | None
    ) -> dict[str, Any]:
        share = None if state_bytes is None else -(-state_bytes // len(self._everyone))
        if view is not None:
            await self._of_those_with(view)
        done = await self._evicted(view=view, keys=keys, state_bytes=share)
        # A key that was named has one home, and any shard may have it besides.
        evicted = [each["keys"] for each in done]
        return {"views": int(view is not None), "keys": max(evicted) if keys is not None else sum(evicted)}

    async def _evicted(self, **wanted: Any) -> list[Any]:
        """Of those that have the view: one of a query is not everywhere. ApiError if nobody has done it."""
        said = [answer for _, answer in await asyncio.gather(*(told(e, "evict", wanted) for e in self._everyone))]
        failed = [answer for answer in said if isinstance(answer, ApiError)]
        done = [answer for answer in said if not isinstance(answer, ApiError)]
        refused = [e for e in failed if e.code != "view_not_found" and not self._registering.may_miss(e)]
        if refused or not done:
            raise (refused or failed)[0]
        return done

    async def _prewarm(self, view: str, keys: list[list[str | None]]) -> dict[str, Any]:
        """Each key at its home; of a view that is kept whole, at that of the view."""
        states, shards = await self._all("view", name=view), self._shards
        whole = any(state["status"] == ELSEWHERE for state in states)
        home, of_key = homes_among(len(shards)).of_view(view), self._place(len(shards), states[0])
        own: dict[int, list[list[str | None]]] = {}
        for key in keys:
            own.setdefault(home if whole else of_key(key), []).append(key)
        begun = await asyncio.gather(
            *(shards[shard].call("prewarm", view=view, keys=those) for shard, those in own.items())
        )
        return merged_filling(begun)

    async def _prewarmed(self) -> list[Any]:
        return [each for of_shard in await self._those_there("prewarmed") for each in of_shard]


def _by_entry(shards: int, state: Mapping[str, Any]) -> Callable[[KeyTexts], int]:
    """As workers place keys (`service.worker.shards.placement`)."""
    of_key = homes_among(shards).keys_of(state["name"])
    return lambda key: of_key(key_part(tuple(key)))
