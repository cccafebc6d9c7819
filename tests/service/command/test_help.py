"""The help of every command contains its source text in full: Rich must not take a section's name for markup."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from load.__main__ import EXPERIMENTS
from service.command.cli import COMMANDS, app

BRACKETED = re.compile(r"\[[a-z*]+(?:[._][a-z*]+)*\]")


def source_texts(command: Any) -> Iterator[str]:
    yield command.help or ""
    yield from (getattr(parameter, "help", None) or "" for parameter in command.params)


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name in getattr(command, "commands", ()):
        yield from paths(command.commands[name], (*path, name))


def all_paths() -> Iterator[tuple[str, ...]]:
    root: Any = get_command(app)
    for name in COMMANDS:
        yield from paths(root.get_command(None, name), (name,))
    yield from (("bench", name) for name in EXPERIMENTS)


def command_at(path: tuple[str, ...]) -> Any:
    command: Any = get_command(app)
    for name in path:
        command = command.get_command(None, name)
    return command


@pytest.mark.parametrize("path", list(all_paths()), ids=" ".join)
def test_help_shows_every_bracketed_name(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "300", "TERM": "dumb"})
    assert shown.exit_code == 0
    named = {name for text in source_texts(command_at(path)) for name in BRACKETED.findall(text)}
    assert [name for name in named if name not in shown.output] == []


def test_some_help_names_a_section() -> None:
    named = {
        name for path in all_paths() for text in source_texts(command_at(path)) for name in BRACKETED.findall(text)
    }
    assert named >= {"[auth]", "[access_log]"}
