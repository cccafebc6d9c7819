"""A cache in front of a policy, to see what it keeps."""

from collections.abc import Callable, Iterable

from dataflow.eviction.policy import Policy


def one(_: int) -> float:
    return 1


def replay(
    policy: Policy[int],
    reads: Iterable[int],
    capacity: float,
    weight: Callable[[int], float] = one,
    cost: Callable[[int], float] = one,
) -> tuple[int, set[int]]:
    """Reads items one after the other; returns the hits, and what is in memory at the end."""
    held: set[int] = set()
    used = 0.0
    hits = 0
    for item in reads:
        if item in held:
            hits += 1
            policy.touch(item)
            continue
        policy.fill(item, int(weight(item)), cost(item))
        held.add(item)
        used += weight(item)
        while used > capacity:
            victim = policy.victim()
            assert victim is not None
            held.remove(victim)
            used -= weight(victim)
    return hits, held
