"""A log through Spark: what comes out is what was put in, and it says what is wrong with what is none."""

import dataclasses
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from dataflow.spark.problems import SparkProblem
from dataflow.spark.workload.drift import drift_of
from dataflow.spark.workload.log import files_of
from dataflow.spark.workload.measured import measured_of
from dataflow.spark.workload.model import FORMAT, read_model
from dataflow.spark.workload.page import page
from dataflow.spark.workload.report import ReportInput, check, report
from tests.spark.workload.logs import drawn, lines, write

NAME = "<script>"


def measured(**views: dict[str, Any]) -> dict[str, Any]:
    """A service's documents."""
    counters = dict.fromkeys(
        (
            "hits",
            "misses",
            "filled",
            "evicted_by_budget",
            "rows_applied",
            "rows_dropped",
            "lookups",
            "lookup_keys",
            "lookup_rows",
            "covered_keys",
            "leaf_bytes",
        ),
        0,
    )
    return {
        "stats": {"sizes": {"budget_bytes": 1 << 30, "used_bytes": 10_000_000}},
        "views": [
            {
                "name": name,
                "tier": "incremental",
                "materialization": given.pop("kept", "partial"),
                "counters": {**counters, "lookup_s": 0.0, **given},
            }
            for name, given in views.items()
        ],
        "graph": [],
    }


def test_a_log_becomes_a_model_and_a_page(spark: Any, tmp_path: Path) -> None:
    ids = drawn(2_000, 8_000, 0.9, seed=4)
    of_lists = [
        {**line, "key": [json.dumps(["1", str(n % 7)]), "5", "9"], "kept": [0, 1], "lists": [0]}
        for n, line in enumerate(lines(NAME, drawn(50, 300, 0.5, seed=5)))
    ]
    write(tmp_path / "log" / "access-0-x-0001.jsonl", lines("story", ids), "no line", '{"view": 7}')
    write(tmp_path / "log" / "access-1-x-0001.jsonl", of_lists)
    write(tmp_path / "log" / "_access-1-x-0002.jsonl", lines("unfinished", ids))
    documents = measured(
        story={
            "covered_keys": 1_000,
            "leaf_bytes": 1_000_000,
            "hits": 10,
            "rows_applied": 500,
            "filled": 2_000,
            "lookups": 2_000,
            "lookup_s": 4.0,
        },
        nobody={},
        **{NAME: {"kept": "full", "covered_keys": 1, "leaf_bytes": 5_000}},
    )
    wanted = ReportInput(tmp_path / "log", tmp_path / "out", documents, shares=(0.1, 0.5, 1.0))
    check(wanted)
    model = report(spark, wanted)

    story = model.views["story"]
    assert (model.lines, model.unread_lines, story.requests, story.keys) == (8_300, 2, 8_000, len(set(ids.tolist())))
    assert story.outcomes["miss"] == story.keys
    assert story.skew is not None
    assert story.skew.low - 0.03 < 0.9 < story.skew.high + 0.03
    assert model.views[NAME].keys == 7
    assert model.views[NAME].requests == 600
    # The hottest keys are asked for as a read of them is: all parameters, a list of one.
    assert tuple(model.views[NAME].hottest[0]) == ('["1"]', "5", "9")
    assert tuple(story.hottest[0]) == ("0",)
    assert model.curve[-1].hit_rate == pytest.approx(1 - story.keys / 8_300, abs=0.02)
    rates = [point.hit_rate for point in model.curve]
    assert rates == sorted(rates)
    assert all(abs(one.exact - one.sampled) < 0.02 for one in model.check)
    assert story.deltas_per_read_saved == 50
    assert {advice.code for advice in story.advice} >= {"tier"}
    assert model.unread_views == ["nobody"]
    # Nearly all that is used is this view's, of which a thousand keys were there.
    assert 9_000 < story.key_bytes < 10_000
    text = (tmp_path / "out" / "report.html").read_text()
    _Page().feed(text)
    assert "<script" not in text
    assert "http" not in text

    again = read_model(tmp_path / "out" / "model.json")
    assert page(again) == text
    assert drift_of(again, model) == []
    skew = dataclasses.replace(story.skew, low=0.2, high=0.3)
    was = dataclasses.replace(
        story, skew=skew, requests_per_s=7 * story.requests_per_s, hottest=[[f"x{n}"] for n in range(20)]
    )
    last = dataclasses.replace(model, views={"story": was, "other": was}, curve=model.curve[:1])
    assert {"gone", "new", "rate", "skew", "keys", "hits"} == {advice.code for advice in drift_of(last, model)}


class _Page(HTMLParser):
    """Parses a page."""


def test_services_may_have_folders_of_their_own(tmp_path: Path) -> None:
    """Pods that write to one volume have such folders."""
    for name in ("pod-0/access-0.jsonl", "pod-1/access-0.jsonl", "pod-1/_access-1.jsonl", "access-0.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = files_of(tmp_path)
    assert found["jsonl"] == [str(tmp_path / f"pod-{number}" / "access-0.jsonl") for number in (0, 1)]
    assert found["parquet"] == [str(tmp_path / "access-0.parquet")]


def test_what_is_no_log_is_said_to_be_none(tmp_path: Path, spark: Any) -> None:
    with pytest.raises(SparkProblem, match="is no folder"):
        check(ReportInput(tmp_path / "nothing", tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SparkProblem, match="no finished file"):
        check(ReportInput(tmp_path / "empty", tmp_path))
    write(tmp_path / "foreign" / "access-0.jsonl", [{"something": "else"}])
    with pytest.raises(SparkProblem, match="No line"):
        report(spark, ReportInput(tmp_path / "foreign", tmp_path))
    (tmp_path / "foreign" / "x.parquet").write_bytes(b"PAR1 not at all")
    with pytest.raises(SparkProblem, match="cannot be read"):
        report(spark, ReportInput(tmp_path / "foreign", tmp_path))


def test_what_is_no_model_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    for text, match in (
        (None, "cannot be read"),
        ("{", "no JSON"),
        ("{}", "no workload model"),
        (json.dumps({"kind": "upquery workload model", "format": FORMAT + 1}), "of format"),
        (json.dumps({"kind": "upquery workload model", "format": FORMAT}), "no whole"),
    ):
        if text is not None:
            path.write_text(text)
        with pytest.raises(SparkProblem, match=match):
            read_model(path)
    with pytest.raises(SparkProblem, match="not what a service says"):
        measured_of({"stats": {}})
