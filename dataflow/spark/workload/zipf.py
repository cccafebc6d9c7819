"""Zipf's exponent, estimated from the numbers of keys by number of reads.

*Theory*: the k-th most popular of N keys is read M/k^alpha/H(N, alpha) times in M reads, give or take Poisson's
noise. Ranks are not known: to call the key that was read most often the first, and so on, makes what was lucky
popular, and alpha too large. What does not need ranks is the *spectrum*, how many keys were read n times: expected is
the sum of Poisson(n) of each rank's mean over all ranks. alpha and N (also of keys nobody has read yet) are those
that make the spectrum most likely, with the spectrum's cells as Poisson counts. That is a composite likelihood (ranks
are not drawn, each is there once), so its curvature does not give the error: interval and bias come from a parametric
bootstrap, which draws logs with the alpha and N that were found and estimates both again.

*Invariants*: the same spectrum gives the same answer: the draws have a fixed seed.

Not here: the spectrum from a log (`log`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataflow.spark.workload.model import Skew
from dataflow.spark.workload.sample import Floats, Ints

#: Fewer keys than that, or fewer reads a key, say nothing of a distribution.
LEAST_KEYS = 50
_LEAST_REPEATS = 1.02
#: Cells of the spectrum: counts up to here each, then in groups that grow by `_GROWTH`.
_SINGLE_COUNTS = 12
_GROWTH = 1.35
#: Groups of ranks, and of expected reads in the table of cells.
_RANKS = 500
_TABLE = 1500
_REPLICATES = 32
#: Of the standard error, for 95 % with that many replicates.
_WIDTH = 2.04
#: Ranks that are drawn one by one for a replicate; later ones are alike and drawn as cells.
_DRAWN = 200_000
#: N is at most so many times the keys that were read.
_MOST_UNREAD = 1e4
_MOST_ALPHA = 4.0


@dataclass(frozen=True, slots=True)
class Spectrum:
    """How many keys were read how often: `keys[i]` keys `reads[i]` times each, ascending."""

    reads: Ints
    keys: Ints

    @property
    def distinct(self) -> int:
        """Keys that were read."""
        return int(self.keys.sum())

    @property
    def requests(self) -> int:
        return int((self.reads * self.keys).sum())


def spectrum_of(counts: NDArray[Any]) -> Spectrum:
    """From the reads of each key."""
    reads, keys = np.unique(np.asarray(counts, dtype=np.int64), return_counts=True)
    return Spectrum(reads[reads > 0], keys[reads > 0].astype(np.int64))


def fit(spectrum: Spectrum, replicates: int = _REPLICATES, seed: int = 1) -> Skew | None:
    """The exponent with a 95 % interval; None if there is too little to say."""
    if spectrum.distinct < LEAST_KEYS or spectrum.requests < _LEAST_REPEATS * spectrum.distinct + LEAST_KEYS:
        return None
    cells = _Cells.of(spectrum)
    found = cells.counts(spectrum)
    requests = spectrum.requests
    alpha, keys = _most_likely(cells, found, requests)
    distance = _distance(cells.expected(alpha, keys, requests)[:-1], found)
    random = np.random.default_rng(seed)
    alphas = []
    for _ in range(replicates):
        drawn = _draw(cells, alpha, keys, requests, random)
        alphas.append(_most_likely(cells, drawn, requests, start=(alpha, keys))[0])
    bias, error = float(np.mean(alphas)) - alpha, float(np.std(alphas, ddof=1))
    best = max(0.0, alpha - bias)
    return Skew(best, max(0.0, best - _WIDTH * error), best + _WIDTH * error, keys, distance)


@dataclass(frozen=True, slots=True)
class _Cells:
    """Groups of read counts: cell i has those from `edges[i]` to before `edges[i + 1]`, the last one all above, the
    first begins with 1. `shares` has Poisson's probability of each cell (and of 0 in its last row) at `log_means`."""

    edges: Ints
    log_means: Floats
    shares: Floats

    @classmethod
    def of(cls, spectrum: Spectrum) -> "_Cells":
        edges, edge = list(range(1, _SINGLE_COUNTS + 1)), float(_SINGLE_COUNTS)
        most = int(spectrum.reads.max())
        while edge < most:
            edge = max(edge * _GROWTH, edge + 1)
            edges.append(int(edge))
        ends = np.array(edges, dtype=np.int64)
        log_means = np.linspace(np.log(1e-6), np.log(4.0 * max(most, 10)), _TABLE)
        below = np.stack([_poisson_below(int(end), np.exp(log_means)) for end in ends])
        above = np.vstack([below[1:], np.ones(_TABLE)])
        return cls(ends, log_means, np.vstack([np.clip(above - below, 0, 1), below[:1]]))

    def counts(self, spectrum: Spectrum) -> Floats:
        """Keys in each cell."""
        cell = np.searchsorted(self.edges, spectrum.reads, side="right") - 1
        return np.bincount(cell, weights=spectrum.keys, minlength=len(self.edges)).astype(np.float64)

    def expected(self, alpha: float, keys: float, requests: float) -> Floats:
        """Keys in each cell, and unread ones at last."""
        means, ranks = _means(alpha, keys, requests)
        return self.of_means(np.log(means), ranks)

    def of_means(self, log_means: Floats, ranks: Floats) -> Floats:
        """Expected keys in each cell, for numbers of ranks at each expected number of reads."""
        first, step = self.log_means[0], self.log_means[1] - self.log_means[0]
        place = np.clip((log_means - first) / step, 0, _TABLE - 1.001)
        left = place.astype(np.int64)
        part = place - left
        total: Floats = self.shares[:, left] @ (ranks * (1 - part)) + self.shares[:, left + 1] @ (ranks * part)
        return total


