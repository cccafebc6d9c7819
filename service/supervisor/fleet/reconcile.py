"""Changes of views, sent to pods that have missed them.

*Theory*: every pod must have the latest change of each name that any reachable pod knows
(`service.supervisor.admin.latest_change`). So absences, the gateway of a change and repetitions do not matter.

*Invariants*: a pod gets only changes that are later than its own, and decides that itself. A refusal is logged once and
retried after a while. The pods are ready: one that is starting may not know its changes yet.

Not here: changes as they are made (`service.supervisor.admin.registration`).
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from service.ground.errors import ApiError
from service.protocol.admin_operations import ListChanges, SettleView, ViewChange
from service.supervisor.admin.latest_change import Changes, latest
from service.supervisor.admin.registration import answer_of, is_away
from service.supervisor.fleet.pods import Pod

log = structlog.get_logger()

#: What a pod has refused is tried again after so long.
_AGAIN_S = 30.0


class Reconciler:
    """*State*: `_refused`, what pods have refused, and until when they are not asked again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._refused: dict[tuple[str, str, int], float] = {}

    async def round(self, pods: Sequence[Pod]) -> int:
        """Sends each pod the changes that it lacks; returns their number."""
        there = [pod for pod in pods if pod.is_there]
        answers = await asyncio.gather(*(answer_of(pod, ListChanges()) for pod in there))
        known = {
            pod.address: own for pod, (_, own) in zip(there, answers, strict=True) if not isinstance(own, ApiError)
        }
        changes = latest(known.values())
        self._forget(known, changes)
        settled = await asyncio.gather(
            *(self._settle(pod, changes, known[pod.address]) for pod in pods if pod.address in known)
        )
        return sum(settled)

    async def _settle(self, pod: Pod, changes: Changes, known: Changes) -> int:
        lacking = [
            (name, change)
            for name, change in changes.items()
            if (name not in known or known[name].at_ms < change.at_ms)
            and self._refused.get((pod.address, name, change.at_ms), 0) <= self._clock()
        ]
        settled = 0
        while lacking:
            refused = []
            for name, change in lacking:
                try:
                    settled += await pod.call(SettleView(name, change))
                    self._refused.pop((pod.address, name, change.at_ms), None)
                except ApiError as error:
                    if is_away(error):
                        return settled
                    refused.append((name, change, error))
            if len(refused) == len(lacking):
                self._note_refused(pod, refused)
                break
            # It may have lacked what it has now: a view that was put again, later, is read by others.
            lacking = [(name, change) for name, change, _ in refused]
        return settled

    def _note_refused(self, pod: Pod, refused: Sequence[tuple[str, ViewChange, ApiError]]) -> None:
        for name, change, error in refused:
            key = (pod.address, name, change.at_ms)
            if key not in self._refused:
                log.error("a pod cannot have a view that others have", address=pod.address, reason=str(error))
            # What may succeed at any moment is tried the next time.
            self._refused[key] = self._clock() + (0 if error.retryable else _AGAIN_S)

    def _forget(self, known: Mapping[str, Changes], changes: Changes) -> None:
        """Forgets refusals of changes that are not the latest any more, and of pods that are away."""
        current = {(address, name, change.at_ms) for address in known for name, change in changes.items()}
        self._refused = {refused: until for refused, until in self._refused.items() if refused in current}
