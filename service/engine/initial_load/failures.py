"""Failed loads and the pauses before they are retried."""

from dataclasses import dataclass
from time import monotonic

from dataflow.plan.nodes import Relation

_FIRST_PAUSE_S = 1.0
_MOST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason of a failed load: `reason` for clients, `detail` for the log; `evaluation` as in a `LookupFailed`."""

    reason: str
    detail: str = ""
    evaluation: bool = False


class Failures:
    """Failures of an engine's loads.

    *State*: `_failed`, by relation: consecutive failures, end of the pause, and reason.
    """

    def __init__(self) -> None:
        self._failed: dict[Relation, tuple[int, float, Failure]] = {}

    def note(self, relation: Relation, failure: Failure) -> float:
        """Records a failure; returns the pause in seconds."""
        times = 1 + (self._failed[relation][0] if relation in self._failed else 0)
        pause_s: float = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (times - 1))
        self._failed[relation] = times, monotonic() + pause_s, failure
        return pause_s

    def has(self, relation: Relation) -> bool:
        """True if the relation's last load failed."""
        return relation in self._failed

    def pause(self, relation: Relation) -> Failure | None:
        """Returns the reason of the failure during the pause, else None."""
        if relation not in self._failed:
            return None
        _, until, failure = self._failed[relation]
        return failure if monotonic() < until else None

    def forget(self, relation: Relation) -> None:
        """Removes a relation whose load has succeeded."""
        self._failed.pop(relation, None)
