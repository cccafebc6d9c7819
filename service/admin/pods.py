"""One pod of a gateway, as its control plane knows it: whether it is there, and how it last said it was.

Not here: how it is asked (`remote`); which of a shard's pods is asked (`replicas`); the data plane, which finds out
by itself (`service.gateway`).
"""

import asyncio
from dataclasses import dataclass
from typing import Any

import structlog

from service.admin.control import Control
from service.admin.registering import is_away
from service.errors import ApiError

log = structlog.get_logger()

#: A pod that takes longer to say how it is, is away.
_LOOK_S = 5.0


@dataclass(slots=True)
class Pod:
    """Is a `Control`. *State*: `health` as it was said last; None: it is away. `was_told`: it was given the views that
    it lacked, and was not away since."""

    address: str
    control: Control
    shard: int
    replica: int
    health: dict[str, Any] | None = None
    #: It has been asked at least once.
    known: bool = False
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
        """The operation's result. Raises its `ApiError`, or ``engine_unavailable``."""
        try:
            result = await self.control.call(operation, **arguments)
        except ApiError as error:
            if is_away(error):
                self._note(None, error.detail)
            raise
        return self._own(result) if operation == "stats" else result

    async def look(self) -> None:
        """Finds out how it is."""
        try:
            async with asyncio.timeout(_LOOK_S):
                self._note(await self.control.call("health"), "")
        except ApiError as error:
            self._note(None, error.detail)
        except TimeoutError:
            self._note(None, f"It did not say how it is within {_LOOK_S:g} s.")

    def _note(self, health: dict[str, Any] | None, reason: str) -> None:
        if health is None and (self.is_there or not self.known):
            log.warning("a pod is away", address=self.address, reason=reason)
        if health is not None and not self.is_there and self.known:
            log.info("a pod is back", address=self.address)
        self.health, self.known = health, True
        if health is None:
            self.was_told = False

    def _own(self, stats: dict[str, Any]) -> dict[str, Any]:
        """What it has counted, told apart from what others have."""
        processes = {f"{self.shard}.{self.replica}.{n}": each for n, each in stats["worker_processes"].items()}
        nodes = [node | {"replica": self.replica} for node in stats["nodes"]]
        return stats | {"shard": self.shard, "replica": self.replica, "worker_processes": processes, "nodes": nodes}
