"""Breaks of seconds: the whole of it, end to end. Real ones: ``upquery bench breaks``."""

import pytest

from load.experiments import breaks
from load.processes import RunConditions
from load.report.figures import Figure
from load.workloads.lobsters.dataset import LobstersSize

INTERVAL_S = 5


@pytest.mark.postgres
def test_hits_go_on_after_breaks() -> None:
    options = breaks.Options(LobstersSize(0.005), rate=10, warm_s=2, interval_s=INTERVAL_S, memory="64MiB")
    report = breaks.run(options, RunConditions(None, None), lambda _: None)
    (table,) = report.tables
    assert [row[0] for row in table.rows] == ["walsender ended", "engine killed", "service restarted"]
    (outcome,) = report.outcomes
    # On a busy machine the service may still be starting when the run ends.
    after_walsender = outcome.moments[INTERVAL_S : 2 * INTERVAL_S]
    assert sum(moment.done for moment in after_walsender)
    assert not sum(moment.failed for moment in after_walsender), outcome.failures
    figures = {result.name: result for result in report.results if isinstance(result, Figure)}
    assert figures["walsender ended: longest time without a change"].value.median < INTERVAL_S
    assert "service restarted: statements after it" in figures
