"""Loads that failed, and how long they are not tried again."""

from time import monotonic

from dataflow.plan.nodes import Relation

_FIRST_PAUSE_S = 1.0
_MOST_PAUSE_S = 60.0


class Failures:
    """*State*: `_until`, by relation: how often it failed in a row, until when it pauses, and why."""

    def __init__(self) -> None:
        self._failed: dict[Relation, tuple[int, float, str]] = {}

    def note(self, relation: Relation, reason: str) -> float:
        """It failed; for how many seconds it pauses."""
        times = self._failed.get(relation, (0, 0.0, ""))[0] + 1
        pause_s: float = min(_MOST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (times - 1))
        self._failed[relation] = times, monotonic() + pause_s, reason
        return pause_s

    def has(self, relation: Relation) -> bool:
        """Whether it failed the last time."""
        return relation in self._failed

    def pause(self, relation: Relation) -> str | None:
        """Why it failed, while it pauses."""
        _, until, reason = self._failed.get(relation, (0, 0.0, ""))
        return reason if monotonic() < until else None

    def forget(self, relation: Relation) -> None:
        """It has succeeded."""
        self._failed.pop(relation, None)
