"""A small Lobsters site's trace, recorded on its database."""

import pytest

from load.traces import lobsters
from load.workloads.lobsters.dataset import LobstersSize


@pytest.mark.postgres
def test_a_small_site_is_recorded() -> None:
    told: list[str] = []
    trace = lobsters.record(LobstersSize(0.005), 60, 1, told.append)
    views = {key.view for key in trace.keys}
    assert {"frontpage", "comments_of_story", "users_by_id"} <= views
    assert len(trace.reads) > 1000
    assert len({key.cost for key in trace.keys}) > 1
    assert len(told) == 2
