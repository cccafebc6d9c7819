"""Slopes: found where they are, with an interval that knows chance."""

from random import Random

import pytest

from load.experiments.regression import slope


def test_a_line_is_its_slope() -> None:
    x = [float(i) for i in range(100)]
    found = slope(x, [3 + 0.5 * value for value in x])
    assert found.value == pytest.approx(0.5)
    assert found.high - found.low == pytest.approx(0, abs=1e-9)


def test_noise_has_no_slope_and_a_slope_in_noise_is_found() -> None:
    random = Random(4)
    x = [float(i) for i in range(1000)]
    noise = [10 + random.gauss(0, 1) for _ in x]
    flat = slope(x, noise)
    assert flat.low < 0 < flat.high
    growing = slope(x, [value + 0.01 * second for second, value in zip(x, noise, strict=True)])
    assert growing.low > 0
    assert growing.low < 0.01 < growing.high


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    random = Random(8)
    x = [float(i) for i in range(60)]
    slopes = [slope(x, [random.gauss(0, 1) for _ in x]) for _ in range(400)]
    missed = sum(not found.low <= 0 <= found.high for found in slopes)
    assert 5 <= missed <= 40


def test_too_little_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        slope([1.0, 2.0], [1.0, 2.0])
