"""Upstream queries in progress: when an answer is due, what pauses a query, and how often it is issued again.

Each step asks for what is due and for the oldest issue, so neither may look at every query in progress.
"""

from dataclasses import dataclass

import pytest

from dataflow.engine.context import Context
from dataflow.engine.effects import Reach
from dataflow.engine.limits import Limits
from dataflow.engine.outstanding import Outstanding, UpstreamQuery
from dataflow.engine.publication_barrier import PublicationBarrier
from dataflow.engine.ring import Ring
from dataflow.types import Position, Snapshot, TransactionId


@dataclass(frozen=True)
class Taken(Snapshot):
    """A snapshot that sees everything up to a time."""

    time: int

    def sees(self, transaction: TransactionId, end: Position) -> bool:
        raise AssertionError(f"nobody asks about transaction {transaction} at {end}")

    def covers(self, other: Snapshot) -> bool:
        assert isinstance(other, Taken)
        return self.time >= other.time

    def finished(self, other: Snapshot) -> bool:
        return self.covers(other)


@dataclass(frozen=True)
class Rows:
    """An answer."""

    snapshot: Taken
    bound: Position


@dataclass(eq=False, slots=True)
class Query(UpstreamQuery[Rows]):
    """A query of one table."""

    table: str
    #: Looks at whether it is due.
    looks: int = 0

    def is_due(self, applied: Position) -> bool:
        self.looks += 1
        return UpstreamQuery.is_due(self, applied)

    @property
    def tables(self) -> frozenset[str]:
        return frozenset([self.table])


class Site:
    """One query of `votes` in flight; the stream began at time 5 and is at position 10."""

    def __init__(self) -> None:
        self.context = Context(Limits(forward_rounds=3, unawaited_looks=2))
        self.context.applied = 10
        self.barrier = PublicationBarrier(Ring())
        self.barrier.restart(Taken(5))
        self.queries = Outstanding[int, Query](self.context, self.barrier)
        self.context.now = 7
        self.query = Query("votes")
        self.queries.issue(1, self.query)


@pytest.fixture
def site() -> Site:
    return Site()


def test_an_answer_is_due_when_the_stream_has_passed_its_bound(site: Site) -> None:
    site.queries.take_answer(1, Rows(Taken(6), 11))
    assert site.context.effects == [Reach(11)]
    assert list(site.queries.due_queries()) == []
    site.context.applied = 11
    assert list(site.queries.due_queries()) == [site.query]


def test_an_answer_that_misses_the_start_of_the_stream_pauses_the_query(site: Site) -> None:
    site.queries.take_answer(1, Rows(Taken(4), 10))
    assert list(site.queries.due_queries()) == []
    assert site.query.paused
    assert site.query.answer is None
    assert list(site.queries.resumed_queries(Taken(5))) == [(site.query, True)]


def test_an_answer_that_misses_what_was_open_when_its_table_joined_pauses_the_query(site: Site) -> None:
    site.barrier.join("votes", Taken(8))
    site.queries.take_answer(1, Rows(Taken(6), 10))
    assert list(site.queries.due_queries()) == []
    assert list(site.queries.resumed_queries(Taken(8))) == [(site.query, True)]


def test_a_query_that_has_waited_for_enough_heartbeats_is_given_up(site: Site) -> None:
    site.queries.pause(1, site.query)
    beats = [list(site.queries.resumed_queries(Taken(4))) for _ in range(3)]
    assert beats == [[], [], [(site.query, False)]]


def test_a_paused_query_takes_no_answer(site: Site) -> None:
    site.queries.pause(1, site.query)
    site.queries.take_answer(1, Rows(Taken(6), 10))
    assert list(site.queries.due_queries()) == []


def test_the_ring_is_kept_for_queries_that_are_not_paused(site: Site) -> None:
    assert site.queries.oldest_issue() == 7
    assert site.queries.issued_before(8) == [site.query]
    site.queries.pause(1, site.query)
    assert site.queries.oldest_issue() is None
    assert site.queries.issued_before(8) == []


def test_looks_in_a_row_at_which_nobody_waits_are_counted(site: Site) -> None:
    assert site.queries.unawaited_queries(lambda _: False) == []
    assert site.queries.unawaited_queries(lambda _: True) == []
    assert site.queries.unawaited_queries(lambda _: False) == []
    assert site.queries.unawaited_queries(lambda _: False) == [site.query]


def test_answers_are_due_in_the_order_of_their_bounds(site: Site) -> None:
    later = [Query("votes") for _ in range(100)]
    for id_, query in enumerate(later, start=2):
        site.queries.issue(id_, query)
        site.queries.take_answer(id_, Rows(Taken(6), 1_000 - id_))
    site.queries.take_answer(1, Rows(Taken(6), 11))
    site.context.applied = 900
    looks = sum(query.looks for query in later)
    assert list(site.queries.due_queries()) == [site.query, later[99], later[98]]
    # At those that are due, and at the next one.
    assert sum(query.looks for query in later) - looks == 3


def test_a_query_that_ended_is_not_due(site: Site) -> None:
    other = Query("votes")
    site.queries.issue(2, other)
    for id_ in (1, 2):
        site.queries.take_answer(id_, Rows(Taken(6), 10))
    due = site.queries.due_queries()
    assert next(due) is site.query
    # The use of the one answer ends the other query.
    site.queries.end(2)
    assert list(due) == []
    site.queries.issue(2, other)
    site.queries.take_answer(2, Rows(Taken(6), 11))
    site.queries.issue(2, other)
    site.context.applied = 11
    assert list(site.queries.due_queries()) == []


def test_the_oldest_issue_is_that_of_a_query_not_issued_again_since(site: Site) -> None:
    site.context.now = 8
    site.queries.issue(2, Query("votes"))
    assert site.queries.oldest_issue() == 7
    site.context.now = 9
    site.queries.issue(1, site.query)
    assert site.queries.oldest_issue() == 8
    site.queries.end(2)
    assert site.queries.oldest_issue() == 9


def test_queries_in_flight_are_counted_by_their_tables(site: Site) -> None:
    votes, users = frozenset(["votes"]), frozenset(["users"])
    site.queries.issue(2, Query("users"))
    site.queries.issue(3, Query("votes"))
    assert site.queries.in_flight == {votes: 2, users: 1}
    site.queries.take_answer(1, Rows(Taken(6), 11))
    site.queries.end(2)
    assert site.queries.in_flight == {votes: 1}
    site.queries.issue(1, site.query)
    site.queries.pause(3, site.queries.by_id[3])
    site.queries.end(3)
    assert site.queries.in_flight == {votes: 1}
