"""Loads that failed, and how long they are not tried again."""

from dataclasses import dataclass
from time import monotonic

from dataflow.plan.nodes import Relation

_FIRST_PAUSE_S = 1.0
_MOST_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a load failed: `reason` for clients, `detail` for the log; `evaluation` as of a `LookupFailed`."""

    reason: str
    detail: str = ""
    evaluation: bool = False


class Failures:
    """*State*: `_failed`, by relation: how often it failed in a row, until when it pauses, and why."""

    def __init__(self) -> None:
        self._failed: dict[Relation, tuple[int, float, Failure]] = {}

    def note(self, relation: Relation, failure: Failure) -> float:
        """It failed; for how many seconds it pauses."""
        times = 1 + (self._failed[relation][0] if relation in self._failed else 0)
        pause_s: float = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (times - 1))
        self._failed[relation] = times, monotonic() + pause_s, failure
        return pause_s

    def has(self, relation: Relation) -> bool:
        """Whether it failed the last time."""
        return relation in self._failed

    def pause(self, relation: Relation) -> Failure | None:
        """Why it failed, while it pauses."""
        if relation not in self._failed:
            return None
        _, until, failure = self._failed[relation]
        return failure if monotonic() < until else None

    def forget(self, relation: Relation) -> None:
        """It has succeeded."""
        self._failed.pop(relation, None)
