"""Forwarded reads: the upstream runs the view's SQL for reads that filling cannot answer.

Once the stream has passed the snapshot's bound, the answer is exact from the last transaction it sees that touches
the views' tables up to just before the first touching one that it does not see. If these cross, or the answer is older
than what was applied when the read was asked, the read is forwarded again.

A snapshot that misses what the stream does not bring (it was committed before the stream began, or changed a table
before that was published) has no known position: the stream may lack the whole transaction. Such a read
waits until a heartbeat sees all that, is forwarded again then, and fails when a few heartbeats did not.

*Maintains*: a forward counts as a lookup in flight until it is answered, so the ring keeps what it may not see.
"""

from dataclasses import dataclass

from dataflow.engine.context import Context
from dataflow.engine.effects import AnswerForward, FailRead, Forward
from dataflow.engine.events import ForwardDone
from dataflow.engine.outstanding import CROSSED, NOT_ENDED, Outstanding, UpstreamQuery
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.ring import Ring
from dataflow.engine.upquery import Demand
from dataflow.types import Position, ReadId, Snapshot


@dataclass(eq=False, slots=True)
class ForwardedRead(UpstreamQuery[ForwardDone]):
    """A read that the upstream answers."""

    read: ReadId
    #: The tables of its views.
    reads: frozenset[str]
    #: Where the engine was when the read was asked.
    since: Position
    #: What fills what it wants meanwhile (`Read.forward`).
    behind: Demand | None = None

    @property
    def tables(self) -> frozenset[str]:
        return self.reads


class ForwardedReads:
    """All forwarded reads that are not answered yet."""

    def __init__(self, context: Context, ring: Ring, barrier: PublicationBarrier) -> None:
        self._context = context
        self._ring = ring
        self.outstanding = Outstanding[ReadId, ForwardedRead](context, barrier)

    def forward(self, read: ReadId, tables: frozenset[str], since: Position) -> None:
        """Sends a read upstream that was asked when the engine was at `since`."""
        self._send(ForwardedRead(read, tables, since))

    def _send(self, forwarded: ForwardedRead) -> None:
        self.outstanding.issue(forwarded.read, forwarded)
        self._context.emit(Forward(forwarded.read))

    def leave(self, read: ReadId) -> Demand | None:
        """Ends a read that nobody waits for. Returns the demand behind it, unless another such read waits or was
        answered."""
        forwarded = self.outstanding.end(read)
        behind = None if forwarded is None else forwarded.behind
        if behind is None or behind.kept:
            return None
        return None if any(other.behind is behind for other in self.outstanding.by_id.values()) else behind

    def forward_done(self, event: ForwardDone) -> None:
        """Takes an answer, and uses it if the stream is far enough."""
        forwarded = self.outstanding.by_id.get(event.id)
        if forwarded is not None and forwarded.outdated:
            self._send(forwarded)
        else:
            self.outstanding.take_answer(event.id, event)
            self.settle_due()

    def settle_due(self) -> None:
        """Answers, or repeats, the reads whose answers the stream has reached."""
        for forwarded in self.outstanding.due_queries():
            self._settle(forwarded)

    def _settle(self, forwarded: ForwardedRead) -> None:
        applied, answer = self._context.applied, forwarded.answer
        assert answer is not None
        exact = self._ring.exact_position(forwarded.tables, answer.snapshot, applied)
        if exact is not None and exact >= min(forwarded.since, applied):
            self.outstanding.end(forwarded.read)
            if forwarded.behind is not None:
                forwarded.behind.kept = True
            self._context.emit(AnswerForward(forwarded.read, exact))
        elif self.outstanding.has_another_round(forwarded):
            self._send(forwarded)
        else:
            self._fail(forwarded, CROSSED)

    def heartbeat(self, snapshot: Snapshot) -> None:
        """Resumes, or fails, paused reads."""
        for forwarded, sees_enough in self.outstanding.resumed_queries(snapshot):
            if sees_enough:
                self._send(forwarded)
            else:
                self._fail(forwarded, NOT_ENDED)

    def resume(self) -> None:
        """Sends reads again whose answers the stream has not passed, those that still run once they have ended."""
        for forwarded in list(self.outstanding.by_id.values()):
            if forwarded.answer is not None:
                self._send(forwarded)
            elif not forwarded.paused:
                forwarded.outdated = True

    def restart(self) -> None:
        """Fails all reads: the stream has begun anew."""
        for forwarded in list(self.outstanding.by_id.values()):
            self._fail(forwarded, "the change stream was lost")

    def _fail(self, forwarded: ForwardedRead, reason: str) -> None:
        self.outstanding.end(forwarded.read)
        self._context.emit(FailRead(forwarded.read, reason, retryable=True))
