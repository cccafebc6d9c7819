"""A Poisson process: its rate, its spread, and that it can be had twice."""

from statistics import fmean, pvariance

from load.driver.arrivals import Arrivals


def test_counts_a_second_have_the_mean_and_the_variance_of_a_poisson_distribution() -> None:
    arrivals = Arrivals(50, 100.0, "a seed")
    counts = [arrivals.count_until(100.0 + second) for second in range(1, 2001)]
    assert 49 < fmean(counts) < 51
    assert 45 < pvariance(counts) < 55


def test_the_same_seed_is_the_same_process() -> None:
    one, two, other = Arrivals(10, 0.0, "x"), Arrivals(10, 0.0, "x"), Arrivals(10, 0.0, "y")
    times = [one.step() for _ in range(100)]
    assert times == [two.step() for _ in range(100)]
    assert times == sorted(times)
    assert times[0] > 0
    assert times != [other.step() for _ in range(100)]


def test_what_is_counted_is_what_is_due() -> None:
    worked_off, counted = Arrivals(1000, 5.0, "z"), Arrivals(1000, 5.0, "z")
    due = 0
    while worked_off.due < 6.0:
        worked_off.step()
        due += 1
    assert counted.count_until(5.5) + counted.count_until(6.0) == due
