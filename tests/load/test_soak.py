"""A soak of seconds: the whole of it, end to end, with a budget that is used up. An hour: ``upquery bench soak``."""

import pytest

from load.experiments import soak
from load.processes import RunConditions
from load.report.figures import Figure
from load.workloads.vote import VoteSpec

SECONDS = 10


@pytest.mark.postgres
def test_memory_stays_flat_while_the_working_set_moves_on() -> None:
    options = soak.Options(
        VoteSpec(2000),
        minutes=SECONDS / 60,
        votes_each=2,
        memory="1MiB",
        rate=100,
        shifts_per_hour=36_000,
        hottest=1000,
        warm_s=0.5,
    )
    report = soak.run(options, RunConditions(None, None), lambda _: None)
    (outcome,) = report.outcomes
    assert outcome.failed == 0, outcome.failures
    assert outcome.latency.count > 50 * SECONDS
    # More was read than fits.
    assert 0 < outcome.misses < outcome.hits
    figures = {result.name: result for result in report.results if isinstance(result, Figure)}
    assert figures["resident memory, end against middle"].value.median < 1.1
    assert max(moment.state_bytes for moment in outcome.moments) < 2 << 20
    titles = [plot.title for plot in report.plots]
    assert titles == ["Memory", "Latency of each second", "CPU time that other machines had"]
