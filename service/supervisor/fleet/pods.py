"""One pod of a gateway, as its control plane knows it: whether it is there, and how it last said it was.

Not here: how it is asked (`remote`); which of a shard's pods is asked (`replicas`); the data plane, which finds out
by itself (`service.gateway`).
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import structlog

from service.ground.errors import ApiError
from service.protocol.control import Control

log = structlog.get_logger()

#: A pod that takes longer to say how it is, is away.
_LOOK_S = 5.0
#: What is known without doing anything takes no longer either.
_AT_ONCE = frozenset({"views", "kept"})
#: What one that is starting is not asked: it could not do it, and would let others wait.
_CHANGES = frozenset({"put", "drop", "settle"})


@dataclass(slots=True)
class Pod:
    """Is a `Control`. *State*: `health` as it was said last; None: it is away, `why_away`, or was not asked yet.
    `was_told`: it was given the views that it lacked, and was not away since."""

    address: str
    control: Control
    shard: int
    replica: int
    health: dict[str, Any] | None = None
    why_away: ApiError | None = None
    was_told: bool = False

    @property
    def is_there(self) -> bool:
        """Whether it answered when it was last asked."""
        return self.health is not None

    @property
    def is_ready(self) -> bool:
        """Whether it can answer reads, and take changes."""
        return self.health is not None and bool(self.health["ready"])

    async def call(self, operation: str, **arguments: Any) -> Any:
        """The operation's result. Raises its `ApiError`, or ``engine_unavailable``: at once while it is away, as nobody
        should wait for one that does not answer; that is found out by `look`."""
        if self.why_away is not None:
            raise ApiError("engine_unavailable", self.why_away.detail, self.why_away.hint)
        if self.is_there and not self.is_ready and operation in _CHANGES:
            raise ApiError("upstream_unavailable", f"{self.address} is starting.")
        try:
            async with asyncio.timeout(_LOOK_S if operation in _AT_ONCE else None):
                result = await self.control.call(operation, **arguments)
        except TimeoutError:
            raise ApiError("read_timeout", f"{self.address} did not answer within {_LOOK_S:g} s.") from None
        except ApiError as error:
            if error.code == "engine_unavailable":
                self._note(None, error)
            raise
        return self._own(result) if operation == "stats" else result

    async def look(self) -> None:
        """Finds out how it is."""
        try:
            async with asyncio.timeout(_LOOK_S):
                self._note(await self.control.call("health"))
        except ApiError as error:
            self._note(None, error)
        except TimeoutError:
            detail = f"{self.address} did not say how it is within {_LOOK_S:g} s."
            self._note(None, ApiError("engine_unavailable", detail))

    def _note(self, health: dict[str, Any] | None, why_away: ApiError | None = None) -> None:
        if why_away is not None and self.why_away is None:
            log.warning("a pod is away", address=self.address, reason=why_away.detail)
        if why_away is None and self.why_away is not None:
            log.info("a pod is back", address=self.address)
        self.health, self.why_away = health, why_away
        if health is None:
            self.was_told = False

    def _own(self, stats: dict[str, Any]) -> dict[str, Any]:
        """What it has counted, told apart from what others have."""
        processes = {f"{self.shard}.{self.replica}.{n}": each for n, each in stats["worker_processes"].items()}
        nodes = [node | {"replica": self.replica} for node in stats["nodes"]]
        return stats | {"shard": self.shard, "replica": self.replica, "worker_processes": processes, "nodes": nodes}
