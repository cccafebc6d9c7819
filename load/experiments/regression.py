"""Linear regression with a confidence interval, to find out whether a measurement grows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean

#: Measurements that follow each other are alike; means of so many stretches are nearly independent.
_STRETCHES = 20
#: Student's t of 97.5 % for `_STRETCHES` - 2 degrees of freedom.
_T = 2.101


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth a second of x, and its 95 % confidence interval."""

    value: float
    low: float
    high: float


def slope(x: Sequence[float], y: Sequence[float]) -> Slope:
    """Ordinary least squares through the means of stretches. ValueError for fewer than two points a stretch."""
    if len(x) != len(y) or len(x) < 2 * _STRETCHES:
        raise ValueError(f"{len(x)} and {len(y)} measurements are too few for a slope")
    xs, ys = _means(x), _means(y)
    middle_x, middle_y = fmean(xs), fmean(ys)
    spread = sum((a - middle_x) ** 2 for a in xs)
    value = sum((a - middle_x) * (b - middle_y) for a, b in zip(xs, ys, strict=True)) / spread
    rest = sum((b - middle_y - value * (a - middle_x)) ** 2 for a, b in zip(xs, ys, strict=True))
    error = _T * sqrt(rest / (_STRETCHES - 2) / spread)
    return Slope(value, value - error, value + error)


def _means(values: Sequence[float]) -> list[float]:
    cuts = [round(i * len(values) / _STRETCHES) for i in range(_STRETCHES + 1)]
    return [fmean(values[begin:end]) for begin, end in pairwise(cuts)]
