"""Contract of every policy: it contains exactly the filled items, evicts each once, and is deterministic."""

from random import Random

import pytest

from dataflow.eviction.policy import Policy
from load.micro.policies import POLICIES, by_name
from tests.dataflow.eviction.replay import replay

every_policy = pytest.mark.parametrize("name", POLICIES)


def anything(policy: Policy[int], random: Random, steps: int) -> tuple[set[int], list[int | None]]:
    """Calls at random; what must be there then, and the victims."""
    there: set[int] = set()
    victims: list[int | None] = []
    for _ in range(steps):
        item = random.randrange(40)
        match random.randrange(5):
            case 0 | 1:
                policy.fill(item, random.randrange(2000), random.choice((0.0, 1.0, 5.0)))
                there.add(item)
            case 2:
                policy.touch(item, random.randrange(1, 9))
            case 3:
                policy.forget(item)
                there.discard(item)
            case _:
                victim = policy.victim()
                assert (victim is None) == (not there)
                assert victim is None or victim in there
                victims.append(victim)
                there.discard(-1 if victim is None else victim)
        assert len(policy) == len(there)
        assert (item in policy) == (item in there)
        assert not policy.is_hot(item) or item in there
    return there, victims


@every_policy
@pytest.mark.parametrize("seed", range(20))
def test_it_knows_what_is_there(name: str, seed: int) -> None:
    policy: Policy[int] = by_name(name)
    there, _ = anything(policy, Random(seed), 500)
    left = [policy.victim() for _ in range(len(policy))]
    assert set(left) == there
    assert len(left) == len(there)
    assert policy.victim() is None


@every_policy
def test_the_same_calls_give_the_same_victims(name: str) -> None:
    assert anything(by_name(name), Random(7), 2000) == anything(by_name(name), Random(7), 2000)


@every_policy
def test_what_is_unknown_is_neither_read_nor_forgotten(name: str) -> None:
    policy: Policy[int] = by_name(name)
    policy.touch(1)
    policy.forget(1)
    assert (len(policy), policy.victim(), policy.is_hot(1), 1 in policy) == (0, None, False, False)


@every_policy
def test_what_is_forgotten_is_no_victim(name: str) -> None:
    policy: Policy[int] = by_name(name)
    for item in range(100):
        policy.fill(item, 10, 1)
    for item in range(0, 100, 2):
        policy.forget(item)
    assert sorted(policy.victim() or 0 for _ in range(50)) == list(range(1, 100, 2))


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "random"])
def test_what_is_read_all_the_time_is_hot_and_stays(name: str) -> None:
    policy: Policy[int] = by_name(name)
    random = Random(3)
    reads = [item for _ in range(3000) for item in (random.randrange(10), 10 + random.randrange(100_000))]
    _, held = replay(policy, reads, 100)
    assert held >= set(range(10))
    assert all(policy.is_hot(item) for item in range(10))
    assert sum(policy.is_hot(item) for item in held) < 20


@every_policy
def test_its_memory_is_bounded_by_what_is_there(name: str) -> None:
    policy: Policy[int] = by_name(name)
    for item in range(1000):
        policy.fill(item, 10, 1)
    full = policy.state_bytes()
    for item in range(1000, 20_000):
        policy.fill(item, 10, 1)
        policy.victim()
    assert full <= policy.state_bytes() <= 2 * full
    for item in range(20_000):
        policy.forget(item)
    assert (len(policy), policy.state_bytes()) == (0, 0)
