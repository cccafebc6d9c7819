"""The replicas of one shard: who of them is asked for a key, and asking them.

*Theory*: each replica answers every key of its shard. One of them is a key's own as long as it can be reached: it has
the key in memory, and what a client is told of a key does not go back in time.

*Invariants*: reads are harmless, so what got no byte of an answer is asked of the next replica, and what a replica
cannot answer that another one may: one that is starting, or was not given a view yet. Of each once; nothing is asked
twice at the same time.

Not here: which shard (`topology`).
"""

from dataclasses import dataclass

import orjson

from service.gateway.counting import GatewayCounters
from service.gateway.homes import replicas_of
from service.gateway.incoming import Incoming, PodGone
from service.gateway.replica import Replica
from service.ground.errors import ApiError

#: How long a stream may be silent: pods send comments far more often.
_STREAM_SILENT_S = 120.0
NOT_FOUND = "view_not_found"
_NOT_READY = "engine_unavailable"
#: What another replica may be able to answer; of several such refusals, the last one here says most.
_ELSEWHERE_PERHAPS = (_NOT_READY, NOT_FOUND, "view_building")
#: Of the response to a HEAD there is no more than the status.
_CODES = {404: NOT_FOUND, 503: _NOT_READY}


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A request as it is sent. `streams`: its answer may take as long as the client likes."""

    content: bytes
    is_head: bool = False
    streams: bool = False


@dataclass(frozen=True, slots=True)
class Begun:
    """A request that has been sent, and whom it was sent to."""

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
        """Whether one of them can be asked."""
        return not all(replica.is_away for replica in self.replicas)

    def begin(self, slot: int, content: bytes) -> Begun | None:
        """Ask the first of them, if that can be done at once; not a HEAD."""
        for replica in self.order(slot)[:1]:
            incoming = replica.begin(content)
            if incoming is not None:
                self._counters.requests[self.number] += 1
                return Begun(replica, incoming)
        return None

    async def ask(self, slot: int, request: PodRequest, begun: Begun | None = None) -> Incoming:
        """The response of the first that has one; of status 404 and 503, all of it is there. ApiError
        ``engine_unavailable`` if none can be reached, ``overloaded``."""
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
        """Who is asked, one after the other, for the keys of a slot."""
        replicas = [self.replicas[n] for n in replicas_of(slot, len(self.replicas))]
        if len(replicas) > 1:
            replicas.sort(key=_is_weak)
        return [replica for replica in replicas if not replica.is_away]


async def code_of(incoming: Incoming) -> str:
    """The code of a problem, empty if it says none. PodGone."""
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
