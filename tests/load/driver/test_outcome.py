"""The limit of a run follows from its rates alone: tests need no fast machine."""

import pytest

from load.driver.outcome import limit_of


@pytest.mark.parametrize(
    ("ended_per_s", "generator_busy", "limit"),
    [
        (1000, 0.2, "none"),
        (985, 0.95, "none"),
        (975, 0.2, "side"),
        (975, 0.95, "generator"),
    ],
)
def test_a_run_keeps_up_but_for_its_last_few_answers(ended_per_s: float, generator_busy: float, limit: str) -> None:
    assert limit_of(1000, ended_per_s, generator_busy) == limit
