"""State that all parts of one engine share: its limits, its counters, the step's effects, and where it is."""

from collections import Counter

from dataflow.engine.effects import Effect
from dataflow.engine.limits import Limits
from dataflow.types import Position


class Context:
    """Shared state; only `Engine` moves `applied` and `now`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        #: Rare events by name; tests prove with them that these happened.
        self.counters: Counter[str] = Counter()
        #: Effects of the step under way, in the order in which they must be performed.
        self.effects: list[Effect] = []
        #: All transactions that end at or before it are applied.
        self.applied: Position = 0
        #: Counts issues of lookups and arrivals of snapshots, to order them.
        self.now = 0

    def emit(self, effect: Effect) -> None:
        """Adds an effect to the step's."""
        self.effects.append(effect)
