"""Reads that filling cannot answer are forwarded: the view's SQL runs upstream (architecture §5, "whole-view lookups").

Once the stream has passed the snapshot's bound, the answer is exact from the last transaction it sees that touches
the views' tables up to just before the first touching one that it does not see. If these cross, or the snapshot misses
what was committed before the stream began, or the answer is older than what was applied when the read was asked, the
read is forwarded again.

*Maintains*: a forward counts as a lookup in flight until it is answered, so the ring keeps what it may not see.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dataflow.engine.effects import AnswerForward, Effect, FailRead, Forward
from dataflow.engine.events import ForwardDone
from dataflow.engine.limits import Limits
from dataflow.engine.ring import Ring
from dataflow.types import Position, ReadId, Snapshot


@dataclass(eq=False, slots=True)
class Forwarded:
    """A read that is answered upstream."""

    read: ReadId
    tables: frozenset[str]
    #: Where the engine was when the read was asked.
    since: Position
    issued: int
    rounds: int = 1
    result: ForwardDone | None = None


class Forwards:
    """All forwarded reads."""

    def __init__(self, ring: Ring, limits: Limits, sees_enough: Callable[[Snapshot, frozenset[str]], bool]) -> None:
        self._ring = ring
        self._sees_enough = sees_enough
        self._limits = limits
        self.reads: dict[ReadId, Forwarded] = {}

    def forward(self, read: ReadId, tables: frozenset[str], since: Position, now: int) -> Effect:
        """Sends a read upstream that was asked when the engine was at `since`."""
        self.reads[read] = Forwarded(read, tables, since, now)
        return Forward(read)

    def oldest_issue(self) -> int | None:
        """When the oldest forward in flight was issued."""
        return min((f.issued for f in self.reads.values()), default=None)

    def bounds(self) -> list[Position]:
        """Positions that results wait for."""
        return [f.result.bound for f in self.reads.values() if f.result is not None]

    def settle(self, applied: Position, now: int) -> list[Effect]:
        """Answers, or repeats, what the stream has reached."""
        return [
            self._settle(forwarded, forwarded.result, applied, now)
            for forwarded in list(self.reads.values())
            if forwarded.result is not None and applied >= forwarded.result.bound
        ]

    def _settle(self, forwarded: Forwarded, result: ForwardDone, applied: Position, now: int) -> Effect:
        exact: Position | None = None
        if self._sees_enough(result.snapshot, forwarded.tables):
            exact = self._ring.exact_position(forwarded.tables, result.snapshot, applied)
        if exact is not None and exact >= min(forwarded.since, applied):
            del self.reads[forwarded.read]
            return AnswerForward(forwarded.read, exact)
        if forwarded.rounds >= self._limits.forward_rounds:
            del self.reads[forwarded.read]
            return FailRead(forwarded.read, "transactions crossed the read again and again", retryable=True)
        forwarded.rounds += 1
        forwarded.issued = now
        forwarded.result = None
        return Forward(forwarded.read)
