"""Answers of several shards meet where all of them are exact, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow import milestones
from dataflow.engine.events import Transaction
from dataflow.types import TransactionId
from service.sharding.common_version import Exact, awaited, late, meet, reached

#: Where steps end.
steps = st.lists(st.integers(0, 40), max_size=5).map(sorted)
#: What a shard answers changes at some positions; it is read at some; the answer is the number of changes so far.
histories = st.lists(st.integers(1, 30), max_size=6).map(lambda changes: sorted(set(changes)))


def read_at(history: list[int], position: int, server: str = "") -> Exact[int]:
    """Return the answer of a leaf store at that position."""
    changes = [change for change in history if change <= position]
    return Exact(len(changes), changes[-1] if changes else 0, position, server)


@given(st.lists(st.tuples(histories, st.lists(st.integers(0, 40), min_size=1, max_size=4)), min_size=1, max_size=4))
def test_what_meets_is_what_was_there_at_that_version(shards: list[tuple[list[int], list[int]]]) -> None:
    timelines = [[read_at(history, at) for at in sorted(positions)] for history, positions in shards]
    met = meet(timelines)
    possible = [
        position
        for position in range(41)
        if all(any(exact.since <= position <= exact.until for exact in timeline) for timeline in timelines)
    ]
    if met is None:
        assert not possible
    else:
        assert met.position == max(possible)
        for (history, _), exact in zip(shards, met.parts, strict=True):
            assert exact.answers == sum(change <= met.position for change in history)


@given(st.lists(st.tuples(histories, st.integers(0, 40)), min_size=2, max_size=4))
def test_who_is_late_has_to_get_to_the_newest_change(shards: list[tuple[list[int], int]]) -> None:
    timelines = [[read_at(history, at)] for history, at in shards]
    assert meet(timelines) is not None or late(timelines)
    for shard in late(timelines):
        assert timelines[shard][-1].until < awaited(timelines)


@given(st.lists(st.tuples(histories, steps, st.integers(0, 40)), min_size=1, max_size=4), st.integers(2, 12))
def test_what_changed_and_changed_back_in_one_step_is_not_met(
    shards: list[tuple[list[int], list[int], int]], apart: int
) -> None:
    """Each change is to the other of two answers. Shards apply those of a step together, but for milestones."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(milestones, "BYTES", apart)
        met = meet([[stepped(*shard)] for shard in shards])
        if met is not None:
            for (history, _, _), exact in zip(shards, met.parts, strict=True):
                assert exact.answers == sum(change <= met.position for change in history) % 2


def test_a_position_within_a_step_is_not_met() -> None:
    one = stepped([5, 6], [], 10)
    assert (one.answers, one.since) == (0, 0)
    for position, expected in ((5, 0), (9, 0), (10, 10)):
        met = meet([[one], [stepped([], [], position)]])
        assert met is not None
        assert met.position == expected
    apart = stepped([5, 6], [5], 10)
    assert (apart.since, apart.one_by_one) == (10, 0)


def stepped(history: list[int], ends: list[int], until: int) -> Exact[int]:
    """Return the answer of a store that has applied the changes up to `until` in steps that end at these positions."""
    answer = since = one_by_one = 0
    transactions = [Transaction(TransactionId(at), at, {}) for at in history if at <= until]
    for end in [*ends, until]:
        step = [transaction for transaction in transactions if transaction.end <= end]
        transactions = transactions[len(step) :]
        position = min(end, until)
        for together in milestones.between(step):
            if len(together) % 2:
                answer, since = 1 - answer, position
        one_by_one = position if len(step) > 1 else one_by_one
    return Exact(answer, since, until, "", one_by_one)


def test_an_older_answer_meets_a_newer_one_of_another_shard() -> None:
    one = [Exact("a", 1, 4), Exact("b", 8, 9)]
    other = [Exact("x", 0, 2), Exact("y", 5, 7)]
    found = meet([one, other])
    assert found is not None
    assert (found.position, [exact.answers for exact in found.parts]) == (2, ["a", "x"])


def test_positions_of_different_servers_never_meet() -> None:
    assert meet([[read_at([1], 5, "one")], [read_at([1], 5, "other")]]) is None
    assert meet([[read_at([1], 5, "one"), read_at([], 3, "other")], [read_at([1], 5, "other")]]) is not None


def test_nothing_older_is_met_than_what_was_to_be_waited_for() -> None:
    timelines = [[Exact("a", 0, 9)], [Exact("x", 0, 7)]]
    assert reached(timelines) == 7
    found = meet(timelines, least=reached(timelines))
    assert found is not None
    assert found.position == 7
    assert meet(timelines, least=8) is None
