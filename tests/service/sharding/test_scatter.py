"""Requests in parts, and answers back in order."""

from hypothesis import given
from hypothesis import strategies as st

from service.sharding.scatter import joined, split


@given(st.lists(st.tuples(st.integers(), st.integers(0, 4))))
def test_answers_come_back_where_they_were_asked_for(asked: list[tuple[int, int]]) -> None:
    parts = split([item for item, _ in asked], [shard for _, shard in asked])
    assert len({part.shard for part in parts}) == len(parts)
    for part in parts:
        assert part.items == [item for item, shard in asked if shard == part.shard]
    answers = [[(part.shard, item) for item in part.items] for part in parts]
    assert joined(parts, answers) == [(shard, item) for item, shard in asked]
