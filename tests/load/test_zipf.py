"""Zipf draws: against the distribution itself, summed up."""

from collections import Counter
from math import sqrt
from random import Random

import pytest

from load.workloads.zipf import Zipf

DRAWS = 40_000


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99, 1.0, 1.15, 2.5])
@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_ranks_are_drawn_as_often_as_the_distribution_says(count: int, alpha: float) -> None:
    zipf, random = Zipf(count, alpha), Random(5)
    drawn = Counter(zipf.rank(random) for _ in range(DRAWS))
    weights = [k**-alpha for k in range(1, count + 1)]
    assert min(drawn) >= 1
    assert max(drawn) <= count
    for rank in (1, 2, 3, 10, 100, 1000):
        if rank <= count:
            expected = DRAWS * weights[rank - 1] / sum(weights)
            assert abs(drawn[rank] - expected) <= 5 * sqrt(expected) + 1


def test_the_same_random_draws_the_same_ids() -> None:
    zipf = Zipf(1_000_000, 1.15)
    assert [zipf.draw(Random(3)) for _ in range(5)] == [zipf.draw(Random(3)) for _ in range(5)]


@pytest.mark.parametrize("count", [1, 2, 10, 97, 1000])
def test_every_id_has_one_rank(count: int) -> None:
    zipf = Zipf(count, 1.0)
    assert sorted(zipf.hottest(count + 5)) == list(range(1, count + 1))


def test_popular_ids_are_not_neighbours() -> None:
    hottest = list(Zipf(1_000_000, 1.15).hottest(100))
    assert min(abs(a - b) for a in hottest for b in hottest if a != b) > 1000


def test_a_shift_puts_another_id_first_and_moves_the_others_down() -> None:
    zipf = Zipf(1000, 1.15)
    before, after = list(zipf.hottest(1000)), list(zipf.hottest(1000, shift=1))
    assert after == [before[-1], *before[:-1]]


@pytest.mark.parametrize(("count", "alpha"), [(0, 1.0), (5, -1.0)])
def test_what_is_no_distribution_is_refused(count: int, alpha: float) -> None:
    with pytest.raises(ValueError, match="no Zipf"):
        Zipf(count, alpha)
