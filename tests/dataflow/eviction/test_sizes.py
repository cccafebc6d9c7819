"""A policy's own account of its memory is about right."""

import tracemalloc
from collections.abc import Callable

import pytest

from dataflow.eviction.policy import Policy
from load.micro.policies import POLICIES, by_name

ITEMS = 20_000


def taken(work: Callable[[], Policy[int]]) -> float:
    """Bytes taken for each byte that the policy says."""
    tracemalloc.start()
    try:
        policy = work()
        return tracemalloc.get_traced_memory()[0] / policy.state_bytes()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("passing", [0, 3 * ITEMS])
def test_state_bytes_are_honest(name: str, passing: int) -> None:
    """Just filled, and after three times as many have come and gone."""
    items = list(range(ITEMS + passing))

    def work() -> Policy[int]:
        policy: Policy[int] = by_name(name)
        for item in items[:ITEMS]:
            policy.fill(item, 1000 + item % 3000, 1.0 + item % 7)
            policy.touch(item, 1 + item % 3)
        for item in items[ITEMS:]:
            policy.fill(item, 1000 + item % 3000, 1.0 + item % 7)
            policy.victim()
        return policy

    share = taken(work)
    assert 0.65 < share < 1.35
