"""Replicas of one shard: their order for a key, and requests to them.

*Theory*: each replica answers every key of its shard. While it is reachable, the same replica answers a key: it has
the key in memory, and a client does not see the key go back in time.

*Invariants*: reads have no side effects, so a request without a byte of an answer is repeated at the next replica,
and so is one that another replica may be able to answer: of a replica that is starting, or does not know a view yet.
Each replica is asked once, and never two at the same time.

Not here: the choice of the shard (`topology`).
"""

from dataclasses import dataclass

import orjson

from service.gateway.counting import GatewayCounters
from service.gateway.homes import replicas_of
from service.gateway.incoming import Incoming, PodGone
from service.gateway.replica import Replica
from service.ground.errors import ApiError

#: Maximum silence of a stream: pods send comments far more often.
_STREAM_SILENT_S = 120.0
NOT_FOUND = "view_not_found"
_NOT_READY = "engine_unavailable"
#: Problems that another replica may not have; of several, the one last in this list is returned.
_ELSEWHERE_PERHAPS = (_NOT_READY, NOT_FOUND, "view_building")
#: Problems by status: the response to a HEAD has no body.
_CODES = {404: NOT_FOUND, 503: _NOT_READY}


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A request for a pod. `streams`: the answer is a stream of unbounded duration."""

    content: bytes
    is_head: bool = False
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A request that has been sent, and its replica."""

    replica: Replica
    incoming: Incoming


class ShardPods:
    """The replicas of the shard `number`."""

    def __init__(self, number: int, replicas: tuple[Replica, ...], counters: GatewayCounters) -> None:
        self.number = number
        self.replicas = replicas
        self._counters = counters

    @property
    def is_there(self) -> bool:
        """True if any replica is reachable."""
        return not all(replica.is_away for replica in self.replicas)

    def begin(self, slot: int, content: bytes) -> Begun | None:
        """Send a request to the first replica, if that is possible at once; not a HEAD."""
        for replica in self.order(slot)[:1]:
            incoming = replica.begin(content)
            if incoming is not None:
                self._counters.requests[self.number] += 1
                return Begun(replica, incoming)
        return None

    async def ask(self, slot: int, request: PodRequest, begun: Begun | None = None) -> Incoming:
        """Return the first response of a replica; one of status 404 or 503 is complete.

        Raises ApiError(engine_unavailable) if no replica is reachable, ApiError(overloaded).
        """
        order = self.order(slot)
        if begun is None:
            self._counters.requests[self.number] += 1
        else:
            order = [begun.replica, *[replica for replica in order if replica is not begun.replica]]
        silent_s = _STREAM_SILENT_S if request.streams else None
        refused: dict[str, Incoming] = {}
        for n, replica in enumerate(order):
            self._counters.retries += n > 0
            try:
                incoming = await replica.ask(
                    request.content,
                    is_head=request.is_head,
                    counted=not request.streams,
                    silent_s=silent_s,
                    begun=begun.incoming if begun is not None and n == 0 else None,
                )
                if incoming.status not in _CODES:
                    return incoming
                code = await code_of(incoming)
            except PodGone as gone:
                if gone.began:
                    raise _unavailable(self.number) from None
                continue
            if code not in _ELSEWHERE_PERHAPS:
                return incoming
            if code == _NOT_READY:
                replica.weaken()
            refused[code] = incoming
        if refused:
            return refused[max(refused, key=_ELSEWHERE_PERHAPS.index)]
        self._counters.failed += 1
        raise _unavailable(self.number)

    def order(self, slot: int) -> list[Replica]:
        """Return the replicas for the keys of a slot, in the order in which they are asked."""
        replicas = [self.replicas[n] for n in replicas_of(slot, len(self.replicas))]
        if len(replicas) > 1:
            replicas.sort(key=_is_weak)
        return [replica for replica in replicas if not replica.is_away]


async def code_of(incoming: Incoming) -> str:
    """Return a problem's code; empty if it has none. Raises PodGone."""
    try:
        problem = orjson.loads(await incoming.whole())
    except orjson.JSONDecodeError:
        return _CODES.get(incoming.status, "")
    code = problem.get("code") if isinstance(problem, dict) else None
    return code if isinstance(code, str) else ""


def _is_weak(replica: Replica) -> bool:
    return replica.is_weak


def _unavailable(shard: int) -> ApiError:
    return ApiError("engine_unavailable", f"No pod of shard {shard} can be reached.", "Try again in a moment.")
