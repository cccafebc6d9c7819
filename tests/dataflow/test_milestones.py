"""Milestones: transactions are never merged across one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dataflow import milestones
from dataflow.engine.events import Transaction
from dataflow.types import TransactionId

SIZE = milestones.BYTES
#: Near milestones, and on them.
ends = st.lists(
    st.builds(lambda n, by: n * SIZE + by, st.integers(1, 4), st.integers(-2, 2) | st.integers(0, SIZE)), max_size=12
).map(lambda found: sorted(set(found)))


@given(ends)
def test_what_is_put_together_has_no_milestone_within(positions: list[int]) -> None:
    transactions = [Transaction(TransactionId(end), end, {}) for end in positions]
    together = list(milestones.between(transactions))
    assert [transaction for each in together for transaction in each] == transactions
    for each in together:
        # The state at a milestone has what ends there.
        assert milestones.milestone_before(each[-1].end - 1) < each[0].end
    for one, other in pairwise(together):
        assert milestones.milestone_before(other[0].end - 1) >= one[-1].end


@given(st.integers(0, 1 << 63))
def test_the_milestone_before(position: int) -> None:
    found = milestones.milestone_before(position)
    assert milestones.is_milestone(found)
    assert position - SIZE < found <= position
    assert milestones.is_milestone(position) == (found == position)
