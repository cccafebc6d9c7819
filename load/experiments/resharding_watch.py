"""What a gateway, and the pods behind it, say of themselves several times a second, while keys move.

Not here: what clients see (`resharding_clients`).
"""

from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

import httpx

from load.experiments.upquery_stats import Admin
from load.sides.side import Side, SideError

_SAMPLE_S = 0.25
#: Beyond the time within which keys are to move: until new pods answer.
_PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Counts of a moment, since the start."""

    at: float
    #: Of all pods: keys that were filled, and statements that the database was asked for that.
    upqueries: int
    lookups: int
    #: What the gateway asked of each shard.
    requests: tuple[int, ...]
    #: Shards that the gateway's workers know, at least; and whether some keys are still to move.
    shards: int
    moving: bool


class Watch:
    """Takes samples while entered, in a thread of its own."""

    def __init__(self, side: Side) -> None:
        self._admin = Admin(side)
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="watch", daemon=True)
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def wait_until_moved(self, shards: int, move_s: float) -> None:
        """Return once the gateway knows so many shards, and has nothing to move to them. Raises `SideError`."""
        end = monotonic() + move_s + _PATIENCE_S
        while monotonic() < end:
            last = self.samples[-1] if self.samples else None
            if last is not None and last.shards == shards and not last.moving:
                return
            self._stop.wait(_SAMPLE_S)
        raise SideError(f"keys did not move to {shards} shards within {move_s + _PATIENCE_S:.0f} s")

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLE_S):
            # A pod that is just starting has no answer.
            with suppress(httpx.HTTPError, SideError):
                self.samples.append(sample_of(self._admin.stats().document, monotonic()))


def sample_of(said: dict[str, Any], at: float) -> Sample:
    """``GET /v1/stats`` of a gateway: its workers, and all pods together."""
    workers: list[dict[str, Any]] = list(said["gateway"].values())
    known = min((int(worker["shards"]) for worker in workers), default=0)
    asked = [sum(int(worker["requests"].get(str(shard), 0)) for worker in workers) for shard in range(known)]
    return Sample(
        at=at,
        upqueries=sum(int(view["upqueries"]) for view in said["views"].values()),
        lookups=int(said["counters"]["lookups"]),
        requests=tuple(asked),
        shards=known,
        moving=any(worker["moving"] for worker in workers),
    )
