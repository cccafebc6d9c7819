"""S3-FIFO: quick demotion, lazy promotion, ghosts; and how weights and costs bend it."""

from random import Random

from dataflow.eviction.s3_fifo import S3Fifo
from load.micro.lru import Lru
from tests.dataflow.eviction.replay import replay


def filled(items: int) -> S3Fifo[int]:
    policy: S3Fifo[int] = S3Fifo()
    for item in range(items):
        policy.fill(item, 100, 1)
    return policy


def victims(policy: S3Fifo[int], count: int) -> list[int | None]:
    return [policy.victim() for _ in range(count)]


def test_what_was_not_read_goes_in_the_order_it_came() -> None:
    assert victims(filled(10), 3) == [0, 1, 2]


def test_what_was_read_moves_to_main() -> None:
    policy = filled(10)
    policy.touch(0)
    assert victims(policy, 8) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert 0 in policy


def test_what_takes_many_bytes_needs_more_reads() -> None:
    policy = filled(10)
    policy.fill(10, 10_000, 1)
    policy.fill(11, 10_000, 1)
    policy.touch(10)
    policy.touch(11, 2)
    assert victims(policy, 11) == [*range(10), 10]


def with_main_of(items: int) -> S3Fifo[int]:
    policy = filled(10 * items)
    for item in range(items):
        policy.touch(item, 2)
    left_in_small = max(1, items // 4)
    gone = 9 * items - left_in_small
    assert victims(policy, gone) == list(range(items, items + gone))
    return policy


def test_main_goes_round_once_for_each_read() -> None:
    policy = with_main_of(3)
    policy.touch(0, 2)
    policy.touch(1, 1)
    assert victims(policy, 3) == [2, 1, 0]


def test_reads_of_long_ago_pay_for_three_rounds_and_no_more() -> None:
    policy = with_main_of(12)
    policy.touch(0, 1000)
    for _ in range(3):
        for item in range(1, 12):
            policy.touch(item, 3)
        policy.victim()
    assert 0 not in policy


def test_a_ghost_comes_back_into_main() -> None:
    policy = filled(20)
    assert policy.victim() == 0
    policy.fill(0, 100, 1)
    assert victims(policy, 17) == list(range(1, 18)), "Small's items go while it holds more than its part."
    assert 0 in policy


def test_a_scan_does_not_flush_what_is_read() -> None:
    random = Random(1)
    hot = [random.randrange(80) for _ in range(2000)]
    fifo: S3Fifo[int] = S3Fifo()
    lru: Lru[int] = Lru()
    reads = hot + list(range(1000, 3000))
    _, kept = replay(fifo, reads, 100)
    _, kept_by_lru = replay(lru, reads, 100)
    assert len(kept & set(range(80))) >= 78
    assert kept_by_lru & set(range(80)) == set()


def test_a_slow_scan_among_reads_costs_little() -> None:
    random = Random(1)
    reads = [item for scanned in range(1000, 9000) for item in (random.randrange(80), scanned)]
    hits, _ = replay(S3Fifo(), reads, 100)
    hits_of_lru, _ = replay(Lru(), reads, 100)
    assert hits > 0.97 * len(reads) / 2
    assert hits > hits_of_lru * 1.3


def test_of_a_loop_longer_than_memory_a_part_stays() -> None:
    """Pages that ask for the same long list, each time from the beginning: others keep exactly what was read last."""
    reads = list(range(150)) * 40
    hits, _ = replay(S3Fifo(), reads, 100)
    hits_of_lru, _ = replay(Lru(), reads, 100)
    assert hits_of_lru == 0
    assert hits > 0.3 * len(reads)


def even(item: int) -> bool:
    return item % 2 == 0


def test_of_equally_read_items_the_small_ones_stay() -> None:
    random = Random(2)
    reads = [random.randrange(200) for _ in range(40_000)]
    _, held = replay(S3Fifo(), reads, 10_000, weight=lambda item: 10 if even(item) else 200)
    assert sum(even(item) for item in held) >= 98
    _, held_by_lru = replay(Lru(), reads, 10_000, weight=lambda item: 10 if even(item) else 200)
    assert sum(even(item) for item in held_by_lru) < 80


def test_of_equally_read_items_the_expensive_ones_stay() -> None:
    random = Random(2)
    reads = [random.randrange(200) for _ in range(40_000)]
    _, held = replay(S3Fifo(), reads, 100, cost=lambda item: 20 if even(item) else 1)
    assert sum(even(item) for item in held) >= 75


def test_a_large_item_stays_if_it_is_read_enough() -> None:
    random = Random(4)
    reads = [0 if random.random() < 0.3 else 1 + random.randrange(1000) for _ in range(40_000)]
    _, held = replay(S3Fifo(), reads, 1000, weight=lambda item: 1 if item else 100)
    assert 0 in held


def test_a_large_item_that_is_read_as_rarely_as_others_goes() -> None:
    random = Random(4)
    reads = [random.randrange(10_001) for _ in range(40_000)]
    _, held = replay(S3Fifo(), [*reads, *range(1, 3001)], 2000, weight=lambda item: 1 if item else 100)
    assert 0 not in held


def test_an_item_that_weighs_something_else_now_is_counted_once() -> None:
    policy = filled(3)
    policy.fill(1, 5000, 2)
    policy.fill(1, 100, 1)
    assert len(policy) == 3
    assert victims(policy, 3) == [0, 1, 2]


def test_no_victim_needs_to_look_at_everything() -> None:
    """Everything was read, and often: some item goes at once, not when all have gone round."""
    policy = filled(10_000)
    for item in range(10_000):
        policy.touch(item, 3)
    policy.victim()
    assert sum(policy.is_hot(item) for item in range(10_000)) >= 9_900


def test_what_was_lost_and_came_back_is_not_new() -> None:
    """Correctness makes a hole of a key that is read all the time; refilled, it is not the first to go."""
    policy = filled(100)
    policy.forget(50)
    policy.fill(50, 100, 1)
    assert 50 not in victims(policy, 80)
