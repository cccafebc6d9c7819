"""One pod of a gateway: whether it can be reached, and its health as it reported it last.

Not here: requests to it (`remote`); the choice among a shard's pods (`replicas`); the data plane, which has
probes of its own (`service.gateway`).
"""

import asyncio
from dataclasses import dataclass
from typing import TypeVar

import structlog

from service.ground.errors import ApiError
from service.protocol.admin_models import Health
from service.protocol.admin_operations import (
    Control,
    GetHealth,
    ListChanges,
    ListViews,
    Operation,
    RegisterView,
    RemoveView,
    SettleView,
)
from service.protocol.stats import Stats

log = structlog.get_logger()
R = TypeVar("R")

#: A pod that takes longer to say how it is, is away.
_LOOK_S = 5.0
#: What is known without doing anything takes no longer either.
_AT_ONCE = (ListViews, ListChanges)
#: What one that is starting is not asked: it could not do it, and would let others wait.
_CHANGES = (RegisterView, RemoveView, SettleView)


@dataclass(slots=True)
class Pod:
    """A `Control`. *State*: `health` as reported last; None: the pod is away (`why_away`), or was not asked yet.
    `was_told`: it got the views that it lacked, and was not away since."""

    address: str
    control: Control
    shard: int
    replica: int
    health: Health | None = None
    why_away: ApiError | None = None
    was_told: bool = False

    @property
    def is_there(self) -> bool:
        """True if it answered the last request for its health."""
        return self.health is not None

    @property
    def is_ready(self) -> bool:
        """True if it can answer reads, and take changes."""
        return self.health is not None and self.health.ready

    async def call(self, operation: Operation[R]) -> R:
        """The operation's reply. Raises its ApiError, or ApiError(engine_unavailable): at once while the pod is away,
        as no request is to wait for it; `look` finds out when it is back."""
        if self.why_away is not None:
            raise ApiError("engine_unavailable", self.why_away.detail, self.why_away.hint)
        if self.is_there and not self.is_ready and isinstance(operation, _CHANGES):
            raise ApiError("upstream_unavailable", f"{self.address} is starting.")
        try:
            async with asyncio.timeout(_LOOK_S if isinstance(operation, _AT_ONCE) else None):
                reply = await self.control.call(operation)
        except TimeoutError:
            raise ApiError("read_timeout", f"{self.address} did not answer within {_LOOK_S:g} s.") from None
        except ApiError as error:
            if error.code == "engine_unavailable":
                self._note(None, error)
            raise
        if isinstance(reply, Stats):
            self._label(reply)
        return reply

    async def look(self) -> None:
        try:
            async with asyncio.timeout(_LOOK_S):
                self._note(await self.control.call(GetHealth()))
        except ApiError as error:
            self._note(None, error)
        except TimeoutError:
            detail = f"{self.address} did not say how it is within {_LOOK_S:g} s."
            self._note(None, ApiError("engine_unavailable", detail))

    def _note(self, health: Health | None, why_away: ApiError | None = None) -> None:
        if why_away is not None and self.why_away is None:
            log.warning("a pod is away", address=self.address, reason=why_away.detail)
        if why_away is None and self.why_away is not None:
            log.info("a pod is back", address=self.address)
        self.health, self.why_away = health, why_away
        if health is None:
            self.was_told = False

    def _label(self, stats: Stats) -> None:
        """Distinguishes the pod's counters from those of others."""
        stats.shard, stats.replica = self.shard, self.replica
        stats.worker_processes = {f"{self.shard}.{self.replica}.{n}": c for n, c in stats.worker_processes.items()}
        for node in stats.nodes:
            node.replica = self.replica
