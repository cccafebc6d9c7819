"""How far a service is behind: since when the log is beyond what it has applied."""

from load.experiments.write_load import Sample, Samples


def test_a_service_that_has_all_is_not_behind() -> None:
    watch = Samples([Sample(0, 100, 100, 0), Sample(1, 200, 200, 50), Sample(2, 200, 200, 50)])
    assert watch.lags(0, 3) == [0.0, 0.0, 0.0]


def test_behind_counts_from_when_the_log_went_beyond() -> None:
    # At 3 s it has applied what was written before 2 s.
    watch = Samples([Sample(0, 100, 100, 0), Sample(1, 200, 150, 20), Sample(2, 300, 180, 30), Sample(3, 400, 200, 40)])
    assert watch.lags(1, 4) == [0.0, 1.0, 1.0]


def test_rates_are_of_the_samples_between() -> None:
    watch = Samples([Sample(0, 0, 0, 0), Sample(1, 0, 0, 100), Sample(3, 0, 0, 500), Sample(4, 0, 0, 500)])
    assert watch.rows_per_s(1, 4) == 200.0
    assert watch.rows_per_s(5, 9) == 0.0
