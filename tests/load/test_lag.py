"""How far a service is behind: since when the log is beyond what it has applied."""

from load.experiments.write_load import LagSample, Samples

LOG = [(0.0, 100), (1.0, 200), (2.0, 300), (3.0, 400)]


def test_a_service_that_has_all_is_not_behind() -> None:
    samples = Samples([LagSample(0.5, 100, 0), LagSample(3.5, 400, 50)], LOG)
    assert samples.lags(0, 4) == [0.0, 0.0]


def test_behind_counts_from_when_the_log_went_beyond() -> None:
    samples = Samples([LagSample(1.5, 150, 20), LagSample(2.5, 199, 30), LagSample(3.5, 200, 40)], LOG)
    assert samples.lags(1, 4) == [0.5, 1.5, 1.5]


def test_rates_are_of_the_samples_between() -> None:
    samples = Samples([LagSample(0, 0, 0), LagSample(1, 0, 100), LagSample(3, 0, 500), LagSample(4, 0, 500)], LOG)
    assert samples.rows_per_s(1, 4) == 200.0
    assert samples.rows_per_s(5, 9) == 0.0
