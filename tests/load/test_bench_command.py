"""``upquery bench``: its commands are found when they are asked for."""

import sys
from importlib import import_module

import pytest
import typer
from typer.testing import CliRunner

from load import __main__ as bench

FAKE = "tests.load.test_bench_command"

ran: list[tuple[str, bool]] = []
SHORT = ("--seconds", "1")


def command(seconds: int = 60, output: str = "") -> None:
    """Takes a while; none at all fails."""
    ran.append((f"{seconds} s", bool(output)))
    if not seconds:
        raise typer.Exit(1)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "EXPERIMENTS", {"fake": FAKE})
    # The module as the command line imports it.
    monkeypatch.setitem(sys.modules, FAKE, sys.modules[__name__])
    ran.clear()


@pytest.mark.parametrize("name", bench.EXPERIMENTS)
def test_every_experiment_has_a_command_that_says_what_it_does(name: str) -> None:
    shown = CliRunner().invoke(bench.bench, [name, "--help"])
    assert shown.exit_code == 0, shown.output
    assert "--output" in shown.output
    assert "--json" in shown.output


@pytest.mark.parametrize("name", bench.EXPERIMENTS)
def test_every_short_run_has_arguments_that_the_command_knows(name: str) -> None:
    arguments = getattr(import_module(bench.EXPERIMENTS[name]), "SHORT", ())
    bench.experiment(name).make_context(name, [*arguments, "--output", "reports"])


@pytest.mark.usefixtures("fake")
def test_a_command_is_run_with_its_options() -> None:
    assert CliRunner().invoke(bench.bench, ["fake", "--seconds", "5"]).exit_code == 0
    assert ran == [("5 s", False)]


@pytest.mark.usefixtures("fake")
def test_without_a_command_all_run_short() -> None:
    assert CliRunner().invoke(bench.bench, ["--output", "reports"]).exit_code == 0
    assert ran == [("1 s", True)]


@pytest.mark.usefixtures("fake")
def test_one_that_fails_fails_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[FAKE], "SHORT", ("--seconds", "0"))
    shown = CliRunner().invoke(bench.bench, [])
    assert shown.exit_code == 1
    assert "failed: fake" in shown.output


def test_an_unknown_command_is_a_mistake() -> None:
    assert CliRunner().invoke(bench.bench, ["nothing"]).exit_code == 2


def test_without_their_packages_commands_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    # None there makes an import fail as that of a package that is not installed.
    for module in ("matplotlib", "load.figures.command", "load.report.svg", "load.report.html", "load.report.output"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    shown = CliRunner().invoke(bench.bench, ["figures"])
    assert shown.exit_code == 1
    assert "upquery[bench]" in shown.output
