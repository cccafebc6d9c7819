"""Sentences of the doctor about replica identities."""

import pytest

from service.command.identity_advice import writes
from service.engine.upstream.identities import RowFigures


@pytest.mark.parametrize(
    ("counted", "seconds", "said"),
    [
        (0, 50.0, "counts 0 updates and deletes a second."),
        (7, 2.0, "counts 3.50 updates and deletes a second."),
        (100, 0.09, "counts 1,111 updates and deletes a second."),
        (9_000_000, 1.0, "counts 9,000,000 updates and deletes a second."),
        (1_234, None, "counts 1,234 updates and deletes."),
    ],
)
def test_rates_are_written_out(counted: int, seconds: float | None, said: str) -> None:
    (sentence,) = writes(RowFigures(updates_and_deletes=counted, since_s=seconds))
    assert sentence == f"pg_stat_user_tables {said}"
