"""The page of a report: everything in it, nothing from outside, markup only where it is ours."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from load.driver.outcome import LatencySummary, Limit, Moment, RunOutcome
from load.report.figures import Figure, Measurement, Skipped
from load.report.html import page
from load.report.plots import Plot, PlotLine, ReportTable
from load.report.report import Report
from load.report.runs import best_runs, narrow_table_of_runs, plots_of_runs, table_of_pages, table_of_runs
from load.report.svg import svg


def run(side: str, rate: float, limit: Limit = "none", failed: int = 0) -> RunOutcome:
    latency = LatencySummary(100, 2, 1, 5, 9, 12, ((0, 0.5), (0.5, 1), (0.95, 5), (1, 12)))
    moments = [Moment(second, 10, 10, 0, 9, 1, 1, 5, 9, 50 << 20, 20 << 20) for second in range(3)]
    return RunOutcome(
        side,
        rate,
        rate * 0.99,
        3,
        latency,
        {"page": latency},
        moments,
        failed,
        90,
        10,
        0.01,
        0.005,
        failures=("3 x page: 503 <busy>",) if failed else (),
        limit=limit,
    )


RUNS = (run("ours", 100), run("ours", 200), run("ours", 400, "side"), run("theirs", 50, failed=3))


def test_a_page_has_everything_and_needs_nothing() -> None:
    results = [Figure("b", "ours / theirs", Measurement(4, 3, 5), "x", 2), Skipped("b", "memcached is not installed")]
    plot = Plot("Over time", "s", "ms", [PlotLine("a", [0, 1], [1, 2])], "Look here.", marks=((0.5, "now"),))
    report = Report(
        "A <title>", "What was done.", results, [ReportTable("Rates", ("a", "b"), [("x & y", "1")])], [plot], RUNS
    )
    text = page(report, "2 cores")
    parts = (
        "A &lt;title&gt;",
        "What was done.",
        "ours / theirs",
        "memcached is not installed",
        "x &amp; y",
        "2 cores",
        "Look here.",
        "Throughput against latency",
        "Memory over time",
        "Hit rate over time",
        "503 &lt;busy&gt;",
        "side&#39;s limit",
        "3 failed",
    )
    for part in parts:
        assert part in text
    assert text.count("<svg") == 5
    assert "<script" not in text
    assert [match for match in re.findall(r"https?://[\w./]+", text) if "w3.org" not in match] == []


def test_a_report_without_runs_has_no_tables_of_them() -> None:
    text = page(Report("Traces", "Replayed.", []), "2 cores")
    assert "Runs" not in text
    assert "<svg" not in text


def test_the_best_run_of_a_side_is_the_highest_that_it_kept_up_with() -> None:
    assert best_runs(RUNS) == [RUNS[1], RUNS[3]]


def test_one_run_a_side_needs_no_plot_of_rates() -> None:
    titles = [plot.title for plot in plots_of_runs(RUNS[:1])]
    assert titles == ["Latency", "Memory over time", "Hit rate over time"]
    assert plots_of_runs(()) == []


def test_pages_are_told_apart_where_there_are_several() -> None:
    assert table_of_pages(RUNS) is None
    two = replace(RUNS[0], by_page={"front": RUNS[0].latency, "story": replace(RUNS[0].latency, p95_ms=7)})
    table = table_of_pages([two, RUNS[3]])
    assert table is not None
    assert table.columns == ("page", "ours, 100/s", "theirs, 50/s")
    assert list(table.rows) == [("front", "5", ""), ("page", "", "5"), ("story", "7", "")]
    assert table.title in page(Report("r", "a", [], outcomes=[two, RUNS[3]]), "2 cores")


def test_consoles_get_fewer_columns() -> None:
    wide, narrow = table_of_runs(RUNS), narrow_table_of_runs(RUNS)
    assert len(narrow.columns) < len(wide.columns)
    assert [row[0] for row in narrow.rows] == [row[0] for row in wide.rows]


@pytest.mark.parametrize("drawn", ["line", "step", "points"])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_drawing_is_xml_with_its_text(drawn: str, scale: str) -> None:
    lines = [PlotLine("1 & 2", [1, 10, 100], [3, 2, 1]), PlotLine("more", [1], [0.5], group="1 & 2", dashed=True)]
    plot = Plot("p", "x axis", "y axis", lines, x_scale=scale, y_scale=scale, drawn=drawn, marks_y=(2.0,))  # type: ignore[arg-type]
    drawing = svg(plot)
    root = ElementTree.fromstring(drawing)
    texts = [text for element in root.iter() if (text := (element.text or "").strip())]
    assert {"x axis", "y axis", "1 & 2", "more"} <= set(texts)
    assert drawing == svg(plot)


def test_nothing_to_draw_is_drawn_too() -> None:
    assert "x axis" in svg(Plot("p", "x axis", "y", [PlotLine("empty", [], [])], x_scale="log"))
