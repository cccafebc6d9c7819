"""The batch experiment: its clients read the same from both sides, and its report says what was measured."""

import shutil
from functools import partial

import pytest

from load.experiments.batch import KEYS, Case, Turn, cases_of, report, run
from load.experiments.batch_clients import BatchRate, BatchRun, RedisConnection, ServiceSocket, measure
from load.processes import RunConditions
from load.programs import REDIS
from load.report.figures import Figure
from load.sides.cache_servers import free_port


def turn(keys_per_s: float) -> Turn:
    return Turn(BatchRate(keys_per_s, client_cpu_us=1.5, keys=1000), server_cpu_us=0.5)


def test_report() -> None:
    cases = cases_of(KEYS)
    found = {
        case: {"Upquery": [turn(case.keys * 20), turn(1e6)], "Redis": [turn(case.keys * 10)] * 2} for case in cases
    }
    made = report(found)
    figures = [figure for figure in made.results if isinstance(figure, Figure)]
    assert [figure.goal for figure in figures].count(1.0) == 2
    assert figures[0].value.low == 2.0
    assert [row[1:] for row in made.tables[0].rows[:2]] == [
        ["Upquery", "501,000", "0.50", "1.50"],
        ["Redis", "1,000", "0.50", "1.50"],
    ]
    (plot,) = made.plots
    assert [line.x for line in plot.lines] == [[1, 10, 100, 1000]] * 2
    assert plot.lines[1].y == [10, 100, 1000, 10000]


@pytest.mark.parametrize(
    "client",
    [partial(ServiceSocket, f"http://127.0.0.1:{free_port()}"), partial(RedisConnection, ("127.0.0.1", free_port()))],
)
def test_a_side_that_does_not_answer_fails_the_run(client: partial[ServiceSocket]) -> None:
    with pytest.raises(OSError, match="refused"):
        measure(client, BatchRun(stories=10, keys=2, processes=1, used=True, seconds=0.01, core=None))


@pytest.mark.postgres
@pytest.mark.skipif(shutil.which(REDIS.command) is None, reason="needs redis-server")
def test_both_sides_are_filled_compared_and_measured() -> None:
    told: list[str] = []
    case = Case(KEYS, 1, used=True)
    made = run([case], 1000, 0.05, 1, conditions=RunConditions(None, None), tell=told.append)
    (figure,) = [figure for figure in made.results if isinstance(figure, Figure)]
    assert figure.value.median > 0
    assert told[-1].startswith(case.name)
