"""Reads that filling cannot answer are forwarded: the view's SQL runs upstream.

Once the stream has passed the snapshot's bound, the answer is exact from the last transaction it sees that touches
the views' tables up to just before the first touching one that it does not see. If these cross, or the answer is older
than what was applied when the read was asked, the read is forwarded again.

A snapshot that misses what the stream does not bring (it was committed before the stream began, or changed a table
before that was published) is exact nowhere that can be told: the stream may lack the whole transaction. Such a read
waits until a heartbeat sees all that, is forwarded again then, and fails when a few heartbeats did not.

*Maintains*: a forward counts as a lookup in flight until it is answered, so the ring keeps what it may not see.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dataflow.engine.effects import AnswerForward, Effect, FailRead, Forward
from dataflow.engine.events import ForwardDone
from dataflow.engine.limits import Limits
from dataflow.engine.ring import Ring
from dataflow.engine.upquery import Demand
from dataflow.types import Position, ReadId, Snapshot

#: Why a read fails that may be tried again.
CROSSED = "transactions crossed the read again and again"
NOT_ENDED = "transactions that were open when the change stream began, or a table was added to it, have not ended yet"


@dataclass(eq=False, slots=True)
class ForwardedRead:
    """A read that is answered upstream."""

    read: ReadId
    tables: frozenset[str]
    #: Where the engine was when the read was asked.
    since: Position
    issued: int
    rounds: int = 1
    result: ForwardDone | None = None
    #: Waits for a heartbeat that sees enough; nothing is under way.
    paused: bool = False
    #: What fills what it wants meanwhile (`Read.forward`).
    behind: Demand | None = None


class ForwardedReads:
    """All forwarded reads."""

    def __init__(self, ring: Ring, limits: Limits, sees_enough: Callable[[Snapshot, frozenset[str]], bool]) -> None:
        self._ring = ring
        self._sees_enough = sees_enough
        self._limits = limits
        self.reads: dict[ReadId, ForwardedRead] = {}

    def forward(self, read: ReadId, tables: frozenset[str], since: Position, now: int) -> Effect:
        """Sends a read upstream that was asked when the engine was at `since`."""
        self.reads[read] = ForwardedRead(read, tables, since, now)
        return Forward(read)

    def leave(self, read: ReadId) -> Demand | None:
        """A read that is not waited for any more. Returns what was to be filled behind it, unless another such read
        waits or was answered."""
        forwarded = self.reads.pop(read, None)
        behind = None if forwarded is None else forwarded.behind
        if behind is None or behind.kept or any(other.behind is behind for other in self.reads.values()):
            return None
        return behind

    def oldest_issue(self) -> int | None:
        """When the oldest forward in flight was issued."""
        return min((f.issued for f in self.reads.values() if not f.paused), default=None)

    def bounds(self) -> list[Position]:
        """Positions that results wait for."""
        return [f.result.bound for f in self.reads.values() if f.result is not None]

    def settle(self, applied: Position, now: int) -> list[Effect]:
        """Answers, or repeats, what the stream has reached."""
        effects: list[Effect] = []
        for forwarded in list(self.reads.values()):
            result = forwarded.result
            if result is None or applied < result.bound:
                continue
            if self._sees_enough(result.snapshot, forwarded.tables):
                effects.append(self._settle(forwarded, result, applied, now))
            else:
                forwarded.result, forwarded.paused = None, True
        return effects

    def _settle(self, forwarded: ForwardedRead, result: ForwardDone, applied: Position, now: int) -> Effect:
        exact = self._ring.exact_position(forwarded.tables, result.snapshot, applied)
        if exact is not None and exact >= min(forwarded.since, applied):
            del self.reads[forwarded.read]
            if forwarded.behind is not None:
                forwarded.behind.kept = True
            return AnswerForward(forwarded.read, exact)
        return self._send(forwarded, now) if self._has_another_round(forwarded) else self._fail(forwarded, CROSSED)

    def heartbeat(self, snapshot: Snapshot, now: int) -> list[Effect]:
        """Goes on with what waits, or fails it."""
        effects: list[Effect] = []
        for forwarded in [f for f in self.reads.values() if f.paused]:
            if self._sees_enough(snapshot, forwarded.tables):
                effects.append(self._send(forwarded, now))
            elif not self._has_another_round(forwarded):
                effects.append(self._fail(forwarded, NOT_ENDED))
        return effects

    def _has_another_round(self, forwarded: ForwardedRead) -> bool:
        """A round has brought nothing. Whether it may wait for another one."""
        forwarded.rounds += 1
        return forwarded.rounds <= self._limits.forward_rounds

    def _send(self, forwarded: ForwardedRead, now: int) -> Effect:
        forwarded.issued, forwarded.result, forwarded.paused = now, None, False
        return Forward(forwarded.read)

    def _fail(self, forwarded: ForwardedRead, reason: str) -> Effect:
        del self.reads[forwarded.read]
        return FailRead(forwarded.read, reason, retryable=True)
