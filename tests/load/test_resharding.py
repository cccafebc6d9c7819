"""The experiment about one more pod: its clients' answers, its phases, and a small one end to end."""

from dataclasses import replace

import pytest

from load.driver.audit import AuditResult
from load.experiments import resharding
from load.experiments.resharding_clients import FailedRead, ReadAnswer, answer_of
from load.experiments.resharding_report import (
    PHASES,
    GatewaySample,
    ReshardingRun,
    figures,
    per_second,
    percentile,
    plots,
    sample_of,
    tables,
)
from load.postgres_log import log_position
from load.report.figures import Figure

ROW = {"id": 7, "author": 7, "title": "t", "url": "u", "votes": 3}


def found() -> ReshardingRun:
    """Nine seconds before, one of starting, twenty of moving, ten after; upqueries only while keys move."""
    return ReshardingRun(
        begin=100.0,
        added=109.0,
        changed=110.0,
        moved=130.0,
        end=140.0,
        samples=[
            GatewaySample(
                100.0 + second, 50 + 10 * min(20, max(0, second - 10)), second, (second, second), 2, moving=False
            )
            for second in range(40)
        ],
        answers=[ReadAnswer(100.5 + second, 1.0 if second < 10 else 5.0, True, 1, None, ()) for second in range(40)],
        behind=[0.01] * 40,
        written=300,
        compared=AuditResult(20, 0),
    )


def test_versions_are_places_in_the_log() -> None:
    assert log_position("pg:0/17CD838") == 0x17CD838
    assert log_position("pg:2/A") == (2 << 32) + 10


def test_what_one_story_and_several_answer() -> None:
    one = answer_of([7], {"rows": [ROW], "version": "pg:0/A", "next": None}, hit=True, at=1.0, ms=2.0)
    assert one == ReadAnswer(1.0, 2.0, True, 10, None, ((7, ((7, 7, "t", "u", 3),)),))
    results = [{"rows": [ROW]}, {"rows": []}, {"rows": [{"n": 4}]}]
    several = answer_of([7, 8], {"results": results, "version": "pg:0/A"}, hit=False, at=1.0, ms=2.0)
    assert several.transactions == 4
    assert several.rows == ((7, ((7, 7, "t", "u", 3),)), (8, ()))


def test_what_a_gateway_says() -> None:
    worker = {"requests": {"0": 5, "2": 1}, "shards": 3, "moving": False}
    behind = {"requests": {"1": 7}, "shards": 2, "moving": True}
    said = {
        "gateway": {"0": worker, "1": behind},
        "views": {"a": {"upqueries": 3}, "b": {"upqueries": 4}},
        "counters": {"lookups": 2},
    }
    assert sample_of(said, 1.0) == GatewaySample(1.0, 7, 2, (5, 7), 2, moving=True)
    assert sample_of({**said, "gateway": {}}, 1.0) == GatewaySample(1.0, 7, 2, (), 0, moving=False)


def test_phases_are_told_apart() -> None:
    seen = found()
    assert [per_second(seen, phase, lambda sample: sample.upqueries) for phase in PHASES] == [0.0, 0.0, 10.0, 0.0]
    (table,) = tables(seen)
    assert [row[0] for row in table.rows] == list(PHASES)
    assert [row[4] for row in table.rows] == ["1", "1", "5", "5"]
    made = {figure.name: figure for figure in figures(seen)}
    assert made["until all keys have their homes"].value.median == 20.0
    assert made["busiest shard, against an even share, after"].value.median == 1.0
    assert all(figure.reached is not False for figure in made.values())
    assert [len(plot.lines) for plot in plots(seen)] == [2, 2, 2]


def test_what_is_wrong_is_told() -> None:
    seen = replace(
        found(), wrong=["after 3 s: story 7"], failures=[FailedRead(105.0, "503")], compared=AuditResult(20, 1, ("x",))
    )
    _, wrong, failed = tables(seen)
    assert [row[0] for row in wrong.rows] == ["after 3 s: story 7", "x"]
    assert failed.rows == [("5.0", "503")]
    missed = [figure.name for figure in figures(seen) if figure.reached is False]
    assert missed == ["wrong answers", "stories that are wrong at the end", "reads that failed"]


def test_a_shard_that_is_asked_for_everything_is_told() -> None:
    seen = found()
    seen.samples = [replace(sample, requests=(0, sample.requests[1], 0)) for sample in seen.samples]
    made = {figure.name: figure for figure in figures(seen)}
    uneven = made["busiest shard, against an even share, after"]
    assert (uneven.value.median, uneven.reached) == (3.0, False)


def test_percentiles() -> None:
    assert percentile([], 50) == 0.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 3.0
    assert percentile([1.0], 99) == 1.0


@pytest.mark.postgres
def test_a_third_pod_takes_keys_and_no_answer_is_wrong() -> None:
    options = resharding.Options(stories=200, pods=2, more=1, rate=50, reads=80, before_s=0.5, move_s=1.5, after_s=0.5)
    report = resharding.run(options, lambda _: None)
    made = {figure.name: figure for figure in report.results if isinstance(figure, Figure)}
    assert made["wrong answers"].value.median == 0, report.tables
    assert made["stories that are wrong at the end"].value.median == 0, report.tables
    assert made["reads that failed"].value.median == 0, report.tables
    latency, _, requests = report.plots
    assert len(latency.lines[0].x) > 2
    assert len(requests.lines) == 3
    assert max(requests.lines[2].y) > 0
