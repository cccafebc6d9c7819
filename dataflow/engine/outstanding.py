"""Upstream queries in progress: lookups, forwarded reads and fetches of refreshed keys, until their answers are used.

*Theory*: an answer is read from one snapshot. It is *due* when the stream has passed its bound, for then everything
that the snapshot sees is applied. If the snapshot misses changes that the stream does not bring
(`publication_barrier`), the position of the answer is unknown: the query is *paused*, and issued again when a
heartbeat's snapshot sees them. A query whose answer cannot be used for another reason is issued again at once.
Forwarded reads and fetches end after a bounded number of rounds; of lookups, the demands that wait for them do.

An answer ahead of the stream may have seen transactions that a crash of the upstream undoes. When the stream is
resumed, such answers are dropped, those on their way are not used, and all these queries are issued again.

*Invariants*: a query is in flight, answered, or paused. While it is not paused, the ring keeps every transaction that
its answer may not include.

Not here: use of a due answer (`lookup_results`, `forwarded_reads`, `refreshed_views`); lookups that are not sent yet
(`flights`) or are answered in slices (`loads`).
"""

from abc import ABC, abstractmethod
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Generic, Protocol, TypeVar

from dataflow.engine.context import Context
from dataflow.engine.effects import Reach
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.types import Position, Snapshot

#: Why a read fails that may be tried again.
CROSSED = "transactions crossed the read again and again"
NOT_ENDED = "transactions that were open when the change stream began, or a table was added to it, have not ended yet"


