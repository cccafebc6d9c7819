"""The pods of a gateway, as its admin port needs them: all of them as one `Control`, looked after.

*Invariants*: requests for the service's state do not wait for a pod: it is polled here. Where
the pods are may change at any time; pods that stay are the same objects.

Not here: reading the settings anew (`service.settings.gateway_file`); the routes (`app`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import httpx
import orjson
import structlog

from service.gateway.homes import replicas_of, slot_of
from service.ground.clock import wall_ms
from service.ground.errors import ApiError
from service.protocol.admin_models import Health, ViewState
from service.protocol.admin_operations import GetHealth
from service.settings.gateway import GatewaySettings
from service.sharding.homes import homes_among
from service.supervisor.admin.engines import Engines, KeyTexts
from service.supervisor.admin.prometheus import MetricSample
from service.supervisor.admin.registration import Registering
from service.supervisor.fleet.pods import Pod
from service.supervisor.fleet.reconcile import Reconciler
from service.supervisor.fleet.remote import RemoteControl
from service.supervisor.fleet.replicas import Replicas

log = structlog.get_logger()

#: How often pods are asked how they are: those that are not ready, and those that are. The sooner one is seen that has
#: come back, the sooner it has the views that it missed.
_WATCH_S, _LOOK_S = 0.5, 2.0
#: How often all are asked which views they have, if nobody was away.
_RECONCILE_S = 10.0


class AllPods(Engines):
    """All pods as one `Control`. *State*: `were_ready`, once each shard was at the same time."""

    were_ready = False

    async def health(self) -> Health:
        """Once all were ready, the fleet stays ready: other shards can answer while one is starting."""
        health = await super().health()
        self.were_ready = self.were_ready or health.ready
        return health.model_copy(update={"ready": self.were_ready, "streaming": health.streaming and health.ready})


class Fleet:
    """*State*: `pods` as the settings say; `_look_at` and `_again_at`, when all are asked how they are, and which
    views they have, if nobody was away meanwhile."""

    def __init__(
        self, settings: GatewaySettings, client: httpx.AsyncClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._reconciler = Reconciler(clock)
        self.pods: list[Pod] = []
        self._look_at = self._again_at = 0.0
        self.engines = AllPods([], [], Registering(wall_ms), place_of)
        self.follow(settings)

    def follow(self, settings: GatewaySettings) -> None:
        """Replaces the pods by those of new settings."""
        known = {(pod.shard, pod.replica, pod.address): pod for pod in self.pods}
        self.pods = [known.get(_key(pod), pod) for pod in self._pods(settings)]
        shards = [
            Replicas([pod for pod in self.pods if pod.shard == shard], replicas_order)
            for shard in range(settings.gateway.shards)
        ]
        self.engines.follow(shards, self.pods)

    def _pods(self, settings: GatewaySettings) -> Iterator[Pod]:
        for shard, replicas in enumerate(settings.gateway.admin_pods):
            for replica, address in enumerate(replicas):
                yield Pod(address, RemoteControl(address, self._client, self._settings.gateway.token), shard, replica)

    async def run(self) -> None:
        """Watches the pods and sends them what they missed, for ever; a slow pod does not delay the watch."""
        await asyncio.gather(_again_and_again(self.look), _again_and_again(self.tell))

    async def look(self) -> None:
        """Requests the health of the pods that are due."""
        all_of_them = self._clock() >= self._look_at
        if all_of_them:
            self._look_at = self._clock() + _LOOK_S
        await asyncio.gather(*(pod.look() for pod in self.pods if all_of_them or not pod.is_ready))
        with suppress(ApiError):
            await self.engines.call(GetHealth())

    async def tell(self) -> None:
        """Sends ready pods the changes that they have missed."""
        ready = [pod for pod in self.pods if pod.is_ready]
        if all(pod.was_told for pod in ready) and self._clock() < self._again_at:
            return
        for pod in ready:
            pod.was_told = True
        self._again_at = self._clock() + _RECONCILE_S
        await self._reconciler.round(ready)

    @property
    def was_ready(self) -> bool:
        """True if each shard was ready once."""
        return self.engines.were_ready

    def samples(self) -> Iterator[MetricSample]:
        """Metrics of the pods."""
        for pod in self.pods:
            labels = (("shard", str(pod.shard)), ("replica", str(pod.replica)))
            yield MetricSample(
                "upquery_gateway_pod_up", float(pod.is_there), "Whether a pod's admin port answers.", labels
            )
            yield MetricSample(
                "upquery_gateway_pod_ready", float(pod.is_ready), "Whether a pod can answer reads.", labels
            )


async def _again_and_again(do: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await do()
        except Exception:
            log.exception("looking after the pods failed")
        await asyncio.sleep(_WATCH_S)


def _key(pod: Pod) -> tuple[int, int, str]:
    return pod.shard, pod.replica, pod.address


def place_of(shards: int, state: ViewState) -> Callable[[KeyTexts], int]:
    """The shard where the gateway's workers read a key."""
    slot, homes = _slots_of(state), homes_among(shards)
    return lambda key: homes.of_slot(slot(key))


def replicas_order(replicas: int, state: ViewState) -> Callable[[KeyTexts], Sequence[int]]:
    """The replicas of that shard in the order in which they ask for it."""
    slot = _slots_of(state)
    return lambda key: replicas_of(slot(key), replicas)


def _slots_of(state: ViewState) -> Callable[[KeyTexts], int]:
    """The slots of a view's keys. (A view may have parameters that are none of its key; where such a key is read
    depends on these, too.)"""
    view, parameters = state.name, state.parameters

    def slot(key: KeyTexts) -> int:
        given = zip(parameters, key, strict=False)
        return slot_of(view, {each.name: _value(each.type, text) for each, text in given})

    return slot


def _value(kind: str, text: str | None) -> Any:
    """A parameter's value as in a request: a list's elements one by one. The pod refuses a text that is no list."""
    if not kind.endswith("[]") or text is None:
        return text
    try:
        return orjson.loads(text)
    except ValueError:
        return text