def _means(alpha: float, keys: float, requests: float) -> tuple[Floats, Floats]:
    """Groups of ranks: the reads expected of a key of each, and how many ranks it has. The first ranks are alone."""
    single = int(min(keys, 30))
    edges = np.concatenate([np.arange(single) + 0.5, np.geomspace(single + 0.5, keys + 0.5, _RANKS)])
    ranks = np.diff(edges)
    centres = (edges[1:] + edges[:-1]) / 2
    weights = centres**-alpha
    return requests * weights / float(weights @ ranks), ranks


def _poisson_below(count: int, means: Floats) -> Floats:
    """The probability of fewer than `count`, for each mean: exact for small ones, else Wilson and Hilferty's."""
    if count <= 60:
        terms = [np.exp(-means)]
        for n in range(1, count):
            terms.append(terms[-1] * means / n)
        below: Floats = np.minimum(np.sum(terms, axis=0), 1.0)
        return below
    # P(X < c) = P(chi²(2c) > 2 means), whose cube root is nearly normal.
    cube, spread = np.cbrt(means / count), 1 / (9 * count)
    above: Floats = _normal_above((cube - (1 - spread)) / np.sqrt(spread))
    return above


def _normal_above(z: Floats) -> Floats:
    """1 - Φ(z), to 1e-7 (Abramowitz and Stegun 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(z))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * series
    above: Floats = np.where(z >= 0, tail, 1 - tail)
    return above


def _most_likely(
    cells: _Cells, found: Floats, requests: float, start: tuple[float, float] | None = None
) -> tuple[float, float]:
    distinct = float(found.sum())

    def unlikely(alpha: float, log_more: float) -> float:
        over = max(0.0, -log_more) + max(0.0, log_more - np.log(_MOST_UNREAD))
        over += max(0.0, -alpha) + max(0.0, alpha - _MOST_ALPHA)
        log_more = min(max(log_more, 0.0), float(np.log(_MOST_UNREAD)))
        alpha = min(max(alpha, 0.0), _MOST_ALPHA)
        expected = np.maximum(cells.expected(alpha, distinct * np.exp(log_more), requests)[:-1], 1e-300)
        return float(expected.sum() - found @ np.log(expected) + 1e6 * over * over)

    if start is not None:
        begins = [(start[0], max(1e-3, float(np.log(start[1] / distinct))))]
    else:
        coarse = [(a, m) for a in (0.3, 0.6, 0.9, 1.2, 1.8) for m in (0.01, 0.5, 2.0, 4.0)]
        begins = sorted(coarse, key=lambda at: unlikely(*at))[:2]
    tried = [_descend(unlikely, begin) for begin in begins]
    alpha, log_more = min(tried, key=lambda at: unlikely(*at))
    return min(max(alpha, 0.0), _MOST_ALPHA), distinct * float(np.exp(min(max(log_more, 0.0), np.log(_MOST_UNREAD))))


def _descend(value: Callable[[float, float], float], begin: tuple[float, float]) -> tuple[float, float]:
    """The lowest place near `begin` (Nelder and Mead, two dimensions)."""
    x, y = begin
    places = [(x, y), (x + 0.05, y), (x, y + 0.2)]
    points = sorted((value(*place), place) for place in places)
    for _ in range(120):
        (low, best), (middle, second), (high, worst) = points
        if high - low < 1e-5 and abs(best[0] - worst[0]) < 1e-5:
            break
        centre = ((best[0] + second[0]) / 2, (best[1] + second[1]) / 2)

        def at(
            step: float, centre: tuple[float, float] = centre, worst: tuple[float, float] = worst
        ) -> tuple[float, tuple[float, float]]:
            place = (centre[0] + step * (worst[0] - centre[0]), centre[1] + step * (worst[1] - centre[1]))
            return value(*place), place

        tried = at(-1)
        if tried[0] < low:
            tried = min(tried, at(-2))
        elif tried[0] >= middle:
            tried = min(at(-0.5), at(0.5)) if tried[0] >= high else min(tried, at(-0.5))
        if tried[0] < high:
            points = sorted([points[0], points[1], tried])
        else:
            shrunk = [((best[0] + p[0]) / 2, (best[1] + p[1]) / 2) for p in (second, worst)]
            points = sorted([points[0], *((value(*place), place) for place in shrunk)])
    return points[0][1]


def _distance(expected: Floats, found: Floats) -> float:
    return float(np.abs(np.cumsum(found) / found.sum() - np.cumsum(expected) / expected.sum()).max())


def _draw(cells: _Cells, alpha: float, keys: float, requests: float, random: np.random.Generator) -> Floats:
    """The spectrum's cells of another log with the same alpha, N and M."""
    single = int(min(round(keys), _DRAWN))
    ranks = np.arange(1, single + 1, dtype=np.float64)
    weights = ranks**-alpha
    total = float(weights.sum())
    later = np.zeros(len(cells.edges))
    if keys > single:
        edges = np.geomspace(single + 0.5, keys + 0.5, _RANKS)
        centres = (edges[1:] + edges[:-1]) / 2
        tail = centres**-alpha
        total += float(tail @ np.diff(edges))
        expected = cells.of_means(np.log(requests * tail / total), np.diff(edges))[:-1]
        later = random.poisson(expected).astype(np.float64)
    drawn = spectrum_of(random.poisson(requests * weights / total))
    return cells.counts(drawn) + later