class UpstreamAnswer(Protocol):
    """An answer of the upstream, from one snapshot."""

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that the rows were read from."""
        ...

    @property
    def bound(self) -> Position:
        """Position at which everything that the snapshot sees is in the stream."""
        ...


AnswerT = TypeVar("AnswerT", bound=UpstreamAnswer)


@dataclass(eq=False, slots=True, kw_only=True)
class UpstreamQuery(ABC, Generic[AnswerT]):
    """A query in progress."""

    #: When it was issued, by `Context.now`.
    issued: int = 0
    #: Held until it is due.
    answer: AnswerT | None = None
    #: Waits for a heartbeat; nothing runs upstream.
    paused: bool = False
    #: Runs since before the stream was resumed: its answer is not used.
    outdated: bool = False
    #: Times that it was issued, and heartbeats that it has waited for.
    rounds: int = 1
    #: Looks in a row at which nobody waited for it (`abandonment`).
    unawaited: int = 0

    @property
    @abstractmethod
    def tables(self) -> frozenset[str]:
        """The tables whose changes its answer must include."""

    @property
    def follows_stream(self) -> bool:
        """True if its answer has a position in the stream."""
        return True

    @property
    def is_in_flight(self) -> bool:
        """True if it runs upstream."""
        return self.answer is None and not self.paused

    @property
    def keeps_ring(self) -> bool:
        """True if the ring keeps what its answer may not include."""
        return self.follows_stream and not self.paused

    @property
    def due_at(self) -> Position:
        """Position of the stream from which on its answer can be used."""
        return self.answer.bound if self.answer is not None and self.follows_stream else -1

    def is_due(self, applied: Position) -> bool:
        """Return whether its answer can be used when the stream is at `applied`."""
        return self.answer is not None and applied >= self.due_at

    def issue(self, now: int) -> None:
        """Marks it as issued, perhaps again."""
        self.issued, self.answer, self.paused, self.outdated = now, None, False, False

    def pause(self) -> None:
        """Drops its answer until a heartbeat."""
        self.answer, self.paused = None, True


IdT = TypeVar("IdT")
QueryT = TypeVar("QueryT", bound=UpstreamQuery[Any])


class Outstanding(Generic[IdT, QueryT]):
    """Queries of one kind.

    *Maintains*: a step looks only at queries that are due, however many are in progress. A query's state changes here.
    """

    def __init__(self, context: Context, barrier: PublicationBarrier) -> None:
        self._context = context
        self._barrier = barrier
        #: In the order in which they were issued, and paused ones anywhere. Only read elsewhere.
        self.by_id: dict[IdT, QueryT] = {}
        #: The answered ones of these, ordered by the position from which on they are due.
        self._answered: list[tuple[IdT, QueryT]] = []
        #: How many are in flight, by their tables.
        self.in_flight: Counter[frozenset[str]] = Counter()

    def issue(self, id_: IdT, query: QueryT) -> None:
        """Takes a query that is issued now, perhaps again."""
        self.end(id_)
        query.issue(self._context.now)
        self.by_id[id_] = query
        self.in_flight[query.tables] += 1

    def end(self, id_: IdT) -> QueryT | None:
        """Forgets a query and returns it; None if there is none."""
        query = self.by_id.pop(id_, None)
        if query is not None:
            self._leave_state(id_, query)
        return query

    def pause(self, id_: IdT, query: QueryT) -> None:
        """Lets a query, perhaps a new one, wait for a heartbeat."""
        if self.by_id.get(id_) is query:
            self._leave_state(id_, query)
        query.pause()
        self.by_id[id_] = query

    def _leave_state(self, id_: IdT, query: QueryT) -> None:
        if query.is_in_flight:
            self.in_flight[query.tables] -= 1
            if not self.in_flight[query.tables]:
                del self.in_flight[query.tables]
        elif query.answer is not None and (id_, query) in self._answered:
            self._answered.remove((id_, query))

    def expects(self, id_: IdT) -> bool:
        """Return whether an answer that arrives now is one to the query as it was issued last."""
        query = self.by_id.get(id_)
        return query is not None and query.is_in_flight and not query.outdated

    def take_answer(self, id_: IdT, answer: UpstreamAnswer) -> None:
        """Takes the answer of a query in flight, and asks for the stream to be read up to its bound."""
        query = self.by_id.get(id_)
        if query is not None and query.is_in_flight:
            self._leave_state(id_, query)
            query.answer = answer
            insort(self._answered, (id_, query), key=_due_at)
            if not query.is_due(self._context.applied):
                self._context.emit(Reach(answer.bound))

    def due_queries(self) -> Iterator[QueryT]:
        """The queries whose answers are due and include what they must; the caller ends, or issues, each. Pauses those
        whose answers do not."""
        applied = self._context.applied
        due = list(takewhile(lambda answered: answered[1].is_due(applied), self._answered))
        del self._answered[: len(due)]
        for id_, query in due:
            answer = query.answer
            # The use of an earlier one may have ended it, or issued it again.
            if answer is not None and self.by_id.get(id_) is query:
                if self.admits(query, answer.snapshot):
                    yield query
                else:
                    self._context.counters["repeated"] += 1
                    self.pause(id_, query)

    def admits(self, query: QueryT, snapshot: Snapshot) -> bool:
        """Return whether a snapshot sees everything of the query's tables that the stream does not bring."""
        return self._barrier.sees_enough(snapshot, query.tables)

    def resumed_queries(self, snapshot: Snapshot) -> Iterator[tuple[QueryT, bool]]:
        """The paused queries that a heartbeat's snapshot ends: the caller issues them (True), or gives them up."""
        for query in [query for query in self.by_id.values() if query.paused]:
            if self.admits(query, snapshot):
                yield query, True
            elif not self.has_another_round(query):
                yield query, False

    def has_another_round(self, query: QueryT) -> bool:
        """Counts a round that has brought nothing; whether another one is allowed."""
        query.rounds += 1
        return query.rounds <= self._context.limits.forward_rounds

    def unawaited_queries(self, is_awaited: Callable[[QueryT], bool]) -> list[QueryT]:
        """Looks at the queries without an answer; returns those that nobody has waited for at several looks."""
        queries = [query for query in self.by_id.values() if query.answer is None]
        for query in queries:
            query.unawaited = 0 if is_awaited(query) else query.unawaited + 1
        return [query for query in queries if query.unawaited >= self._context.limits.unawaited_looks]

    def oldest_issue(self) -> int | None:
        """When the oldest query was issued for which the ring matters."""
        return next((query.issued for query in self.by_id.values() if query.keeps_ring), None)

    def issued_before(self, time: int) -> list[QueryT]:
        """The queries, of those for which the ring matters, that were issued before `time`."""
        return [query for query in self.by_id.values() if query.keeps_ring and query.issued < time]


def _due_at(answered: tuple[Any, UpstreamQuery[Any]]) -> Position:
    return answered[1].due_at
