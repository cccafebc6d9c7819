"""Zipf's distribution over N ids: the k-th most popular is drawn with a probability of 1/k^alpha over the sum of all.

Ranks are drawn by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone
discrete distributions", ACM TOMACS 6(3), 1996): exact, without tables, so that a million ids cost as much as ten.
Which id has which rank is a permutation, so that popular ids are not neighbours.

*Invariants*: the same `Random` draws the same ids.
"""

from collections.abc import Iterator
from math import exp, expm1, gcd, log, log1p
from random import Random

#: Below that the two expressions for the hat's integral and its inverse lose digits; their series do not.
_TINY = 1e-8
_GOLDEN = 0.6180339887498949


class Zipf:
    """Draws ids 1 … `count` with skew `alpha` ≥ 0; 0 is uniform. ValueError for what is no distribution."""

    def __init__(self, count: int, alpha: float) -> None:
        if count < 1 or alpha < 0:
            raise ValueError(f"no Zipf distribution over {count} ids with skew {alpha}")
        self._count = count
        self._alpha = alpha
        self._low = self._integral(1.5) - 1.0
        self._high = self._integral(count + 0.5)
        self._near = 2.0 - self._inverse(self._integral(2.5) - exp(-alpha * log(2.0)))
        self._step = _coprime(count)

    def rank(self, random: Random) -> int:
        """A rank: 1 is the most popular."""
        while True:
            u = self._high + random.random() * (self._low - self._high)
            x = self._inverse(u)
            k = min(max(1, int(x + 0.5)), self._count)
            if k - x <= self._near or u >= self._integral(k + 0.5) - exp(-self._alpha * log(k)):
                return k

    def draw(self, random: Random, shift: int = 0) -> int:
        return self.id_of(self.rank(random), shift)

    def id_of(self, rank: int, shift: int = 0) -> int:
        """The id of a rank. Each `shift` makes the least popular id the most popular and moves all others down by one,
        as what is new does on a site."""
        return (rank - 1 - shift) * self._step % self._count + 1

    def hottest(self, ids: int, shift: int = 0) -> Iterator[int]:
        """The most popular ids, beginning with the first."""
        return (self.id_of(rank, shift) for rank in range(1, min(ids, self._count) + 1))

    def _integral(self, x: float) -> float:
        """Integral of the hat 1/x^alpha, from 1 on."""
        y = (1.0 - self._alpha) * log(x)
        return log(x) * (expm1(y) / y if abs(y) > _TINY else 1.0 + y / 2)

    def _inverse(self, area: float) -> float:
        """The x at which the integral is `area`."""
        y = max(-1.0, area * (1.0 - self._alpha))
        return exp(area * (log1p(y) / y if abs(y) > _TINY else 1.0 - y / 2))


def _coprime(count: int) -> int:
    """A step that visits all ids and leaves neighbours far apart."""
    step = max(1, round(count * _GOLDEN))
    while gcd(step, count) != 1:
        step += 1
    return step
