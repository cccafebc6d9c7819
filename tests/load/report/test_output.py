"""How an experiment ends: what it prints, writes and exits with."""

import json
from io import StringIO
from pathlib import Path

import pytest
import typer
from rich.console import Console

from load.driver.run import GeneratorError
from load.processes import RunConditions, here
from load.progress import Narrator, Tell, bar
from load.report.figures import Figure, Measurement
from load.report.output import perform
from load.report.report import Report
from tests.load.report.test_html import RUNS

REPORT = Report("A title", "About it.", [Figure("b", "a figure", Measurement(2, 1, 3), "x", 1)], outcomes=RUNS)


def work(conditions: RunConditions, tell: Tell) -> Report:
    assert conditions == here()
    tell("measuring")
    return REPORT


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    perform("vote", work)
    printed = capsys.readouterr()
    for part in ("A title", "About it.", "a figure", "theirs"):
        assert part in printed.out
    assert "measuring" in printed.err


def test_json_and_a_page_for_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    perform("vote", work, as_json=True, output=tmp_path / "reports")
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "reports" / "vote.json").read_text())
    assert document["figures"][0]["reached"] is True
    assert [run["side"] for run in document["runs"]] == ["ours", "ours", "ours", "theirs"]
    assert document["runs"][0]["hit_rate"] == 0.9
    assert "<h1>A title</h1>" in (tmp_path / "reports" / "vote.html").read_text()


def test_what_fails_is_told_and_exits_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> Report:
        raise GeneratorError("no [answers]")

    with pytest.raises(typer.Exit) as ended:
        perform("vote", fail)
    assert ended.value.exit_code == 1
    assert "vote failed: GeneratorError: no [answers]" in capsys.readouterr().err


def test_a_machine_with_one_core_pins_nothing() -> None:
    conditions = here()
    assert conditions.server_cores is None or set(conditions.server_cores).isdisjoint(conditions.client_cores or ())


def test_off_a_terminal_news_is_told_and_progress_now_and_then() -> None:
    written = StringIO()
    with Narrator(Console(file=written)) as tell:
        for second in range(100):
            tell(f"a run {bar(second / 100)}")
        tell("100/s is [good]")
    assert written.getvalue().splitlines() == ["100/s is [good]"]


def test_a_bar_is_as_long_as_it_should_be() -> None:
    assert bar(0.5, 4) == "━━┄┄"
    assert bar(7, 4) == "━━━━"
