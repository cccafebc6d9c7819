"""The pods that hold the same shard, as one: whichever of them is there answers.

Each key has a replica of its own, where it is read as long as that is there (`service.gateway.pods`).

*Invariants*: what only one of them can answer for (an audit that it runs) is asked of the first one that is there, so
mostly of the same; what all of them must know (a workload model) is told to all.

Not here: what is told to the pods of all shards, each for itself (`engines`, `service.supervisor.admin.registration`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from service.ground.errors import ApiError
from service.supervisor.admin.engines import KeyTexts
from service.supervisor.admin.merge import merged_filling
from service.supervisor.admin.registration import is_away, told
from service.supervisor.fleet.pods import Pod

#: Told to all that are there.
_OF_ALL = frozenset({"put_workload", "drop_workload"})
#: In which order replicas are asked for the keys of a view; of the view, what one of them says of it.
Order = Callable[[int, Mapping[str, Any]], Callable[[KeyTexts], Sequence[int]]]


class Replicas:
    """Is a `Control`."""

    def __init__(self, pods: Sequence[Pod], order: Order) -> None:
        self.pods = tuple(pods)
        self._order = order

    async def call(self, operation: str, **arguments: Any) -> Any:
        """The operation's result. Raises its `ApiError`, or ``engine_unavailable`` if none is there."""
        if operation == "health":
            return self._health()
        if operation == "prewarm":
            return await self._prewarm(**arguments)
        if operation in _OF_ALL:
            return await self._of_all(operation, arguments)
        away: ApiError | None = None
        for pod in sorted(self.pods, key=lambda pod: not pod.is_there):
            try:
                return await pod.call(operation, **arguments)
            except ApiError as error:
                if not is_away(error):
                    raise
                away = away or error
        assert away is not None
        raise away

    async def _of_all(self, operation: str, arguments: dict[str, Any]) -> Any:
        said = [answer for _, answer in await asyncio.gather(*(told(pod, operation, arguments) for pod in self.pods))]
        refused = [answer for answer in said if isinstance(answer, ApiError) and not is_away(answer)]
        done = [answer for answer in said if not isinstance(answer, ApiError)]
        if refused or not done:
            raise (refused or said)[0]
        return done[0]

    async def _prewarm(self, view: str, keys: list[list[str | None]]) -> Any:
        """Each key where it is read."""
        order = self._order(len(self.pods), await self.call("view", name=view))
        own: dict[int, list[list[str | None]]] = {}
        for key in keys:
            replica = next((n for n in order(key) if self.pods[n].is_there), 0)
            own.setdefault(replica, []).append(key)
        return merged_filling(
            await asyncio.gather(
                *(self.pods[n].call("prewarm", view=view, keys=those) for n, those in sorted(own.items()))
            )
        )

    def _health(self) -> dict[str, Any]:
        """Of the one that is best, as it was said last: who asks does not wait for pods that do not answer."""
        there = [pod.health for pod in self.pods if pod.health is not None]
        if not there:
            raise ApiError("engine_unavailable", f"No pod of shard {self.pods[0].shard} can be reached.")
        return min(there, key=lambda health: (not health["ready"], not health["streaming"], health["age_ms"]))
