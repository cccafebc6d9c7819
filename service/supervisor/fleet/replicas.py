"""The pods that hold the same shard, as one: whichever of them is there answers.

Each key has a replica of its own, where it is read as long as that is there (`service.gateway.pods`).

*Invariants*: what only one of them can answer for (an audit that it runs) is asked of the first one that is there, so
mostly of the same; what all of them must know (a workload model) is sent to all.

Not here: operations on the pods of all shards, each for itself (`engines`, `service.supervisor.admin.registration`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from service.ground.errors import ApiError
from service.protocol.admin_models import Health, Prewarmed, PrewarmKeys, ViewState
from service.protocol.admin_operations import BeginPrewarm, DropWorkload, GetView, Operation, PutWorkload
from service.protocol.workload import Workload, WorkloadModel
from service.supervisor.admin.delegation import DelegatedOperations
from service.supervisor.admin.engines import KeyTexts
from service.supervisor.admin.merge import merged_filling
from service.supervisor.admin.registration import answer_of, is_away
from service.supervisor.fleet.pods import Pod

R = TypeVar("R")
#: The order in which replicas are asked for a key of a view, given their number and the view's state at one of them.
Order = Callable[[int, ViewState], Callable[[KeyTexts], Sequence[int]]]


class Replicas(DelegatedOperations):
    """A `Control`."""

    def __init__(self, pods: Sequence[Pod], order: Order) -> None:
        self.pods = tuple(pods)
        self._order = order

    async def delegate(self, operation: Operation[R]) -> R:
        """The reply of the first pod that is there. Raises its ApiError, or ApiError(engine_unavailable) if none is."""
        away: ApiError | None = None
        for pod in sorted(self.pods, key=lambda pod: not pod.is_there):
            try:
                return await pod.call(operation)
            except ApiError as error:
                if not is_away(error):
                    raise
                away = away or error
        assert away is not None
        raise away

    async def put_workload(self, model: WorkloadModel) -> Workload:
        return await self._at_all(PutWorkload(model))

    async def drop_workload(self) -> None:
        await self._at_all(DropWorkload())

    async def _at_all(self, operation: Operation[R]) -> R:
        answers = [answer for _, answer in await asyncio.gather(*(answer_of(pod, operation) for pod in self.pods))]
        failed = [answer for answer in answers if isinstance(answer, ApiError)]
        refused = [error for error in failed if not is_away(error)]
        done = [answer for answer in answers if not isinstance(answer, ApiError)]
        if refused or not done:
            raise (refused or failed)[0]
        return done[0]

    async def prewarm(self, wanted: PrewarmKeys) -> Prewarmed:
        """Fills each key at the replica where it is read."""
        order = self._order(len(self.pods), await self.call(GetView(wanted.view)))
        own: dict[int, list[list[str | None]]] = {}
        for key in wanted.keys:
            replica = next((n for n in order(key) if self.pods[n].is_there), 0)
            own.setdefault(replica, []).append(key)
        return merged_filling(
            await asyncio.gather(
                *(
                    self.pods[n].call(BeginPrewarm(wanted.model_copy(update={"keys": keys})))
                    for n, keys in sorted(own.items())
                )
            )
        )

    async def health(self) -> Health:
        """The best replica's, as it reported it last: no request waits for pods that do not answer."""
        there = [pod.health for pod in self.pods if pod.health is not None]
        if not there:
            raise ApiError("engine_unavailable", f"No pod of shard {self.pods[0].shard} can be reached.")
        return min(there, key=lambda health: (not health.ready, not health.streaming, health.age_ms))
