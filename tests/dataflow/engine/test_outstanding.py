"""Upstream queries in progress: when an answer is due, what pauses a query, and how often it is issued again."""

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
        self.query = self.queries.by_id[1] = Query("votes")
        self.query.issue(now=7)


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
    site.query.pause()
    beats = [list(site.queries.resumed_queries(Taken(4))) for _ in range(3)]
    assert beats == [[], [], [(site.query, False)]]


def test_a_paused_query_takes_no_answer(site: Site) -> None:
    site.query.pause()
    site.queries.take_answer(1, Rows(Taken(6), 10))
    assert list(site.queries.due_queries()) == []


def test_the_ring_is_kept_for_queries_that_are_not_paused(site: Site) -> None:
    assert site.queries.oldest_issue() == 7
    assert site.queries.issued_before(8) == [site.query]
    site.query.pause()
    assert site.queries.oldest_issue() is None
    assert site.queries.issued_before(8) == []


def test_looks_in_a_row_at_which_nobody_waits_are_counted(site: Site) -> None:
    assert site.queries.unawaited_queries(lambda _: False) == []
    assert site.queries.unawaited_queries(lambda _: True) == []
    assert site.queries.unawaited_queries(lambda _: False) == []
    assert site.queries.unawaited_queries(lambda _: False) == [site.query]
